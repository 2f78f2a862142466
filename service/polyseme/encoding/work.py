"""The work of a request: estimated before it is computed, and interrupted if nobody waits for it.

The unit is a millisecond of one processor of the machine on which `benchmarks/work.py` measured the
constants. A route sets a supervisor, which limits the work; in process, nothing does.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Protocol

from polyseme.encoding.options import EncodeOptions
from polyseme.engine.layers import Layer, Projection
from polyseme.models.model import Model
from polyseme.tokenizer import MAX_WORD_LENGTH, ResolvedToken

REQUEST = 0.3
"""A request without texts."""
SENTENCE, LAYER = 0.05, 0.06
"""A sentence without tokens, and each layer of it."""
CHARACTER, TOKEN = 6e-4, 0.0035
"""A character of a text, and a token."""
UNKNOWN, UNKNOWN_CHARACTER = 0.02, 0.002
"""A token outside the vocabulary, whose n-grams are looked up, and each of its characters."""
POOLING = 0.04
"""The mean of the vectors of a sentence."""
VALUE = 3e-6
"""A value of a static vector."""
MULTIPLICATION = 4e-8
"""A multiplication and an addition of a matrix product."""
PAIR = 2.5e-6
"""The attention of one head from one token to another."""
SEARCHED_VALUE, NEIGHBOR = 2e-7, 0.003
"""A value of the table in a search of neighbors, and a neighbor that is found."""
DECOMPOSED_VALUE = 4.5e-7
"""A value of a matrix and a column, in a singular value decomposition."""
TRACED_VALUE = 3.3e-5
"""A value of a trace, which is computed and written."""
BYTE = 2e-5
"""A byte of a request that is parsed."""


class Supervisor(Protocol):
    """The judge of the work of one request."""

    def require(self, work: float) -> None:
        """Raise TooLargeError if so much work is too much for one request."""

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


@dataclass(frozen=True)
class TextCost:
    """The estimated work of a request with texts: a sum over its sentences."""

    request: float = REQUEST
    """once"""
    sentence: float = SENTENCE
    """for each sentence"""
    token: float = TOKEN
    """for each token"""
    pair: float = 0.0
    """for each pair of tokens of a sentence"""

    def of_sentence(self, tokens: Sequence[ResolvedToken]) -> float:
        """Return the work of one sentence."""
        n = len(tokens)
        work = self.sentence + n * (self.token + n * self.pair)
        for token in tokens:
            if token.row is None and len(token.text) <= MAX_WORD_LENGTH:
                work += UNKNOWN + len(token.text) * UNKNOWN_CHARACTER
        return work


class TextAdmission:
    """The admission of texts while they are tokenized."""

    def __init__(self, cost: TextCost, texts: Sequence[str | Sequence[str]], most: int) -> None:
        """Admit the work of the texts that does not depend on their tokens.

        A text has at least a token for each chunk between white space, up to `most`.
        """
        self._cost, self._work, self._supervisor = cost, cost.request, _supervisor.get()
        if self._supervisor:
            least = 0.0
            for text in texts:
                chunks = text.split(None, most) if isinstance(text, str) else text[:most]
                self._work += CHARACTER * sum(map(len, chunks))
                least += cost.sentence + len(chunks) * (cost.token + len(chunks) * cost.pair)
            self._admitted = self._work + least
            self._supervisor.admit(self._admitted)

    def add(self, tokens: Sequence[ResolvedToken]) -> None:
        """Add a sentence; raise TooLargeError if the work is too much up to here."""
        if self._supervisor:
            self._work += self._cost.of_sentence(tokens)
            self._supervisor.require(self._work)
            self._supervisor.check()

    def finish(self) -> None:
        """Admit the rest of the work."""
        if self._supervisor:
            self._supervisor.admit(max(self._work - self._admitted, 0.0))


def encode_cost(model: Model, options: EncodeOptions, number: float) -> TextCost:
    """Return the cost of encoding and writing; `number` is the work of writing a number."""
    per_token, per_pair = options.array_numbers(model)
    token = TOKEN + model.manifest.dimension * VALUE + per_token * number
    if options.include <= {"static"}:
        return TextCost(token=token)
    sizes = [_layer_sizes(model, layer) for layer in model.layers]
    weights = sum(weights for weights, _ in sizes)
    if "features" in options.include and (features := model.layers[-1].features):
        weights += features.context.size + _weights(features.neighbors)
    return TextCost(
        sentence=SENTENCE + LAYER * len(sizes),
        token=token + weights * MULTIPLICATION,
        pair=sum(pairs for _, pairs in sizes) + per_pair * number,
    )


def embedding_cost(model: Model, options: EncodeOptions, writing: float) -> TextCost:
    """Return the cost of sentence vectors; `writing` is the work of writing one."""
    cost = encode_cost(model, options, 0)
    return replace(cost, sentence=cost.sentence + POOLING + writing)


def compare_cost(
    model: Model, options: EncodeOptions, occurrences: int, k: int, *, with_map: bool
) -> TextCost:
    """Return the cost of a comparison with k neighbors of each of the occurrences."""
    cost = encode_cost(model, options, 0)
    request = REQUEST + 2 * occurrences * search_work(model, k)
    if with_map:
        request += decomposition_work(2 * occurrences * (1 + k), model.manifest.dimension)
    return replace(cost, request=request)


def decomposition_work(rows: int, columns: int) -> float:
    """Return the work of the principal components of a matrix in float64."""
    return rows * columns * min(rows, columns) * DECOMPOSED_VALUE


def _layer_sizes(model: Model, layer: Layer) -> tuple[int, float]:
    """Return the number of weights of a layer, and the work of a pair of tokens in it."""
    projections = [layer.query, layer.key, layer.value, layer.output]
    if layer.feed_forward:
        projections += [layer.feed_forward.inner, layer.feed_forward.outer]
    widths = model.key_width + model.value_width
    return sum(map(_weights, projections)), layer.heads * (PAIR + widths * MULTIPLICATION)


def _weights(projection: Projection) -> int:
    return 0 if projection.weight is None else projection.weight.size


def search_work(model: Model, k: int) -> float:
    """Return the work of one search for k neighbors in the whole table."""
    if not k:
        return 0.0
    return model.manifest.vocabulary_size * model.manifest.dimension * SEARCHED_VALUE + k * NEIGHBOR
