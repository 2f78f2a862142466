"""The limits on one request: exact sizes, and a budget that is measured while it is computed.

A route sets the budget of its thread's request; in process, only `max_sentence_tokens` is limited.

`with stage("tokens"):` records when a stage of the request runs and how long it takes. The service
sets the record of its thread's request; in process, nothing is recorded.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol, TypeAlias

from polyseme.errors import FieldError, TooLargeError

_UNLIMITED = 1 << 62
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


class Budget:
    """The budget of one request: processor time, a deadline, and memory for its response.

    This base class, the budget in process, allows everything.
    """

    def check(self) -> None:
        """Raise TooLargeError, DeadlineError or another error if the request must end.

        It is called wherever work is repeated.
        """

    def reserve(self, size: int) -> None:
        """Reserve bytes for a response, unless it is small; the end of the request releases them.

        Waits for other responses of the process. Raises DeadlineError or OverloadedError.
        """


UNLIMITED = Budget()
_budget: ContextVar[Budget] = ContextVar("polyseme_budget", default=UNLIMITED)
set_budget = _budget.set
"""Set the budget of this thread's request."""
current_budget = _budget.get
"""Return the budget of this thread's request."""
Stages: TypeAlias = dict[str, tuple[float, float, float]]
"""The first start and the last end of each stage by `time.perf_counter`, and the seconds that it
took in between, in the order of first use."""


class Record(Protocol):
    """The record of one request."""

    stages: Stages
    counts: Any
    """the token counts of its texts"""


_record: ContextVar[Record | None] = ContextVar("polyseme_record", default=None)
set_record = _record.set
"""Set the record of this thread's request; None ends the recording."""
current_record = _record.get
"""Return the record of this thread's request, None if there is none."""


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Record the block as a part of the request, unless it raises."""
    start = perf_counter()
    yield
    if current := _record.get():
        end = perf_counter()
        first, _end, seconds = current.stages.get(name, (start, end, 0.0))
        current.stages[name] = first, end, seconds + end - start
