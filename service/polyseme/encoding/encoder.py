"""Sentences to static vectors, contextual vectors and attention."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from polyseme.encoding.choice import (
    BY_PAIR,
    PER_LAYER,
    Choice,
    Dtype,
    Part,
    chosen_layers,
    chosen_oov,
    size_of,
)
from polyseme.encoding.counts import Counts
from polyseme.encoding.cutting import Cut, Text, cut_texts
from polyseme.encoding.limits import Limits
from polyseme.encoding.stages import Stages
from polyseme.engine.arrays import Floats
from polyseme.engine.stack import contextualise
from polyseme.errors import MOST_ERRORS, FieldError, OutOfRangeError, UnknownWordError
from polyseme.models.model import Model
from polyseme.tokenizer import Token

_RECORDED = {"attention": "weights"}
"""Under what name the engine records a part, where it is another one."""
_TOKEN_BYTES = 128
"""About what a token takes in an answer, beside its numbers."""
_KEPT = 8192
"""Tokens of a large answer that are kept all the same, to spare it cutting them again."""


@dataclass(frozen=True)
class Encoded:
    """The answer for one sentence; an array is absent where it was not asked for."""

    tokens: list[Token]
    truncated: int
    """how many words were cut off"""
    arrays: dict[Part, Floats] = field(default_factory=dict)
    """`static`, `contextual` [n, d]; `attention`, `scores` [L, h, n, n], [L, n, n] as a mean of the
    heads; `queries`, `keys`, `values` [L, h, n, k]"""


class Batch:
    """The answer for sentences, one by one, as often as it is gone through.

    Every time it has the same bits, so that a writer may come back for what it left out. Where the
    answer may be larger than `stream_bytes` and the tokens are many, nothing is kept of a sentence
    but its number of tokens: it is cut into tokens anew each time.
    """

    def __init__(
        self,
        model: Model,
        texts: Sequence[Text],
        choice: Choice,
        limits: Limits,
        stages: Stages,
        float_bytes: float = 4,
    ) -> None:
        """Count the tokens; raise an error of the tree before any vector is made.

        `float_bytes` is what a number takes in the answer at most, for the limit on its size.
        """
        self.model, self.choice = model, choice
        self.layers = chosen_layers(choice, len(model.layers))
        self.lengths: list[int] = []
        """the tokens of each sentence"""
        self.counts = Counts()
        """the tokens of all of them"""
        self.large = False
        """whether the answer may be over `stream_bytes`"""
        self._stages, self._encoded = stages, list[Encoded]()
        self._kept: list[Cut] | None = []
        oov = chosen_oov(choice, model)
        limits.sentences(len(texts))
        how = {"truncate": choice.truncate, "subwords": oov == "subword"}
        self._cut = partial(cut_texts, texts, model, choice.case, limits, **how)
        with stages("tokens"):
            cut: Iterable[Cut] = self._cut()
            cut = _known(cut) if oov == "error" else cut
            cut = _with_words(cut) if choice.wordless == "refuse" else cut
            numbers = self._count(cut, limits, float_bytes)
        tokens = sum(self.lengths) * _TOKEN_BYTES if self.large else 0
        limits.answer_bytes(int(numbers * float_bytes) + tokens)

    def _count(self, cut: Iterable[Cut], limits: Limits, float_bytes: float) -> int:
        """How many numbers the answer has; on the way, keep the tokens while they are few."""
        size = size_of(self.model, self.choice, len(self.layers))
        numbers = 0
        for one in cut:
            n = len(one[0])
            self.lengths.append(n)
            numbers += size.numbers(n)
            self.counts.add(*one)
            tokens = self.counts.tokens
            self.large = numbers * float_bytes + tokens * _TOKEN_BYTES > limits.stream_bytes
            if self.large and tokens > _KEPT:
                self._kept = None
            elif self._kept is not None:
                self._kept.append(one)
        return numbers

    def __iter__(self) -> Iterator[Encoded]:
        """Encode the sentences one by one."""
        return self.through(self.choice.include)

    def through(self, parts: Collection[Part]) -> Iterator[Encoded]:
        """Encode the sentences one by one, with these at least of the arrays asked for."""
        if self._encoded:
            yield from self._encoded
            return
        parts = self.choice.include.intersection(parts)
        for tokens, truncated in self._cut() if self._kept is None else self._kept:
            yield Encoded(tokens, truncated, self._arrays(tokens, parts))

    def hold(self) -> None:
        """Encode now, and hold the answer: it is small."""
        self._encoded = list(self)

    def _arrays(self, tokens: list[Token], parts: frozenset[Part]) -> dict[Part, Floats]:
        if not parts:
            return {}
        with self._stages("static"):
            sentence = self.model.sentence(tokens)
        arrays: dict[Part, Floats] = {"static": sentence.vectors}
        per_layer = [part for part in PER_LAYER if part in parts]
        if per_layer or "contextual" in parts:
            with self._stages("attention"):
                names = [_RECORDED.get(part, part) for part in per_layer]
                result = contextualise(sentence, self.model.layers, names, self.layers)
                arrays["contextual"] = result.contextual
                for part, name in zip(per_layer, names, strict=True):
                    stacked = _stacked([result.records[number][name] for number in self.layers])
                    mean = self.choice.mean_of_heads and part in BY_PAIR
                    arrays[part] = stacked.mean(axis=1) if mean else stacked
        dtype = self.choice.dtype
        return {part: in_dtype(array, dtype) for part, array in arrays.items() if part in parts}


def encode(
    model: Model, texts: Sequence[Text], choice: Choice, limits: Limits, stages: Stages
) -> list[Encoded]:
    """Encode sentences one by one; raise an error of the tree before any vector is made."""
    return list(Batch(model, texts, choice, limits, stages))


def in_dtype(array: Floats, dtype: Dtype) -> Floats:
    """The array in a dtype; raise OutOfRangeError where it cannot hold a number. [...] -> [...]"""
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):
        cast = array.astype(dtype)
    if not np.isfinite(cast).all():
        error = FieldError("/dtype", "float16 cannot hold a number of the answer")
        raise OutOfRangeError(error, 'Ask for `dtype: "float32"`.')
    return cast


def _stacked(arrays: list[Floats]) -> Floats:
    """The arrays of layers one above the other; that of one layer is not copied. -> [L, ...]"""
    return arrays[0][None] if len(arrays) == 1 else np.stack(arrays)


def _known(cut: Iterable[Cut]) -> Iterator[Cut]:
    """Pass sentences on, and refuse them at the end where the vocabulary lacks words of theirs."""
    errors: list[FieldError] = []
    words: dict[str, None] = {}
    for number, one in enumerate(cut):
        for place, token in enumerate(one[0]):
            if token.row is None:
                words[token.text] = None
                if len(errors) < MOST_ERRORS:
                    message = f"token {place} is not in the vocabulary"
                    errors.append(FieldError(f"/input/{number}", message))
        yield one
    if errors:
        raise UnknownWordError(errors, list(words))


def _with_words(cut: Iterable[Cut]) -> Iterator[Cut]:
    """Pass sentences on, and refuse them at the end where one has no word that has a vector."""
    errors: list[FieldError] = []
    for number, one in enumerate(cut):
        if not any(token.row is not None or token.composed is not None for token in one[0]):
            said = "no word of it is in the vocabulary" if one[0] else "it has no words"
            if len(errors) < MOST_ERRORS:
                errors.append(FieldError(f"/input/{number}", said))
        yield one
    if errors:
        raise UnknownWordError(errors, hint="Leave such texts out: they have no vector.")
