"""The words of a model, and the row of each.

The text stays on disk, mapped into memory; the index is a trie (marisa-trie), which costs every
worker about a tenth of what a dict of Python strings does (docs/decisions/0004).
"""

import mmap
from pathlib import Path

import marisa_trie
import numpy as np
from numpy.typing import NDArray

from service.errors import ModelFolderError


class Vocabulary:
    """Words by row and rows by word."""

    def __init__(self, text: bytes | mmap.mmap) -> None:
        """Index a vocabulary: one word a line, UTF-8, each line ended by a line feed."""
        self._text = text
        newlines = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        if not len(newlines) or newlines[-1] != len(text) - 1:
            raise ModelFolderError("vocabulary.txt is empty or does not end with a line feed.")
        self._starts: NDArray[np.int64] = np.concatenate([[0], newlines + 1])
        words = _decoded(bytes(text))
        self._trie = marisa_trie.Trie([_key(word) for word in words])
        if len(self._trie) != len(words):
            raise ModelFolderError(f"vocabulary.txt has a word twice, in line {_repeated(words)}.")
        rows = np.empty(len(words), np.int32)
        rows[[self._trie[_key(word)] for word in words]] = np.arange(len(words))
        self._rows = rows.data

    @classmethod
    def read(cls, path: Path) -> "Vocabulary":
        """Map a file and index it; raise ModelFolderError where it is not a vocabulary."""
        try:
            with path.open("rb") as file:
                if not path.stat().st_size:
                    raise ModelFolderError("vocabulary.txt is empty.")
                text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError:
            raise ModelFolderError("vocabulary.txt cannot be read.") from None
        return cls(text)

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, word: str) -> int | None:
        """Return the row of a word as it is spelled, None where it is lacking."""
        if "\n" in word:
            return None
        try:
            found = self._trie.get(_key(word))
        except UnicodeEncodeError:  # half a surrogate pair, which no text on disk has
            return None
        return None if found is None else self._rows[found]

    def word(self, row: int) -> str:
        """Return the word of a row."""
        return bytes(self._text[self._starts[row] : self._starts[row + 1] - 1]).decode()


def _key(word: str) -> str:
    """A word as the trie has it: the trie ends a key at a NUL, and no word has a line feed."""
    return word.replace("\0", "\n")


def _decoded(text: bytes) -> list[str]:
    try:
        words = text.decode().split("\n")[:-1]
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise ModelFolderError(f"vocabulary.txt is not UTF-8 in line {line}.") from None
    if "" in words:
        raise ModelFolderError(f"vocabulary.txt has no word in line {words.index('') + 1}.")
    return words


def _repeated(words: list[str]) -> int:
    seen: set[str] = set()
    for number, word in enumerate(words, 1):
        if word in seen:
            return number
        seen.add(word)
    return 0
