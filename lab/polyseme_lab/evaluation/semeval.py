"""SemEval-2013 task 13 (Jurgens & Klapaftis 2013): its files, and its measures of found senses.

An occurrence may have several senses, each with a weight from 0 to 1. The measures compare two
matrices of weights, the gold one and the induced one. A matrix has one row for each occurrence and
one column for each sense. The measures agree with the task's scorer (`FuzzyBCubed`,
`FuzzyNormalizedMutualInformation` in cluster-comparison-tools by D. Jurgens).
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from polyseme.engine.arrays import Flags, Floats, Integers
from polyseme.errors import CommandError
from polyseme.tokenizer import words
from polyseme_lab.evaluation.datasets import TokenizedOccurrence, read_text_lines
from polyseme_lab.evaluation.statistics import IntervalEstimate, resample_counts

FOLDER = "SemEval-2013-Task-13-test-data"
"""The folder in the published archive."""
CONTEXTS = "contexts/senseval2-format/semeval-2013-task-13-test-data.senseval2.xml"
KEY = "keys/gold/all.key"
BINS = 10
"""Number of intervals of weights; the entropies distinguish only intervals, like the scorer."""
# The files have bare ampersands and other errors that an XML parser rejects.
_INSTANCE = re.compile(r'<instance id="([^"]+)"[^>]*>\s*<context>(.*?)</context>', re.DOTALL)
_HEAD = re.compile(r"(.*?)<head>(.*?)</head>(.*)", re.DOTALL)

Ratings: TypeAlias = dict[str, dict[str, dict[str, float]]]
"""The weight of each sense of each occurrence of each term."""


@dataclass(frozen=True)
class RatedTerm:
    """Occurrences of a term, and the weights of their senses."""

    name: str
    occurrences: list[TokenizedOccurrence]
    weights: Floats
    """[m, s]"""


def read_terms(directory: Path) -> list[RatedTerm]:
    """Read the occurrences that have senses; raise CommandError for files of another form."""
    try:
        key, text = ("\n".join(read_text_lines(directory / name)) for name in (KEY, CONTEXTS))
    except OSError as error:
        name = Path(error.filename).name
        raise CommandError(f"{name} cannot be read; get the set again.") from None
    contexts = dict(_INSTANCE.findall(text))
    terms = []
    for term, rated in parse_key(key, KEY).items():
        occurrences = []
        for name in rated:
            if name not in contexts:
                raise CommandError(f"{CONTEXTS} lacks {name}, which {KEY} rates.")
            parts = _HEAD.fullmatch(contexts[name])
            if not parts or not parts[2].strip():
                raise CommandError(f"{CONTEXTS}: {name} has no word in <head>.")
            before, head, after = map(html.unescape, parts.groups())
            first, rest = (tuple(part[a:b] for a, b in words(part)) for part in (before, after))
            occurrences.append(TokenizedOccurrence((*first, head.strip(), *rest), len(first)))
        terms.append(RatedTerm(term, occurrences, weights_of(list(rated.values()))))
    return terms


def parse_key(text: str, name: str) -> Ratings:
    """Parse lines `term occurrence sense/weight sense/weight …`; `!!` begins a comment.

    The weights of an occurrence are divided by the largest; all are 1 if one is not given. Raises
    CommandError for a line of another form.
    """
    ratings: Ratings = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.partition("!!")[0].split()
        if not fields:
            continue
        senses = [field.partition("/") for field in fields[2:]]
        try:
            weights = [float(text) if slash else None for _, slash, text in senses]
        except ValueError:
            weights = []
        if not weights or not all(weight is None or 0 < weight < np.inf for weight in weights):
            raise CommandError(
                f"{name}, line {number} is not a term, an occurrence and weighted senses."
            )
        by_sense = {sense: weight for (sense, *_), weight in zip(senses, weights, strict=True)}
        known = [weight for weight in by_sense.values() if weight is not None]
        ratings.setdefault(fields[0], {})[fields[1]] = {
            sense: 1.0 if weight is None or len(known) < len(by_sense) else weight / max(known)
            for sense, weight in by_sense.items()
        }
    if not ratings:
        raise CommandError(f"{name} rates no occurrence.")
    return ratings


def weights_of(rated: Sequence[Mapping[str, float]]) -> Floats:
    """Return the weights of occurrences as a matrix, the senses sorted by name. -> [m, s]"""
    senses = sorted({sense for ratings in rated for sense in ratings})
    return np.array([[ratings.get(sense, 0.0) for sense in senses] for ratings in rated])


def one_hot(labels: Integers) -> Floats:
    """Return the weights of occurrences that have one sense each. [m] -> [m, s]"""
    weights: Floats = (labels[:, None] == np.unique(labels)).astype(np.float64)
    return weights


# Fuzzy B-Cubed


def fuzzy_b_cubed(gold: Floats, induced: Floats) -> tuple[float, float]:
    """Return precision and recall of fuzzy B-Cubed (Jurgens & Klapaftis 2013). [m, s], [m, t]

    The agreement C(i, j) of two occurrences is the sum of 1 − |w_i − w_j| over the senses that both
    have. The precision of i is the mean of min(C_gold, C_induced) / C_gold over the other
    occurrences that share a gold sense with it, 0 if there are none; the recall is that of
    min(C_gold, C_induced) / C_induced over those that share an induced sense. Both are means over
    i.
    """
    agreements = []
    for weights in (gold, induced):
        agreement = np.zeros((len(weights), len(weights)))
        for column in weights.T:
            both = np.logical_and.outer(column > 0, column > 0)
            agreement += both * (1 - np.abs(np.subtract.outer(column, column)))
        np.fill_diagonal(agreement, 0)
        agreements.append(agreement)
    least = np.minimum(*agreements)
    means = []
    for agreement in agreements:
        shared = agreement > 0
        shares = np.divide(least, agreement, out=np.zeros_like(least), where=shared)
        means.append(float((shares.sum(axis=1) / np.maximum(shared.sum(axis=1), 1)).mean()))
    return means[0], means[1]


def f_score(precision: float, recall: float) -> float:
    """Return the harmonic mean; 0 if both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


# Fuzzy normalized mutual information


def fuzzy_nmi(gold: Floats, induced: Floats) -> float:
    """Return fuzzy normalized mutual information (Jurgens & Klapaftis 2013). [m, s], [m, t]

    It extends the NMI of overlapping clusters (Lancichinetti et al. 2009) to weights, which are
    divided into BINS intervals: ½ · (H(X) − H(X|Y) + H(Y) − H(Y|X)) / max(H(X), H(Y)). H(X) is the
    sum of the entropies of the senses of X. H(X|Y) is the sum of their least entropies given a
    sense of Y that is not a complement (equation B.14); a sense without one contributes its own
    entropy. The result is 0 if H(X) and H(Y) are 0.
    """
    entropies = [sum(map(_entropy, _bins(weights).T)) for weights in (gold, induced)]
    conditional = _conditional(gold, induced) + _conditional(induced, gold)
    largest = max(entropies)
    return float((sum(entropies) - conditional) / (2 * largest)) if largest else 0.0


def _bins(weights: Floats) -> Integers:
    """Return the interval of each weight: 0 for [0, 1/BINS], 1 for (1/BINS, 2/BINS], …"""
    edges = np.arange(1, BINS) / BINS
    bins: Integers = np.searchsorted(edges, weights, side="left")
    return bins


def _entropy(values: Integers) -> float:
    """Return the entropy of the distribution of some values, in bits."""
    shares = np.unique(values, return_counts=True)[1] / len(values)
    return float(-(shares * np.log2(shares)).sum())


def _conditional(first: Floats, second: Floats) -> float:
    """Return H(X|Y). [m, s], [m, t]"""

    def h(mask: Flags) -> float:
        share = float(mask.mean())
        return -share * float(np.log2(share)) if share else 0.0

    bins, other = _bins(first), _bins(second)
    total = 0.0
    for number, column in enumerate(bins.T):
        x = first[:, number] > 0
        entropies = []
        for others, weights in zip(other.T, second.T, strict=True):
            y = weights > 0
            # If inequality B.14 is reversed, x is like the complement of y.
            if h(x & y) + h(~x & ~y) >= h(x & ~y) + h(~x & y):
                entropies.append(_entropy(column * BINS + others) - _entropy(others))
        total += min(entropies, default=_entropy(column))
    return total


COLUMNS = {"fuzzy_nmi": "fuzzy NMI", "fuzzy_b_cubed": "fuzzy B-Cubed", "both": "√ of the product"}


def figures(terms: Sequence[RatedTerm], induced: Iterable[Floats]) -> dict[str, IntervalEstimate]:
    """Return the measures of a system, with intervals from resamples of the terms.

    They are the mean of fuzzy NMI, the harmonic mean of the mean precision and the mean recall of
    fuzzy B-Cubed, and the square root of the product of these two.
    """
    scores = np.array(
        [
            (fuzzy_nmi(term.weights, weights), *fuzzy_b_cubed(term.weights, weights))
            for term, weights in zip(terms, induced, strict=True)
        ]
    )

    def measures(means: Floats) -> list[float]:
        nmi, f = float(means[0]), f_score(float(means[1]), float(means[2]))
        return [nmi, f, float(np.sqrt(max(nmi, 0) * f))]

    n = len(scores)
    resamples = np.array([measures(means) for means in resample_counts(n) @ scores / n])
    return {
        name: IntervalEstimate.from_resamples(value, column)
        for name, value, column in zip(
            COLUMNS, measures(scores.mean(axis=0)), resamples.T, strict=True
        )
    }
