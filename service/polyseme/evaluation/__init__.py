"""Evaluation: how well vectors separate senses, and how well attention explains them."""
