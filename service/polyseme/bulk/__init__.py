"""Encoding of files of texts into shards of vectors (`polyseme bulk`)."""


class BulkError(Exception):
    """The job cannot be done or cannot continue; one sentence for the terminal."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(sentence)
