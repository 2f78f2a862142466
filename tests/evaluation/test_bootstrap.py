"""Intervals: of the theoretical width, and the same in every run."""

import numpy as np
import pytest
from scipy import stats

from polyseme.command_error import CommandError
from polyseme.evaluation.statistics import RESAMPLES, IntervalEstimate, bootstrap, resample_counts


def test_every_resample_has_as_many_items_as_the_sample():
    drawn = resample_counts(7)
    assert drawn.shape == (RESAMPLES, 7)
    assert (drawn.sum(axis=1) == 7).all()
    assert drawn.mean() == 1
    assert drawn.min() == 0 and drawn.max() > 2


def test_the_same_items_are_drawn_at_every_run_and_others_in_another_stream():
    assert np.array_equal(resample_counts(11, 3), resample_counts(11, 3))
    assert not np.array_equal(resample_counts(11, 3), resample_counts(11, 4))


@pytest.mark.parametrize(("n", "part"), [(100, 0.5), (400, 0.9), (1000, 0.65)])
def test_the_interval_of_an_accuracy_is_that_of_a_binomial(n, part):
    right = np.arange(n) < n * part
    figure = IntervalEstimate.from_resamples(right.mean(), resample_counts(n) @ right / n)
    low, high = 100 * np.array(stats.binom.interval(0.95, n, part)) / n
    error = 100 * (part * (1 - part) / n) ** 0.5
    assert figure.value == 100 * part
    assert figure.low == pytest.approx(low, abs=0.4 * error)
    assert figure.high == pytest.approx(high, abs=0.4 * error)


def test_without_variance_the_interval_is_the_figure():
    assert IntervalEstimate.from_resamples(0.25, np.full(RESAMPLES, 0.25)) == (25.0, 25.0, 25.0)


def test_a_set_that_would_fill_the_memory_is_rejected():
    with pytest.raises(CommandError, match="more than 50,000 items"):
        resample_counts(50_001)


def test_a_statistic_of_the_drawn_items_is_resampled():
    values = np.arange(50.0)
    found = bootstrap(lambda rows: float(values[rows].mean()), 50)
    assert found.shape == (RESAMPLES,)
    assert found.mean() == pytest.approx(24.5, abs=0.3)
    assert found.std() == pytest.approx(values.std() / 50**0.5, rel=0.1)
    assert np.array_equal(found, bootstrap(lambda rows: float(values[rows].mean()), 50))
