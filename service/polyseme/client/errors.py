"""What goes wrong between a client and a service, and is no answer of the service.

    ClientError
        UnreachableError        also a ConnectionError
        AnswerError

What the service itself refuses is an error of `polyseme.errors`, as it is in the same process.
"""


class ClientError(Exception):
    """The root; its sentence says what is wrong and what to do."""


class UnreachableError(ClientError, ConnectionError):
    """Nothing answers, also after all tries."""


class AnswerError(ClientError):
    """What answers is not this service, or not as it should: a proxy's page, a broken archive."""

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        """the answer's, where it is what is wrong"""


def misshapen() -> AnswerError:
    """What is raised for an answer that has not the form it should have."""
    return AnswerError(
        "The answer is not what was asked for: what answers at this address is not Polyseme, or"
        " another version of it."
    )
