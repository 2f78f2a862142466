"""Cosines and nearest rows against brute force in float64."""

import tracemalloc

import numpy as np
import pytest

from service.engine.similarity import cosines, lengths, nearest

CLOSE = 2e-6
CHUNK_EDGES = [8191, 8192, 8193, 2 * 8192 + 1]


def true_cosines(vector, table):
    """One row at a time, in float64, scaled first so that no square overflows."""
    vector, table = np.asarray(vector, np.float64), np.asarray(table, np.float64)
    result = np.zeros(len(table))
    for j, row in enumerate(table):
        sizes = np.abs(row).max(initial=0), np.abs(vector).max(initial=0)
        if 0 not in sizes:
            a, b = row / sizes[0], vector / sizes[1]
            result[j] = (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())
    return result


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def check(vector, table, k, without=()):
    """Compare with brute force; neighbours whose cosines are that close may change places."""
    rows, found = nearest(vector, table, lengths(table), k, without)
    truth = true_cosines(vector, table)
    allowed = [j for j in range(len(table)) if table[j].any() and j not in without]
    assert len(rows) == len(found) == min(k, len(allowed))
    assert len(set(rows.tolist())) == len(rows)
    assert set(rows.tolist()) <= set(allowed)
    np.testing.assert_allclose(found, truth[rows], atol=CLOSE)
    best = np.sort(truth[allowed])[::-1][: len(rows)]
    np.testing.assert_allclose(found, best, atol=CLOSE)
    assert (np.diff(found) <= 0).all()
    assert (np.abs(found) <= 1).all()
    return rows, found


@pytest.mark.parametrize("magnitude", [1e-30, 1e-3, 1.0, 1e30])
def test_cosines_agree_with_brute_force(magnitude):
    a, b = normal(1, 5, 7) * np.float32(magnitude), normal(2, 11, 7)
    result = cosines(a, b)
    assert result.dtype == np.float32
    for i in range(5):
        np.testing.assert_allclose(result[i], true_cosines(a[i], b), atol=CLOSE)


def test_cosines_of_extremes_with_extremes():
    big, small = normal(1, 3, 7) * np.float32(1e30), normal(1, 3, 7) * np.float32(1e-30)
    np.testing.assert_allclose(np.diag(cosines(big, small)), 1, atol=CLOSE)
    np.testing.assert_allclose(np.diag(cosines(big, -big)), -1, atol=CLOSE)


def test_a_zero_vector_has_cosine_zero_with_everything():
    a = np.array([[0, 0], [1, 0]], np.float32)
    assert cosines(a, a).tolist() == [[0, 0], [0, 1]]


def test_cosines_never_leave_minus_one_to_one():
    a = normal(3, 200, 3)
    assert np.abs(cosines(a, a)).max() <= 1
    assert np.abs(cosines(a, -a)).max() <= 1


def test_cosines_of_float64_stay_float64():
    a = np.array([[3.0, 4.0]])
    assert cosines(a, a).dtype == np.float64
    np.testing.assert_allclose(cosines(a, np.array([[4.0, 3.0]])), [[0.96]], atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("magnitude", [1e-2, 1.0, 1e2])
def test_lengths_agree_with_brute_force(dtype, magnitude):
    table = (normal(4, 101, 7) * np.float32(magnitude)).astype(dtype)
    expected = [np.sqrt((row * row).sum()) for row in table.astype(np.float64)]
    result = lengths(table)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("magnitude", [1e-30, 1e30])
def test_lengths_that_float32_can_hold_neither_vanish_nor_overflow(magnitude):
    table = np.array([[3, 4], [0, 0]], np.float32) * np.float32(magnitude)
    np.testing.assert_allclose(lengths(table), [5 * magnitude, 0], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("rows", [1, 2, 7, 101])
@pytest.mark.parametrize("k", [1, 3, 100, 1000])
def test_nearest_agrees_with_brute_force(rows, k, dtype):
    check(normal(5, 13), normal(rows, rows, 13).astype(dtype), k)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("rows", CHUNK_EDGES)
def test_nearest_agrees_with_brute_force_at_the_edges_of_a_chunk(rows, dtype):
    table, vector = normal(6, rows, 5).astype(dtype), normal(7, 5)
    table[[0, rows - 1]] = vector * 2
    if rows > 8192:
        table[[8191, 8192]] = vector * 2
    found, _ = check(vector, table, 10)
    planted = {0, rows - 1} | ({8191, 8192} if rows > 8192 else set())
    assert set(found[: len(planted)].tolist()) == planted


def test_equal_cosines_are_ordered_by_row():
    # Cosines of exactly 1, 0 and -1, in turn.
    table = np.array([[2, 0], [0, 1], [-1, 0]] * 5, np.float32)
    rows, found = nearest(np.array([1, 0], np.float32), table, lengths(table), 12)
    assert rows.tolist() == [0, 3, 6, 9, 12, 1, 4, 7, 10, 13, 2, 5]
    assert found.tolist() == [1] * 5 + [0] * 5 + [-1] * 2


@pytest.mark.parametrize("d", [3, 5, 50, 101, 300])
@pytest.mark.parametrize("rows", [5, 7, 50, 101, 8193])
def test_equal_rows_are_ordered_by_row(rows, d):
    """Equal rows have equal cosines wherever they stand in the table."""
    table = normal(8, rows, d)
    places = [0, 1, rows // 2, rows - 2, rows - 1]
    table[places] = table[0]
    query = table[0] + 0.1 * normal(9, d)
    allowed = set(range(rows)) - set(places)
    for k in (5, 4, 2, 1):
        found, similarity = nearest(query, table, lengths(table), k, without=allowed)
        assert found.tolist() == sorted(set(places))[:k]
        assert len(set(similarity.tolist())) == 1


def test_when_equal_cosines_are_more_than_asked_for_the_first_rows_are_taken():
    table = np.ones((20, 3), np.float32)
    table[4] = [1, 0, 0]
    rows, _ = nearest(np.ones(3, np.float32), table, lengths(table), 6)
    assert rows.tolist() == [0, 1, 2, 3, 5, 6]


def test_zero_rows_are_left_out():
    table = np.array([[0, 0], [-1, 0], [0, 0], [1, 1]], np.float32)
    rows, _ = nearest(np.array([1, 0], np.float32), table, lengths(table), 4)
    assert rows.tolist() == [3, 1]


@pytest.mark.parametrize("kind", [list, set, tuple, frozenset])
def test_rows_without_are_left_out(kind):
    table = normal(10, 11, 3)
    best, _ = check(table[4], table, 11)
    assert best[0] == 4
    rows, _ = check(table[4], table, 11, without=kind([4, 7]))
    assert rows.tolist() == [row for row in best.tolist() if row not in (4, 7)]


def test_nothing_left_gives_nothing():
    table = np.zeros((3, 2), np.float32)
    one = np.array([1, 0], np.float32)
    for rows, found in (
        nearest(one, table, lengths(table), 5),
        nearest(one, table[:0], lengths(table[:0]), 5),
        nearest(one, table + 1, lengths(table + 1), 5, without=[0, 1, 2]),
        nearest(one, table + 1, lengths(table + 1), 0),
    ):
        assert rows.tolist() == found.tolist() == []
        assert rows.dtype.kind == "i"
        assert found.dtype == np.float32


def test_a_zero_query_finds_rows_of_cosine_zero():
    table = normal(11, 5, 3)
    rows, found = nearest(np.zeros(3, np.float32), table, lengths(table), 2)
    assert rows.tolist() == [0, 1]
    assert found.tolist() == [0, 0]


@pytest.mark.parametrize("magnitude", [1e-30, 1e-20, 1e19, 1e30])
def test_nearest_in_a_table_of_extreme_magnitude(magnitude):
    table = normal(12, 20, 7) * np.float32(magnitude)
    check(normal(13, 7), table, 5)


@pytest.mark.parametrize("magnitude", [1e-300, 1e-30, 1e30, 1e300])
def test_nearest_to_a_query_of_extreme_magnitude(magnitude):
    """A query comes from JSON as float64, which holds more than float32 does."""
    check(normal(14, 7).astype(np.float64) * magnitude, normal(15, 20, 7), 5)


def test_the_table_is_not_copied_whole():
    table = normal(16, 120_000, 32).astype(np.float16)
    whole = table.size * 4
    tracemalloc.start()
    try:
        nearest(np.ones(32, np.float32), table, lengths(table), 5)
        assert tracemalloc.get_traced_memory()[1] < whole / 2
    finally:
        tracemalloc.stop()
