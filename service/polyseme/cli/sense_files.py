"""The sentences of files that have a word, and tables of its occurrences with their senses."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from polyseme.atomic_files import atomic_files
from polyseme.models.model import Model
from polyseme.operations.inventory import ApplySensesRequest, SenseInventory, apply_senses
from polyseme.operations.occurrences import WordForms
from polyseme.progress import ConsoleProgress

MAX_CHARACTERS = 2000
"""Maximum characters of a sentence to keep: of a longer one, those around the first occurrence."""
TABLES = (".parquet", ".csv", ".jsonl")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_AT_ONCE = 1024
"""Sentences whose occurrences are assigned together."""


class Sentence(NamedTuple):
    """A sentence with the word, and where it is."""

    file: str
    row: int
    text: str


class SentenceSource:
    """The sentences with a word or one of its forms, read from files."""

    def __init__(self, paths: Sequence[Path], column: str, word: WordForms) -> None:
        from polyseme.bulk.sources import find_files

        self.files = [file for path in paths for file in find_files(path)]
        self.column, self.word = column, word
        forms = sorted(set(word.forms))
        spelled = "|".join(r"\s+".join(map(re.escape, form.split())) for form in forms)
        flags = 0 if word.exact else re.IGNORECASE
        self.pattern = re.compile(rf"(?<!\w)(?:{spelled})(?!\w)", flags)

    def sentences(self, stage: str) -> Iterator[Sentence]:
        """Yield the sentences of all files."""
        from polyseme.bulk.sources import read_texts

        texts = read_texts(self.files, self.column, ConsoleProgress(), stage)
        for name, row, text in texts:
            if not self.pattern.search(text):
                continue
            for sentence in _SENTENCE_END.split(text):
                match = self.pattern.search(sentence)
                if match:
                    end = len(sentence) - MAX_CHARACTERS
                    first = max(min(match.start() - MAX_CHARACTERS // 2, end), 0)
                    yield Sentence(name, row, sentence[first : first + MAX_CHARACTERS].strip())


class TaggedOccurrence(NamedTuple):
    """A row of the table: a sentence with the word, an occurrence in it, and its sense."""

    file: str
    row: int
    text: str
    start: int | None
    end: int | None
    sense: int
    label: str
    confidence: float
    unsure: bool


def tag_sentences(
    source: SentenceSource,
    model: Model,
    inventory: SenseInventory,
    clustered: Mapping[tuple[str, int | None], tuple[int, float]] = {},
) -> Iterator[list[TaggedOccurrence]]:
    """Yield the occurrences of the word with their senses, those of many sentences at a time.

    Occurrences in `clustered`, by sentence and start, have those senses and confidences; others get
    the nearest sense.
    """
    labels = [sense.label for sense in inventory.senses]
    remaining = source.sentences("assigning")
    while sentences := list(islice(remaining, _AT_ONCE)):
        texts = [sentence.text for sentence in sentences]
        request = ApplySensesRequest.of(inventory=inventory, texts=texts)
        rows = []
        for one in apply_senses(model, request).occurrences:
            sentence = sentences[one.text]
            nearest = (one.sense, one.confidence)
            sense, confidence = clustered.get((sentence.text, one.start), nearest)
            span = (one.start, one.end)
            rows.append(
                TaggedOccurrence(*sentence, *span, sense, labels[sense], confidence, one.unsure)
            )
        yield rows


def write_occurrences(path: Path, batches: Iterable[list[TaggedOccurrence]]) -> None:
    """Write a table, whose format is that of the name."""
    import pyarrow as pa
    from pyarrow import csv
    from pyarrow import parquet as pq

    schema = pa.schema(
        [
            *(("file", pa.string()), ("row", pa.int64()), ("text", pa.string())),
            *((name, pa.int32()) for name in ("start", "end", "sense")),
            *(("label", pa.string()), ("confidence", pa.float32()), ("unsure", pa.bool_())),
        ]
    )
    with atomic_files(path) as (file,), ExitStack() as stack:
        if path.suffix.lower() == ".jsonl":

            def write(batch: Any) -> None:
                file.writelines(orjson.dumps(row) + b"\n" for row in batch.to_pylist())

        elif path.suffix.lower() == ".csv":
            write = stack.enter_context(csv.CSVWriter(file, schema)).write_batch
        else:
            writer = pq.ParquetWriter(file, schema, compression="zstd")
            write = stack.enter_context(writer).write_batch
        for rows in batches:
            columns = zip(*rows, strict=True) if rows else [()] * len(schema)
            arrays = [pa.array(*pair) for pair in zip(columns, schema.types, strict=True)]
            write(pa.RecordBatch.from_arrays(arrays, schema=schema))
