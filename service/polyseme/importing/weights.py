"""The attention weights of an imported model: the closed form, a safetensors file, or none.

A weights file may have `query`, `key`, `value` and `output` for the first layer and
`layers.1.query` etc. for others; aliases such as `Wq` and `q_proj.weight` are accepted. Other
tensors have the names of `models/weights.py`. The metadata may have `heads`, and `layers` as in the
manifest.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import safetensors
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from polyseme.engine import Floats
from polyseme.engine.layers import Layer
from polyseme.engine.quantization import Rows
from polyseme.errors import ModelFolderError
from polyseme.importing import Convention, ImportProblem
from polyseme.importing.closed_form import (
    FREQUENT,
    closed_form,
    feature_projection,
    frequencies_by_rank,
    informativeness,
)
from polyseme.models.manifest import LayerEntry
from polyseme.models.reader import bundled_models
from polyseme.models.weights import WORD_BIAS, Wording, layers_from_tensors

_Tensors: TypeAlias = dict[str, NDArray[np.float32]]

_NAME = re.compile(
    r"(?:layers\.(?P<layer>\d{1,2})\.)?"
    r"(?:(?P<full>query|key|value|output)|w_?(?P<short>[qkvo])|(?P<proj>q|k|v|o|out)_proj)"
    r"(?P<bias>[._]bias)?(?:\.weight)?",
    re.IGNORECASE,
)
_MATRICES = "query|key|value|output|final"
_FORMAT_NAME = re.compile(
    r"layers\.(?P<layer>\d{1,2})\.(?:position_bias|word_bias_scale"
    rf"|(?:{_MATRICES})(?:_bias)?|skip|feed_forward\.(?:inner|outer)(?:_bias)?"
    r"|(?:attention|feed_forward)_norm\.(?:gain|shift)|features\.(?:context|neighbors(?:_bias)?))"
    r"|word_bias"
)
_FLOATS = {"F16", "F32", "F64"}
_MAX_HEADS = 1024
_PROJECTIONS = {"q": "query", "k": "key", "v": "value", "o": "output"}
_ENTRIES = TypeAdapter(list[LayerEntry])
_WORDING = Wording("The weights", "the metadata", "the metadata set")


@dataclass(frozen=True)
class ImportedLayers:
    """The layers of a model, its word bias, and facts for the manifest."""

    layers: Sequence[Layer]
    word_bias: Floats | None = None
    """[V]"""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lacks_word_bias(self) -> bool:
        """Whether a layer uses a word bias that the file does not contain."""
        return self.word_bias is None and any(layer.scoring.word_bias for layer in self.layers)


PARAMETER_FREE = ImportedLayers((Layer(),), facts={"attention": "parameter-free"})


FILE_COUNTS, TEXT_COUNTS = "counts in the file", "counts in texts"
"""The origins of counts, for the manifest."""


def in_closed_form(
    rows: Rows, counts: NDArray[np.int64] | None, *, by_rank: bool, origin: str = FILE_COUNTS
) -> ImportedLayers:
    """Return attention weights that follow from the vectors without training. [V, d], [V]

    The informativeness of a word follows from its count, if there are counts, else from its rank
    if the file is sorted by frequency. Otherwise all words are equally informative.
    """
    v = len(rows)
    informative = counts is not None or by_rank
    frequencies = np.full(v, 1 / v)
    sample = np.arange(min(v, FREQUENT)) * v // min(v, FREQUENT)  # at even intervals
    if informative:
        frequencies, origin = relative_frequencies(v, counts, origin)
        sample = np.argsort(-frequencies, kind="stable")[:FREQUENT]
    else:
        origin = "none: the file is not known to be sorted by frequency"
    bias = informativeness(frequencies) if informative else None
    vectors, frequencies = cast("Floats", rows[sample]), frequencies[sample]
    layer = closed_form(vectors, frequencies, informative=informative)
    layer = replace(layer, features=feature_projection(vectors, layer.value, frequencies))
    facts = {"attention": "closed form", "informativeness": origin}
    return ImportedLayers((layer,), bias, facts)


def relative_frequencies(
    size: int, counts: NDArray[np.int64] | None, origin: str
) -> tuple[Floats, str]:
    """Return the relative frequency of each word, and its origin. -> [V]"""
    if counts is None:
        return frequencies_by_rank(size), "rank in the file"
    # In a malicious file, the sum of the counts may overflow int64.
    return counts / counts.sum(dtype=np.float64), origin


def weights_file(name: str | Path) -> Path:
    """Return the file of bundled weights of this name, else the name as a path."""
    bundled = {file.stem: file for file in (bundled_models() / "weights").glob("*.safetensors")}
    return bundled.get(str(name), Path(name))


def read_weights(
    path: Path, dimension: int, vocabulary_size: int, heads: int | None, convention: Convention
) -> ImportedLayers:
    """Read a file of weights; raise ImportProblem if names, shapes or values are invalid.

    `column` reads each projection as `[out, in]`, as used in W·x, and transposes it. The word bias
    is None if the file has none, even if its layers use one.
    """
    tensors, metadata = _read(path)
    named = {}
    for name, tensor in tensors.items():
        match = _NAME.fullmatch(name)
        if match:
            letter = (match["full"] or match["short"] or match["proj"])[0].lower()
            bias = "_bias" if match["bias"] else ""
            named[f"layers.{int(match['layer'] or 0)}.{_PROJECTIONS[letter]}{bias}"] = tensor
        elif _FORMAT_NAME.fullmatch(name):
            named[name] = tensor
        else:
            raise ImportProblem(
                f"The weights have an unknown tensor {_shown(name)}; known are query, key, value"
                " and output (of a second layer layers.1.query etc.), aliases such as"
                " q_proj.weight, and the names in models/README.md."
            )
    if len(named) < len(tensors):
        raise ImportProblem(
            "The weights have the same tensor under two names, such as query and q_proj.weight."
        )
    for name, tensor in named.items():
        named[name] = _oriented(name, tensor, dimension, convention)
    entries = _layer_entries(metadata.get("layers"), named)
    if heads is None:
        text = metadata.get("heads", "1")
        if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= _MAX_HEADS:
            raise ImportProblem(
                f"`heads` in the weights' metadata is not an integer from 1 to {_MAX_HEADS}."
            )
        heads = int(text)
    try:
        layers = layers_from_tensors(named, entries, heads, dimension, _WORDING)
    except ModelFolderError as error:
        raise ImportProblem(error.detail) from None
    word_bias = named.get(WORD_BIAS)
    if word_bias is not None and word_bias.shape != (vocabulary_size,):
        raise ImportProblem(f"The weights' word_bias does not have the shape [{vocabulary_size}].")
    return ImportedLayers(
        layers, word_bias, {"attention": "stored weights", "convention": convention}
    )


def _read(path: Path) -> tuple[_Tensors, Mapping[str, str]]:
    """Read all tensors as float32, and the metadata."""
    tensors = {}
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata, names = file.metadata() or {}, file.keys()
            for name in names:
                dtype = file.get_slice(name).get_dtype()
                if dtype not in _FLOATS:
                    raise ImportProblem(
                        f"The weights' tensor {_shown(name)} has the dtype {_shown(dtype)}; save it"
                        " as F32, F16 or F64."
                    )
                with np.errstate(over="ignore"):
                    # A tensor of no axes becomes one of a single number.
                    tensors[name] = np.ascontiguousarray(file.get_tensor(name), np.float32)
                if not np.isfinite(tensors[name]).all():
                    raise ImportProblem(
                        f"The weights' tensor {_shown(name)} has a value that is not finite as"
                        " float32."
                    )
    except (safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ImportProblem("The weights cannot be read as a safetensors file.") from None
    return tensors, metadata


def _oriented(
    name: str, tensor: NDArray[np.float32], d: int, convention: Convention
) -> NDArray[np.float32]:
    """Return a projection as `[in, out]`, for x·W, and any other tensor unchanged."""
    parts = rf"layers\.\d+\.({_MATRICES}|skip|feed_forward\.(inner|outer))"
    if not re.fullmatch(parts, name):
        return tensor
    if tensor.ndim != 2:
        raise ImportProblem(f"The weights' tensor {name} is not a matrix.")
    weight = np.ascontiguousarray(tensor.T) if convention == "column" else tensor
    axis = 1 if name.endswith(("output", "outer")) else 0
    if weight.shape[axis] != d:
        shape = " by ".join(map(str, tensor.shape))
        raise ImportProblem(
            f"The weights' tensor {name} is {shape}, which does not fit vectors of dimension {d} in"
            f" the {convention} convention.",
            *(["convention"] if weight.shape[1 - axis] == d else []),
        )
    return weight


def _layer_entries(document: str | None, tensors: _Tensors) -> list[LayerEntry]:
    """Return the manifest entry of each layer, from the metadata or by default."""
    matches = map(_FORMAT_NAME.fullmatch, tensors)
    indices = {int(match[1]) for match in matches if match and match[1]}
    if not indices:
        raise ImportProblem("The weights have no projection: query, key, value or output.")
    if document is None:
        if len(indices) <= max(indices):
            missing = min(set(range(max(indices))) - indices)
            raise ImportProblem(
                f"The weights have a layer {max(indices)} but no layer {missing}; the first layer"
                " is 0."
            )
        return [LayerEntry(word_bias=WORD_BIAS in tensors)] * (max(indices) + 1)
    try:
        entries = _ENTRIES.validate_json(document)
    except ValidationError:
        raise ImportProblem(
            "`layers` in the weights' metadata does not have the form of a manifest's `layers`."
        ) from None
    if len(entries) != max(indices) + 1:
        raise ImportProblem(
            f"The weights' metadata describe {len(entries)} layers, but the tensors have"
            f" {max(indices) + 1}."
        )
    return entries


def _shown(name: str) -> str:
    """Return a name from the file, shortened and without special characters."""
    return re.sub(r"[^\w.\-]", "?", name)[:60]
