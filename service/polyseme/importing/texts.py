"""A sample of texts, which tells the frequencies of words and how senses are found."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import heappush, heappushpop, nlargest
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.spellings import spellings
from polyseme.terminal import SILENT, Progress
from polyseme.tokenizer import Text, as_string, words_of
from polyseme.words import is_unspaced, segments

MAX_TEXTS = 100_000
"""Maximum number of texts in a sample."""
MAX_CHARACTERS = 2000
"""Longer texts are divided into parts of this length."""
MAX_WORDS = 400
"""Longer lists of words are divided into parts of this length."""
_UNSEGMENTED = (
    "Warning: the texts are in a script without spaces, and most of their words are not in the"
    " vocabulary; segment the texts, with spaces between words, or give texts of its language."
)


class StratifiedSample:
    """A random sample of texts in which each stratum has the same share, as far as it has texts.

    The strata are the cases in which a word is written: names such as the Bank of America would
    otherwise leave few occurrences of a bank of a river. Each keeps the texts with the smallest
    hashes, so memory is bounded, and the texts in another order give the same sample. Each copy of
    a text has a hash of its own, at least that of the text, so a sample has fewer copies.
    """

    def __init__(self, size: int) -> None:
        self.size, self.total = size, 0
        self._strata: dict[tuple[bool, ...], list[tuple[int, int, Text]]] = {}
        """heaps of the negated hashes, and the indices, of texts"""
        self._copies = Counter[int]()

    def add(self, word: str, text: Text) -> None:
        """Add a text, in the stratum of a word's case."""
        stratum = word.islower(), word.istitle(), word.isupper()
        heap = self._strata.setdefault(stratum, [])
        self.total += 1
        content = as_string(text).encode("utf-8", "surrogatepass")
        first = _hash(content)
        if len(heap) == self.size and first > -heap[0][0]:
            return
        self._copies[first] += 1
        key = max(first, _hash(content, self._copies[first]))
        entry = -key, self.total, text
        (heappush if len(heap) < self.size else heappushpop)(heap, entry)

    def texts(self) -> list[Text]:
        """Return the sample: at most `size` texts, in the order in which they were added."""
        drawn: list[tuple[int, int, Text]] = []
        left = self.size
        strata = sorted(self._strata.items(), key=lambda item: (len(item[1]), item[0]))
        for i, (_, heap) in enumerate(strata):
            chosen = nlargest(left // (len(strata) - i), heap)
            drawn += chosen
            left -= len(chosen)
        return [text for _, _, text in sorted(drawn, key=itemgetter(1))]


def _hash(content: bytes, copy: int = 0) -> int:
    return int.from_bytes(blake2b(content, digest_size=8, salt=copy.to_bytes(8)).digest())


@dataclass(frozen=True)
class TextSample:
    """A random sample of texts, and facts for the manifest."""

    texts: Sequence[Text]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Iterable[Text], **facts: Any) -> "TextSample":
        """Draw a sample of at most MAX_TEXTS parts of texts."""
        sample = StratifiedSample(MAX_TEXTS)
        for part in _parts(texts):
            sample.add("", part)
        drawn = sample.texts()
        return cls(drawn, {**facts, "texts": sample.total, "sample": len(drawn)})


def _parts(texts: Iterable[Text]) -> Iterator[Text]:
    """Yield the texts, long ones in parts that end at a space if there is one."""
    for text in texts:
        start = 0
        if not isinstance(text, str):
            parts = (text[start : start + MAX_WORDS] for start in range(0, len(text), MAX_WORDS))
            yield from (part for part in parts if any(map(str.strip, part)))
            continue
        while len(text) - start > MAX_CHARACTERS:
            space = text.rfind(" ", start + 1, start + MAX_CHARACTERS)
            end = space if space > 0 else start + MAX_CHARACTERS
            yield text[start:end]
            start = end
        if text[start:].strip():
            yield text[start:]


def count_words(
    texts: Sequence[Text], words: Sequence[str], progress: Progress = SILENT
) -> NDArray[np.int64]:
    """Return how often each word of a vocabulary occurs in texts. -> [V]

    A word of the texts is counted for the entry that the service uses for it: as written, or in
    another case. Texts without spaces are split into entries; a warning says if that is impossible.
    """
    rows = {word: row for row, word in enumerate(words)}
    counts = np.zeros(len(words), np.int64)
    occurrences = Counter(chain.from_iterable(map(words_of, texts)))
    letters = unknown = 0
    for word, count in occurrences.items():
        row = _row(word, rows)
        is_split = row is None and is_unspaced(word)
        for start, end in segments(word, rows.get) if is_split else [(0, len(word))]:
            piece = word[start:end]
            row = _row(piece, rows) if is_split else row
            if row is not None:
                counts[row] += count
            if is_unspaced(piece):
                letters += count * len(piece)
                unknown += count * len(piece) * (row is None)
    if 2 * unknown > letters:
        progress.say(_UNSEGMENTED)
    return counts


def _row(word: str, rows: Mapping[str, int]) -> int | None:
    """Return the row of a word as written, or in another case."""
    if word in rows:
        return rows[word]
    written = (spelling for spelling, _ in spellings(word, "auto"))
    return next((rows[spelling] for spelling in written if spelling in rows), None)
