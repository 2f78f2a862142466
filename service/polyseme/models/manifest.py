"""`manifest.json`: a description of a model, with the size and checksum of its other files.

The names of the other files contain their checksums, so a file never changes: a model is replaced
when its manifest is.
"""

import hashlib
import json
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from polyseme.engine.attention import Mask
from polyseme.engine.layers import Activation, NormPlace, ResidualKind

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
MAX_LAYERS, MAX_WIDTH = 64, 65_536

MANIFEST: Final = "manifest.json"
FileName: TypeAlias = Literal[
    "vectors.npy",
    "scales.npy",
    "vocabulary.txt",
    "index.npy",
    "subwords.npy",
    "subword_scales.npy",
    "ngrams.npy",
    "attention.safetensors",
    "senses.safetensors",
]
TABLES: Final[tuple[FileName, ...]] = get_args(FileName)[:-2]
"""The files that a model with a base does not have itself."""
TableDtype: TypeAlias = Literal["float16", "float32", "int8"]
"""The data type of a table on disk; an int8 table has a file with a scale for each row."""
SCALES_OF: Final[dict[FileName, FileName]] = {
    "vectors.npy": "scales.npy",
    "subwords.npy": "subword_scales.npy",
}


def _require_json(details: dict[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(details, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError):
        raise ValueError("must be JSON with finite numbers and valid Unicode") from None
    return details


Details: TypeAlias = Annotated[dict[str, Any], AfterValidator(_require_json)]
_Factor = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileEntry(_Section):
    """The size and checksum of one file."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)

    def stored_name(self, name: FileName) -> str:
        """Return the name of a file in a folder, which contains the start of its checksum."""
        stem, _, suffix = name.partition(".")
        return f"{stem}-{self.sha256[:16]}.{suffix}"


class ResidualEntry(_Section):
    """How a layer combines its input and the output of attention: `Residual` in the engine."""

    kind: ResidualKind = "none"
    share: _Factor = 0.0
    position_share: _Factor = 0.0


class LayerEntry(_Section):
    """The settings of a layer besides its tensors; the default is parameter-free attention."""

    scale: bool = True
    looks_at: Mask = "all"
    """the attention mask, `Scoring.mask` in the engine"""
    word_bias: bool = False
    residual: ResidualEntry = ResidualEntry()
    norm: NormPlace = "none"
    norm_epsilon: Annotated[float, Field(gt=0, le=1)] = 1e-5
    activation: Activation = "gelu"


class SubwordsEntry(_Section):
    """How `subwords.npy` composes words: the fields of `Subwords` in the engine, and its dtype."""

    min_n: int = Field(ge=1, le=64)
    max_n: int = Field(ge=1, le=64)
    dtype: TableDtype | None = None
    """None if the table has the dtype of the vectors"""
    coverage: float | None = Field(default=None, ge=0, le=1)
    """None without `ngrams.npy`"""
    own_rows: bool | None = None
    """None without `ngrams.npy`"""

    @model_validator(mode="after")
    def _in_order(self) -> "SubwordsEntry":
        if self.min_n > self.max_n:
            raise ValueError("min_n must not exceed max_n")
        return self


class Manifest(_Section):
    """The content of `manifest.json`. `read_manifest` sets `name` to the folder's name."""

    format: Literal["polyseme-model"] = "polyseme-model"
    format_version: Literal[1] = 1
    name: str = Field(pattern=NAME_PATTERN)
    base: str | None = Field(default=None, pattern=NAME_PATTERN)
    """the bundled model whose tables this one uses; `files` lists them like the model's own"""
    dimension: int = Field(ge=1, le=MAX_WIDTH)
    vocabulary_size: int = Field(ge=1, le=100_000_000)
    dtype: TableDtype
    cased: bool
    heads: int = Field(default=1, ge=1, le=1024)
    layers: list[LayerEntry] = Field(default=[LayerEntry()], min_length=1, max_length=MAX_LAYERS)
    tensors: dict[str, list[int]] = {}
    """the shape of each tensor in `attention.safetensors`"""
    weights_dtype: Literal["float16", "float32"] = "float32"
    """the dtype of these tensors, which are float32 in memory"""
    languages: list[str] = []
    """ISO 639 codes, the main language first"""
    licence: str = "unknown"
    source: str = "unknown"
    training: Details = {}
    quality: Details = {}
    subwords: SubwordsEntry | None = None
    files: dict[FileName, FileEntry]

    @model_validator(mode="after")
    def _complete(self) -> "Manifest":
        if not {"vectors.npy", "vocabulary.txt", "index.npy"} <= set(self.files):
            raise ValueError("the manifest must list vectors.npy, vocabulary.txt and index.npy")
        if self.tensors and "attention.safetensors" not in self.files:
            raise ValueError("the manifest lists tensors but not attention.safetensors")
        if (self.subwords is None) != ("subwords.npy" not in self.files):
            raise ValueError("the manifest must have both subwords and subwords.npy, or neither")
        known = self.subwords is not None and self.subwords.coverage is not None
        if known != ("ngrams.npy" in self.files) or known != (
            self.subwords is not None and self.subwords.own_rows is not None
        ):
            raise ValueError(
                "the manifest must have coverage and own_rows of subwords, and ngrams.npy, or none"
            )
        for table, scales in SCALES_OF.items():
            quantized = table in self.files and self.dtype_of(table) == "int8"
            if (scales in self.files) != quantized:
                raise ValueError(
                    f"the manifest must list {scales} if {table} is int8, and only then"
                )
        if self.dimension % self.heads and not self.tensors:
            raise ValueError("without weights, the number of heads must divide the dimension")
        return self

    @property
    def checksum(self) -> str:
        """The sha256 of the names and checksums of the model's other files."""
        files = sorted((name, entry.sha256) for name, entry in self.files.items())
        return hashlib.sha256(json.dumps(files).encode()).hexdigest()

    def in_base(self, name: FileName) -> bool:
        """Return whether a file is in the folder of the base."""
        return self.base is not None and name in TABLES

    def stored_name(self, name: FileName) -> str:
        """Return the name of a file in its folder, such as `vectors-0123456789abcdef.npy`."""
        return self.files[name].stored_name(name)

    def dtype_of(self, table: FileName) -> TableDtype:
        """Return the dtype of a table: the vectors or the subwords."""
        own = self.subwords.dtype if self.subwords and table == "subwords.npy" else None
        return own or self.dtype
