"""The limits on one request: exact sizes, and a budget that is measured while it is computed.

A route sets the budget of its thread's request; in process, only `max_sentence_tokens` is limited.
"""

import math
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from polyseme.errors import FieldError, TooLargeError

_UNLIMITED = 1 << 62
SMALL = 1 << 20
"""Responses of at most so many bytes need no reservation."""
MAX_SENTENCE_TOKENS = 1024
"""The default of `max_sentence_tokens` in the service, in process and in files of texts."""
MAX_VALUE_BYTES = {"float": 17.0, "base64": 16 / 3, "npz": 4.0}
"""Maximum bytes of an array element in a response: in JSON by `encoding`, such as
`-0.0000137053285,`, or in binary. Those of `float16` count like `float32`, in which the arrays are
computed."""
_TOO_LARGE = {
    "max_sentences": "The request has too many sentences",
    "max_sentence_tokens": "A sentence has too many tokens",
    "max_tokens": "The request has too many tokens",
    "max_pairs": "The sentences have too many pairs of tokens, times heads and layers",
    "max_trace_tokens": "The trace has too many tokens",
    "max_trace_bytes": "The trace could have too many bytes",
    "max_answer_bytes": "The response could have too many bytes",
    "max_occurrences": "The word has too many occurrences",
}
_HINTS = {
    "max_sentence_tokens": "Shorten the sentence, or raise the limit."
    " `truncate: true` of /v1/encode, /v1/embeddings and /v2 truncates it.",
    "max_pairs": "Send shorter sentences or fewer of them: the pairs of a sentence grow with the"
    " square of its length.",
    "max_occurrences": "Send a sample of the texts, or use the command `polyseme senses`,"
    " which samples files of any size.",
}


@dataclass(frozen=True)
class Limits:
    """The exact limits on one request: the settings of the same names (`settings.py`)."""

    max_sentences: int = _UNLIMITED
    max_sentence_tokens: int = _UNLIMITED
    max_tokens: int = _UNLIMITED
    max_trace_tokens: int = _UNLIMITED
    max_trace_bytes: int = _UNLIMITED
    max_answer_bytes: int = _UNLIMITED
    max_occurrences: int = _UNLIMITED
    max_pairs: int = _UNLIMITED

    def check(
        self,
        setting: str,
        size: float,
        hint: str | None = None,
        errors: Sequence[FieldError] = (),
    ) -> None:
        """Raise TooLargeError if a size exceeds the limit of a setting."""
        limit: int = getattr(self, setting)
        if size > limit:
            what, hint = _TOO_LARGE[setting], hint or _HINTS.get(setting)
            raise TooLargeError(what, math.ceil(size), setting, limit, hint, errors)


class Budget(Protocol):
    """The budget of one request: processor time, a deadline, and memory for its response."""

    def check(self) -> None:
        """Raise TooLargeError, DeadlineError or another error if the request must end."""

    def reserve(self, size: int) -> None:
        """Reserve bytes for a response, which the end of the request releases.

        Waits for other responses of the process. Raises DeadlineError or OverloadedError.
        """


_budget: ContextVar[Budget | None] = ContextVar("polyseme_budget", default=None)
set_budget = _budget.set
"""Set the budget of this thread's request; None removes it."""


def check_budget() -> None:
    """Raise the errors of `Budget.check`; called wherever work is repeated."""
    if budget := _budget.get():
        budget.check()


def reserve(size: int) -> None:
    """Reserve bytes for a response, unless it is small; raise the errors of `Budget.reserve`."""
    if size > SMALL and (budget := _budget.get()):
        budget.reserve(size)
