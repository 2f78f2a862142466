"""The options of encoding."""

from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import Field, Tag

from polyseme.engine.layers import other_terms
from polyseme.errors import FieldError, InvalidError
from polyseme.models.manifest import MAX_LAYERS
from polyseme.models.model import Model
from polyseme.operations.schema import Request, Share, one_of_kinds
from polyseme.spellings import Case

Part: TypeAlias = Literal[
    "static",
    "contextual",
    "features",
    "attention",
    "contributions",
    "queries",
    "keys",
    "values",
    "scores",
]
DEFAULT_PARTS: tuple[Part, ...] = ("static", "contextual", "attention")
PER_TOKEN: dict[Part, int] = {"static": 1, "contextual": 1, "features": 2}
"""The arrays with one row per token, with their widths as multiples of d."""
# The largest values of fields, in requests, in the clients and in process. `Limits` has those that
# are settings.
MAX_NEIGHBORS = 1000
"""`k` of /v1/neighbors"""
MAX_TERMS = 32
"""`positive`, and `negative`, of /v1/neighbors"""
MAX_LISTED = 100
"""neighbors, keywords and examples of each occurrence or sense"""
MAX_COMPARED = 64
"""occurrences of /v1/compare"""
MAX_SENSES = 20
MAX_FORMS = 64
"""forms of the word in /v1/senses"""
PER_LAYER: tuple[Part, ...] = tuple(part for part in get_args(Part) if part not in PER_TOKEN)
PER_PAIR: frozenset[Part] = frozenset({"attention", "scores"})
OovPolicy: TypeAlias = Literal["zero", "subword", "error"]
"""The vector of an out-of-vocabulary word: zero, composed of subwords, or an error instead."""
Dtype: TypeAlias = Literal["float32", "float16"]
Encoding: TypeAlias = Literal["float", "base64"]
"""How JSON has an array: as numbers, or as its bytes in base64."""


def missing_layer(count: int) -> str:
    """Return the message for a layer that a model of `count` layers does not have."""
    if count == 1:
        return "the model has one layer, 0"
    return f"the model's layers are 0 to {count - 1}"


def _kind_of_layers(value: Any) -> str | None:
    if isinstance(value, list):
        return "<numbers>"
    return "<name>" if value in ("all", "last") else None


LayerNumbers: TypeAlias = Annotated[
    list[Annotated[int, Field(ge=0)]],
    Field(min_length=1, max_length=MAX_LAYERS, fail_fast=True),
]
Layers: TypeAlias = Annotated[
    Annotated[Literal["all", "last"], Tag("<name>")] | Annotated[LayerNumbers, Tag("<numbers>")],
    one_of_kinds(_kind_of_layers, 'must be "all", "last" or a list of layer numbers'),
]


Phrases: TypeAlias = Annotated[
    bool,
    Field(
        description="make consecutive words one token if the vocabulary has them joined by `_`,"
        " `-` or a space, such as `New_York`; up to four words"
    ),
]


class SentenceOptions(Request[Any]):
    """How sentences are encoded, for /v1/encode and /v2."""

    layers: Layers = "all"
    """layers of which attention, contributions, queries, … are returned, counted from 0"""
    heads: Literal["all", "mean"] = "all"
    """attention and scores of each head, or their mean over the heads"""
    oov: OovPolicy | None = None
    """out-of-vocabulary words: a zero vector, a vector composed of subwords, or an error; by
    default `subword` if the model has subword vectors, else `zero`"""
    case: Case = "auto"
    truncate: bool = False
    """truncate sentences that are too long instead of rejecting them"""
    share: Share = None
    phrases: Phrases = False


class EncodeOptions(SentenceOptions):
    """What to return for sentences, and how to look up their words."""

    # A tuple, because pydantic would copy a list for each request.
    include: Annotated[list[Part], Field(fail_fast=True)] = DEFAULT_PARTS  # type: ignore[assignment]
    """the arrays to return"""
    encoding: Encoding = "float"
    dtype: Dtype = "float32"

    def layer_numbers(self, model: Model) -> list[int]:
        """Return the numbers of the requested layers, in ascending order without duplicates.

        Raises InvalidError if the model has no such layer.
        """
        count = len(model.layers)
        if self.layers == "all":
            return list(range(count))
        if self.layers == "last":
            return [count - 1]
        wrong = [index for index, layer in enumerate(self.layers) if layer >= count]
        if wrong:
            message = missing_layer(count)
            raise InvalidError([FieldError(("layers", index), message) for index in wrong])
        return sorted(set(self.layers))

    def resolve_oov(self, model: Model) -> OovPolicy:
        """Return the policy for out-of-vocabulary words.

        Raises InvalidError for a share or a policy that the model does not support.
        """
        if self.share is not None and model.layers[-1].residual.kind != "unit":
            message = "the last residual of this model is not `unit`, so it has no share"
            raise InvalidError([FieldError(("share",), message)], "Omit `share` for this model.")
        if self.oov == "subword" and model.subwords is None:
            hint = 'Omit `oov`, or use `oov: "zero"`.'
            raise InvalidError([FieldError(("oov",), "this model has no subword vectors")], hint)
        return self.oov or ("zero" if model.subwords is None else "subword")

    def size_coefficients(self, model: Model) -> tuple[int, int]:
        """Return (a, b), where n·a + n²·b is the number of values for n tokens."""
        heads = len(self.layer_numbers(model)) * model.manifest.heads
        per_token = per_pair = 0
        for part in set(self.include):
            if part in PER_TOKEN:
                per_token += PER_TOKEN[part] * model.manifest.dimension
            elif part == "contributions":
                layers = heads // model.manifest.heads
                per_pair += layers
                per_token += layers * len(other_terms(model.layers))
            elif part in PER_PAIR:
                per_pair += heads // model.manifest.heads if self.heads == "mean" else heads
            else:
                per_token += heads * (model.value_width if part == "values" else model.key_width)
        return per_token, per_pair
