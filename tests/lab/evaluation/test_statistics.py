"""Bootstrap intervals, accuracy, macro-F1 and rankings, compared with theory and scikit-learn."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, roc_auc_score

from polyseme.errors import CommandError
from polyseme_lab.evaluation.statistics import (
    RESAMPLES,
    IntervalEstimate,
    accuracy,
    bootstrap,
    confusion_cells,
    macro_f1,
    precision_at,
    resample_counts,
    roc_auc,
    spearman,
)


def test_the_draws_depend_on_the_stream_only():
    assert np.array_equal(resample_counts(11, 3), resample_counts(11, 3))
    assert not np.array_equal(resample_counts(11, 3), resample_counts(11, 4))


@pytest.mark.parametrize(("n", "p"), [(100, 0.5), (400, 0.9), (1000, 0.65)])
def test_the_interval_of_an_accuracy_is_that_of_a_binomial_distribution(n, p):
    correct = np.arange(n) < n * p
    estimate = IntervalEstimate.from_resamples(correct.mean(), resample_counts(n) @ correct / n)
    low, high = 100 * np.array(stats.binom.interval(0.95, n, p)) / n
    standard_error = 100 * (p * (1 - p) / n) ** 0.5
    assert estimate.value == 100 * p
    assert estimate.low == pytest.approx(low, abs=0.4 * standard_error)
    assert estimate.high == pytest.approx(high, abs=0.4 * standard_error)


def test_too_many_items_are_rejected():
    with pytest.raises(CommandError, match="more than 50,000 items"):
        resample_counts(50_001)


def test_bootstrap_means_have_the_theoretical_distribution():
    values = np.arange(50.0)
    found = bootstrap(lambda indices: float(values[indices].mean()), 50)
    assert found.shape == (RESAMPLES,)
    assert found.mean() == pytest.approx(24.5, abs=0.3)
    assert found.std() == pytest.approx(values.std() / 50**0.5, rel=0.1)
    again = bootstrap(lambda indices: float(values[indices].mean()), 50)
    assert np.array_equal(found, again)


@pytest.mark.parametrize("seed", range(9))
def test_every_resample_has_the_values_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    s, n = int(rng.integers(2, 6)), int(rng.integers(1, 40))
    gold, guesses = rng.integers(s, size=n), rng.integers(s, size=n)
    drawn = rng.multinomial(n, np.full(n, 1 / n), size=5)
    counts = (drawn @ confusion_cells(gold, guesses, s)).reshape(-1, s, s)
    for one, found in zip(drawn, counts, strict=True):
        a, b = gold.repeat(one), guesses.repeat(one)
        assert np.array_equal(found, confusion_matrix(a, b, labels=range(s)))
        assert accuracy(found) == pytest.approx(accuracy_score(a, b))
        assert macro_f1(found) == pytest.approx(f1_score(a, b, average="macro"))
    assert macro_f1(counts).shape == (5,)


def test_spearman_and_roc_auc_are_those_of_scipy_and_scikit_learn():
    rng = np.random.default_rng(5)
    scores = rng.integers(0, 4, (7, 13)).astype(float)
    target = rng.integers(0, 5, 13).astype(float)
    positive = target > 2
    expected = [stats.spearmanr(row, target).statistic for row in scores]
    np.testing.assert_allclose(spearman(scores, target), expected)
    expected = [roc_auc_score(positive, row) for row in scores]
    np.testing.assert_allclose(roc_auc(scores, positive), expected)


def test_a_constant_correlates_with_nothing():
    assert spearman(np.ones((1, 3)), np.arange(3.0)).tolist() == [0]
    assert np.isnan(spearman(np.ones((1, 3)), np.ones(3))).all()
    for positive in (np.zeros(3, np.bool_), np.ones(3, np.bool_)):
        assert np.isnan(roc_auc(np.ones((2, 3)), positive)).tolist() == [True, True]


@pytest.mark.parametrize(
    ("scores", "k", "expected"),
    [
        ([9, 5, 3, 1], 1, 1),
        ([9, 5, 3, 1], 3, 2 / 3),
        ([5, 9, 3, 1], 1, 0),
        ([5, 5, 5, 5], 1, 2 / 4),
        ([5, 5, 5, 5], 3, 2 / 4),
        ([5, 5, 9, 1], 2, (1 + 1 / 2) / 2),  # the third, and one of the first two
    ],
)
def test_precision_is_a_mean_over_the_orders_of_ties(scores, k, expected):
    """The first and the third are positive."""
    positive = np.array([True, False, True, False])
    assert precision_at(np.array([scores], float), positive, k) == pytest.approx(expected)


def test_precision_is_undefined_without_positives():
    assert np.isnan(precision_at(np.ones((1, 3)), np.zeros(3, np.bool_), 1)).all()
