"""The senses of a word: found in texts without labels, stored, and applied to other texts."""
