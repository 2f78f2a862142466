"""What is asked of each sentence, and how large that makes an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from polyseme.errors import FieldError, InvalidError
from polyseme.models.model import Model
from polyseme.tokenizer import Case

Part: TypeAlias = Literal[
    "static", "contextual", "attention", "queries", "keys", "values", "scores"
]
PER_LAYER: tuple[Part, ...] = ("attention", "queries", "keys", "values", "scores")
BY_PAIR: frozenset[Part] = frozenset({"attention", "scores"})
Unlisted: TypeAlias = Literal["zero", "subword", "error"]
"""What becomes of words that the vocabulary lacks: a zero vector, one composed of their subwords,
or the whole request is refused."""
Dtype: TypeAlias = Literal["float32", "float16"]


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
    dtype: Dtype = "float32"
    wordless: Literal["keep", "refuse"] = "keep"
    """what becomes of a sentence without a word that has a vector"""


@dataclass(frozen=True)
class Size:
    """How many numbers the arrays of a sentence have: n·by_token + n²·by_pair."""

    by_token: int
    by_pair: int

    def numbers(self, n: int) -> int:
        """How many numbers a sentence of n tokens takes."""
        return n * self.by_token + n * n * self.by_pair


def size_of(model: Model, choice: Choice, layers: int) -> Size:
    """The size of a sentence's arrays for a number of layers."""
    d, h = model.manifest.dimension, model.manifest.heads
    heads = 1 if choice.mean_of_heads else h
    widths = {"queries": model.key_width, "keys": model.key_width, "values": model.value_width}
    return Size(
        d * len(choice.include & {"static", "contextual"})
        + layers * h * sum(widths[part] for part in choice.include if part in widths),
        layers * heads * len(choice.include & BY_PAIR),
    )


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
