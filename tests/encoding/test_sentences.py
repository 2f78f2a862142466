"""One vector of several, by hand."""

import numpy as np
import pytest
from polyseme.encoding.sentences import weighted_mean

ROWS = np.array([[1, 2, 3], [5, 6, 7]], np.float32)


@pytest.mark.parametrize(
    ("weights", "mean"),
    [((1, 1), (3, 4, 5)), ((3, 1), (2, 3, 4)), ((0, 2), (5, 6, 7)), ((0, 0), (0, 0, 0))],
)
def test_a_row_counts_as_often_as_its_weight_says(weights, mean):
    found = weighted_mean(ROWS, np.array(weights, np.float32))
    assert found.tolist() == list(mean)
    assert found.dtype == np.float32


def test_no_rows_have_the_zero_vector():
    empty = np.zeros((0, 3), np.float32)
    assert weighted_mean(empty, np.zeros(0, np.float32)).tolist() == [0, 0, 0]


def test_weights_are_relative():
    assert np.array_equal(
        weighted_mean(ROWS, np.float32([1e-30, 3e-30])), weighted_mean(ROWS, np.float32([1, 3]))
    )
