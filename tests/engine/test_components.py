"""Principal components: by hand, and beside scikit-learn's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.decomposition import PCA

from polyseme.engine.similarity import principal_components


def test_by_hand():
    """Their mean is (1, 1); they lie along x and along y, with squares of 14 and of 6."""
    points = np.array([[4.0, 1], [0, 1], [-1, 1], [1, 3], [1, 0], [1, 0]])
    places, shares = principal_components(points)
    right = [[3, 0], [-1, 0], [-2, 0], [0, 2], [0, -1], [0, -1]]
    np.testing.assert_allclose(places, right, atol=1e-14)
    np.testing.assert_allclose(shares, [0.7, 0.3])


def test_the_sign_of_an_axis_is_that_of_its_largest_coordinate():
    places, _ = principal_components(np.array([[-4.0, 1], [0, 1], [1, 1], [-1, -3], [-1, 0]]))
    largest = np.abs(places).argmax(axis=0)
    assert (places[largest, [0, 1]] > 0).all()


@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (40, 300), (3, 2)])
def test_scikit_learn_finds_the_same(shape):
    points = np.random.default_rng(3).normal(size=shape)
    places, shares = principal_components(points)
    oracle = PCA(2).fit(points)
    np.testing.assert_allclose(np.abs(places), np.abs(oracle.transform(points)), atol=1e-9)
    np.testing.assert_allclose(shares, oracle.explained_variance_ratio_)


@pytest.mark.parametrize("points", [[[1.0, 2, 3]], [[1.0, 2, 3], [1, 2, 3]], [[4.0]]])
def test_points_in_one_place_are_in_the_middle(points):
    places, shares = principal_components(np.array(points))
    np.testing.assert_allclose(places, 0, atol=1e-12)
    assert shares.tolist() == [0, 0]


def test_points_on_a_line_have_one_axis():
    places, shares = principal_components(np.array([[0.0, 0, 0], [1, 2, 2], [2, 4, 4]]))
    np.testing.assert_allclose(np.abs(places), [[3, 0], [0, 0], [3, 0]], atol=1e-12)
    np.testing.assert_allclose(shares, [1, 0], atol=1e-12)


@given(arrays(np.float64, (6, 4), elements=st.floats(-10, 10, width=16)))
def test_no_picture_shows_points_farther_apart_than_they_are(points):
    places, _ = principal_components(points)
    true = np.linalg.norm(points[:, None] - points, axis=-1)
    shown = np.linalg.norm(places[:, None] - places, axis=-1)
    assert (shown <= true + 1e-9).all()
    largest = np.abs(places).argmax(axis=0)
    assert (places[largest, [0, 1]] >= 0).all()
