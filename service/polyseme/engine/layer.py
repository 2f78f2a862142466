"""One layer: projections, attention, residual, and where a model has them norm and feed-forward."""

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from polyseme.engine.arrays import Floats
from polyseme.engine.attention import Scoring, Sentence, attend
from polyseme.engine.feed_forward import FeedForward
from polyseme.engine.norm import LayerNorm
from polyseme.engine.projection import IDENTITY, Projection, join_heads, split_heads
from polyseme.engine.record import Record
from polyseme.engine.residual import Residual

NormPlace: TypeAlias = Literal["none", "before", "after"]
"""Where layer norm stands: `before` each sub-layer (pre-norm) or `after` it (post-norm)."""

NormName: TypeAlias = Literal["attention_norm", "feed_forward_norm"]

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class Layer:
    """The weights of a layer. The default is parameter-free attention: Q = K = V = X."""

    heads: int = 1
    query: Projection = IDENTITY
    key: Projection = IDENTITY
    value: Projection = IDENTITY
    output: Projection = IDENTITY
    scoring: Scoring = Scoring()
    residual: Residual = Residual()
    norm: NormPlace = "none"
    attention_norm: LayerNorm | None = None
    feed_forward: FeedForward | None = None
    feed_forward_norm: LayerNorm | None = None

    def astype(self, dtype: DTypeLike) -> "Layer":
        """Return the same layer with every weight in another floating-point type."""
        return _cast(self, np.dtype(dtype))

    def __call__(self, x: Floats, sentence: Sentence, record: Record) -> Floats:
        """Run the layer. [n, d] -> [n, d]"""
        start = self._normed(x, "attention_norm", "before", record)
        queries, keys, values = self.project(start, sentence, record)
        context = attend(queries, keys, values, sentence, self.scoring, record)
        output = self.output(join_heads(context))
        record.keep("output", output)
        x = self.residual(x, output, record)
        record.keep("residual", x)
        x = self._normed(x, "attention_norm", "after", record)
        return self._fed_forward(self.feed_forward, x, record) if self.feed_forward else x

    def project(
        self, x: Floats, sentence: Sentence, record: Record
    ) -> tuple[Floats, Floats, Floats]:
        """Queries, keys and values. [n, d] -> [h, n, k], [h, n, k], [h, n, v]

        The value of an unknown token is zero whatever the bias, since there is nothing to add.
        """
        queries, keys = (split_heads(p(x), self.heads) for p in (self.query, self.key))
        values = split_heads(self.value(x), self.heads)
        if not sentence.all_known:
            # Into an array of its own: without a projection, the values are the vectors themselves.
            values = np.where(sentence.known[:, None], values, values.dtype.type(0))
        for name, array in (("queries", queries), ("keys", keys), ("values", values)):
            record.keep(name, array)
        return queries, keys, values

    def _fed_forward(self, network: FeedForward, x: Floats, record: Record) -> Floats:
        start = self._normed(x, "feed_forward_norm", "before", record)
        change = network(start, record)
        record.keep("feed_forward", change)
        return self._normed(x + change, "feed_forward_norm", "after", record)

    def _normed(self, x: Floats, name: NormName, place: NormPlace, record: Record) -> Floats:
        norm: LayerNorm | None = getattr(self, name)
        if norm is None or self.norm != place:
            return x
        y = norm(x)
        record.keep(name, y)
        return y


def _cast(part: _Part, dtype: np.dtype[Any]) -> _Part:
    """Cast every array of nested dataclasses."""
    if isinstance(part, np.ndarray):
        return part.astype(dtype)  # type: ignore[return-value]
    if is_dataclass(part) and not isinstance(part, type):
        cast = {f.name: _cast(getattr(part, f.name), dtype) for f in fields(part)}
        return replace(part, **cast)
    return part
