"""Imports with `--dtype int8`: storage, errors, memory."""

import numpy as np
import pytest

from polyseme.engine.quantization import quantize
from polyseme.models.writer import export_word2vec
from tests.importing.comparison import (
    GENSIM_DATA,
    GENUINE,
    composed,
    facebook,
    imported,
    table_of,
    word2vec,
)
from tests.importing.files import FORMATS, WORDS, build, rows
from tests.models.damage import path
from tests.operations.calls import ask_one, same_bits

INT8 = ("--dtype", "int8")
ATTENTION = "attention.safetensors"


def assert_quantized(model, words, vectors):
    """Check that a model has the words in this order and the vectors quantized, to the last bit."""
    found, _ = table_of(model)
    right = quantize(vectors)
    assert found == list(words)
    assert model.rows.integers.tobytes() == right.integers.tobytes()
    assert model.rows.scales.tobytes() == right.scales.tobytes()
    assert model.manifest.dtype == "int8"


def test_every_format_is_quantized_row_by_row(importer):
    vectors = np.array([[3.4e38, -3.4e38, 1], [1e-45, 0, -1e-44], [0, 0, 0], [7e4, 1, 2]])
    vectors = vectors.astype(np.float32)
    for kind in FORMATS:
        model = imported(importer, importer.file(build(kind, WORDS, vectors)), *INT8)
        assert_quantized(model, WORDS, vectors)
        assert np.isfinite(ask_one(model, "zebra okapi").arrays["contextual"]).all()


@pytest.mark.skipif(not GENSIM_DATA.exists(), reason="this gensim is without its test data")
def test_the_ngrams_of_fasttext_are_quantized(importer):
    file = GENSIM_DATA / "lee_fasttext_new.bin"
    right, model = facebook(file), imported(importer, file, *INT8)
    assert_quantized(model, right.index_to_key, right.vectors)
    ngrams = quantize(right.vectors_ngrams)
    assert np.array_equal(model.subwords.table.integers, ngrams.integers)
    assert np.array_equal(model.subwords.table.scales, ngrams.scales)
    one = ask_one(model, ["landladyship"])
    assert one.tokens[0].resolution == "subword"
    expected = composed(right, model.subwords.coverage, "landladyship")
    np.testing.assert_allclose(one.arrays["static"][0], expected, rtol=0, atol=1e-2)


@pytest.mark.parametrize("order", ["--sorted", "--unsorted"])
def test_the_closed_form_is_that_of_the_rounded_vectors(importer, order):
    """A float32 import of the exported model has the same weights and results."""
    rng = np.random.default_rng(5)
    words = [f"gnu{number}" for number in range(500)]
    vectors = rng.standard_normal((500, 11)).astype(np.float32)
    small = imported(importer, importer.file(rows(words, vectors)), *INT8, order)
    out = importer.place / "exported.txt"
    export_word2vec(small, out)
    weights = path(importer.models / "made", ATTENTION).read_bytes()
    wide = imported(importer, out, order)
    assert path(importer.models / "made", ATTENTION).read_bytes() == weights
    assert wide.manifest.dtype == "float32"
    assert same_bits(ask_one(small, words[:9]), ask_one(wide, words[:9]))


@pytest.mark.skipif(not GENUINE.exists(), reason="needs rows of published vectors")
@pytest.mark.parametrize("file", ["glove.6B.50d.9k.txt.gz", "GoogleNews.8k.300d.bin.gz"])
@pytest.mark.slow
def test_genuine_vectors_keep_their_directions(importer, file):
    options = {"binary": True} if "Google" in file else {"no_header": True}
    wide = word2vec(GENUINE / file, **options).vectors.astype(np.float64)
    model = imported(importer, GENUINE / file, *INT8, "--no-subwords")
    small = model.vectors.astype(np.float64)
    sizes = np.linalg.norm(wide, axis=1) * np.linalg.norm(small, axis=1)
    assert ((wide * small).sum(axis=1) / sizes).min() > 0.9998
    assert model.manifest.training["informativeness"] == "rank in the file"
