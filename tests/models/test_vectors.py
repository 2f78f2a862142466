"""Attacks on `vectors.npy`: nothing is unpickled, and only ModelFolderError is raised."""

import io
import pickle
import zipfile

import numpy as np
import pytest

from polyseme.models.reader import read_model
from tests.models.damage import (
    VECTORS,
    npy,
    read_error,
    replace,
    saved,
    with_and_without_verify,
    zeros,
)
from tests.tiny import VECTORS as TABLE
from tests.tiny import write_tiny

UNMAPPED = "vectors.npy is not an array that can be memory-mapped."
SHAPE = "vectors.npy: the shape differs from manifest.json."
CUT = "vectors.npy has more or less data than its header declares."
DTYPE = "vectors.npy does not have the dtype float32."


class Pickled:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def zipped(name="vectors.npy"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, saved(TABLE))
    return buffer.getvalue()


def pickled_objects(path):
    return saved(np.array([Pickled(path)], dtype=object), allow_pickle=True)


def pickled_table(path):
    objects = np.full((11, 5), None, dtype=object)
    objects[0, 0] = Pickled(path)
    return saved(objects, allow_pickle=True)


def pickle_alone(path):
    return pickle.dumps(Pickled(path))


@with_and_without_verify
@pytest.mark.parametrize("attack", [pickled_objects, pickled_table, pickle_alone])
def test_a_pickle_is_never_run(model_folder, tmp_path, attack, verify):
    target = tmp_path / "made-by-a-pickle"
    replace(model_folder, VECTORS, attack(target))
    assert read_error(model_folder, verify=verify) in {UNMAPPED, DTYPE}
    assert not target.exists()


def test_the_pickle_creates_a_file_when_it_is_loaded(tmp_path):
    target = tmp_path / "made-by-a-pickle"
    np.load(io.BytesIO(pickled_objects(target)), allow_pickle=True)[0].close()
    assert target.exists()


def header(descr="'<f4'", order="False", shape="(11, 5)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def table_with_header(**changes):
    return npy(header(**changes), zeros(55))


# None: the version of NumPy decides which check fails.
ATTACKS = {
    "Fortran order": (saved(np.asfortranarray(TABLE)), "vectors.npy is not in C order."),
    "big-endian": (saved(TABLE.astype(">f4")), DTYPE),
    "float64": (saved(TABLE.astype(np.float64)), DTYPE),
    "float16": (saved(TABLE.astype(np.float16)), DTYPE),
    "integers": (saved(TABLE.astype(np.int32)), DTYPE),
    "structs": (saved(np.zeros((11, 5), [("a", "<f4")])), UNMAPPED),
    "strings": (saved(np.full((11, 5), "evil")), DTYPE),
    "too few rows": (saved(TABLE[:-1]), SHAPE),
    "transposed": (saved(TABLE.T.copy()), SHAPE),
    "another axis": (saved(TABLE[None]), UNMAPPED),
    "flat": (saved(TABLE.ravel()), UNMAPPED),
    "no axis": (saved(np.float32(1)), UNMAPPED),
    "a header of more rows": (table_with_header(shape="(11000, 5)"), CUT),
    "a header of 10**30 rows": (table_with_header(shape=f"({10**30}, 5)"), UNMAPPED),
    "rows that overflow": (table_with_header(shape=f"({2**62}, 4)"), UNMAPPED),
    "negative rows": (table_with_header(shape="(-11, 5)"), UNMAPPED),
    "rows that are words": (table_with_header(shape="('a', 5)"), UNMAPPED),
    "a flag for a size": (table_with_header(shape="(True, 55)"), UNMAPPED),
    "a dtype that is a call": (table_with_header(descr="__import__('os').getcwd()"), UNMAPPED),
    "a dtype of objects": (table_with_header(descr="'|O'"), DTYPE),
    "a dtype in a dict": (table_with_header(descr="{}"), None),
    "a key that is a list": (npy("{[]: 1}", zeros(55)), UNMAPPED),
    "keys that do not compare": (npy("{1: 2, 'a': 3}", zeros(55)), UNMAPPED),
    "another key": (npy(header()[:-1] + "'x': 1}", zeros(55)), UNMAPPED),
    "data that are not aligned": (npy(header(), zeros(55), padding=1), UNMAPPED),
    "half a header": (npy(header()[:-2], zeros(55)), UNMAPPED),
    "an open string": (npy("('''", zeros(55)), UNMAPPED),
    "a deep header": (npy("(" * 3000, zeros(55)), UNMAPPED),
    "a long sum": (npy("-" * 4000 + "1", zeros(55)), UNMAPPED),
    "a header of Python 2": (table_with_header(shape="(11L, 5L)"), None),
    "a header of zeros": (npy("\0" * 50, zeros(55)), UNMAPPED),
    "an unknown version": (npy(header(), zeros(55), version=9), UNMAPPED),
    "a header longer than the file": (b"\x93NUMPY\x01\x00\xff\xff{", UNMAPPED),
    "half the magic": (b"\x93NUM", UNMAPPED),
    "nothing": (b"", UNMAPPED),
    "text": (b"apple 1 0 0 0 0\n" * 11, UNMAPPED),
    "zip": (zipped(), UNMAPPED),
    "a zip with a parent folder": (zipped("../../vectors.npy"), UNMAPPED),
    "half a zip": (zipped()[:100], UNMAPPED),
    "the start of a zip": (b"PK\x03\x04" + b"x" * 50, UNMAPPED),
    "an empty zip": (b"PK\x05\x06" + b"\0" * 18, UNMAPPED),
}


@with_and_without_verify
@pytest.mark.parametrize("case", ATTACKS)
def test_an_invalid_table_is_rejected(model_folder, case, verify):
    content, expected = ATTACKS[case]
    replace(model_folder, VECTORS, content)
    message = read_error(model_folder, verify=verify)
    assert message.startswith("vectors.npy")
    assert expected in {None, message}


def test_a_truncated_table_is_rejected_despite_a_valid_checksum(model_folder):
    content = (model_folder / VECTORS).read_bytes()
    for length in (*range(0, 150, 7), len(content) - 1):
        replace(model_folder, VECTORS, content[:length])
        assert read_error(model_folder) in {UNMAPPED, CUT}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (4, 2), (10, 4)])
def test_the_first_row_that_is_not_finite_is_named(model_folder, row, column, value):
    table = TABLE.copy()
    table[row:, column] = value
    replace(model_folder, VECTORS, saved(table))
    assert read_error(model_folder) == f"vectors.npy is not finite in row {row}."


def test_a_row_that_is_not_finite_is_found_in_a_large_table(tmp_path):
    words = [f"w{n}" for n in range(8195)]
    table = np.ones((8195, 3), np.float32)
    folder = write_tiny(tmp_path / "tall", words=words, vectors=table)
    table[8193, 1] = np.nan
    replace(folder, VECTORS, saved(table))
    assert read_error(folder) == "vectors.npy is not finite in row 8193."


def test_without_verify_the_table_is_not_checked(model_folder):
    table = TABLE.copy()
    table[3, 3] = np.nan
    replace(model_folder, VECTORS, saved(table))
    model = read_model(model_folder, verify=False)
    assert isinstance(model.vectors.base, np.memmap)
    assert np.isnan(model.vectors[3, 3])
