"""Held-out scores: computed by hand, and from all pairs."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra [train] is not installed")
pytest.importorskip("sklearn", reason="the extra [train] is not installed")

from polyseme.engine.arrays import unit
from polyseme_lab.training.data import Occurrences
from polyseme_lab.training.held_out import (
    MAX_SCORED,
    MAX_SCORED_OF_GROUP,
    centroids_f1,
    pairs_auc,
    score_vectors,
    select_measurable,
)


def rng(seed=1):
    return np.random.default_rng(seed)


def occurrences(groups, labels):
    return Occurrences(np.arange(len(groups)), np.array(groups), np.array(labels))


def one_hot(labels):
    """A vector for each occurrence, orthogonal to those of other senses."""
    return np.eye(max(labels) + 1)[labels]


def test_orthogonal_senses_have_perfect_scores():
    labels = [0] * 8 + [1] * 8 + [2] * 8 + [3] * 8
    one = occurrences([0] * 16 + [1] * 16, labels)
    assert score_vectors(one_hot(labels), one, 1).document() == {"auc": 100.0, "macro_f1": 100.0}


def test_senses_with_equal_vectors_have_an_auc_of_chance():
    labels = np.array([0] * 8 + [1] * 8)
    vectors = unit(np.abs(rng().standard_normal((16, 3))))
    both = np.concatenate([vectors[:8], vectors[:8]])
    found = score_vectors(both, occurrences([0] * 16, labels), 1)
    assert found.auc is not None and 30 < found.auc < 60


def test_the_auc_is_estimated_over_the_pairs_of_each_lemma():
    groups, labels = np.repeat([0, 1, 2], 30), np.arange(90) % 3 + np.repeat([0, 3, 6], 30)
    vectors = unit(rng(2).standard_normal((90, 4)) + one_hot(labels % 3)[:, [0, 1, 2, 0]])
    same, different = [], []
    for i in range(90):
        for j in range(90):
            if i != j and groups[i] == groups[j]:
                (same if labels[i] == labels[j] else different).append(vectors[i] @ vectors[j])
    wins = np.mean(np.array(same)[:, None] > np.array(different))
    parts = [np.flatnonzero(groups == group) for group in range(3)]
    assert pairs_auc(vectors, parts, labels, rng()) == pytest.approx(100 * wins, abs=2.5)


def test_the_auc_is_none_for_a_single_sense():
    assert pairs_auc(np.ones((4, 2)), [np.arange(4)], np.zeros(4, int), rng()) is None


def test_the_macro_f1_is_that_of_the_nearest_centroids():
    # One of the four of sense 1 has the vector of sense 0: recalls 1 and 3/4, precisions 4/5 and 1.
    labels = np.array([0] * 4 + [1] * 4)
    vectors = one_hot([0, 0, 0, 0, 1, 1, 1, 0])
    expected = (2 * 0.8 / 1.8 + 2 * 0.75 / 1.75) / 2
    found = [centroids_f1(vectors, labels, rng(seed)) for seed in range(5)]
    assert found == pytest.approx([expected] * 5)


def test_only_lemmas_with_two_frequent_senses_are_measured():
    labels = [0] * 5 + [1] * 5 + [2] * 4 + [3] * 9 + [4] * 4
    groups = [7] * 14 + [8] * 13
    kept = select_measurable(occurrences(groups, labels), 5, 1)
    assert kept.positions.tolist() == list(range(10))
    assert len(select_measurable(occurrences(groups, labels), 6, 1)) == 0


def test_no_occurrences_give_no_measurable_ones():
    assert len(select_measurable(occurrences([], []), 2, 1)) == 0


def test_many_occurrences_are_reduced_to_a_sample():
    groups = np.repeat(np.arange(100), 400)
    kept = select_measurable(occurrences(groups, groups * 2 + np.arange(40_000) % 2), 8, 1)
    _, counts = np.unique(kept.groups, return_counts=True)
    assert counts.max() <= MAX_SCORED_OF_GROUP
    assert MAX_SCORED <= len(kept) < MAX_SCORED + MAX_SCORED_OF_GROUP
    again = select_measurable(occurrences(groups, groups * 2 + np.arange(40_000) % 2), 8, 1)
    np.testing.assert_array_equal(kept.positions, again.positions)
