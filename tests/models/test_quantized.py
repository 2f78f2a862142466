"""Models with int8 rows give the results of float32 rows of the same values."""

import numpy as np
import pytest

from polyseme.engine.quantization import QuantizedRows, quantize
from polyseme.engine.subwords import Subwords
from polyseme.errors import ModelFolderError
from polyseme.models.export import export_word2vec
from polyseme.models.reader import read_model
from polyseme.models.registry import Registry
from polyseme.operations.compare import Occurrence
from tests.models.damage import (
    INDEX,
    SCALES,
    SUBWORD_SCALES,
    SUBWORDS,
    VECTORS,
    VOCABULARY,
    manifest_of,
    scales_error,
    snapshot,
    with_and_without_verify,
)
from tests.operations.calls import EVERY, ask_one, compare_occurrences, same_bits
from tests.tiny import QUANTIZED, QUANTIZED_SUBWORDS, WORDS, deep_model, tiny_model, write_tiny

TEXT = "bank zebra river didn't apple Apple gnu"
WIDE_SUBWORDS = Subwords(QUANTIZED_SUBWORDS.table[:], 3, 3)


def both_models(folder):
    """The deep model with int8 rows, and with float32 rows of the same values."""
    small = deep_model(folder / "small", vectors=QUANTIZED, subwords=QUANTIZED_SUBWORDS)
    return small, deep_model(folder / "wide", vectors=QUANTIZED[:], subwords=WIDE_SUBWORDS)


@with_and_without_verify
def test_quantized_rows_round_trip_as_mapped_files(quantized_original, verify):
    model = read_model(quantized_original, verify=verify)
    for rows, written in (
        (model.rows, QUANTIZED),
        (model.subwords.table, QUANTIZED_SUBWORDS.table),
    ):
        pairs = ((rows.integers, written.integers), (rows.scales, written.scales))
        for found, expected in pairs:
            assert isinstance(found.base, np.memmap)
            assert not found.flags.writeable
            assert found.dtype == expected.dtype
            assert np.array_equal(found, expected)
    assert model.manifest.dtype == "int8"
    assert (model.manifest.vocabulary_size, model.manifest.dimension) == (11, 5)
    listed = set(manifest_of(quantized_original)["files"])
    assert {VECTORS, SCALES, SUBWORDS, SUBWORD_SCALES} <= listed


def test_without_subwords_there_is_one_file_of_scales(tmp_path):
    folder = write_tiny(tmp_path / "tiny", vectors=QUANTIZED)
    assert set(manifest_of(folder)["files"]) == {VECTORS, SCALES, VOCABULARY, INDEX}


def test_the_same_rows_are_written_as_the_same_bytes(tmp_path):
    for parent in ("one", "two"):
        rows = quantize(np.random.default_rng(3).standard_normal((11, 5)))
        write_tiny(tmp_path / parent / "tiny", vectors=rows)
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")


def test_results_have_the_bits_of_a_float_model_of_the_same_values(tmp_path):
    small, wide = both_models(tmp_path)
    assert ask_one(small, TEXT).tokens[-1].composed == "gnu"
    assert same_bits(ask_one(small, TEXT, include=EVERY), ask_one(wide, TEXT, include=EVERY))


def test_a_static_vector_is_the_scale_times_the_integers(tmp_path):
    model = tiny_model(tmp_path, vectors=QUANTIZED)
    static = ask_one(model, "river bank").arrays["static"]
    for row, word in zip(static, ("river", "bank"), strict=True):
        index = WORDS.index(word)
        expected = QUANTIZED.scales[index] * QUANTIZED.integers[index].astype(np.float32)
        assert row.tobytes() == expected.tobytes()


def test_neighbors_are_those_of_a_float_model_of_the_same_values(tmp_path):
    small, wide = both_models(tmp_path)
    for vector in (*np.eye(5), QUANTIZED[3], np.full(5, -1e-30)):
        found, expected = (dict(model.neighbors(vector, 20, [2])) for model in (small, wide))
        assert found == pytest.approx(expected, abs=1e-6)
        assert len(expected) == len(WORDS) - 1


def test_zero_rows_are_no_neighbors(tmp_path):
    vectors = QUANTIZED[:]
    vectors[[0, 4]] = 0
    model = tiny_model(tmp_path, vectors=quantize(vectors))
    found = [word for word, _ in model.neighbors(np.ones(5), 20)]
    assert set(found) == set(WORDS) - {"apple", "river"}


def test_exports_are_those_of_a_float_model_of_the_same_values(tmp_path):
    for name, model in zip(("small", "wide"), both_models(tmp_path), strict=True):
        folder = tmp_path / name
        assert export_word2vec(model, folder / "vectors.txt") == 0
    small, wide = ((tmp_path / name / "vectors.txt").read_bytes() for name in ("small", "wide"))
    assert small == wide


def test_serving_never_converts_the_whole_table_to_floats(tmp_path):
    model, _ = both_models(tmp_path)
    ask_one(model, TEXT, include=EVERY)
    occurrences = [Occurrence("river bank", "bank"), Occurrence("bank gnu", "bank")]
    compare_occurrences(model, occurrences)
    export_word2vec(model, tmp_path / "vectors.txt")
    assert "vectors" not in vars(model)
    assert np.array_equal(model.vectors, QUANTIZED[:])
    assert model.vectors is model.vectors
    assert type(model.vectors) is np.ndarray


def test_a_served_model_may_be_replaced_by_an_int8_one_and_back(tmp_path):
    folder = write_tiny(tmp_path / "tiny", vectors=QUANTIZED[:])
    registry = Registry([tmp_path], "tiny")
    encoded = [ask_one(registry.model(), "bank river")]
    for vectors in (QUANTIZED, QUANTIZED[:]):
        write_tiny(folder, vectors=vectors)
        assert registry.model().manifest.dtype == vectors.dtype.name
        encoded.append(ask_one(registry.model(), "bank river"))
    assert same_bits(encoded[0], encoded[1]) and same_bits(encoded[0], encoded[2])
    assert SCALES not in manifest_of(folder)["files"]


def with_integers(integers):
    return QuantizedRows(np.asarray(integers), QUANTIZED.scales)


UNREPRESENTABLE = {
    "integers without scales": ({"vectors": QUANTIZED.integers}, scales_error(SCALES, VECTORS)),
    "integers of another dtype": ({"vectors": with_integers(np.ones((11, 5), np.uint8))}, None),
    "one axis": ({"vectors": with_integers(np.ones(11, np.int8))}, None),
    "no rows": ({"vectors": QuantizedRows(np.ones((0, 5), np.int8), np.ones(0, np.float32))}, None),
}


@pytest.mark.parametrize("case", UNREPRESENTABLE)
def test_rows_that_the_format_cannot_represent_are_not_written(tmp_path, case):
    changes, expected = UNREPRESENTABLE[case]
    with pytest.raises(ModelFolderError) as caught:
        write_tiny(tmp_path / "tiny", **changes)
    assert expected in {None, caught.value.detail}
    assert not list(tmp_path.iterdir())
