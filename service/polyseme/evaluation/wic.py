"""WiC (Pilehvar & Camacho-Collados 2019): whether a word means the same in two sentences.

The cosine of the two occurrences against a threshold, the one that is best on train.
"""

import re
from dataclasses import dataclass

import numpy as np

from polyseme.engine.arrays import Flags, Floats, unit
from polyseme.evaluation.bootstrap import Figure, draws
from polyseme.evaluation.files import Files
from polyseme.evaluation.occurrences import Embedder, Occurrence
from polyseme.evaluation.refusal import EvaluationError
from polyseme.evaluation.wish import Split

_FIELDS = 5


@dataclass(frozen=True)
class Pairs:
    """Pairs of occurrences, and whether both mean the same."""

    occurrences: list[tuple[Occurrence, Occurrence]]
    same: Flags
    """[m]"""


@dataclass(frozen=True)
class InContext:
    """What was measured; the threshold is that of the first embedder."""

    train: float
    """in %"""
    accuracy: Figure
    threshold: float

    def rounded(self, split: Split = "dev") -> dict[str, float]:
        """The figures in %, as models keep them in their manifest."""
        return {"train_accuracy": self.train, f"{split}_accuracy": self.accuracy.value}


def wic(files: Files, *embedders: Embedder, split: Split = "dev") -> InContext:
    """Measure the vectors of an embedder, or of several as the mean of their figures.

    `files` are `evaluation_files(directory, "wic")`. Raises EvaluationError where they are not
    WiC's, or lack the split.
    """
    train, measured = pairs_of(files, "train"), pairs_of(files, split)
    best, right, thresholds = [], [], []
    for embed in embedders:
        threshold, accuracy = best_threshold(_cosines(train, embed), train.same)
        thresholds.append(threshold)
        best.append(accuracy)
        right.append((_cosines(measured, embed) >= threshold) == measured.same)
    of_pair = np.mean(right, axis=0)
    resampled = draws(len(of_pair)) @ of_pair / len(of_pair)
    figure = Figure.of(float(of_pair.mean()), resampled)
    return InContext(round(100 * float(np.mean(best)), 2), figure, thresholds[0])


def best_threshold(cosines: Floats, same: Flags) -> tuple[float, float]:
    """The cosine from which on a pair is best taken for the same, and the accuracy. [m], [m]

    The lowest one where several do equally well.
    """
    order = np.argsort(cosines)
    thresholds, first = np.unique(cosines[order], return_index=True)
    below = np.concatenate([[0], np.cumsum(~same[order])])[first]  # others, and rightly so
    above = same.sum() - np.concatenate([[0], np.cumsum(same[order])])[first]
    best = int(np.argmax(below + above))
    return float(thresholds[best]), float(below[best] + above[best]) / len(same)


def _cosines(pairs: Pairs, embed: Embedder) -> Floats:
    sides = [embed([pair[side] for pair in pairs.occurrences]) for side in (0, 1)]
    both = np.stack(sides, axis=1)  # [m, 2, d]
    return np.array([float(a @ b) for a, b in map(unit, both)])


def occurrences_in(files: Files, split: Split = "dev") -> list[Occurrence]:
    """Every occurrence that needs a vector."""
    parts = (pairs_of(files, "train"), pairs_of(files, split))
    return [one for part in parts for pair in part.occurrences for one in pair]


def pairs_of(files: Files, split: str) -> Pairs:
    """The pairs of a split; raise EvaluationError where it is missing or wrong."""
    data, gold = (_name(files, split, kind) for kind in ("data", "gold"))
    if len(files[data]) != len(files[gold]) or not files[data]:
        raise EvaluationError(
            f"{gold} has {len(files[gold])} labels for {len(files[data])} pairs in {data}."
        )
    for number, label in enumerate(files[gold], 1):
        if label not in {"T", "F"}:
            raise EvaluationError(f"{gold}, line {number}: a label is T or F.")
    pairs = [pair_of(line, f"{data}, line {n}") for n, line in enumerate(files[data], 1)]
    return Pairs(pairs, np.array(files[gold]) == "T")


def _name(files: Files, split: str, kind: str) -> str:
    ending = f"{split}/{split}.{kind}.txt"
    found = [name for name in files if name == ending or name.endswith(f"/{ending}")]
    if not found:
        raise EvaluationError(
            f"The set has no {ending}: it is not WiC, or that part was not published with it."
        )
    return found[0]


def pair_of(line: str, where: str) -> tuple[Occurrence, Occurrence]:
    """The pair of a line; raise EvaluationError where it is none.

    Word, part of speech, both places as `2-1`, both sentences, with tabs between.
    """
    fields = line.split("\t")
    places = re.fullmatch(r"([0-9]{1,6})-([0-9]{1,6})", fields[2] if len(fields) == _FIELDS else "")
    if places:
        words = [tuple(text.split()) for text in fields[3:]]
        first, second = (Occurrence(w, int(p)) for w, p in zip(words, places.groups(), strict=True))
        if all(one.place < len(one.words) for one in (first, second)):
            return first, second
    raise EvaluationError(
        f"{where}: it is not word, part of speech, two places, two sentences, with tabs between."
    )
