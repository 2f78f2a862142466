"""The rows of a batch: tokenization, encoding and errors that name them."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from polyseme.bulk.job import Job
from polyseme.errors import CommandError, InvalidError, PolysemeError, UnknownWordError
from polyseme.models.model import Model
from polyseme.operations.encode import Text, TokenCounts, Tokenized, tokenize
from polyseme.operations.options import EncodeOptions


@dataclass(frozen=True)
class Totals:
    """Counts of a shard or of all shards."""

    rows: int = 0
    """rows of the input"""
    tokens: int = 0
    """tokens of the texts; with rows of tokens, only those that are written"""
    unknown: int = 0
    """tokens without a vector"""
    truncated: int = 0
    """words that were cut off"""
    missing: int = 0
    """rows without a text"""

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of one file."""

    file: str
    first: int
    texts: Sequence[Text | None]
    kept: Sequence[Any] = ()

    def name(self, place: int) -> str:
        """Return the description of a row for messages."""
        return f"Row {self.first + place} of {self.file}"


def tokenize_rows(job: Job, model: Model, rows: Rows, options: EncodeOptions) -> list[Tokenized]:
    """Tokenize the rows that have a text. Raises CommandError with the number of a bad row."""
    texts = [text for text in rows.texts if text is not None]
    limits = job.options.limits
    try:
        return tokenize(model, texts, options, limits)
    except PolysemeError as error:
        for place, text in enumerate(rows.texts):
            try:
                tokenize(model, [] if text is None else [text], options, limits)
            except PolysemeError as row_error:
                raise bulk_error(row_error, rows.name(place)) from None
        raise bulk_error(error, rows.name(0)) from None


_HINTS = {
    "too_large": "--truncate cuts such sentences.",
    "unknown_word": "--oov zero gives such words a zero vector.",
    "out_of_range": "Use --dtype float32.",
}


def bulk_error(error: PolysemeError, where: str) -> CommandError:
    """Return an error that names the rows, and that can be pickled between processes."""
    sentence = error.detail
    if isinstance(error, InvalidError) and not isinstance(error, UnknownWordError):
        sentence = "; ".join(one.message for one in error.errors) + "."
    return CommandError(f"{where}: {sentence} {_HINTS.get(error.code, error.hint)}")


def count_rows(sentences: Sequence[Tokenized], texts: Sequence[Text | None]) -> Totals:
    """Return the totals of rows."""
    counts = TokenCounts(sentences)
    missing = sum(text is None for text in texts)
    return Totals(len(texts), counts.tokens, counts.oov, counts.truncated, missing)
