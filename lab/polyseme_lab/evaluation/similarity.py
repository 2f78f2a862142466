"""WordSim-353 and SimLex-999: the rank correlation of static cosines with human judgments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from polyseme.engine.arrays import Flags, Floats, unit
from polyseme.errors import CommandError
from polyseme_lab.evaluation.datasets import MAX_FILE_BYTES
from polyseme_lab.evaluation.statistics import IntervalEstimate, bootstrap, rank_correlation

SETS = {"wordsim353.tsv": "WordSim-353", "simlex999.txt": "SimLex-999"}
MIN_PAIRS = 10
"""Minimum number of pairs with known words."""
Lookup: TypeAlias = Callable[[Sequence[str]], tuple[Floats, Flags]]
"""A function from words to their static vectors and whether each is known. -> [m, d], [m]"""


class JudgedPair(NamedTuple):
    """Two words and the human judgment of their similarity."""

    first: str
    second: str
    judgment: float


@dataclass(frozen=True)
class SimilarityResult:
    """The result on one set."""

    spearman: IntervalEstimate
    """the rank correlation × 100"""
    pairs: int
    """pairs with two known words"""
    lacking: int
    """pairs skipped because a word is unknown"""


def judged_pairs(directory: Path) -> dict[str, list[JudgedPair]]:
    """Read the sets in a folder, by title. Raises CommandError for no set or an invalid one."""
    found = {
        title: _pairs(directory / name)
        for name, title in SETS.items()
        if (directory / name).is_file()
    }
    if not found:
        raise CommandError(f"The folder has neither {' nor '.join(SETS)}.")
    return found


def similarity(pairs: Sequence[JudgedPair], lookup: Lookup) -> SimilarityResult:
    """Return Spearman's correlation of cosines with human judgments, over pairs of known words.

    Raises CommandError if there are too few such pairs, or all are equally similar.
    """
    words = list(dict.fromkeys(word for pair in pairs for word in pair[:2]))
    vectors, known = lookup(words)
    places = {word: place for place, word in enumerate(words) if known[place]}
    kept = [pair for pair in pairs if pair.first in places and pair.second in places]
    if len(kept) < MIN_PAIRS:
        raise CommandError(
            f"The model knows both words of only {len(kept)} of {len(pairs)} pairs, which is too"
            " few for a correlation."
        )
    sides = [p.first for p in kept], [p.second for p in kept]
    first, second = [unit(vectors[[places[word] for word in side]]) for side in sides]
    cosines = (first.astype(np.float64) * second).sum(axis=1)
    judgments = np.array([pair.judgment for pair in kept])
    if not np.ptp(cosines) or not np.ptp(judgments):
        raise CommandError("All pairs are equally similar, so they have no order to compare.")

    def agreement(rows: Sequence[int] | np.ndarray) -> float:
        return rank_correlation(cosines[rows], judgments[rows])

    figure = IntervalEstimate.from_resamples(
        agreement(np.arange(len(kept))), bootstrap(agreement, len(kept))
    )
    return SimilarityResult(figure, len(kept), len(pairs) - len(kept))


def _pairs(path: Path) -> list[JudgedPair]:
    """Read lines of two words and a number, separated by tabs; skip empty and `#` lines."""
    if path.stat().st_size > MAX_FILE_BYTES:
        raise CommandError(
            f"{path.name} has more than {MAX_FILE_BYTES >> 20} MiB, unlike any evaluation set."
        )
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise CommandError(f"{path.name} is not UTF-8 text.") from None
    rows = [(n, line) for n, line in enumerate(lines, 1) if line and not line.startswith("#")]
    if not rows:
        raise CommandError(f"{path.name} has no pairs.")
    return [_pair(line, f"{path.name}, line {number}") for number, line in rows]


def _pair(line: str, where: str) -> JudgedPair:
    fields = line.split("\t")
    try:
        first, second, judgment = fields[0], fields[1], float(fields[2])
        good = len(fields) == len(JudgedPair._fields) and first and second
        if good and np.isfinite(judgment):
            return JudgedPair(first, second, judgment)
    except (IndexError, ValueError):
        pass
    raise CommandError(f"{where}: the line is not two words and a number, separated by tabs.")
