"""Read the text files of data sets, and index the occurrences of words in their sentences.

An archive is read member by member and never extracted, so no name in it is used as a path.
"""

import hashlib
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

import numpy as np

from polyseme.engine.arrays import Floats, Integers
from polyseme.errors import CommandError

Files: TypeAlias = dict[str, list[str]]
"""The lines of each text file by its name, such as `coarsewsd/bank/test.data.txt`."""
Words: TypeAlias = tuple[str, ...]
"""A tokenized sentence."""
Knows: TypeAlias = Callable[[Sequence[str]], list[bool]]
"""A function that returns whether each word has a vector."""
ENDINGS = (".data.txt", ".gold.txt", "classes_map.txt")
"""Endings of the files to read; other files, such as licenses, are ignored."""
ARCHIVES = (".tar.xz", ".tar.gz", ".tar.bz2", ".tar")
MAX_FILE_BYTES, MAX_TOTAL_BYTES, MAX_FILES = 64 << 20, 512 << 20, 10_000
"""Limits on the size of a file, and on the total size and the number of members of an archive. All
sets are far below them."""
MAX_DEPTH = 3
"""Levels of subfolders to search for an extracted set."""
_BROKEN = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError, ValueError)


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
    distinct = dict.fromkeys(occurrences)
    return {occurrence: number for number, occurrence in enumerate(distinct)}


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
    for ending in ARCHIVES:
        archive = directory / f"{name}{ending}"
        if archive.is_file():
            return read_archive(archive)
    folder = directory / name if (directory / name).is_dir() else directory
    patterns = ["*/" * depth + f"*{end}" for depth in range(MAX_DEPTH + 1) for end in ENDINGS]
    files: Files = {}
    for path in sorted(path for pattern in patterns for path in folder.glob(pattern)):
        # A link to a file outside the folder is ignored.
        if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
            place = path.relative_to(folder).as_posix()
            files[place] = read_text_lines(path, place)
    if not files:
        raise CommandError(
            f"The folder has neither {name}.tar.xz (or another .tar) nor the extracted"
            " files of that set; docs/training.md has the download addresses."
        )
    return files


def read_archive(archive: Path) -> Files:
    """Read the text files of an archive; raise CommandError if it is invalid.

    It is invalid if it is damaged or oversized, or if it has an unsafe path or a file twice.
    """
    too_large = CommandError(
        f"{archive.name} is larger than any evaluation set: more than {MAX_FILES:,} files,"
        f" {MAX_FILE_BYTES >> 20} MiB in a file or {MAX_TOTAL_BYTES >> 20} MiB in total."
    )
    files: Files = {}
    total = 0
    try:
        with tarfile.open(archive) as tar:
            for number, member in enumerate(tar):
                total += member.size
                if member.size > MAX_FILE_BYTES or total > MAX_TOTAL_BYTES or number >= MAX_FILES:
                    raise too_large
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts:
                    raise CommandError(
                        f"{archive.name} has a member with an absolute path or `..`; download the"
                        " original set."
                    )
                file = tar.extractfile(member) if member.isfile() else None
                if file is None or not member.name.endswith(ENDINGS):
                    continue
                if member.name in files:
                    raise CommandError(f"The archive has {member.name} twice; download it again.")
                files[member.name] = split_lines(file.read(), member.name)
            # The checksum is verified at the end of the stream; tarfile stops before.
            while padding := tar.fileobj.read(1 << 20):
                total += len(padding)
                if total > MAX_TOTAL_BYTES:
                    raise too_large
    except _BROKEN:
        raise CommandError(
            f"{archive.name} cannot be read: it is not a tar archive, or is truncated or damaged;"
            " download it again."
        ) from None
    return files


def read_text_lines(path: Path, name: str | None = None) -> list[str]:
    """Return the lines of a text file, decompressed if its name ends in `.xz`.

    Raises CommandError, which has the file's name or another one, if the file is too large, is
    damaged, or is not UTF-8.
    """
    name = name or path.name
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (lzma.LZMAError, EOFError):
        raise CommandError(f"{name} is not an .xz file, or it is damaged.") from None
    if len(data) > MAX_FILE_BYTES:
        raise CommandError(
            f"{name} has more than {MAX_FILE_BYTES >> 20} MiB, unlike any evaluation set."
        )
    return split_lines(data, name)


def read_scored_pairs(path: Path, column: int, columns: str) -> list[tuple[float, str, str]]:
    """Read lines of a number, in a column from 0, and two texts, separated by tabs.

    Lines that are empty or begin with # are skipped. Raises CommandError, which names the columns,
    for another line, or without lines.
    """
    pairs = []
    for number, line in enumerate(read_text_lines(path), 1):
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        try:
            score = float(fields.pop(column))
        except (IndexError, ValueError):
            score = np.nan
        if len(fields) != 2 or not all(fields) or not np.isfinite(score):
            raise CommandError(
                f"{path.name}, line {number}: the line is not {columns}, separated by tabs."
            )
        pairs.append((score, fields[0], fields[1]))
    if not pairs:
        raise CommandError(f"{path.name} has no pairs.")
    return pairs


def split_lines(data: bytes, name: str) -> list[str]:
    """Return the lines of UTF-8 text; raise CommandError if it is none."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CommandError(f"{name} is not UTF-8 text.") from None
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def fingerprint(files: Files) -> str:
    """Return the sha256 of a set's files, equal for an archive and its extracted files."""
    short = {name: "/".join(PurePosixPath(name).parts[-2:]) for name in files}
    digest = hashlib.sha256()
    for name in sorted(files, key=short.__getitem__):
        digest.update("\n".join([short[name], *files[name], ""]).encode())
    return digest.hexdigest()
