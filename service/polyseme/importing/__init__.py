"""Import of pretrained word vectors as model folders: its options, and the error that ends one.

This is the only package that imports gensim.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from polyseme.errors import CommandError
from polyseme.importing.texts import TextSample
from polyseme.models.manifest import TableDtype

Convention: TypeAlias = Literal["row", "column"]


@dataclass(frozen=True)
class ImportOptions:
    """The options of an import."""

    format: str | None = None
    """one of `READERS`; detected if None"""
    member: str | None = None
    limit: int | None = None
    dtype: TableDtype = "float32"
    encoding: str = "utf-8"
    skip: bool = False
    """skip unusable rows"""
    strip: tuple[str, ...] = ()
    """regular expressions whose matches are removed from the words"""
    sorted: bool | None = None
    """whether the words are sorted by frequency; detected if None"""
    weights: Path | None = None
    attention: bool = True
    """False for parameter-free attention"""
    convention: Convention = "row"
    heads: int | None = None
    replace: bool = False
    subwords: bool | None = None
    """whether the model has subword vectors; None: if the file has them, or enough words to fit
    them"""
    texts: TextSample | None = None
    """texts that tell the frequencies of words, and how senses are found"""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """manifest fields `licence`, `source` and `languages`"""

    @property
    def float_dtype(self) -> str:
        """The dtype in which the values of a file must be finite."""
        return "float32" if self.dtype == "int8" else self.dtype


class ImportProblem(CommandError):  # noqa: N818 - it is not always a file that is at fault
    """Vectors or options cannot be imported.

    `options` are the fields of `ImportOptions` that may help, and `name` for the name of the model.
    The command line adds its flags to the sentence.
    """

    def __init__(self, sentence: str, *options: str) -> None:
        self.options = options
        super().__init__(sentence)
