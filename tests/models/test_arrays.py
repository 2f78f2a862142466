"""Attacks on the `.npy` files: nothing is unpickled, and only ModelFolderError is raised."""

import io
import pickle
import shutil

import numpy as np
import pytest

from polyseme.client.local import LocalModel
from polyseme.engine.quantization import LARGEST_SCALE
from polyseme.errors import ModelFolderError
from polyseme.models.reader import read_model
from tests.models.damage import (
    drop,
    index_of,
    npy,
    read_error,
    replace,
    saved,
    scales_error,
    with_and_without_verify,
)
from tests.tiny import VECTORS, WORDS, write_tiny

ARRAYS = {
    "vectors.npy": np.ones((11, 5), np.int8),
    "scales.npy": np.ones(11, np.float32),
    "subwords.npy": np.ones((2, 5), np.int8),
    "subword_scales.npy": np.ones(2, np.float32),
    "ngrams.npy": np.array([7, 8], np.uint32),
    "index.npy": index_of("".join(f"{word}\n" for word in WORDS).encode()),
}
"""The arrays of `quantized_folder`."""
FLOATS = {"vectors.npy": VECTORS, "subwords.npy": np.ones((2, 5), np.float32)}
"""The tables of `model_folder`."""
UNMAPPED = "{} is not an array that can be memory-mapped."
SHAPE = "{}: the shape differs from manifest.json."
CUT = "{} has more or less data than its header declares."
DTYPE = "{} does not have the dtype "


class Pickled:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@with_and_without_verify
def test_a_pickle_is_never_run(model_folder, tmp_path, verify):
    target = tmp_path / "made-by-a-pickle"
    objects = saved(np.full(VECTORS.shape, Pickled(target)), allow_pickle=True)
    for attack, problem in ((objects, DTYPE), (pickle.dumps(Pickled(target)), UNMAPPED)):
        replace(model_folder, "vectors.npy", attack)
        assert read_error(model_folder, verify=verify).startswith(problem.format("vectors.npy"))
    assert not target.exists()
    np.load(io.BytesIO(objects), allow_pickle=True).flat[0].close()
    assert target.exists()


def attacks(array):
    """Contents of a file by case, each with the beginning of the message that rejects it."""

    def header(descr=f"'{array.dtype.str}'", order="False", shape=None, rows=None):
        shape = shape or (len(array) if rows is None else rows, *array.shape[1:])
        return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"

    data = array.tobytes()

    def written(text=None, **changes):
        return npy(text or header(**changes), data)

    dtypes = ["<f2", "<f4", "<f8", "<i4", "<u4", "|i1", "|u1", ">f4", ">u4", "<U4"]
    return {
        **{
            dtype: (saved(np.ones(array.shape, dtype)), DTYPE)
            for dtype in dtypes
            if dtype != array.dtype.str
        },
        "Fortran order": (written(order="True"), "{} is not in C order."),
        "structs": (saved(np.zeros(array.shape, [("a", "<f4")])), UNMAPPED),
        "another axis": (saved(array[None]), UNMAPPED),
        "a column": (saved(array.reshape(*array.shape, 1)), UNMAPPED),
        "no axis": (saved(array.ravel()[0]), UNMAPPED),
        "a header of more rows": (written(rows=11_000), CUT),
        "a header of 10**30 rows": (written(rows=10**30), UNMAPPED),
        "rows that overflow": (written(rows=2**62), UNMAPPED),
        "negative rows": (written(rows=-11), UNMAPPED),
        "a dtype that is a call": (written(descr="__import__('os').getcwd()"), UNMAPPED),
        "a dtype of objects": (written(descr="'|O'"), DTYPE),
        "another key": (written(header()[:-1] + "'x': 1}"), UNMAPPED),
        "data that are not aligned": (npy(header(), data, padding=1), UNMAPPED),
        "half a header": (written(header()[:-2]), UNMAPPED),
        "a deep header": (written("(" * 3000), UNMAPPED),
        "an unknown version": (npy(header(), data, version=9), UNMAPPED),
        "a header longer than the file": (b"\x93NUMPY\x01\x00\xff\xff{", UNMAPPED),
        "cut short": (saved(array)[:-1], CUT),
        "a byte more": (saved(array) + b"\0", CUT),
        "nothing": (b"", UNMAPPED),
        "text": (b"apple 1 0 0 0 0\n" * 11, UNMAPPED),
        "an empty zip": (b"PK\x05\x06" + b"\0" * 18, UNMAPPED),
    }


@with_and_without_verify
@pytest.mark.parametrize("name", ARRAYS)
def test_an_invalid_array_is_rejected(quantized_folder, name, verify):
    for case, (content, expected) in attacks(ARRAYS[name]).items():
        replace(quantized_folder, name, content)
        assert read_error(quantized_folder, verify=verify).startswith(expected.format(name)), case


LENGTH = "{}: the length does not fit the number of words."
MISSHAPEN = [
    ("vectors.npy", ARRAYS["vectors.npy"][:-1], SHAPE),
    ("vectors.npy", ARRAYS["vectors.npy"].T.copy(), SHAPE),
    ("subwords.npy", np.ones((2, 7), np.int8), SHAPE),
    ("subwords.npy", np.ones((0, 5), np.int8), SHAPE),
    *(("scales.npy", np.ones(count, np.float32), SHAPE) for count in (0, 10, 13)),
    ("subword_scales.npy", np.ones(3, np.float32), SHAPE),
    ("ngrams.npy", np.array([7], np.uint32), SHAPE),
    *(("index.npy", np.resize(ARRAYS["index.npy"], count), LENGTH) for count in (0, 34, 36, 38)),
]


@with_and_without_verify
@pytest.mark.parametrize(("name", "array", "expected"), MISSHAPEN)
def test_an_array_of_another_size_is_rejected(quantized_folder, name, array, expected, verify):
    replace(quantized_folder, name, saved(array))
    assert read_error(quantized_folder, verify=verify) == expected.format(name)


INFINITE = [np.nan, np.inf, -np.inf]
SIGNALLING = np.array([0x7F800001], np.uint32).view(np.float32)[0]
BEYOND = np.nextafter(LARGEST_SCALE, np.float32(np.inf))
NOT_POSITIVE = "has a scale that is not positive or is too large"
INVALID_VALUES = [
    ("model_folder", "vectors.npy", INFINITE, "is not finite"),
    ("model_folder", "subwords.npy", INFINITE, "is not finite"),
    ("quantized_folder", "vectors.npy", [-128], "has -128"),
    ("quantized_folder", "subwords.npy", [-128], "has -128"),
    (
        *("quantized_folder", "scales.npy"),
        [*INFINITE, SIGNALLING, 0.0, -0.0, -1.0, -1e-45, BEYOND],
        NOT_POSITIVE,
    ),
    ("quantized_folder", "subword_scales.npy", [np.nan], NOT_POSITIVE),
]


@pytest.mark.parametrize(("folder", "name", "values", "problem"), INVALID_VALUES)
def test_the_first_row_with_an_invalid_value_is_named(request, folder, name, values, problem):
    valid = (FLOATS if folder == "model_folder" else ARRAYS)[name]
    folder = request.getfixturevalue(folder)
    for value in values:
        for row in (0, len(valid) // 2, len(valid) - 1):
            array = valid.copy()
            array[row:].reshape(len(valid) - row, -1)[:, -1] = value
            replace(folder, name, saved(array))
            assert read_error(folder) == f"{name} {problem} in row {row}."


@pytest.mark.parametrize("row", [0, 6, 10])
def test_invalid_values_are_found_in_large_tables(tmp_path, row):
    """A table is read in blocks of 65,536 values."""
    wide = np.ones((11, 50_000), np.float16)
    folder = write_tiny(tmp_path / "wide", vectors=wide)
    wide[row, 30_000] = np.nan
    replace(folder, "vectors.npy", saved(wide))
    assert read_error(folder) == f"vectors.npy is not finite in row {row}."


def test_a_value_that_is_not_finite_reaches_no_result(model_folder):
    table = VECTORS.copy()
    table[WORDS.index("bank"), 3] = np.nan
    replace(model_folder, "vectors.npy", saved(table))
    replace(model_folder, "subwords.npy", saved(np.full((2, 5), np.inf, np.float32)))
    model = LocalModel(read_model(model_folder))
    assert np.isfinite(model.encode(["river"])[0].contextual).all()
    for request in (
        lambda: model.encode(["a river bank"]),
        lambda: model.neighbors("river"),
        lambda: model.encode(["unheard"], oov="subword"),
    ):
        with pytest.raises(ModelFolderError) as caught:
            request()
        assert caught.value.detail == "a value of the vectors is not finite."


@pytest.mark.parametrize("scale", [np.nan, np.inf, LARGEST_SCALE])
def test_a_quantized_value_that_is_not_finite_reaches_no_result(quantized_folder, scale):
    """The value -128 does not occur in valid tables; times the largest scale it overflows."""
    replace(quantized_folder, "vectors.npy", saved(np.full((11, 5), -128, np.int8)))
    replace(quantized_folder, "scales.npy", saved(np.full(11, scale, np.float32)))
    model = LocalModel(read_model(quantized_folder))
    with np.errstate(over="ignore"), pytest.raises(ModelFolderError, match="is not finite"):
        model.encode(["river"])


@with_and_without_verify
@pytest.mark.parametrize(
    ("table", "scales"), [("vectors.npy", "scales.npy"), ("subwords.npy", "subword_scales.npy")]
)
def test_scales_and_int8_rows_need_each_other(
    quantized_folder, original, tmp_path, table, scales, verify
):
    drop(quantized_folder, scales)
    assert read_error(quantized_folder, verify=verify) == scales_error(scales, table)
    folder = shutil.copytree(original, tmp_path / "floats")
    replace(folder, scales, saved(np.ones(11, np.float32)))
    assert read_error(folder, verify=verify) == scales_error(scales, table)


@pytest.mark.parametrize("ngrams", [[7, 5], [7, 7]])
def test_ngrams_that_are_not_sorted_are_rejected(quantized_folder, ngrams):
    replace(quantized_folder, "ngrams.npy", saved(np.array(ngrams, np.uint32)))
    expected = "ngrams.npy is not sorted, or has a number twice."
    assert read_error(quantized_folder) == expected
