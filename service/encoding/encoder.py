"""Sentences to static vectors, contextual vectors and attention."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from service.encoding.cutting import Text, cut_texts
from service.encoding.limits import Limits
from service.encoding.stages import Stages
from service.engine.arrays import Floats
from service.engine.stack import contextualise
from service.errors import MOST_ERRORS, FieldError, InvalidError, UnknownWordError
from service.store.model import Model
from service.text.case import Case
from service.text.tokens import Token

Part: TypeAlias = Literal[
    "static", "contextual", "attention", "queries", "keys", "values", "scores"
]
PER_LAYER: tuple[Part, ...] = ("attention", "queries", "keys", "values", "scores")
_RECORDED = {"attention": "weights"}
"""Under what name the engine records a part, where it is another one."""
_BY_PAIR = ("attention", "scores")
Unlisted: TypeAlias = Literal["zero", "subword", "error"]
"""What becomes of words that the vocabulary lacks: a zero vector, one composed of their subwords,
or the whole request is refused."""


@dataclass(frozen=True)
class Choice:
    """What is asked of each sentence."""

    include: frozenset[Part] = frozenset({"static", "contextual", "attention"})
    layers: Sequence[int] | Literal["all", "last"] = "all"
    mean_of_heads: bool = False
    oov: Unlisted | None = None
    """None: `subword` where the model has subword vectors, else `zero`"""
    case: Case = "auto"
    truncate: bool = False


@dataclass(frozen=True)
class Encoded:
    """The answer for one sentence; an array is absent where it was not asked for."""

    tokens: list[Token]
    truncated: int
    """how many words were cut off"""
    arrays: dict[Part, Floats] = field(default_factory=dict)
    """`static`, `contextual` [n, d]; `attention`, `scores` [L, h, n, n], [L, n, n] as a mean of the
    heads; `queries`, `keys`, `values` [L, h, n, k]"""


def encode(
    model: Model,
    texts: Sequence[Text],
    choice: Choice,
    limits: Limits,
    stages: Stages,
    float_bytes: float = 4,
) -> list[Encoded]:
    """Encode sentences one by one; raise an error of the tree before any vector is made.

    `float_bytes` is what a number takes in the answer at most, for the limit on its size.
    """
    layers, oov = chosen_layers(choice, len(model.layers)), chosen_oov(choice, model)
    limits.sentences(len(texts))
    with stages("tokens"):
        how = {"truncate": choice.truncate, "subwords": oov == "subword"}
        cut = cut_texts(texts, model, choice.case, limits, **how)
    if oov == "error":
        _require_known(tokens for tokens, _ in cut)
    limits.answer_bytes(_answer_bytes(model, choice, len(layers), cut, float_bytes))
    return [
        Encoded(tokens, truncated, _arrays(model, tokens, choice, layers, stages))
        for tokens, truncated in cut
    ]


def chosen_layers(choice: Choice, number: int) -> list[int]:
    """The layers that are asked for, each once, in ascending order.

    Raises InvalidError where the model has no such layer.
    """
    if choice.layers == "all":
        return list(range(number))
    if choice.layers == "last":
        return [number - 1]
    wrong = [place for place, layer in enumerate(choice.layers) if not 0 <= layer < number]
    if wrong:
        message = f"the model's layers are 0 to {number - 1}"
        raise InvalidError([FieldError(f"/layers/{place}", message) for place in wrong])
    return sorted(set(choice.layers))


def chosen_oov(choice: Choice, model: Model) -> Unlisted:
    """What becomes of words that the vocabulary lacks.

    Raises InvalidError where they are to be composed and the model has no subword vectors.
    """
    if choice.oov == "subword" and model.subwords is None:
        hint = 'Leave `oov` out, or ask with `oov: "zero"`.'
        raise InvalidError([FieldError("/oov", "this model has no subword vectors")], hint)
    return choice.oov or ("zero" if model.subwords is None else "subword")


def _require_known(sentences: Iterable[list[Token]]) -> None:
    """Refuse sentences with words that the vocabulary lacks, naming the words and their places."""
    lacking = [
        (number, place, token)
        for number, tokens in enumerate(sentences)
        for place, token in enumerate(tokens)
        if token.row is None
    ]
    if lacking:
        errors = [
            FieldError(f"/input/{number}", f"token {place} is not in the vocabulary")
            for number, place, _ in lacking[:MOST_ERRORS]
        ]
        raise UnknownWordError(errors, list(dict.fromkeys(t.text for *_, t in lacking)))


def _answer_bytes(
    model: Model,
    choice: Choice,
    layers: int,
    cut: Sequence[tuple[list[Token], int]],
    float_bytes: float,
) -> int:
    """The most bytes the arrays of an answer can take."""
    d, h = model.manifest.dimension, model.manifest.heads
    heads = 1 if choice.mean_of_heads else h
    widths = {"queries": model.key_width, "keys": model.key_width, "values": model.value_width}
    numbers = 0
    for tokens, _ in cut:
        n = len(tokens)
        numbers += n * d * len(choice.include & {"static", "contextual"})
        numbers += n * n * layers * heads * len(choice.include & set(_BY_PAIR))
        numbers += n * layers * h * sum(widths[p] for p in choice.include if p in widths)
    return int(numbers * float_bytes)


def _arrays(
    model: Model, tokens: list[Token], choice: Choice, layers: list[int], stages: Stages
) -> dict[Part, Floats]:
    with stages("static"):
        sentence = model.sentence(tokens)
    arrays: dict[Part, Floats] = {"static": sentence.vectors}
    per_layer = [part for part in PER_LAYER if part in choice.include]
    if per_layer or "contextual" in choice.include:
        with stages("attention"):
            names = [_RECORDED.get(part, part) for part in per_layer]
            result = contextualise(sentence, model.layers, names, layers)
            arrays["contextual"] = result.contextual
            for part, name in zip(per_layer, names, strict=True):
                stacked = np.stack([result.records[number][name] for number in layers])
                mean = choice.mean_of_heads and part in _BY_PAIR
                arrays[part] = stacked.mean(axis=1) if mean else stacked
    return {part: array for part, array in arrays.items() if part in choice.include}
