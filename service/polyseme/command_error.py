"""The error that ends a command of the command line."""


class CommandError(Exception):
    """A command cannot continue; the message names the problem and usually what to do.

    The command line prints the message and exits with code 1. The service never raises this error,
    so it is not part of the tree in `errors.py`.
    """

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(sentence)
