"""Draw random sentences of words of the bundled model; frequent words are drawn more often."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from polyseme.models.model import Model
from polyseme.models.reader import read_model

BUNDLED = Path(__file__).parents[1] / "models" / "wiki-en"
MIN_WORDS, MAX_WORDS = 5, 60
_COMMON = 20_000
_RANK_OFFSET = 10
"""Added to the rank, so that the 100 most frequent words are a third of the text, not half."""


def bundled() -> Model:
    """Read the bundled model without comparing checksums."""
    return read_model(BUNDLED, verify=False)


def sentences(model: Model, lengths: Iterable[int], seed: int = 1) -> list[list[str]]:
    """Draw a sentence of each length, from words that are single tokens."""
    rng = np.random.default_rng(seed)
    words = [model.vocabulary.word(row) for row in range(_COMMON)]
    plain = [word for word in words if word.isascii() and word.isalpha()]
    weights = 1 / (np.arange(len(plain)) + _RANK_OFFSET)
    weights /= weights.sum()
    return [rng.choice(plain, length, p=weights).tolist() for length in lengths]


def lengths(count: int, seed: int = 1) -> list[int]:
    """Draw lengths from 5 to 60, uniformly."""
    rng = np.random.default_rng(seed)
    drawn: list[int] = rng.integers(MIN_WORDS, MAX_WORDS + 1, count).tolist()
    return drawn
