"""A sample of texts, which tells the frequencies of words and how senses are found."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.progress import SILENT, Progress
from polyseme.tokenizer import Text, is_unspaced, segments, spellings, words_of

MAX_TEXTS = 100_000
"""Maximum number of texts in a sample."""
MAX_CHARACTERS = 2000
"""Longer texts are divided into parts of this length."""
MAX_WORDS = 400
"""Longer lists of words are divided into parts of this length."""
MAX_STRATA, SEED = 8, 1
_UNSEGMENTED = (
    "Warning: the texts are in a script without spaces, and most of their words are not in the"
    " vocabulary; segment the texts, with spaces between words, or give texts of its language."
)


class StratifiedSample:
    """A random sample of texts in which each stratum has the same share, as far as it has texts.

    The strata are the forms of a word: names such as the Bank of America would otherwise leave few
    occurrences of a bank of a river. Each has a reservoir (Vitter 1985), so memory is bounded.
    """

    def __init__(self, size: int) -> None:
        self.size, self.total = size, 0
        self._rng = np.random.default_rng(SEED)
        self._strata: dict[str, list[Text]] = {}
        self._counts: dict[str, int] = {}

    def add(self, stratum: str, text: Text) -> None:
        """Add a text."""
        if stratum not in self._strata and len(self._strata) >= MAX_STRATA:
            stratum = ""
        reservoir = self._strata.setdefault(stratum, [])
        count = self._counts[stratum] = self._counts.get(stratum, 0) + 1
        self.total += 1
        if len(reservoir) < self.size:
            reservoir.append(text)
        elif (index := int(self._rng.integers(count))) < self.size:
            reservoir[index] = text

    def texts(self) -> list[Text]:
        """Return the sample: at most `size` texts."""
        drawn: list[Text] = []
        left = self.size
        strata = sorted(self._strata.values(), key=len)
        for i, reservoir in enumerate(strata):
            share = left // (len(strata) - i)
            # A reservoir is in random order only where texts were replaced.
            chosen = np.sort(self._rng.permutation(len(reservoir))[:share])
            drawn += [reservoir[index] for index in chosen]
            left -= len(chosen)
        return drawn


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
