"""The error that ends a command with one sentence."""


class CommandError(Exception):
    """Why a command cannot continue, and what to do about it.

    The command line prints the sentence and exits with code 1. It never occurs while a request is
    served, so it is not part of the tree in `errors.py`.
    """

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(sentence)
