"""Cluster occurrences by their contexts, into a given or an estimated number of clusters.

A mixture of von Mises-Fisher distributions (Banerjee et al. 2005), started from SciPy's k-means. A
logistic regression of `statistics` decides whether there are several clusters.
docs/decisions/0022 has the measurements.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyseme.engine import Floats, unit
from polyseme.operations.limits import current_budget
from polyseme.single_thread import SingleThread

MAX_CLUSTERED = 2000
"""Maximum number of vectors to cluster. If there are more, an evenly spaced sample is clustered and
the others are assigned to the nearest cluster."""
MAX_FOUND = 6
"""Largest number of clusters to try if no number is given."""
MIN_OCCURRENCES = 8
"""Fewer occurrences are one sense unless a number is given."""
FURTHER = 0.01
"""How much a further sense has to raise the silhouette; chosen on mixtures of two to five words and
on tagged lemmas."""
MIN_COHESION = 0.01
"""The smallest mean cosine inside a cluster to divide by, in `statistics`."""
DECISION = math.log(0.5)
"""The log-odds at which a word is said to have several senses: a probability of one third. A hidden
sense costs those who ask the answer, two clusters with like keywords a glance."""
DEFAULT_RULE = (0.538, -3.876, 2.789)
"""The rule for models without a fitted projection: a regression on words, pairs of words and tagged
nouns in four imports."""
TEXTS_RULE = (-1.203, -3.351, 5.263)
"""The same for `evidence` whose mean is that of texts, not of random sentences."""
CONCENTRATION = 25.0
"""The concentration of all distributions of the mixture. It is smaller than the likeliest one, so
that uncertain points belong to several distributions until the last iteration."""
ITERATIONS = 30
STARTS = 6
"""Number of runs from different random centers; the one with the largest silhouette is used."""
SEED = 1
TEMPERATURE = 0.1
"""The temperature of the softmax of cosines that gives the confidence."""
_SINGLE_THREAD = SingleThread()
"""Limits SciPy's BLAS, which is not NumPy's, to one thread."""


Rule: TypeAlias = Sequence[float] | Floats
"""The rule for more than one sense: the intercept and the two weights of a logistic regression of
`statistics`."""


@dataclass(frozen=True)
class Clusters:
    """A clustering of m vectors into k clusters, the largest first."""

    labels: NDArray[np.int64]
    """[m]"""
    centroids: Floats
    """[k, d], of norm 1"""
    confidence: Floats
    """[m], from 0 to 1"""
    cosines: Floats
    """[m], of each vector with its centroid"""
    separation: float
    """the mean silhouette (Rousseeuw 1987) of the clustered points with cosine distances; 0 for one
    cluster"""


@dataclass(frozen=True)
class Clusterings:
    """Clusterings of the same vectors into 1, 2, … clusters, and the one that is used."""

    alternatives: list[Clusters]
    """the first has one cluster; those of few vectors have fewer than MAX_FOUND"""
    chosen: Clusters
    several: float
    """the probability that there is more than one cluster; 0.5 for too few vectors"""


def cluster(vectors: Floats, count: int | None = None, rule: Rule = DEFAULT_RULE) -> Clusters:
    """Cluster vectors into `count` clusters, or into a number that is found by a rule. [m, d]

    The result is deterministic. Empty clusters are dropped, so there may be fewer than `count`.
    """
    if count is None:
        return divide(vectors, None, rule).chosen
    points = unit(vectors.astype(np.float64))
    return _clusters(points, _sample(len(points)), count)


def divide(
    vectors: Floats,
    count: int | None = None,
    rule: Rule = DEFAULT_RULE,
    evidence: Floats | None = None,
) -> Clusterings:
    """Cluster vectors into 1 to MAX_FOUND clusters, and choose one of the results. [m, d]

    It is the one of `count` clusters if that is given, of one cluster if the rule says so, else the
    one with the largest silhouette − FURTHER·clusters. The rule uses `evidence`, the same vectors
    with another mean, if it is given. [m, d]
    """
    points = unit(vectors.astype(np.float64))
    sample = _sample(len(points))
    max_count = min(max(min(MAX_FOUND, len(sample) // 2), 2), len(sample))
    alternatives = [_clusters(points, sample, n) for n in range(1, max_count + 1)]
    few, odds = len(sample) < MIN_OCCURRENCES, -DECISION
    if not few:
        shifted = points[sample] if evidence is None else unit(evidence[sample].astype(np.float64))
        odds = log_odds(statistics(shifted, alternatives[1].labels[sample]), rule)
    several = float(1 / (1 + np.exp(-odds - DECISION)))
    if count is not None:
        used = alternatives[count - 1] if count <= max_count else cluster(points, count)
    elif few or odds <= 0:
        used = alternatives[0]
    else:
        used = max(alternatives[1:], key=lambda one: quality(one.separation, len(one.centroids)))
    return Clusterings(alternatives, used, several)


def quality(separation: float, count: int) -> float:
    """Return the separation of `count` clusters, less FURTHER for each."""
    return separation - FURTHER * count


def _sample(m: int) -> NDArray[np.int64]:
    """Return the indices of the vectors to cluster, evenly spaced."""
    return np.arange(min(m, MAX_CLUSTERED)) * m // min(m, MAX_CLUSTERED)


def _clusters(points: Floats, sample: NDArray[np.int64], count: int) -> Clusters:
    """Cluster the points in `sample`, and assign the others to the nearest cluster. [m, d], [s]"""
    chosen = points[sample]
    labels = _mixture(chosen, min(count, len(chosen)))
    present = [label for label in range(int(labels.max(initial=0)) + 1) if (labels == label).any()]
    centroids = unit(np.stack([chosen[labels == label].mean(axis=0) for label in present]))
    cosines = points @ centroids.T
    nearest = cosines.argmax(axis=1)
    nearest[sample] = np.searchsorted(present, labels)
    own = cosines[np.arange(len(points)), nearest]
    order = np.argsort(-np.bincount(nearest, minlength=len(present)), kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    confidence = _confidence(cosines, nearest)
    separation = silhouette(chosen, labels)
    return Clusters(rank[nearest], centroids[order], confidence, own, separation)


def assign(vectors: Floats, centroids: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the nearest cluster of each vector, the confidence, and the cosine with the centroid.

    [m, d], [k, d] -> [m], [m], [m]
    """
    cosines = unit(vectors.astype(np.float64)) @ centroids.T
    nearest = cosines.argmax(axis=1)
    own = cosines[np.arange(len(cosines)), nearest]
    return nearest, _confidence(cosines, nearest), own


def _confidence(cosines: Floats, nearest: NDArray[np.int64]) -> Floats:
    """Return the softmax of the cosines at the assigned cluster. [m, k], [m] -> [m]"""
    weights = np.exp((cosines - cosines.max(axis=1, keepdims=True)) / TEMPERATURE)
    confidence: Floats = weights[np.arange(len(cosines)), nearest] / weights.sum(axis=1)
    return confidence


def two_cluster_statistics(points: Floats) -> Floats:
    """Return the statistics of the clustering of points of norm 1 into two. [m, d] -> [2]"""
    return statistics(points, _mixture(points, 2))


def statistics(points: Floats, labels: NDArray[np.int64]) -> Floats:
    """Return two statistics of two clusters that tell several senses from one. [m, d], [m] -> [2]

    The first is the mean cosine of points in different clusters, divided by the geometric mean of
    those inside the clusters. This correction for attenuation (Spearman 1904) makes it independent
    of how similar all contexts of a word are. The second is the proportion of the smaller cluster.
    """
    parts = [points[labels == label] for label in (0, 1)]
    size = min(map(len, parts))
    if size < 2:
        return np.array([1, size / len(points)])
    sums = [part.sum(axis=0) for part in parts]
    between = sums[0] @ sums[1] / (len(parts[0]) * len(parts[1]))
    inside = [
        (total @ total - np.vecdot(part, part).sum()) / (len(part) * (len(part) - 1))
        for part, total in zip(parts, sums, strict=True)
    ]
    cohesion = np.sqrt(np.prod(np.maximum(inside, MIN_COHESION)))
    return np.array([np.clip(between / cohesion, -1, 1), size / len(points)])


def log_odds(values: Floats, rule: Rule = DEFAULT_RULE) -> float:
    """Return the log-odds of several senses, less DECISION, from `statistics`. [2]

    Above 0, there are several.
    """
    intercept, *weights = rule
    return float(intercept + values @ np.array(weights))


def _mixture(points: Floats, count: int) -> NDArray[np.int64]:
    """Return the most probable of `count` distributions for each point. [m, d] -> [m]

    A distribution may be the most probable one of no point.
    """
    from scipy.cluster.vq import kmeans2

    m = len(points)
    if count <= 1 or m <= count:
        return np.arange(m) % max(count, 1) if m <= count else np.zeros(m, np.int64)
    candidates = []
    for start in range(STARTS):
        current_budget().check()
        rng = np.random.default_rng([SEED, start])
        with _SINGLE_THREAD, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a cluster may be empty
            labels = kmeans2(points, count, minit="++", rng=rng)[1]
        candidates.append(maximize_likelihood(points, np.eye(count)[labels]))
    return max(candidates, key=lambda labels: silhouette(points, labels))


def maximize_likelihood(points: Floats, weights: Floats) -> NDArray[np.int64]:
    """Maximize the likelihood of a mixture by EM, from the probabilities of its distributions.

    Returns the most probable distribution of each point. [m, d], [m, k] -> [m]
    """
    for _ in range(ITERATIONS):
        centers = unit(weights.T @ points)
        sizes = np.maximum(weights.mean(axis=0), 1e-9)
        scores = points @ (CONCENTRATION * centers.T) + np.log(sizes)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
    labels: NDArray[np.int64] = weights.argmax(axis=1)
    return labels


def silhouette(points: Floats, labels: NDArray[np.int64]) -> float:
    """Return the mean silhouette with cosine distances; 0 for one cluster. [m, d], [m]"""
    present, inverse, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if len(present) < 2 or len(labels) <= len(present):
        return 0.0
    member = np.zeros((len(labels), len(present)))
    member[np.arange(len(labels)), inverse] = 1
    # The mean distance to a cluster follows from the dot product with its sum.
    sums = points @ (points.T @ member)
    own = sums[np.arange(len(labels)), inverse] - np.vecdot(points, points)
    inside = 1 - own / np.maximum(sizes[inverse] - 1, 1)
    distances = 1 - sums / sizes
    distances[np.arange(len(labels)), inverse] = np.inf
    outside = distances.min(axis=1)
    scores = (outside - inside) / np.maximum(np.maximum(outside, inside), 1e-12)
    scores[sizes[inverse] == 1] = 0
    return float(scores.mean())
