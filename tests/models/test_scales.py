"""Attacks on the scales of int8 rows, and on the integers beside them."""

import numpy as np
import pytest

from polyseme.engine.quantization import LARGEST_SCALE, quantize
from polyseme.models.reader import read_model
from tests.models.damage import (
    SCALES,
    SUBWORD_SCALES,
    SUBWORDS,
    VECTORS,
    beside,
    change_manifest,
    drop,
    npy,
    replace,
    said_of,
    saved,
    zeros,
)
from tests.tiny import write_tiny

BOTH = pytest.mark.parametrize("verify", [True, False])
TABLES = [(VECTORS, SCALES), (SUBWORDS, SUBWORD_SCALES)]
each_table = pytest.mark.parametrize(("table", "scales"), TABLES)


@BOTH
@each_table
def test_scales_that_are_not_named_are_missed(quantized_whole, table, scales, verify):
    drop(quantized_whole, scales)
    said = said_of(quantized_whole, verify=verify)
    assert said == beside(scales, table)


@BOTH
@each_table
def test_scales_with_float_vectors_are_rejected(whole, table, scales, verify):
    (whole / scales).write_bytes(saved(np.ones(11, np.float32)))
    change_manifest(whole, lambda m: m["files"].update({scales: m["files"][table]}) and None)
    said = said_of(whole, verify=verify)
    assert said == beside(scales, table)


def test_scales_of_missing_subwords_are_rejected(quantized_whole):
    (quantized_whole / SUBWORDS).unlink()

    def change(document):
        del document["files"][SUBWORDS], document["subwords"]

    change_manifest(quantized_whole, change)
    assert said_of(quantized_whole) == beside(SUBWORD_SCALES, SUBWORDS)


@BOTH
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_integers_are_not_taken_for_floats(quantized_whole, dtype, verify):
    for scales in (SCALES, SUBWORD_SCALES):
        drop(quantized_whole, scales)
    change_manifest(quantized_whole, lambda m: m.update(dtype=dtype))
    assert (
        said_of(quantized_whole, verify=verify) == f"vectors.npy does not have the dtype {dtype}."
    )


@BOTH
@each_table
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int16, np.bool_])
def test_other_numbers_are_not_taken_for_integers(quantized_whole, table, scales, dtype, verify):
    rows = 11 if scales == SCALES else 2
    replace(quantized_whole, table, saved(np.ones((rows, 5), dtype)))
    assert said_of(quantized_whole, verify=verify) == f"{table} does not have the dtype int8."


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
    "more than there are": (npy(scales_header("(13,)"), zeros(11)), CUT),
    "scales for every atom": (npy(scales_header(f"({10**30},)"), zeros(11)), UNMAPPED),
    "cut short": (saved(ONES)[:-1], CUT),
    "nothing": (b"", UNMAPPED),
    "text": (b"1 1 1 1 1 1 1 1 1 1 1\n", UNMAPPED),
}


@BOTH
@pytest.mark.parametrize("case", ATTACKS)
def test_invalid_scales_are_rejected(quantized_whole, case, verify):
    content, expected = ATTACKS[case]
    replace(quantized_whole, SCALES, content)
    assert said_of(quantized_whole, verify=verify) == expected


SIGNALLING = np.array([0x7F800001], np.uint32).view(np.float32)[0]
BEYOND = np.nextafter(LARGEST_SCALE, np.float32(np.inf))
WRONG_SCALES = [np.nan, SIGNALLING, np.inf, -np.inf, 0.0, -0.0, -1.0, -1e-45, BEYOND]


@pytest.mark.parametrize("scale", WRONG_SCALES, ids=str)
@pytest.mark.parametrize("row", [0, 7, 10])
def test_a_scale_that_is_not_above_zero_and_finite_is_rejected_by_row(quantized_whole, row, scale):
    scales = ONES.copy()
    scales[row:] = scale
    replace(quantized_whole, SCALES, saved(scales))
    assert (
        said_of(quantized_whole)
        == f"scales.npy has a scale that is not positive and finite in row {row}."
    )


@pytest.mark.parametrize("scale", [1e-45, 1e-38, 1.0, LARGEST_SCALE])
def test_any_other_scale_gives_finite_vectors(quantized_whole, scale):
    replace(quantized_whole, SCALES, saved(np.full(11, scale, np.float32)))
    assert np.isfinite(read_model(quantized_whole).vectors).all()


def test_scales_of_subwords_are_checked(quantized_whole):
    replace(quantized_whole, SUBWORD_SCALES, saved(np.array([1, np.nan], np.float32)))
    said = said_of(quantized_whole)
    assert said == "subword_scales.npy has a scale that is not positive and finite in row 1."
    replace(quantized_whole, SUBWORD_SCALES, saved(np.ones(3, np.float32)))
    said = said_of(quantized_whole)
    assert said == "subword_scales.npy: the shape differs from manifest.json."


@each_table
def test_minus_128_is_rejected_by_row(quantized_whole, table, scales):
    integers = np.full((11 if scales == SCALES else 2, 5), -127, np.int8)
    replace(quantized_whole, table, saved(integers))
    assert read_model(quantized_whole)
    integers[1, 4] = -128
    replace(quantized_whole, table, saved(integers))
    assert said_of(quantized_whole) == f"{table} has -128 in row 1."


def test_numbers_are_counted_through_the_whole_table(tmp_path):
    words = [f"w{n}" for n in range(100_003)]
    rows = quantize(np.ones((100_003, 3), np.float32))
    folder = write_tiny(tmp_path / "tall", words=words, vectors=rows)
    rows.integers[99_999, 2] = -128
    replace(folder, VECTORS, saved(rows.integers))
    assert said_of(folder) == "vectors.npy has -128 in row 99999."
    rows.scales[70_001] = np.nan
    replace(folder, SCALES, saved(rows.scales))
    rows.integers[99_999, 2] = 127
    replace(folder, VECTORS, saved(rows.integers))
    assert said_of(folder) == "scales.npy has a scale that is not positive and finite in row 70001."


def test_without_verification_no_number_is_read(quantized_whole):
    replace(quantized_whole, SCALES, saved(np.full(11, np.nan, np.float32)))
    replace(quantized_whole, VECTORS, saved(np.full((11, 5), -128, np.int8)))
    assert np.isnan(read_model(quantized_whole, verify=False).rows[3]).all()


@BOTH
@pytest.mark.parametrize("name", [SCALES, SUBWORD_SCALES])
def test_a_missing_or_wrong_file_of_scales_is_named(quantized_whole, name, verify):
    content = (quantized_whole / name).read_bytes()
    for other in (content[:-1], content + b"\0", b""):
        (quantized_whole / name).write_bytes(other)
        said = said_of(quantized_whole, verify=verify)
        assert said == f"{name}: the number of bytes differs from manifest.json."
    (quantized_whole / name).unlink()
    assert said_of(quantized_whole, verify=verify) == f"{name} cannot be read."


@pytest.mark.parametrize("name", [VECTORS, SCALES, SUBWORDS, SUBWORD_SCALES])
def test_a_file_with_other_bytes_is_named(quantized_whole, name):
    content = bytearray((quantized_whole / name).read_bytes())
    content[-2] ^= 1
    (quantized_whole / name).write_bytes(content)
    assert said_of(quantized_whole) == f"{name}: the checksum differs from manifest.json."
