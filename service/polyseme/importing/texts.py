"""A sample of texts, which tells the frequencies of words and how senses are found."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.tokenizer import spellings
from polyseme.tokenizer import words as word_spans

MAX_TEXTS = 100_000
"""Maximum number of texts in a sample."""
MAX_CHARACTERS = 2000
"""Longer texts are divided into parts of this length."""
SEED = 1


@dataclass(frozen=True)
class TextSample:
    """A random sample of texts, and facts for the manifest."""

    texts: Sequence[str]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Iterable[str], **facts: Any) -> "TextSample":
        """Draw a sample of at most MAX_TEXTS parts of texts."""
        sample, total = draw_sample(_parts(texts), MAX_TEXTS)
        return cls(sample, {**facts, "texts": total, "sample": len(sample)})


def draw_sample(texts: Iterable[str], size: int) -> tuple[list[str], int]:
    """Return a random sample of at most `size` texts, and the number of all texts.

    Reservoir sampling (Vitter 1985) uses the same memory for any number of texts.
    """
    rng = np.random.default_rng(SEED)
    sample: list[str] = []
    total = 0
    for text in texts:
        total += 1
        if len(sample) < size:
            sample.append(text)
        elif (i := int(rng.integers(total))) < size:
            sample[i] = text
    return sample, total


def _parts(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts, long ones in parts that end at a space if there is one."""
    for text in texts:
        start = 0
        while len(text) - start > MAX_CHARACTERS:
            space = text.rfind(" ", start + 1, start + MAX_CHARACTERS)
            end = space if space > 0 else start + MAX_CHARACTERS
            yield text[start:end]
            start = end
        if text[start:].strip():
            yield text[start:]


def count_words(texts: Sequence[str], words: Sequence[str]) -> NDArray[np.int64]:
    """Return how often each word of a vocabulary occurs in texts. -> [V]

    A word of the texts is counted for the entry that the service uses for it: as written, or in
    another case.
    """
    rows = {word: row for row, word in enumerate(words)}
    counts = np.zeros(len(words), np.int64)
    occurrences = Counter(text[start:end] for text in texts for start, end in word_spans(text))
    for word, count in occurrences.items():
        row = rows.get(word)
        if row is None:
            written = (spelling for spelling, _ in spellings(word, "auto"))
            row = next((rows[spelling] for spelling in written if spelling in rows), None)
        if row is not None:
            counts[row] += count
    return counts
