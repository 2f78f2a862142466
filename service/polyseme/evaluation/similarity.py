"""WordSim-353 and SimLex-999: whether static cosines order pairs of words as people do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.stats import spearmanr

from polyseme.engine.arrays import Flags, Floats, unit
from polyseme.evaluation.bootstrap import Figure, resampled
from polyseme.evaluation.files import LARGEST
from polyseme.evaluation.refusal import EvaluationError

SETS = {"wordsim353.tsv": "WordSim-353", "simlex999.txt": "SimLex-999"}
FEWEST = 10
"""Pairs with both words, below which no correlation is told."""
Lookup: TypeAlias = Callable[[Sequence[str]], tuple[Floats, Flags]]
"""The static vectors of words, and which of them there are. -> [m, d], [m]"""


class Judged(NamedTuple):
    """Two words, and how similar people find them."""

    first: str
    second: str
    judgement: float


@dataclass(frozen=True)
class Agreement:
    """What was measured on one set."""

    spearman: Figure
    """the rank correlation, in %"""
    pairs: int
    """of which both words have a vector"""
    lacking: int
    """pairs that were left out"""


def judged_pairs(directory: Path) -> dict[str, list[Judged]]:
    """The sets of a folder by name; raise EvaluationError where there are none, or one is wrong."""
    found = {
        title: _pairs(directory / name)
        for name, title in SETS.items()
        if (directory / name).is_file()
    }
    if not found:
        raise EvaluationError(f"The folder has neither {' nor '.join(SETS)}.")
    return found


def similarity(pairs: Sequence[Judged], lookup: Lookup) -> Agreement:
    """Spearman's correlation of the cosines with people's judgement, over pairs that are known.

    Raises EvaluationError where the vocabulary has too few of them, or nothing varies.
    """
    words = list(dict.fromkeys(word for pair in pairs for word in pair[:2]))
    vectors, known = lookup(words)
    places = {word: place for place, word in enumerate(words) if known[place]}
    kept = [pair for pair in pairs if pair.first in places and pair.second in places]
    if len(kept) < FEWEST:
        raise EvaluationError(
            f"The model has both words of {len(kept)} of {len(pairs)} pairs: too few to tell."
        )
    sides = [p.first for p in kept], [p.second for p in kept]
    first, second = [unit(vectors[[places[word] for word in side]]) for side in sides]
    cosines = (first.astype(np.float64) * second).sum(axis=1)
    judgements = np.array([pair.judgement for pair in kept])
    if not np.ptp(cosines) or not np.ptp(judgements):
        raise EvaluationError("All pairs are equally similar: there is no order to compare.")

    def agreement(rows: Sequence[int] | np.ndarray) -> float:
        return float(spearmanr(cosines[rows], judgements[rows]).statistic)

    figure = Figure.of(agreement(np.arange(len(kept))), resampled(agreement, len(kept)))
    return Agreement(figure, len(kept), len(pairs) - len(kept))


def _pairs(path: Path) -> list[Judged]:
    """The pairs of a file: two words and a number in each line, with tabs between; # is a note."""
    if path.stat().st_size > LARGEST:
        raise EvaluationError(f"{path.name} has more than {LARGEST >> 20} MB; no such set has.")
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise EvaluationError(f"{path.name} is not UTF-8 text.") from None
    rows = [(n, line) for n, line in enumerate(lines, 1) if line and not line.startswith("#")]
    if not rows:
        raise EvaluationError(f"{path.name} has no pairs.")
    return [_pair(line, f"{path.name}, line {number}") for number, line in rows]


def _pair(line: str, where: str) -> Judged:
    fields = line.split("\t")
    try:
        first, second, judgement = fields[0], fields[1], float(fields[2])
        good = len(fields) == len(Judged._fields) and first and second
        if good and np.isfinite(judgement):
            return Judged(first, second, judgement)
    except (IndexError, ValueError):
        pass
    raise EvaluationError(f"{where}: it is not two words and a number, with tabs between.")
