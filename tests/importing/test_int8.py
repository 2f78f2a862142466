"""Imports with `--dtype int8`: storage, errors, memory."""

import numpy as np
import pytest

from polyseme.engine.quantization import quantize
from polyseme.importing.readers import base as readers
from polyseme.models.export import export_word2vec
from tests.importing.comparison import (
    GENSIM_DATA,
    GENUINE,
    composed,
    facebook,
    imported,
    table_of,
    word2vec,
)
from tests.importing.conftest import run
from tests.importing.files import FORMATS, VECTORS, WORDS, build, fasttext, many, row, rows
from tests.models.damage import path, paths
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


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_quantized_row_by_row(importer, kind):
    assert_quantized(imported(importer, importer.file(build(kind)), *INT8), WORDS, VECTORS)


def test_the_result_reports_the_precision(importer):
    done = importer.run(rows(), *INT8, "--name", "small")
    assert done.out == "small  4 words  3 wide  int8  cased  closed form\n"
    for command in ("list", "verify", "show"):
        arguments = [] if command == "list" else ["small"]
        done = run("models", command, *arguments, "--models-dir", importer.models)
        assert (done.code, done.err) == (0, "")
        assert "small" in done.out
        assert ("int8" in done.out) == (command != "verify")


@pytest.mark.parametrize(
    ("kind", "size"), [("glove", 70), ("word2vec-binary", 7), ("word2vec-binary", 7_000_000)]
)
def test_the_size_of_batches_does_not_change_the_model(importer, monkeypatch, kind, size):
    monkeypatch.setattr(readers, "_BATCH_VALUES", size)
    words = [f"gnu{number}" for number in range(60)]
    vectors = np.random.default_rng(2).standard_normal((60, 7)).astype(np.float32)
    file = importer.file(build(kind, words, vectors))
    model = imported(importer, file, *INT8)
    assert_quantized(model, words, vectors)


def test_finite_numbers_of_any_size_are_read(importer):
    vectors = np.array([[3.4e38, -3.4e38, 1], [1e-45, 0, -1e-44], [0, 0, 0], [7e4, 1, 2]])
    vectors = vectors.astype(np.float32)
    for kind in FORMATS:
        model = imported(importer, importer.file(build(kind, WORDS, vectors)), *INT8)
        assert_quantized(model, WORDS, vectors)
        assert np.isfinite(ask_one(model, "zebra okapi").arrays["contextual"]).all()


@pytest.mark.parametrize("number", [b"nan", b"inf", b"-1e39"])
def test_a_number_that_is_not_finite_is_rejected_by_its_line(importer, number):
    message = importer.refusal(rows() + row("gnu", b"1 2 " + number), *INT8)
    assert message.startswith("Line 5 has a value that is not finite as float32;")


def test_rows_with_non_finite_numbers_may_be_skipped(importer):
    content = rows(WORDS[:2], VECTORS[:2]) + row("gnu", b"1 2 nan") + rows(WORDS[2:], VECTORS[2:])
    model = imported(importer, importer.file(content), *INT8, "--skip-bad-rows")
    assert_quantized(model, WORDS, VECTORS)


def test_a_fasttext_file_with_infinity_is_rejected(importer):
    vectors = VECTORS.copy()
    vectors[2] = 3e38
    buckets = np.full((2, 3), 3e38, np.float32)
    message = importer.refusal(fasttext(WORDS, vectors, buckets), *INT8)
    assert message == "The file has a value that is not finite as float32."


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


@pytest.mark.slow
def test_a_large_vocabulary_gives_the_closed_form_the_same_rows(importer):
    """Of more than 30,000 words the closed form uses a sample, chosen by row number."""
    content = many("word2vec-binary", 31_000, 5)
    options = "--sorted", "--no-subwords"
    small = imported(importer, importer.file(content), *INT8, *options)
    weights = path(importer.models / "made", ATTENTION).read_bytes()
    export_word2vec(small, importer.place / "exported.txt")
    imported(importer, importer.place / "exported.txt", *options)
    assert path(importer.models / "made", ATTENTION).read_bytes() == weights


def test_a_model_may_be_replaced_by_a_smaller_one(importer):
    for options in ([], INT8, []):
        imported(importer, importer.file(rows()), *options)
        assert ("scales.npy" in paths(importer.models / "made")) == bool(options)


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
