"""Clusters of points whose number is given or found."""

import math

import numpy as np
import pytest
import scipy.cluster.vq
from sklearn.metrics import adjusted_rand_score, silhouette_score
from threadpoolctl import threadpool_info, threadpool_limits

from polyseme.senses import clustering
from polyseme.senses.clustering import (
    DEFAULT_RULE,
    FURTHER,
    MAX_CLUSTERED,
    cluster,
    divide,
    log_odds,
    silhouette,
    statistics,
    two_cluster_statistics,
)


def groups(sizes, d=40, spread=0.12, seed=0):
    """Points around a random direction for each group, and their groups. -> [m, d], [m]"""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((len(sizes), d))
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return centers[labels] + spread * rng.standard_normal((len(labels), d)), labels


@pytest.mark.parametrize(
    ("sizes", "given"),
    [
        *(((60, 40), None), ((30, 30, 30), 3), ((30, 30, 30), None), ((285, 15), None)),
        ((MAX_CLUSTERED, 1500), 2),  # more points than are clustered get the nearest cluster
    ],
)
def test_groups_are_found_and_the_largest_is_first(sizes, given):
    points, labels = groups(sizes)
    found = cluster(points, given)
    assert adjusted_rand_score(labels, found.labels) > 0.95
    assert np.bincount(found.labels).tolist() == sorted(np.bincount(found.labels), reverse=True)
    assert found.centroids.shape == (len(sizes), points.shape[1])
    assert found.separation > 0.3
    assert found.confidence.min() >= 0 and found.confidence.max() <= 1


def test_scipy_computes_with_one_thread(monkeypatch):
    def threads():
        return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

    counts = []
    kmeans2 = scipy.cluster.vq.kmeans2

    def recorded(*args, **options):
        counts.append(threads())
        return kmeans2(*args, **options)

    monkeypatch.setattr(scipy.cluster.vq, "kmeans2", recorded)
    with threadpool_limits(2, "blas"):
        before = threads()
        cluster(groups((10, 10))[0], 2)
        assert threads() == before
    assert len(counts) == clustering.STARTS and set().union(*counts) == {1}


def test_a_mixture_is_fitted_as_in_the_formulas(monkeypatch):
    # The updates of Banerjee et al. 2005, section 4, point by point, with one concentration κ.
    monkeypatch.setattr(clustering, "ITERATIONS", 3)
    monkeypatch.setattr(clustering, "CONCENTRATION", 2.0)
    rng = np.random.default_rng(5)
    points = rng.standard_normal((30, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    start = rng.dirichlet((1, 1), 30)
    weights = start.tolist()
    for _ in range(3):
        shares = [sum(row[k] for row in weights) / 30 for k in range(2)]
        means = [sum(row[k] * x for row, x in zip(weights, points, strict=True)) for k in range(2)]
        means = [mean / math.sqrt(mean @ mean) for mean in means]
        weights = []
        for x in points:
            densities = [
                share * math.exp(2 * float(mean @ x))
                for share, mean in zip(shares, means, strict=True)
            ]
            weights.append([one / sum(densities) for one in densities])
    expected = [int(row[1] > row[0]) for row in weights]
    assert 0 < sum(expected) < 30
    assert clustering.maximize_likelihood(points, start).tolist() == expected


def test_the_run_with_the_largest_silhouette_is_used(monkeypatch):
    points, labels = groups((20, 20), spread=0.3)
    worse = np.arange(40) % 2
    runs = iter([worse, labels, worse, worse, worse, worse])
    monkeypatch.setattr(clustering, "maximize_likelihood", lambda *_: next(runs))
    assert adjusted_rand_score(cluster(points, 2).labels, labels) == 1


def test_the_silhouette_is_that_of_scikit_learn():
    points, _ = groups((20, 30, 10), spread=0.4)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    labels = np.random.default_rng(1).integers(0, 3, 60)
    assert silhouette(points, labels) == pytest.approx(
        silhouette_score(points, labels, metric="cosine")
    )
    assert silhouette(points, np.zeros(60, np.int64)) == 0


def test_the_statistics_of_clusters_by_hand():
    labels = np.repeat([0, 1], [20, 10])
    assert statistics(np.eye(2)[labels], labels) == pytest.approx([0, 1 / 3])
    assert statistics(np.eye(2)[labels * 0], labels) == pytest.approx([1, 1 / 3])
    assert log_odds(np.array([0.1, 0.4]), (-3, -10, 5)) == pytest.approx(-3 - 1 + 2)
    single = np.repeat([0, 1], [19, 1])
    assert statistics(np.eye(2)[single], single) == pytest.approx([1, 1 / 20])


@pytest.mark.parametrize("cosine", [-0.4, 0, 0.5])
def test_the_first_statistic_is_corrected_for_the_spread_in_each_cluster(cosine):
    # Ten points at each of p ± q: the cosine of two centers is given, and each q is a direction of
    # its own. The mean cosine inside a cluster of 20 is (400·|p|² − 20)/380.
    centers = np.array([[1, 0, 0, 0], [cosine, math.sqrt(1 - cosine**2), 0, 0]]) * math.sqrt(0.9)
    sides = np.array([[0, 0, 1, 0], [0, 0, 0, 1]]) * math.sqrt(0.1)
    points = np.repeat(np.concatenate([centers + sides, centers - sides]), 10, axis=0)
    expected = 0.9 * cosine / ((400 * 0.9 - 20) / 380)
    assert statistics(points, np.repeat([0, 1, 0, 1], 10)) == pytest.approx([expected, 1 / 2])


def test_points_are_divided_into_every_number_and_the_clearest_is_chosen():
    points, labels = groups((30, 20, 20), spread=0.15)
    found = divide(points)
    assert adjusted_rand_score(found.chosen.labels, labels) == 1
    assert [len(one.centroids) for one in found.alternatives] == [1, 2, 3, 4, 5, 6]
    assert found.chosen is found.alternatives[2]
    assert found.alternatives[0].separation == 0
    for number, one in enumerate(found.alternatives[1:], 2):
        assert np.array_equal(one.labels, cluster(points, number).labels)
    qualities = [one.separation - FURTHER * n for n, one in enumerate(found.alternatives, 1)]
    assert max(qualities[1:]) == qualities[2]
    two = divide(groups((60, 40))[0])
    assert two.chosen is two.alternatives[1]


@pytest.mark.parametrize(
    ("m", "numbers"),
    [(1, [1]), (2, [1, 2]), (3, [1, 2]), (7, [1, 2, 3]), (11, [1, 2, 3, 4, 5])],
)
def test_few_points_are_one_cluster_unless_a_number_is_given(m, numbers):
    points, _ = groups((m,), spread=1)
    found = divide(points)
    assert [len(one.centroids) for one in found.alternatives] == numbers
    assert (found.several == 0.5) == (m < 8)
    if m < 8:
        assert len(found.chosen.centroids) == 1
    for given in (1, 2, 9):  # a given number is used, the others are alternatives
        if given <= m:
            chosen = divide(points, given)
            assert len(np.unique(chosen.chosen.labels)) == given
            assert len(chosen.alternatives) == len(numbers)


def test_points_of_one_group_are_one_cluster():
    points, _ = groups((80,), spread=0.05)  # noise around one direction
    found = cluster(points)
    assert len(found.centroids) == 1 and not found.labels.any()
    assert found.confidence.tolist() == [1] * 80
    assert found.separation == 0


@pytest.mark.parametrize("odds", [-0.02, 0.02])
def test_several_are_reported_from_a_probability_of_one_third_on(odds):
    points, _ = groups((30, 30), spread=0.4)
    unit_points = points / np.linalg.norm(points, axis=1, keepdims=True)
    similarity = two_cluster_statistics(unit_points)[0]
    found = divide(points, rule=(odds - 2 * similarity, 2, 0))
    assert found.several == pytest.approx(1 / 3 + odds * 2 / 9, abs=1e-4)
    assert (len(found.chosen.centroids) > 1) == (odds > 0)


def test_the_rule_may_have_the_points_with_another_mean():
    points, labels = groups((20, 20), spread=0.05)
    shifted = points + 0.2
    assert divide(points).several > 1 / 2 > divide(shifted).several
    found = divide(shifted, rule=DEFAULT_RULE, evidence=3 * points)
    assert found.several == pytest.approx(divide(points).several)
    assert adjusted_rand_score(found.chosen.labels, labels) == 1
    expected = divide(shifted).alternatives
    assert [one.separation for one in found.alternatives] == [one.separation for one in expected]


def test_zero_and_equal_points_have_finite_results():
    points = np.zeros((20, 5))
    points[:10, 0] = 1
    for given in (None, 2):
        found = cluster(points, given)
        assert np.isfinite(found.confidence).all() and np.isfinite(found.separation)


@pytest.mark.parametrize(
    ("cosines", "confidence"),
    [  # the table of docs/senses.md
        ((0.50, 0.49, 0.48, 0.42, 0.40, 0.38), 0.26),
        ((0.52, 0.45, 0.42, 0.40, 0.38, 0.37), 0.38),
        ((0.20, 0.12, 0.05, 0.02, 0.00, -0.05), 0.49),
        ((0.30, 0.02, 0.00, 0.00, -0.05, -0.10), 0.83),
    ],
)
def test_the_confidence_is_the_softmax_of_the_cosines(cosines, confidence):
    centroids = np.eye(6, 7, 1)
    centroids *= np.sqrt(1 - np.square(cosines))[:, None]
    centroids[:, 0] = cosines
    labels, (share,), (cosine,) = clustering.assign(np.eye(1, 7), centroids)
    assert labels.tolist() == [0] and cosine == pytest.approx(cosines[0])
    weights = [math.exp(one / 0.1) for one in cosines]
    assert share == pytest.approx(weights[0] / sum(weights))
    assert round(float(share), 2) == confidence
