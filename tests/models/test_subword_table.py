"""`subwords.npy`: the vectors of n-grams, in a table of any number of rows."""

import dataclasses
import json

import numpy as np
import pytest

from polyseme.engine.quantization import quantize
from polyseme.engine.subwords import Subwords
from polyseme.models.reader import read_model
from tests.models.damage import manifest_of, read_error, with_and_without_verify
from tests.tiny import SUBWORDS as TINY
from tests.tiny import VECTORS, tiny_model, write_tiny


@with_and_without_verify
def test_subwords_round_trip_as_mapped_files(tmp_path, verify):
    folder = write_tiny(tmp_path / "tiny", subwords=TINY)
    found = read_model(folder, verify=verify).subwords
    assert isinstance(found.table.base, np.memmap)
    assert not found.table.flags.writeable
    assert found.table.dtype == np.float32
    assert np.array_equal(found.table, TINY.table)
    assert (found.min_n, found.max_n) == (3, 3)
    assert manifest_of(folder)["subwords"] == {"min_n": 3, "max_n": 3}


@with_and_without_verify
def test_subwords_may_have_another_dtype_than_the_vectors(tmp_path, verify):
    table = quantize(TINY.table)
    folder = write_tiny(tmp_path / "tiny", subwords=Subwords(table, 3, 3))
    model = read_model(folder, verify=verify)
    assert model.vectors.dtype == np.float32
    assert np.array_equal(model.subwords.table[:], table[:])
    assert manifest_of(folder)["subwords"] == {"min_n": 3, "max_n": 3, "dtype": "int8"}


KNOWN = Subwords(TINY.table, 3, 3, np.array([7, 4_000_000_000], np.uint32), 0.5, own_rows=True)


@with_and_without_verify
@pytest.mark.parametrize("own_rows", [True, False])
def test_known_ngrams_round_trip_as_a_mapped_file(tmp_path, verify, own_rows):
    given = dataclasses.replace(KNOWN, own_rows=own_rows)
    folder = write_tiny(tmp_path / "tiny", subwords=given)
    found = read_model(folder, verify=verify).subwords
    assert isinstance(found.ngrams.base, np.memmap)
    assert found.ngrams.tolist() == [7, 4_000_000_000]
    assert (found.coverage, found.own_rows) == (0.5, own_rows)


@pytest.mark.parametrize("field", ["coverage", "own_rows"])
def test_the_manifest_describes_the_known_ngrams(tmp_path, field):
    folder = write_tiny(tmp_path / "tiny", subwords=KNOWN)
    document = manifest_of(folder)
    del document["subwords"][field]
    (folder / "manifest.json").write_text(json.dumps(document))
    assert "coverage and own_rows" in read_error(folder)


@pytest.mark.parametrize("rows", [1, 7, 5000])
def test_a_table_may_have_any_size_and_memory_order(tmp_path, rows):
    table = np.asfortranarray(np.random.default_rng(rows).standard_normal((rows, 5)), np.float16)
    changes = {"vectors": VECTORS.astype(np.float16), "subwords": Subwords(table, 1, 64)}
    found = tiny_model(tmp_path, **changes).subwords
    assert np.array_equal(found.table, table)
    assert (found.min_n, found.max_n) == (1, 64)
