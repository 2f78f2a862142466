"""Stored projection weights that somebody brings: a safetensors file under the usual names.

`query`, `key`, `value` and `output` are those of the first layer, `layers.1.query` that of the
second; `Wq`, `q_proj.weight` and their kin are the same. Every other tensor is called as in the
model format (`models/weights.py`). The file's metadata may have `heads`, and as `layers` the JSON
of what a manifest says of each layer.

Layers that ask for a word bias may come without the tensor `word_bias`: it is one number for each
word of one file, and the import can tell it from any file, so that one file of weights serves every
cut of the vectors it was learned on.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import safetensors
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from polyseme.errors import ModelFolderError
from polyseme.importing.attention import Attention
from polyseme.importing.refusal import VectorFileError
from polyseme.models.manifest import LayerEntry
from polyseme.models.weights import WORD_BIAS, layers_from_tensors

Convention: TypeAlias = Literal["row", "column"]
_Tensors: TypeAlias = dict[str, NDArray[np.float32]]

_NAME = re.compile(
    r"(?:layers\.(?P<layer>\d{1,2})\.)?"
    r"(?:(?P<full>query|key|value|output)|w_?(?P<short>[qkvo])|(?P<proj>q|k|v|o|out)_proj)"
    r"(?P<bias>[._]bias)?(?:\.weight)?",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"layers\.(?P<layer>\d{1,2})\.(?:position_bias|word_bias_scale"
    r"|(?:query|key|value|output)(?:_bias)?|feed_forward\.(?:inner|outer)(?:_bias)?"
    r"|(?:attention|feed_forward)_norm\.(?:gain|shift))"
    r"|word_bias"
)
_FLOATS = {"F16", "F32", "F64"}
_MOST_HEADS = 1024
_FULL = {"q": "query", "k": "key", "v": "value", "o": "output", "out": "output"}
_ENTRIES = TypeAdapter(list[LayerEntry])


def read_weights(
    path: Path, dimension: int, vocabulary_size: int, heads: int | None, convention: Convention
) -> Attention:
    """Read a file of weights; raise VectorFileError where names, shapes or numbers are wrong.

    `column` takes each projection as it is used in W·x, `[out, in]`, and turns it. The word bias is
    None where the file has none, whether its layers ask for one or not.
    """
    tensors, metadata = _read(path)
    named = {_named(name): tensor for name, tensor in tensors.items()}
    if len(named) < len(tensors):
        raise VectorFileError("The weights have two tensors for one projection.")
    turned = {name: _turned(name, one, dimension, convention) for name, one in named.items()}
    entries = _entries(metadata.get("layers"), turned)
    try:
        layers = layers_from_tensors(turned, entries, heads or _heads(metadata), dimension)
    except ModelFolderError as error:
        told = error.sentence.replace("attention.safetensors", "The weights")
        raise VectorFileError(told.replace("the manifest does", "the metadata do")) from None
    bias = turned.get(WORD_BIAS)
    if bias is not None and bias.shape != (vocabulary_size,):
        raise VectorFileError(f"The weights have a word_bias that is not {vocabulary_size} long.")
    return Attention(layers, bias, {"attention": "stored weights", "convention": convention})


def _heads(metadata: Mapping[str, str]) -> int:
    told = metadata.get("heads", "1")
    if re.fullmatch(r"[0-9]{1,4}", told) and 1 <= int(told) <= _MOST_HEADS:
        return int(told)
    raise VectorFileError(f"The weights' metadata have heads that are not 1 to {_MOST_HEADS}.")


def _read(path: Path) -> tuple[_Tensors, Mapping[str, str]]:
    tensors = {}
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            for name in file.keys():  # noqa: SIM118 - it is no mapping
                _require_floats(name, file.get_slice(name).get_dtype())
                tensors[name] = file.get_tensor(name)
    except (safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError):
        raise VectorFileError("The weights cannot be read as a safetensors file.") from None
    return {name: _as_float32(name, tensor) for name, tensor in tensors.items()}, metadata


def _require_floats(name: str, dtype: str) -> None:
    if dtype not in _FLOATS:
        raise VectorFileError(
            f"The weights' tensor {_shown(name)} has the dtype {_shown(dtype)}; save it as F32, F16"
            " or F64."
        )


def _as_float32(name: str, tensor: NDArray[np.floating]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        narrow = tensor.astype(np.float32)
    if not np.isfinite(narrow).all():
        raise VectorFileError(
            f"The weights' tensor {_shown(name)} has a number that is not finite as float32."
        )
    return np.ascontiguousarray(narrow)


def _named(name: str) -> str:
    """The name that the model format has for a tensor."""
    found = _NAME.fullmatch(name)
    if found:
        short = (found["short"] or found["proj"] or "").lower()
        projection = found["full"].lower() if found["full"] else _FULL[short]
        layer = int(found["layer"] or 0)
        return f"layers.{layer}.{projection}{'_bias' if found['bias'] else ''}"
    if _OWN.fullmatch(name):
        return name
    raise VectorFileError(
        f"The weights have a tensor {_shown(name)}; known are query, key, value and output, for"
        " further layers as layers.1.query, and the names of models/README.md."
    )


def _turned(
    name: str, tensor: NDArray[np.float32], d: int, convention: Convention
) -> NDArray[np.float32]:
    """A projection as x·W has it; anything else as it is."""
    if not re.fullmatch(r"layers\.\d+\.(query|key|value|output|feed_forward\.(inner|outer))", name):
        return tensor
    if tensor.ndim != 2:  # noqa: PLR2004 - [in, out]
        raise VectorFileError(f"The weights' tensor {name} is no matrix.")
    weight = np.ascontiguousarray(tensor.T) if convention == "column" else tensor
    axis = 1 if name.endswith(("output", "outer")) else 0
    if weight.shape[axis] != d:
        other = "row" if convention == "column" else "column"
        turn = f"; --convention {other} takes it turned" if weight.shape[1 - axis] == d else ""
        shape = " by ".join(map(str, tensor.shape))
        raise VectorFileError(
            f"The weights' tensor {name} is {shape}, which does not fit vectors of {d} numbers"
            f" in the {convention} convention{turn}."
        )
    return weight


def _entries(document: str | None, tensors: _Tensors) -> list[LayerEntry]:
    """What is to be known of each layer: as the metadata say, else standard attention."""
    numbers = {int(found[1]) for name in tensors if (found := _OWN.fullmatch(name)) and found[1]}
    if not numbers:
        raise VectorFileError("The weights have no projection: query, key, value or output.")
    if document is None:
        if len(numbers) <= max(numbers):
            missing = min(set(range(max(numbers))) - numbers)
            raise VectorFileError(
                f"The weights have a layer {max(numbers)} but no layer {missing}; the first layer"
                " is 0."
            )
        return [LayerEntry(word_bias=WORD_BIAS in tensors)] * (max(numbers) + 1)
    try:
        entries = _ENTRIES.validate_json(document)
    except ValidationError:
        raise VectorFileError(
            "The weights' metadata describe layers as no manifest does."
        ) from None
    if len(entries) != max(numbers) + 1:
        raise VectorFileError("The weights' metadata describe another number of layers.")
    return entries


def _shown(name: str) -> str:
    """A tensor's name, made short and harmless."""
    return re.sub(r"[^\w.\-]", "?", name)[:60]
