"""Accuracy and macro-F1 of confusion counts, compared with scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

from polyseme_lab.evaluation.statistics import accuracy, confusion_cells, macro_f1


def test_accuracy_and_macro_f1_by_hand():
    counts = np.array([[3, 1], [2, 4]], np.float64)
    assert accuracy(counts) == 0.7
    assert macro_f1(counts) == pytest.approx((6 / 9 + 8 / 11) / 2)


def test_an_absent_and_unpredicted_sense_does_not_count():
    counts = np.zeros((3, 3))
    counts[0, 0], counts[0, 2] = 3, 1
    assert macro_f1(counts) == pytest.approx((6 / 7 + 0) / 2)


@pytest.mark.parametrize("seed", range(20))
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
