"""Tests of the tokenizer."""
