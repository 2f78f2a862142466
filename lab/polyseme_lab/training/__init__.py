"""Train attention weights with PyTorch."""
