"""Attacks on the scales and the integers of int8 rows."""

import numpy as np
import pytest

from polyseme.engine.quantization import LARGEST_SCALE, quantize
from polyseme.models.reader import read_model
from tests.models.damage import (
    SCALES,
    SUBWORD_SCALES,
    SUBWORDS,
    VECTORS,
    change_manifest,
    drop,
    npy,
    read_error,
    replace,
    saved,
    scales_error,
    with_and_without_verify,
    zeros,
)
from tests.tiny import write_tiny

TABLES = [(VECTORS, SCALES), (SUBWORDS, SUBWORD_SCALES)]
each_table = pytest.mark.parametrize(("table", "scales"), TABLES)


@with_and_without_verify
@each_table
def test_int8_rows_without_scales_are_rejected(quantized_folder, table, scales, verify):
    drop(quantized_folder, scales)
    assert read_error(quantized_folder, verify=verify) == scales_error(scales, table)


@with_and_without_verify
@each_table
def test_scales_with_float_vectors_are_rejected(model_folder, table, scales, verify):
    (model_folder / scales).write_bytes(saved(np.ones(11, np.float32)))
    change_manifest(model_folder, lambda m: m["files"].update({scales: m["files"][table]}) and None)
    assert read_error(model_folder, verify=verify) == scales_error(scales, table)


def test_scales_of_missing_subwords_are_rejected(quantized_folder):
    (quantized_folder / SUBWORDS).unlink()

    def change(document):
        del document["files"][SUBWORDS], document["subwords"]

    change_manifest(quantized_folder, change)
    assert read_error(quantized_folder) == scales_error(SUBWORD_SCALES, SUBWORDS)


@with_and_without_verify
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_int8_rows_are_not_read_as_floats(quantized_folder, dtype, verify):
    for scales in (SCALES, SUBWORD_SCALES):
        drop(quantized_folder, scales)
    change_manifest(quantized_folder, lambda m: m.update(dtype=dtype))
    expected = f"vectors.npy does not have the dtype {dtype}."
    assert read_error(quantized_folder, verify=verify) == expected


@with_and_without_verify
@each_table
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int16, np.bool_])
def test_rows_of_another_dtype_are_not_read_as_int8(quantized_folder, table, scales, dtype, verify):
    rows = 11 if scales == SCALES else 2
    replace(quantized_folder, table, saved(np.ones((rows, 5), dtype)))
    assert read_error(quantized_folder, verify=verify) == f"{table} does not have the dtype int8."


def scales_header(shape="(11,)", descr="'<f4'", order="False"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


ONES = np.ones(11, np.float32)
UNMAPPED = "scales.npy is not an array that can be memory-mapped."
SHAPE = "scales.npy: the shape differs from manifest.json."
DTYPE = "scales.npy does not have the dtype float32."
CUT = "scales.npy has more or less data than its header declares."
ATTACKS = {
    "too few": (saved(ONES[:-1]), SHAPE),
    "too many": (saved(np.ones(13, np.float32)), SHAPE),
    "none": (saved(ONES[:0]), SHAPE),
    "a column": (saved(ONES[:, None]), UNMAPPED),
    "a row": (saved(ONES[None]), UNMAPPED),
    "no axis": (saved(np.float32(1)), UNMAPPED),
    "float64": (saved(ONES.astype(np.float64)), DTYPE),
    "float16": (saved(ONES.astype(np.float16)), DTYPE),
    "integers": (saved(ONES.astype(np.int32)), DTYPE),
    "big-endian": (saved(ONES.astype(">f4")), DTYPE),
    "objects": (saved(ONES.astype(object), allow_pickle=True), DTYPE),
    "Fortran order": (npy(scales_header(order="True"), zeros(11)), "scales.npy is not in C order."),
    "a header of more scales": (npy(scales_header("(13,)"), zeros(11)), CUT),
    "a header of 10**30 scales": (npy(scales_header(f"({10**30},)"), zeros(11)), UNMAPPED),
    "cut short": (saved(ONES)[:-1], CUT),
    "nothing": (b"", UNMAPPED),
    "text": (b"1 1 1 1 1 1 1 1 1 1 1\n", UNMAPPED),
}


@with_and_without_verify
@pytest.mark.parametrize("case", ATTACKS)
def test_invalid_scales_are_rejected(quantized_folder, case, verify):
    content, expected = ATTACKS[case]
    replace(quantized_folder, SCALES, content)
    assert read_error(quantized_folder, verify=verify) == expected


SIGNALLING = np.array([0x7F800001], np.uint32).view(np.float32)[0]
BEYOND = np.nextafter(LARGEST_SCALE, np.float32(np.inf))
WRONG_SCALES = [np.nan, SIGNALLING, np.inf, -np.inf, 0.0, -0.0, -1.0, -1e-45, BEYOND]


@pytest.mark.parametrize("scale", WRONG_SCALES, ids=str)
@pytest.mark.parametrize("row", [0, 7, 10])
def test_the_first_scale_that_is_not_positive_and_finite_is_named(quantized_folder, row, scale):
    scales = ONES.copy()
    scales[row:] = scale
    replace(quantized_folder, SCALES, saved(scales))
    expected = f"scales.npy has a scale that is not positive or is too large in row {row}."
    assert read_error(quantized_folder) == expected


@pytest.mark.parametrize("scale", [1e-45, 1e-38, 1.0, LARGEST_SCALE])
def test_a_positive_finite_scale_gives_finite_vectors(quantized_folder, scale):
    replace(quantized_folder, SCALES, saved(np.full(11, scale, np.float32)))
    assert np.isfinite(read_model(quantized_folder).vectors).all()


def test_scales_of_subwords_are_checked(quantized_folder):
    replace(quantized_folder, SUBWORD_SCALES, saved(np.array([1, np.nan], np.float32)))
    message = read_error(quantized_folder)
    assert (
        message == "subword_scales.npy has a scale that is not positive or is too large in row 1."
    )
    replace(quantized_folder, SUBWORD_SCALES, saved(np.ones(3, np.float32)))
    message = read_error(quantized_folder)
    assert message == "subword_scales.npy: the shape differs from manifest.json."


@each_table
def test_the_first_row_with_minus_128_is_named(quantized_folder, table, scales):
    integers = np.full((11 if scales == SCALES else 2, 5), -127, np.int8)
    replace(quantized_folder, table, saved(integers))
    assert read_model(quantized_folder)
    integers[1, 4] = -128
    replace(quantized_folder, table, saved(integers))
    assert read_error(quantized_folder) == f"{table} has -128 in row 1."


def test_invalid_numbers_are_found_in_large_tables(tmp_path):
    words = [f"w{n}" for n in range(100_003)]
    rows = quantize(np.ones((100_003, 3), np.float32))
    folder = write_tiny(tmp_path / "tall", words=words, vectors=rows)
    rows.integers[99_999, 2] = -128
    replace(folder, VECTORS, saved(rows.integers))
    assert read_error(folder) == "vectors.npy has -128 in row 99999."
    rows.scales[70_001] = np.nan
    replace(folder, SCALES, saved(rows.scales))
    rows.integers[99_999, 2] = 127
    replace(folder, VECTORS, saved(rows.integers))
    assert (
        read_error(folder)
        == "scales.npy has a scale that is not positive or is too large in row 70001."
    )


def test_without_verify_the_numbers_are_not_checked(quantized_folder):
    replace(quantized_folder, SCALES, saved(np.full(11, np.nan, np.float32)))
    replace(quantized_folder, VECTORS, saved(np.full((11, 5), -128, np.int8)))
    assert np.isnan(read_model(quantized_folder, verify=False).rows[3]).all()


@with_and_without_verify
@pytest.mark.parametrize("name", [SCALES, SUBWORD_SCALES])
def test_a_missing_or_truncated_file_of_scales_is_named(quantized_folder, name, verify):
    content = (quantized_folder / name).read_bytes()
    for other in (content[:-1], content + b"\0", b""):
        (quantized_folder / name).write_bytes(other)
        message = read_error(quantized_folder, verify=verify)
        assert message == f"{name}: the number of bytes differs from manifest.json."
    (quantized_folder / name).unlink()
    assert read_error(quantized_folder, verify=verify) == f"{name} cannot be read."


@pytest.mark.parametrize("name", [VECTORS, SCALES, SUBWORDS, SUBWORD_SCALES])
def test_a_file_with_other_bytes_is_named(quantized_folder, name):
    content = bytearray((quantized_folder / name).read_bytes())
    content[-2] ^= 1
    (quantized_folder / name).write_bytes(content)
    assert read_error(quantized_folder) == f"{name}: the checksum differs from manifest.json."
