"""How much one request may ask for, checked before the work is done."""

from dataclasses import dataclass

from polyseme.errors import TooLargeError


@dataclass(frozen=True)
class Limits:
    """The settings of the same names (`settings.py`)."""

    max_sentences: int
    max_sentence_tokens: int
    max_tokens: int
    max_trace_tokens: int
    max_answer_bytes: int
    max_trace_bytes: int = 128 << 20
    stream_bytes: int = 8 << 20
    """no limit: what may be larger is sent as it is made"""

    def sentences(self, number: int) -> None:
        """Refuse too many sentences."""
        self._check("The request has too many sentences", number, "max_sentences")

    def sentence_tokens(self, number: int) -> None:
        """Refuse a sentence that is too long."""
        self._check("A sentence has too many tokens", number, "max_sentence_tokens")

    def tokens(self, number: int) -> None:
        """Refuse too many tokens in one request."""
        self._check("The request has too many tokens", number, "max_tokens")

    def trace_tokens(self, number: int) -> None:
        """Refuse a trace of too many tokens."""
        self._check("The trace has too many tokens", number, "max_trace_tokens")

    def trace_bytes(self, number: int) -> None:
        """Refuse a trace that would be too large: all of it is in memory."""
        self._check("The trace could have too many bytes", number, "max_trace_bytes")
        self.answer_bytes(number)

    def answer_bytes(self, number: int) -> None:
        """Refuse an answer that would be too large."""
        self._check("The answer could have too many bytes", number, "max_answer_bytes")

    def _check(self, what: str, size: int, setting: str) -> None:
        limit: int = getattr(self, setting)
        if size > limit:
            raise TooLargeError(what, size, setting, limit)
