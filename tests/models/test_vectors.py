"""Attacks on `vectors.npy`: nothing is unpickled, nothing foreign is raised."""

import io
import pickle
import zipfile

import numpy as np
import pytest

from polyseme.models.reader import read_model
from tests.models.damage import VECTORS, npy, replace, said_of, saved, zeros
from tests.tiny import VECTORS as TABLE
from tests.tiny import write_tiny

BOTH = pytest.mark.parametrize("verify", [True, False])
UNMAPPED = "vectors.npy is not an array that can be memory-mapped."
SHAPE = "vectors.npy: the shape differs from manifest.json."
CUT = "vectors.npy has more or less data than its header declares."
DTYPE = "vectors.npy does not have the dtype float32."


class Evil:
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
    return saved(np.array([Evil(path)], dtype=object), allow_pickle=True)


def pickled_table(path):
    objects = np.full((11, 5), None, dtype=object)
    objects[0, 0] = Evil(path)
    return saved(objects, allow_pickle=True)


def pickle_alone(path):
    return pickle.dumps(Evil(path))


@BOTH
@pytest.mark.parametrize("attack", [pickled_objects, pickled_table, pickle_alone])
def test_a_pickle_is_never_run(whole, tmp_path, attack, verify):
    target = tmp_path / "made-by-a-pickle"
    replace(whole, VECTORS, attack(target))
    assert said_of(whole, verify=verify) in {UNMAPPED, DTYPE}
    assert not target.exists()


def test_the_pickles_of_these_tests_would_work(tmp_path):
    target = tmp_path / "made-by-a-pickle"
    np.load(io.BytesIO(pickled_objects(target)), allow_pickle=True)[0].close()
    assert target.exists()


def header(descr="'<f4'", order="False", shape="(11, 5)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def lying(**changes):
    return npy(header(**changes), zeros(55))


ATTACKS = {
    "Fortran order": (saved(np.asfortranarray(TABLE)), "vectors.npy is not in C order."),
    "big-endian": (saved(TABLE.astype(">f4")), DTYPE),
    "float64": (saved(TABLE.astype(np.float64)), DTYPE),
    "float16": (saved(TABLE.astype(np.float16)), DTYPE),
    "integers": (saved(TABLE.astype(np.int32)), DTYPE),
    "structs": (saved(np.zeros((11, 5), [("a", "<f4")])), UNMAPPED),
    "strings": (saved(np.full((11, 5), "evil")), DTYPE),
    "too few rows": (saved(TABLE[:-1]), SHAPE),
    "turned": (saved(TABLE.T.copy()), SHAPE),
    "another axis": (saved(TABLE[None]), UNMAPPED),
    "flat": (saved(TABLE.ravel()), UNMAPPED),
    "no axis": (saved(np.float32(1)), UNMAPPED),
    "more rows than there are": (lying(shape="(11000, 5)"), CUT),
    "rows for every atom": (lying(shape=f"({10**30}, 5)"), UNMAPPED),
    "rows that overflow": (lying(shape=f"({2**62}, 4)"), UNMAPPED),
    "negative rows": (lying(shape="(-11, 5)"), UNMAPPED),
    "rows that are words": (lying(shape="('a', 5)"), UNMAPPED),
    "a flag for a size": (lying(shape="(True, 55)"), UNMAPPED),
    "a dtype that is a call": (lying(descr="__import__('os').getcwd()"), UNMAPPED),
    "a dtype of objects": (lying(descr="'|O'"), DTYPE),
    "a dtype in a dict": (lying(descr="{}"), None),
    "a key that is a list": (npy("{[]: 1}", zeros(55)), UNMAPPED),
    "keys that do not compare": (npy("{1: 2, 'a': 3}", zeros(55)), UNMAPPED),
    "another key": (npy(header()[:-1] + "'x': 1}", zeros(55)), UNMAPPED),
    "numbers at an odd place": (npy(header(), zeros(55), padding=1), UNMAPPED),
    "half a header": (npy(header()[:-2], zeros(55)), UNMAPPED),
    "an open string": (npy("('''", zeros(55)), UNMAPPED),
    "a deep header": (npy("(" * 3000, zeros(55)), UNMAPPED),
    "a long sum": (npy("-" * 4000 + "1", zeros(55)), UNMAPPED),
    "a header of Python 2": (lying(shape="(11L, 5L)"), None),
    "a header of zeros": (npy("\0" * 50, zeros(55)), UNMAPPED),
    "an unknown version": (npy(header(), zeros(55), version=9), UNMAPPED),
    "a header longer than the file": (b"\x93NUMPY\x01\x00\xff\xff{", UNMAPPED),
    "half the magic": (b"\x93NUM", UNMAPPED),
    "nothing": (b"", UNMAPPED),
    "text": (b"apple 1 0 0 0 0\n" * 11, UNMAPPED),
    "zip": (zipped(), UNMAPPED),
    "zip that climbs": (zipped("../../vectors.npy"), UNMAPPED),
    "half a zip": (zipped()[:100], UNMAPPED),
    "the start of a zip": (b"PK\x03\x04" + b"x" * 50, UNMAPPED),
    "an empty zip": (b"PK\x05\x06" + b"\0" * 18, UNMAPPED),
}


@BOTH
@pytest.mark.parametrize("case", ATTACKS)
def test_an_invalid_table_is_rejected(whole, case, verify):
    content, expected = ATTACKS[case]
    replace(whole, VECTORS, content)
    said = said_of(whole, verify=verify)
    assert said.startswith("vectors.npy")
    assert expected in {None, said}


def test_a_truncated_table_is_rejected_despite_a_valid_checksum(whole):
    content = (whole / VECTORS).read_bytes()
    for length in (*range(0, 150, 7), len(content) - 1):
        replace(whole, VECTORS, content[:length])
        assert said_of(whole) in {UNMAPPED, CUT}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (4, 2), (10, 4)])
def test_a_number_that_is_not_finite_is_rejected_by_row(whole, row, column, value):
    table = TABLE.copy()
    table[row:, column] = value
    replace(whole, VECTORS, saved(table))
    assert said_of(whole) == f"vectors.npy is not finite in row {row}."


def test_rows_are_counted_through_the_whole_table(tmp_path):
    words = [f"w{n}" for n in range(8195)]
    table = np.ones((8195, 3), np.float32)
    folder = write_tiny(tmp_path / "tall", words=words, vectors=table)
    table[8193, 1] = np.nan
    replace(folder, VECTORS, saved(table))
    assert said_of(folder) == "vectors.npy is not finite in row 8193."


def test_without_verifying_the_table_is_not_read_through(whole):
    table = TABLE.copy()
    table[3, 3] = np.nan
    replace(whole, VECTORS, saved(table))
    model = read_model(whole, verify=False)
    assert isinstance(model.vectors.base, np.memmap)
    assert np.isnan(model.vectors[3, 3])
