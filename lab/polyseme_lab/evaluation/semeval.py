"""SemEval-2013 task 13 (Jurgens & Klapaftis 2013): its files, and its measures of found senses.

An occurrence may have several senses, each with a weight from 0 to 1. The measures compare two
matrices of weights, the gold one and the found one. A matrix has one row for each occurrence and
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
from polyseme_lab.evaluation.datasets import MAX_FILE_BYTES, TokenizedOccurrence
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
    ratings = parse_key(_text(directory / KEY), KEY)
    contexts = dict(_INSTANCE.findall(_text(directory / CONTEXTS)))
    found = []
    for term, rated in ratings.items():
        if lacking := [name for name in rated if name not in contexts]:
            raise CommandError(f"{CONTEXTS} lacks {lacking[0]}, which {KEY} rates.")
        occurrences = [_occurrence(name, contexts[name]) for name in rated]
        found.append(RatedTerm(term, occurrences, weights_of(list(rated.values()))))
    return found


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise CommandError(f"{path.name} has more than {MAX_FILE_BYTES >> 20} MiB.")
        return path.read_text("utf-8")
    except OSError:
        raise CommandError(f"{path.name} cannot be read; get the set again.") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path.name} is not UTF-8 text.") from None


def _occurrence(name: str, context: str) -> TokenizedOccurrence:
    parts = _HEAD.fullmatch(context)
    if not parts or not parts[2].strip():
        raise CommandError(f"{CONTEXTS}: {name} has no word in <head>.")
    before, head, after = map(html.unescape, parts.groups())
    first, rest = (tuple(text[a:b] for a, b in words(text)) for text in (before, after))
    return TokenizedOccurrence((*first, head.strip(), *rest), len(first))


def parse_key(text: str, name: str) -> Ratings:
    """Parse lines `term occurrence sense/weight sense/weight …`; `!!` begins a comment.

    The weights of an occurrence are divided by the largest; all are 1 if one is not given. Raises
    CommandError for a line of another form.
    """
    found: Ratings = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.partition("!!")[0].split()
        if not fields:
            continue
        try:
            given = dict(map(_weighted, fields[2:]))
        except ValueError:
            given = {}
        if not given:
            raise CommandError(
                f"{name}, line {number} is not a term, an occurrence and weighted senses."
            )
        weights = [1.0 if None in given.values() else weight or 1.0 for weight in given.values()]
        rated = {sense: one / max(weights) for sense, one in zip(given, weights, strict=True)}
        found.setdefault(fields[0], {})[fields[1]] = rated
    if not found:
        raise CommandError(f"{name} rates no occurrence.")
    return found


def _weighted(field: str) -> tuple[str, float | None]:
    """Parse `sense/weight` or `sense`; raise ValueError if the weight is not a positive number."""
    sense, slash, text = field.partition("/")
    weight = float(text) if slash else None
    if weight is not None and not 0 < weight < np.inf:
        raise ValueError
    return sense, weight


def weights_of(rated: Sequence[Mapping[str, float]]) -> Floats:
    """Return the weights of occurrences as a matrix, the senses sorted by name. -> [m, s]"""
    senses = sorted({sense for one in rated for sense in one})
    return np.array([[one.get(sense, 0.0) for sense in senses] for one in rated])


def one_hot(labels: Integers) -> Floats:
    """Return the weights of occurrences that have one sense each. [m] -> [m, s]"""
    weights: Floats = (labels[:, None] == np.unique(labels)).astype(np.float64)
    return weights


# Fuzzy B-Cubed


def fuzzy_b_cubed(gold: Floats, found: Floats) -> tuple[float, float]:
    """Return precision and recall of fuzzy B-Cubed (Jurgens & Klapaftis 2013). [m, s], [m, t]

    The agreement C(i, j) of two occurrences is the sum of 1 − |w_i − w_j| over the senses that both
    have. The precision of i is the mean of min(C_gold, C_found) / C_gold over the other occurrences
    that share a gold sense with it, 0 if there are none; the recall is that of
    min(C_gold, C_found) / C_found over those that share a found sense. Both are means over i.
    """
    agreements = [_agreement(weights) for weights in (gold, found)]
    least = np.minimum(*agreements)
    precision, recall = (_mean_share(least, one) for one in agreements)
    return precision, recall


def _agreement(weights: Floats) -> Floats:
    """[m, s] -> [m, m], with zeros on the diagonal."""
    total = np.zeros((len(weights), len(weights)))
    for column in weights.T:
        both = np.logical_and.outer(column > 0, column > 0)
        total += both * (1 - np.abs(np.subtract.outer(column, column)))
    np.fill_diagonal(total, 0)
    return total


def _mean_share(least: Floats, agreement: Floats) -> float:
    shared = agreement > 0
    shares = np.divide(least, agreement, out=np.zeros_like(least), where=shared)
    return float((shares.sum(axis=1) / np.maximum(shared.sum(axis=1), 1)).mean())


def f_score(precision: float, recall: float) -> float:
    """Return the harmonic mean; 0 if both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


# Fuzzy normalized mutual information


def fuzzy_nmi(gold: Floats, found: Floats) -> float:
    """Return fuzzy normalized mutual information (Jurgens & Klapaftis 2013). [m, s], [m, t]

    It extends the NMI of overlapping clusters (Lancichinetti et al. 2009) to weights, which are
    divided into BINS intervals: ½ · (H(X) − H(X|Y) + H(Y) − H(Y|X)) / max(H(X), H(Y)). H(X) is the
    sum of the entropies of the senses of X. H(X|Y) is the sum of their least entropies given a
    sense of Y that is not a complement (equation B.14); a sense without one contributes its own
    entropy. The result is 0 if H(X) and H(Y) are 0.
    """
    entropies = [sum(map(_entropy, _bins(one).T)) for one in (gold, found)]
    given = [_conditional(gold, found), _conditional(found, gold)]
    largest = max(entropies)
    return float((sum(entropies) - sum(given)) / (2 * largest)) if largest else 0.0


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
    bins, other = _bins(first), _bins(second)
    total = 0.0
    for number, column in enumerate(bins.T):
        entropies = [
            _entropy(column * BINS + others) - _entropy(others)
            for others, weights in zip(other.T, second.T, strict=True)
            if not _complements(first[:, number] > 0, weights > 0)
        ]
        total += min(entropies, default=_entropy(column))
    return total


def _complements(x: Flags, y: Flags) -> bool:
    """Return whether inequality B.14 is reversed: x is like the complement of y. [m], [m]"""

    def h(share: float) -> float:
        return -share * float(np.log2(share)) if share else 0.0

    same = h(float((x & y).mean())) + h(float((~x & ~y).mean()))
    return same < h(float((x & ~y).mean())) + h(float((~x & y).mean()))


COLUMNS = {"fuzzy_nmi": "fuzzy NMI", "fuzzy_b_cubed": "fuzzy B-Cubed", "both": "√ of the product"}


def figures(terms: Sequence[RatedTerm], found: Iterable[Floats]) -> dict[str, IntervalEstimate]:
    """Return the measures of a system, with intervals from resamples of the terms.

    They are the mean of fuzzy NMI, the harmonic mean of the mean precision and the mean recall of
    fuzzy B-Cubed, and the square root of the product of these two.
    """
    scores = np.array(
        [
            (fuzzy_nmi(term.weights, one), *fuzzy_b_cubed(term.weights, one))
            for term, one in zip(terms, found, strict=True)
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
