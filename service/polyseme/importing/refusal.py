"""Why a file of vectors cannot be imported, in one sentence."""


class VectorFileError(Exception):
    """A file that is not what it should be, or that is better not read; says what and where.

    It never leaves the command line, so it has no place in the tree of HTTP errors.
    """

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(sentence)


SKIP_HINT = "--skip-bad-rows leaves such rows out"
