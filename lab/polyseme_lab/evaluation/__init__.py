"""Evaluate vectors by senses, similarity and tagging, and attention as an explanation of them."""
