"""What bulk work refuses, in one sentence for the person at the terminal."""


class BulkError(Exception):
    """Bulk work cannot be done, or cannot go on."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(sentence)
