"""Clustering of occurrences by their contexts; the number of clusters may be found.

Spectral clustering (Ng, Jordan & Weiss 2001) of a graph of nearest neighbors, with k-means of SciPy
in the space of the first eigenvectors. docs/decisions/0022 has the measurements.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats, unit

MAX_CLUSTERED = 2000
"""The most occurrences that are clustered. Of more, an evenly spaced sample is clustered, and the
others are assigned to the nearest sense."""
MAX_FOUND = 6
"""The largest number of senses that is tried if none is given."""
MIN_OCCURRENCES = 8
"""Fewer occurrences are one sense unless a number is given."""
ONE_SENSE = (2.2, 0.21)
"""Occurrences are one sense if neither their locality nor the silhouette of their best clusters is
above these."""
NEIGHBORS = 15
"""Nearest neighbors of each point in the graph; a quarter of the points if they are few."""
SEED = 1
TEMPERATURE = 0.1
"""The temperature of the softmax of cosines that gives the confidence."""
_REPEATS = 5


@dataclass(frozen=True)
class Clusters:
    """Occurrences in clusters, the largest first."""

    labels: NDArray[np.int64]
    """[m]"""
    centroids: Floats
    """[k, d], of norm 1"""
    confidence: Floats
    """[m], from 0 to 1"""
    separation: float
    """the mean silhouette (Rousseeuw 1987) with cosine distances; 0 for one cluster"""


def cluster(vectors: Floats, count: int | None = None) -> Clusters:
    """Cluster vectors into `count` clusters, or into a number that is found. [m, d]

    The same vectors give the same clusters. A cluster may turn out empty and is then dropped.
    """
    points = unit(vectors.astype(np.float64))
    m = len(points)
    sample = np.arange(min(m, MAX_CLUSTERED)) * m // min(m, MAX_CLUSTERED)
    chosen = points[sample]
    if count is None:
        labels = _found_clusters(chosen)
    else:
        labels = _spectral(chosen, min(count, len(chosen)))
    present = [label for label in range(int(labels.max(initial=0)) + 1) if (labels == label).any()]
    centroids = unit(np.stack([chosen[labels == label].mean(axis=0) for label in present]))
    cosines = points @ centroids.T
    nearest = cosines.argmax(axis=1)
    nearest[sample] = np.searchsorted(present, labels)
    order = np.argsort(-np.bincount(nearest, minlength=len(present)), kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    confidence = _confidence(cosines, nearest)
    return Clusters(rank[nearest], centroids[order], confidence, silhouette(chosen, labels))


def assign(vectors: Floats, centroids: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return the nearest cluster of each vector, and the confidence. [m, d], [k, d] -> [m], [m]"""
    cosines = unit(vectors.astype(np.float64)) @ centroids.T
    nearest = cosines.argmax(axis=1)
    return nearest, _confidence(cosines, nearest)


def _confidence(cosines: Floats, nearest: NDArray[np.int64]) -> Floats:
    """Return the softmax of the cosines at the nearest cluster. [m, k], [m] -> [m]"""
    weights = np.exp((cosines - cosines.max(axis=1, keepdims=True)) / TEMPERATURE)
    confidence: Floats = weights[np.arange(len(cosines)), nearest] / weights.sum(axis=1)
    return confidence


def _found_clusters(points: Floats) -> NDArray[np.int64]:
    """Return one cluster, or the clusters with the largest silhouette. [m, d] -> [m]"""
    m = len(points)
    one = np.zeros(m, np.int64)
    if m < MIN_OCCURRENCES:
        return one
    best = _best_clusters(points)
    return best if _evidence(points, best) > 0 else one


def evidence(points: Floats) -> float:
    """Return the evidence that occurrences have several senses: above 0 if they do. [m, d]"""
    return _evidence(points, _best_clusters(points))


def _evidence(points: Floats, labels: NDArray[np.int64]) -> float:
    ratios = locality(points) / ONE_SENSE[0], silhouette(points, labels) / ONE_SENSE[1]
    return max(ratios) - 1


def _best_clusters(points: Floats) -> NDArray[np.int64]:
    """Return the clusters with the largest silhouette, of 2 to MAX_FOUND. [m, d] -> [m]"""
    most = max(min(MAX_FOUND, len(points) // 2), 2)
    tried = [_spectral(points, count) for count in range(2, most + 1)]
    return max(tried, key=lambda labels: silhouette(points, labels))


def locality(points: Floats) -> float:
    """Return how much closer the nearest neighbors of a point are than all others. [m, d]

    The mean cosine of each point with the nearest sixth of the points, divided by that with all:
    with several senses, the nearest points share one, and the others do not.
    """
    cosines = points @ points.T
    np.fill_diagonal(cosines, -np.inf)
    m = len(points)
    count = max(5, m // 6)
    nearest = np.partition(cosines, m - count, axis=1)[:, m - count :].mean()
    np.fill_diagonal(cosines, 0)
    everything = cosines.sum() / (m * (m - 1))
    return float(nearest / max(everything, 1e-3))


def _spectral(points: Floats, count: int) -> NDArray[np.int64]:
    """Spectral clustering into `count` clusters. [m, d] -> [m]"""
    from scipy.cluster.vq import kmeans2  # noqa: PLC0415 - slow import
    from scipy.linalg import eigh  # noqa: PLC0415 - likewise

    m = len(points)
    if count <= 1 or m <= count:
        return np.arange(m) % max(count, 1) if m <= count else np.zeros(m, np.int64)
    cosines = points @ points.T
    np.fill_diagonal(cosines, -np.inf)
    near = min(NEIGHBORS, max(m // 4, 3), m - 1)
    nearest = np.argpartition(-cosines, near - 1, axis=1)[:, :near]
    graph = np.zeros((m, m))
    np.put_along_axis(graph, nearest, 0.5, axis=1)
    graph += graph.T
    roots = 1 / np.sqrt(graph.sum(axis=1))
    # The smallest eigenvalues of the Laplacian I − M are the largest of M = D^−½·W·D^−½.
    normal = roots[:, None] * graph * roots
    _, directions = eigh(normal, subset_by_index=[m - count, m - 1])
    rows = unit(directions)
    best: NDArray[np.int64] = np.zeros(m, np.int64)
    least = np.inf
    for repeat in range(_REPEATS):
        rng = np.random.default_rng([SEED, repeat])
        centers, labels = kmeans2(rows, count, minit="++", rng=rng, missing="warn")
        spread = float(((rows - centers[labels]) ** 2).sum())
        if spread < least - 1e-12:
            best, least = labels.astype(np.int64), spread
    return best


def silhouette(points: Floats, labels: NDArray[np.int64]) -> float:
    """Return the mean silhouette with cosine distances; 0 for one cluster. [m, d], [m]"""
    present, inverse, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if len(present) < 2 or len(labels) <= len(present):  # noqa: PLR2004 - clusters
        return 0.0
    member = np.zeros((len(labels), len(present)))
    member[np.arange(len(labels)), inverse] = 1
    # The mean distance to a cluster follows from the cosine with its sum.
    sums = points @ (points.T @ member)
    own = sums[np.arange(len(labels)), inverse] - np.vecdot(points, points)
    inside = 1 - own / np.maximum(sizes[inverse] - 1, 1)
    distances = 1 - sums / sizes
    distances[np.arange(len(labels)), inverse] = np.inf
    outside = distances.min(axis=1)
    scores = (outside - inside) / np.maximum(np.maximum(outside, inside), 1e-12)
    scores[sizes[inverse] == 1] = 0
    return float(scores.mean())
