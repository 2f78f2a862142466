"""Why a training cannot be done, or cannot go on, in one sentence."""


class TrainingError(Exception):
    """What stands in the way, and what to do; it never leaves the command line."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(sentence)
