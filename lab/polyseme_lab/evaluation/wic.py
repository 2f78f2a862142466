"""WiC (Pilehvar & Camacho-Collados 2019): whether a word has the same meaning in two sentences.

The prediction compares the cosine of both occurrences with the threshold that is best on train.
"""

import re
from typing import NamedTuple

import numpy as np

from polyseme.engine import Flags, Floats, unit
from polyseme.errors import CommandError
from polyseme_lab.evaluation.datasets import Embedder, Files, TokenizedOccurrence
from polyseme_lab.evaluation.statistics import IntervalEstimate
from polyseme_lab.evaluation.systems import Split


class Pairs(NamedTuple):
    """Pairs of occurrences and whether both have the same meaning."""

    occurrences: list[tuple[TokenizedOccurrence, TokenizedOccurrence]]
    same: Flags
    """[m]"""


class WicResult(NamedTuple):
    """The measures of a system."""

    train: float
    """accuracy on train in %"""
    accuracy: IntervalEstimate
    threshold: float
    """threshold of the first embedder"""


def wic(files: Files, *embedders: Embedder, split: Split = "dev") -> WicResult:
    """Evaluate embedders and average their measures.

    `files` is the result of `read_data_set(directory, "wic")`. Raises CommandError if the files are
    not those of WiC, or lack the split.
    """
    train, measured = pairs_of(files, "train"), pairs_of(files, split)
    best, right, thresholds = [], [], []
    for embed in embedders:
        threshold, accuracy = best_threshold(_cosines(train, embed), train.same)
        thresholds.append(threshold)
        best.append(accuracy)
        right.append((_cosines(measured, embed) >= threshold) == measured.same)
    figure = IntervalEstimate.of_mean(np.mean(right, axis=0))
    return WicResult(round(100 * float(np.mean(best)), 2), figure, thresholds[0])


def best_threshold(cosines: Floats, same: Flags) -> tuple[float, float]:
    """Return the lowest threshold with the best accuracy, and the accuracy. [m], [m]

    The thresholds are the cosines, and a number above all of them.
    """
    order = np.argsort(cosines)
    thresholds, first = np.unique(cosines[order], return_index=True)
    thresholds = np.append(thresholds, np.nextafter(thresholds[-1], np.inf))
    first = np.append(first, len(cosines))
    # The number of correct pairs: different ones below the threshold, same ones at or above it.
    below = np.concatenate([[0], np.cumsum(~same[order])])[first]
    above = same.sum() - np.concatenate([[0], np.cumsum(same[order])])[first]
    best = int(np.argmax(below + above))
    return float(thresholds[best]), float(below[best] + above[best]) / len(same)


def _cosines(pairs: Pairs, embed: Embedder) -> Floats:
    sides = [embed([pair[side] for pair in pairs.occurrences]) for side in (0, 1)]
    both = np.stack(sides, axis=1)  # [m, 2, d]
    return np.array([float(a @ b) for a, b in map(unit, both)])


def occurrences_in(files: Files, split: Split = "dev") -> list[TokenizedOccurrence]:
    """Return all occurrences that need a vector."""
    parts = (pairs_of(files, "train"), pairs_of(files, split))
    return [occurrence for part in parts for pair in part.occurrences for occurrence in pair]


def pairs_of(files: Files, split: str) -> Pairs:
    """Return the pairs of a split; raise CommandError if it is missing or invalid."""
    names = []
    for kind in ("data", "gold"):
        ending = f"{split}/{split}.{kind}.txt"
        matches = [name for name in files if name == ending or name.endswith(f"/{ending}")]
        if not matches:
            raise CommandError(
                f"The set has no {ending}: it is not WiC, or was published without that file."
            )
        names.append(matches[0])
    data, gold = names
    if len(files[data]) != len(files[gold]) or not files[data]:
        raise CommandError(
            f"{gold} has {len(files[gold])} labels for {len(files[data])} pairs in {data}."
        )
    for number, label in enumerate(files[gold], 1):
        if label not in {"T", "F"}:
            raise CommandError(f"{gold}, line {number}: the label is not T or F.")
    pairs = [parse_pair(line, f"{data}, line {n}") for n, line in enumerate(files[data], 1)]
    return Pairs(pairs, np.array(files[gold]) == "T")


def parse_pair(line: str, where: str) -> tuple[TokenizedOccurrence, TokenizedOccurrence]:
    """Parse a line; raise CommandError if it is invalid.

    The fields are the word, its part of speech, both positions as in `2-1`, and both sentences.
    """
    fields = line.split("\t")
    places = re.fullmatch(r"([0-9]{1,6})-([0-9]{1,6})", fields[2] if len(fields) == 5 else "")
    if places:
        words = [tuple(text.split()) for text in fields[3:]]
        first, second = (
            TokenizedOccurrence(w, int(p)) for w, p in zip(words, places.groups(), strict=True)
        )
        if first.place < len(first.words) and second.place < len(second.words):
            return first, second
    raise CommandError(
        f"{where}: the line is not a word, its part of speech, two positions and two sentences,"
        " separated by tabs."
    )
