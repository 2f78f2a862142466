"""Bootstrap intervals and rankings, compared with theory and SciPy."""

import numpy as np
import pytest
from scipy import stats

from polyseme.errors import CommandError
from polyseme_lab.evaluation.statistics import (
    IntervalEstimate,
    rank_correlation,
    resample_counts,
)


def test_the_draws_depend_on_the_stream_only():
    assert np.array_equal(resample_counts(11, 3), resample_counts(11, 3))
    assert not np.array_equal(resample_counts(11, 3), resample_counts(11, 4))


@pytest.mark.parametrize(("n", "p"), [(100, 0.5), (1000, 0.65)])
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

    def mean(rows):
        return float(values[rows].mean()) / 100

    found = IntervalEstimate.of_statistic(mean, 50)
    assert found.value == 24.5
    width = 2 * 1.96 * values.std() / 50**0.5
    assert found.high - found.low == pytest.approx(width, rel=0.1)
    assert IntervalEstimate.of_statistic(mean, 50) == found


def test_rank_correlation_is_that_of_scipy():
    rng = np.random.default_rng(5)
    first, second = rng.integers(0, 4, (2, 13)).astype(float)
    expected = stats.spearmanr(first, second).statistic
    assert rank_correlation(first, second) == pytest.approx(expected)
    assert rank_correlation(np.ones(3), np.arange(3.0)) == 0
