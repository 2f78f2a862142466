"""The work of a request: estimated before it is computed, and interrupted if nobody waits for it.

The unit is a millisecond of one processor of the machine on which `benchmarks/work.py` measured the
constants. A route sets a supervisor, which limits the work; in process, nothing does.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from operator import attrgetter
from typing import NamedTuple, Protocol

from polyseme.models.model import Model
from polyseme.operations.options import EncodeOptions, Limits
from polyseme.tokenizer import MAX_WORD_LENGTH, Tokenized

REQUEST = 0.3
"""A request without texts."""
SENTENCE, LAYER = 0.05, 0.06
"""A sentence without tokens, and each layer of it."""
CHARACTER, TOKEN = 6e-4, 0.0035
"""A character of a text, and a token."""
UNKNOWN, UNKNOWN_CHARACTER = 0.03, 0.003
"""A token outside the vocabulary, whose n-grams are looked up, and each of its characters."""
PIECE = 3
"""The work of an unknown piece of a word, relative to an unknown word: the word and other splits of
it have been tried before."""
POOLING = 0.04
"""The mean of the vectors of a sentence."""
VALUE = 3e-6
"""A value of a static vector."""
MULTIPLICATION = 4e-8
"""A multiplication and an addition of a matrix product."""
PAIR = 2.5e-6
"""The attention of one head from one token to another."""
CONTRIBUTED_VALUE, CONTRIBUTED_PAIR = 2e-5, 3e-6
"""A value of a vector and a pair of tokens whose contributions are computed in float64."""
SEARCHED_VALUE, NEIGHBOR = 2e-7, 0.003
"""A value of the table in a search of neighbors, and a neighbor that is found."""
SUGGESTION = 1.0
"""A similar word that is looked up for an unknown one."""
DECOMPOSED_VALUE = 4.5e-7
"""A value of a matrix and a column, in a singular value decomposition."""
TRACED_VALUE = 3.3e-5
"""A value of a trace, which is computed and written."""
BYTE = 2e-5
"""A byte of a request that is parsed."""
_TOKEN_BYTES = 128
"""Approximate bytes of a token in JSON."""
_row = attrgetter("row")
_TOO_LARGE_RESPONSE = (
    "Send fewer sentences, accept application/x-ndjson, which is streamed, or use `polyseme bulk`."
)


class Supervisor(Protocol):
    """The judge of the work of one request."""

    def admit(self, work: float) -> None:
        """Let so much work start; raise TooLargeError or OverloadedError instead."""

    def check(self) -> None:
        """Raise DeadlineError or AbortedError if nobody waits for the response any more."""


_supervisor: ContextVar[Supervisor | None] = ContextVar("polyseme_supervisor", default=None)
supervise = _supervisor.set
"""Set the supervisor of this thread's request; None ends the supervision."""


def admit(work: float) -> None:
    """Raise the errors of `Supervisor.admit`."""
    if supervisor := _supervisor.get():
        supervisor.admit(work)


def check_request() -> None:
    """Raise the errors of `Supervisor.check`: called between sentences, searches and clusters."""
    if supervisor := _supervisor.get():
        supervisor.check()


class NumberCost(NamedTuple):
    """The cost of writing one array element."""

    work: float
    bytes: float
    """the maximum number of bytes"""


class TextCost(NamedTuple):
    """The estimated work of a request with texts, and the maximum bytes of its response."""

    request: float = REQUEST
    """the work of a request without texts"""
    sentence: float = SENTENCE
    """the work of each sentence"""
    token: float = TOKEN
    """the work of each token"""
    pair: float = 0.0
    """the work of each pair of tokens of a sentence"""
    token_bytes: float = 0.0
    pair_bytes: float = 0.0
    streamed: bool = False
    """whether the response has one sentence in memory at a time"""

    def of_sentence(self, sentence: Tokenized) -> float:
        """Return the work of one sentence."""
        words = sentence.words
        n = len(words)
        work = self.sentence + n * (self.token + n * self.pair)
        if None not in map(_row, words):
            return work
        starts = sentence.starts if sentence.text is not None else [word.start for word in words]
        end = None  # of the word before
        for start, following, word in zip(starts, [*starts[1:], None], words, strict=True):
            before, end = end, None if start is None else start + len(word.text)
            if word.row is None and len(word.text) <= MAX_WORD_LENGTH:
                unknown = UNKNOWN + len(word.text) * UNKNOWN_CHARACTER
                is_piece = start is not None and (start == before or following == end)
                work += unknown * PIECE if is_piece else unknown
        return work


class TextAdmission:
    """The admission of texts while they are tokenized: their work, and the size of the response."""

    def __init__(
        self, cost: TextCost, texts: Sequence[str | Sequence[str]], limits: Limits
    ) -> None:
        """Admit the work of the texts that does not depend on their tokens.

        A text has at least a token for each chunk between white space, up to a limit.
        """
        self._cost, self._limits, self._supervisor = cost, limits, _supervisor.get()
        self._work, self.bytes = cost.request, 0.0
        if self._supervisor:
            most, least = limits.max_sentence_tokens, 0.0
            for text in texts:
                if isinstance(text, str):
                    characters, n = len(text), len(text.split(None, most))
                else:
                    characters, n = sum(map(len, text[:most])), min(len(text), most)
                self._work += CHARACTER * characters
                least += cost.sentence + n * (cost.token + n * cost.pair)
            self._admitted = self._work + least
            self._supervisor.admit(self._admitted)

    def add(self, sentence: Tokenized) -> None:
        """Add a sentence; raise TooLargeError if the work or the response exceeds its limit."""
        cost, n = self._cost, len(sentence.words)
        size = n * (cost.token_bytes + n * cost.pair_bytes)
        self.bytes = size if cost.streamed else self.bytes + size
        if self.bytes > self._limits.max_answer_bytes:
            hint = None if cost.streamed else _TOO_LARGE_RESPONSE
            self._limits.check("max_answer_bytes", int(self.bytes), hint)
        if self._supervisor:
            self._work += cost.of_sentence(sentence)
            self._limits.check("max_work", self._work)
            self._supervisor.check()

    def finish(self) -> None:
        """Admit the rest of the work."""
        if self._supervisor and self._work > self._admitted:
            self._supervisor.admit(self._work - self._admitted)


def encode_cost(
    model: Model,
    options: EncodeOptions,
    number: NumberCost | None = None,
    *,
    streamed: bool = False,
) -> TextCost:
    """Return the cost of encoding, and of writing the arrays if `number` is given."""
    token, pair = TOKEN + model.manifest.dimension * VALUE, 0.0
    token_bytes = pair_bytes = 0.0
    if number:
        per_token, per_pair = options.array_numbers(model)
        token += per_token * number.work
        pair = per_pair * number.work
        token_bytes, pair_bytes = per_token * number.bytes + _TOKEN_BYTES, per_pair * number.bytes
    if set(options.include) <= {"static"}:
        return TextCost(token=token, token_bytes=token_bytes, streamed=streamed)
    layers, widths = len(model.layers), model.key_width + model.value_width
    heads = layers * model.manifest.heads
    token += model.layer_weights * MULTIPLICATION
    if "features" in options.include and (features := model.layers[-1].features):
        token += features.size * MULTIPLICATION
    pairs = heads * (PAIR + widths * MULTIPLICATION)
    if "contributions" in options.include:
        token += layers * model.manifest.dimension * CONTRIBUTED_VALUE
        pairs += heads * (CONTRIBUTED_PAIR + 2 * model.value_width * MULTIPLICATION)
    return TextCost(
        REQUEST,
        SENTENCE + LAYER * layers,
        token,
        pair + pairs,
        token_bytes,
        pair_bytes,
        streamed,
    )


def decomposition_work(rows: int, columns: int) -> float:
    """Return the work of the principal components of a matrix in float64."""
    return rows * columns * min(rows, columns) * DECOMPOSED_VALUE


def word_work(word: str) -> float:
    """Return the work of looking up one word, which may be unknown."""
    return TOKEN + UNKNOWN + min(len(word), MAX_WORD_LENGTH) * UNKNOWN_CHARACTER


def search_work(model: Model, k: int) -> float:
    """Return the work of one search for k neighbors in the whole table."""
    if not k:
        return 0.0
    return model.manifest.vocabulary_size * model.manifest.dimension * SEARCHED_VALUE + k * NEIGHBOR
