"""Measure how well vectors separate senses, and how well attention explains vectors."""
