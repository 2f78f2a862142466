"""Cosines, nearest rows and principal components against SciPy, float64 and scikit-learn."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA

from polyseme.engine import similarity, unit
from polyseme.engine.similarity import cosines, nearest, norms, principal_components


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("magnitude", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cosines_agree_with_scipy(magnitude, dtype):
    a, b = (normal(1, 5, 7) * np.float32(magnitude)).astype(dtype), normal(2, 11, 7).astype(dtype)
    a[3] = b[4] = 0
    result = cosines(a, b)
    assert result.dtype == dtype
    tolerance = 2e-6 if dtype == np.float32 else 1e-15
    distances = cdist(a.astype(np.float64), b.astype(np.float64), "cosine")  # NaN of a zero row
    np.testing.assert_allclose(result, np.nan_to_num(1 - distances), atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("magnitude", [1e-30, 1e-2, 1.0, 1e2, 1e30])
def test_norms_agree_with_brute_force(dtype, magnitude):
    with np.errstate(over="ignore"):
        table = (normal(4, 101, 7) * np.float32(magnitude)).astype(dtype)
    table[~np.isfinite(table).all(axis=1)] = 0
    result = norms(table)
    assert result.dtype == np.float32
    expected = np.sqrt((table.astype(np.float64) ** 2).sum(axis=1))
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def difficult_table(seed, rows, d, dtype, spread):
    """A table with equal rows, rows of nearly one direction, zero rows, and norms far apart."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((rows, d))
    table[rng.random(rows) < 0.3] = table[0]
    near = rng.random(rows) < 0.3
    table[near] = table[0] + 1e-7 * table[near]
    if dtype == np.int8:
        table = 20 * table
    elif dtype == np.float32:
        table *= 10.0 ** rng.uniform(-spread, spread, (rows, 1))
    table[rng.random(rows) < 0.1] = 0
    return np.clip(table, *((-127, 127) if dtype == np.int8 else (-3e38, 3e38))).astype(dtype)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 1 << 32),
    rows=st.integers(1, 200),
    d=st.sampled_from([1, 2, 3, 7, 16, 101, 300]),
    dtype=st.sampled_from([np.float16, np.float32, np.int8]),
    spread=st.sampled_from([0, 3, 20, 38, 44]),
    k=st.integers(1, 40),
    exclude=st.sets(st.integers(0, 199), max_size=10),
    columns=st.sampled_from([1, 8, 1024]),
)
@example(1, 200, 300, np.float32, 38, 40, set(), 8)
@example(2, 200, 300, np.float32, 44, 40, {0}, 8)
def test_nearest_has_the_bits_of_float64_for_any_table(
    seed, rows, d, dtype, spread, k, exclude, columns
):
    table = difficult_table(seed, rows, d, dtype, spread)
    exclude = {row for row in exclude if row < rows}
    vector = table[seed % rows].astype(np.float64) + 1e-3 * (seed % 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similarity, "_COLUMNS", columns)
        patch.setattr(similarity, "_PIECE", 8 * d)
        found, similarities = nearest(vector, table, norms(table), k, exclude)
    truth = (unit(table.astype(np.float64)) * unit(vector[None])).sum(axis=1)
    allowed = [j for j in range(rows) if table[j].any() and j not in exclude]
    expected = sorted(allowed, key=lambda j: (-truth[j], j))[:k]
    assert found.tolist() == expected
    assert similarities.tobytes() == np.clip(truth[expected], -1, 1).astype(np.float32).tobytes()


def test_no_candidates_give_no_neighbors():
    table = np.zeros((3, 2), np.float32)
    one = np.array([1, 0], np.float32)
    for rows, similarities in (
        nearest(one, table, norms(table), 5),
        nearest(one, table[:0], norms(table[:0]), 5),
        nearest(one, table + 1, norms(table + 1), 5, exclude=[0, 1, 2]),
        nearest(one, table + 1, norms(table + 1), 0),
    ):
        assert rows.tolist() == similarities.tolist() == []
        assert rows.dtype.kind == "i"
        assert similarities.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8])
@pytest.mark.parametrize("equal", [False, True])
def test_the_table_is_not_copied_whole(dtype, equal):
    """Not even if all rows are equal, so that each is a candidate."""
    table = (10 * normal(16, 60_000, 128)).astype(dtype)
    if equal:
        table[:] = table[0]
    tracemalloc.start()
    try:
        nearest(table[0], table, norms(table), 5)
        assert tracemalloc.get_traced_memory()[1] < table.size * 4 / 1.5
    finally:
        tracemalloc.stop()


def test_principal_components_by_hand():
    """The mean is (1, 1); the sums of squares are 14 along x and 6 along y."""
    points = np.array([[4.0, 1], [0, 1], [-1, 1], [1, 3], [1, 0], [1, 0]])
    coordinates, ratios = principal_components(points)
    expected = [[3, 0], [-1, 0], [-2, 0], [0, 2], [0, -1], [0, -1]]
    np.testing.assert_allclose(coordinates, expected, atol=1e-14)
    np.testing.assert_allclose(ratios, [0.7, 0.3])


@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (40, 300), (3, 2)])
def test_principal_components_agree_with_scikit_learn(shape):
    points = np.random.default_rng(3).normal(size=shape)
    coordinates, ratios = principal_components(points)
    pca = PCA(2).fit(points)
    np.testing.assert_allclose(np.abs(coordinates), np.abs(pca.transform(points)), atol=1e-9)
    assert (coordinates[np.abs(coordinates).argmax(axis=0), [0, 1]] >= 0).all()
    np.testing.assert_allclose(ratios, pca.explained_variance_ratio_)


@pytest.mark.parametrize("points", [[[1.0, 2, 3]], [[1.0, 2, 3], [1, 2, 3]], [[4.0]]])
def test_equal_points_are_at_the_origin(points):
    coordinates, ratios = principal_components(np.array(points))
    np.testing.assert_allclose(coordinates, 0, atol=1e-12)
    assert ratios.tolist() == [0, 0]
