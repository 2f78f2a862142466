"""Find the senses of a word in texts, without labels."""
