"""The senses of a word in the texts of a user, without labels."""
