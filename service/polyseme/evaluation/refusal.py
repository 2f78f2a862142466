"""Why something cannot be measured, in one sentence."""


class EvaluationError(Exception):
    """A set, a service or a model that cannot be measured with; says what and what to do.

    It never leaves the command line, so it has no place in the tree of HTTP errors.
    """

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(sentence)
