"""Attention weights: computed in closed form from the vectors, or trained with PyTorch."""
