"""Read sentences of a given length from Simple English Wikipedia.

Their words are as they stand in the text: with punctuation, names, and words that the bundled model
does not know. The text is `../shared/data/corpora/simplewiki.txt.zst`.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np

from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme_lab.files import read_lines

BUNDLED = Path(__file__).parents[1] / "models" / "wiki-en"
CORPUS = Path(__file__).parents[2] / "shared" / "data" / "corpora" / "simplewiki.txt.zst"
MIN_WORDS = 5
_READ = 20_000
"""Number of paragraphs that sentences are taken from."""


def bundled() -> Model:
    """Read the bundled model without comparing checksums."""
    return read_model(BUNDLED)


def paragraphs(words: range) -> Iterator[str]:
    """Yield the paragraphs with so many words."""
    for line in read_lines(CORPUS):
        if len(line.split()) in words:
            yield line.strip()


def sentences(lengths: Iterable[int], seed: int = 1) -> list[list[str]]:
    """Return consecutive words for each length; they start with a paragraph, drawn at random.

    A paragraph that is too short is followed by the next one.
    """
    rng, read = np.random.default_rng(seed), _read()
    texts = []
    for length in lengths:
        at, words = int(rng.integers(len(read))), list[str]()
        while len(words) < length:
            words += read[at % len(read)]
            at += 1
        texts.append(words[:length])
    return texts


@lru_cache(1)
def _read() -> list[list[str]]:
    return [text.split() for text in islice(paragraphs(range(MIN_WORDS, 1000)), _READ)]
