"""Rows of int8 with a scale each: by hand, by properties, and against rows of floats."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from polyseme.engine import NonFiniteError
from polyseme.engine.quantization import LARGEST_SCALE, as_floats, empty_rows, quantize, stored

PROPERTY = settings(deadline=None, max_examples=100, derandomize=True)
LARGEST, SMALLEST = np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal
NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
TABLES = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=7), elements=NUMBERS)


def table(rows=101, d=7, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, d)).astype(np.float32)


def test_a_row_is_rounded_to_127_steps_in_each_direction():
    # The largest magnitudes are 127 and 254, so the scales are 1 and 2. Ties round to even.
    vectors = np.array([[127, -64, 0.4, 0.6], [1, 3, -254, -253], [0, -0.0, 0, 0]], np.float32)
    rows = quantize(vectors)
    assert rows.scales.tolist() == [1, 2, 1]
    assert rows.integers.tolist() == [[127, -64, 0, 1], [0, 2, -127, -126], [0] * 4]
    assert rows[:].tolist() == [[127, -64, 0, 1], [0, 4, -254, -252], [0] * 4]
    assert rows[2].tobytes() == bytes(16)
    assert (rows.integers.dtype, rows.scales.dtype) == (np.int8, np.float32)
    assert (len(rows), rows.shape, rows.dtype, rows.nbytes) == (3, (3, 4), np.int8, 3 * (4 + 4))
    for table, parts in ((rows, (rows.integers, rows.scales)), (vectors, (vectors, None))):
        assert all(one is other for one, other in zip(stored(table), parts, strict=True))
    assert np.array_equal(as_floats(rows), rows[:])
    assert as_floats(vectors) is vectors


@PROPERTY
@given(TABLES)
@example(np.array([[LARGEST, -LARGEST, 1]], np.float32))
@example(np.array([[SMALLEST, 0], [190 * SMALLEST, 3 * SMALLEST], [127 * SMALLEST, 0]], np.float32))
def test_the_error_of_a_number_is_at_most_half_a_step(vectors):
    rows = quantize(vectors)
    scales, integers = rows.scales.astype(np.float64), rows.integers.astype(np.float64)
    errors = np.abs(vectors - scales[:, None] * integers)
    # The largest scale is rounded down, so that its product with 127 is finite.
    assert (errors <= scales[:, None] * (0.5 + 1e-5)).all()
    assert (scales > 0).all() and (rows.scales <= LARGEST_SCALE).all()
    assert np.abs(integers).max() <= 127
    assert np.isfinite(rows[:]).all()
    with np.errstate(over="ignore"):
        assert np.isinf(np.float32(127) * np.nextafter(LARGEST_SCALE, np.float32(np.inf)))


@pytest.mark.parametrize("count", [1, 1024, 2 * 1024 + 1])
def test_each_row_is_quantized_by_itself(count):
    vectors = table(count, 3) * 10.0 ** (np.arange(count) % 7)[:, None]
    whole = quantize(vectors)
    for row in {0, 1023, 1024, count - 1} & set(range(count)):
        alone = quantize(vectors[row : row + 1])
        assert (alone[0].tolist(), alone.scales[0]) == (whole[row].tolist(), whole.scales[row])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_non_finite_numbers_are_not_quantized(bad):
    vectors = table().astype(np.float64)
    vectors[100, 3] = bad
    with pytest.raises(NonFiniteError):
        quantize(vectors)


INDICES = [
    *(0, -1, slice(None), slice(2, 7), slice(7, 2), slice(None, None, -3)),
    *(np.array([3, 3, -1, 0]), np.array([], np.int64), np.arange(11) % 2 == 0),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_rows_are_indexed_like_an_array(index):
    rows = quantize(table(11))
    whole = rows.integers.astype(np.float32) * rows.scales[:, None]
    found = rows[index]
    assert type(found) is np.ndarray
    assert found.dtype == np.float32
    assert found.flags.c_contiguous and found.flags.writeable
    assert (found.shape, found.tobytes()) == (whole[index].shape, whole[index].tobytes())


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_a_table_may_be_filled_some_rows_at_a_time(dtype):
    vectors = table()
    filled = empty_rows(*vectors.shape, dtype)
    for start in range(0, len(vectors), 13):
        filled[start : start + 13] = vectors[start : start + 13]
    whole = quantize(vectors) if dtype == "int8" else vectors.astype(dtype)
    assert filled.dtype == dtype
    assert np.array_equal(filled[:], whole[:])


def test_quantization_does_not_copy_a_table_to_floats():
    vectors = table(60_000, 64).astype(np.float16)
    tracemalloc.start()
    try:
        quantize(vectors)
        assert tracemalloc.get_traced_memory()[1] < vectors.size * 4
    finally:
        tracemalloc.stop()
