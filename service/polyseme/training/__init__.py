"""Compute attention weights in closed form from the vectors, or train them with PyTorch."""
