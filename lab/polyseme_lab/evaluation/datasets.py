"""Read the text files of data sets, and index the occurrences of words in their sentences."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

import numpy as np

from polyseme.engine import Floats, Integers
from polyseme.errors import CommandError
from polyseme_lab.files import read_archive, read_text_lines, split_lines

Files: TypeAlias = dict[str, list[str]]
"""The lines of each text file by its name, such as `coarsewsd/bank/test.data.txt`."""
Words: TypeAlias = tuple[str, ...]
"""A tokenized sentence."""
Knows: TypeAlias = Callable[[Sequence[str]], list[bool]]
"""A function that returns whether each word has a vector."""
ENDINGS = (".data.txt", ".gold.txt", "classes_map.txt")
"""Endings of the files to read; other files, such as licenses, are ignored."""
ARCHIVES = (".tar.xz", ".tar.gz", ".tar.bz2", ".tar")


class TokenizedOccurrence(NamedTuple):
    """A word of a tokenized sentence, and its position counted from 0."""

    words: Words
    place: int

    @property
    def word(self) -> str:
        """The word itself."""
        return self.words[self.place]


@dataclass(frozen=True)
class LabeledOccurrences:
    """Occurrences of a word with their senses."""

    name: str
    """the word"""
    occurrences: list[TokenizedOccurrence]
    senses: Integers
    """[m], indices from 0"""


Embedder: TypeAlias = Callable[[Sequence[TokenizedOccurrence]], Floats]
"""A function from occurrences to their vectors. -> [m, d]"""


class OccurrenceVectors:
    """An Embedder that looks up precomputed vectors."""

    def __init__(self, rows: Mapping[TokenizedOccurrence, int], vectors: Floats) -> None:
        self._rows, self._vectors = rows, vectors

    def __call__(self, occurrences: Sequence[TokenizedOccurrence]) -> Floats:
        """Look up the vectors. -> [m, d]"""
        rows = np.array([self._rows[occurrence] for occurrence in occurrences], np.int64)
        return self._vectors[rows]


def number_occurrences(
    occurrences: Iterable[TokenizedOccurrence],
) -> dict[TokenizedOccurrence, int]:
    """Number the distinct occurrences. The numbers are the rows of an OccurrenceVectors."""
    return {occurrence: number for number, occurrence in enumerate(dict.fromkeys(occurrences))}


def by_sentence(
    rows: Mapping[TokenizedOccurrence, int],
) -> dict[Words, tuple[list[int], list[int]]]:
    """Return the positions and the rows of the occurrences in each sentence."""
    sentences: dict[Words, tuple[list[int], list[int]]] = {}
    for occurrence, row in rows.items():
        places, numbers = sentences.setdefault(occurrence.words, ([], []))
        places.append(occurrence.place)
        numbers.append(row)
    return sentences


def read_data_set(directory: Path, name: str) -> Files:
    """Read a set from its archive in the folder, else from the folder NAME or the folder itself.

    Raises CommandError if there is neither an archive nor a file, or for an invalid one.
    """
    for archive in (directory / f"{name}{ending}" for ending in ARCHIVES):
        if archive.is_file():
            contents = read_archive(archive, ENDINGS)
            return {file: split_lines(data, file) for file, data in contents}
    folder = directory / name if (directory / name).is_dir() else directory
    paths = sorted(path for path in folder.rglob("*.txt") if path.name.endswith(ENDINGS))
    if not paths:
        raise CommandError(
            f"The folder has neither {name}.tar.xz (or another .tar) nor the extracted"
            " files of that set; docs/training.md has the download addresses."
        )
    return {path.relative_to(folder).as_posix(): read_text_lines(path) for path in paths}


def fingerprint(files: Files) -> str:
    """Return the sha256 of a set's files, equal for an archive and its extracted files."""
    short = {name: "/".join(PurePosixPath(name).parts[-2:]) for name in files}
    digest = hashlib.sha256()
    for name in sorted(files, key=short.__getitem__):
        digest.update("\n".join([short[name], *files[name], ""]).encode())
    return digest.hexdigest()
