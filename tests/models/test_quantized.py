"""Models with int8 rows give the results of float32 rows of the same values."""

import numpy as np

from polyseme.engine.subwords import Subwords
from polyseme.models.reader import read_model
from polyseme.models.writer import export_word2vec
from polyseme.operations.compare import Occurrence
from tests.models.damage import (
    SCALES,
    SUBWORD_SCALES,
    SUBWORDS,
    VECTORS,
    manifest_of,
    with_and_without_verify,
)
from tests.operations.calls import EVERY, ask_one, compare_occurrences, same_bits
from tests.tiny import QUANTIZED, QUANTIZED_SUBWORDS, deep_model

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


def test_results_have_the_bits_of_a_float_model_of_the_same_values(tmp_path):
    small, wide = both_models(tmp_path)
    assert ask_one(small, TEXT).tokens[-1].composed == "gnu"
    assert same_bits(ask_one(small, TEXT, include=EVERY), ask_one(wide, TEXT, include=EVERY))


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
