"""Measuring: how well vectors separate senses, beside what they have to beat."""
