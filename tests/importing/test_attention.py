"""The attention of an imported model: by the order of words, by counts, by options."""

import gzip
import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from polyseme.engine.layers import IDENTITY
from polyseme.importing.closed_form import sentence_whitening
from polyseme.importing.weights import in_closed_form
from polyseme.importing.words import MIN_ORDERED, sorted_by_frequency
from polyseme.models.reader import read_model
from polyseme.senses.occurrences import RANDOM_SENTENCES, estimate_projection
from tests.importing import files

SHARED = Path(__file__).parents[3] / "shared" / "data"
DATA = Path(os.environ.get("POLYSEME_TEST_DATA", SHARED))


def abbreviated(count=2000, seed=1):
    """Words whose length grows with the logarithm of their rank, with noise, as in a corpus."""
    rng = np.random.default_rng(seed)
    lengths = 1 + np.log2(1 + np.arange(count)) / 2 + rng.normal(0, 1, count)
    return [f"{'x' * max(round(length), 1)}" for length in lengths]


def shuffled(words, seed):
    return [str(word) for word in np.random.default_rng(seed).permutation(words)]


WORD_LISTS = (
    "languages/words/ru_words_by_frequency.txt.xz",
    "languages/words/zh_words_by_frequency.txt.xz",
    "vectors/glove.6B.50d.9k.txt.gz",
    "vectors/glove.twitter.27B.25d.12k.txt.gz",
)


@pytest.mark.parametrize("source", ["bundled", *WORD_LISTS])
def test_order_of_real_files(source, bundled):
    if source == "bundled":
        words = [bundled.vocabulary.word(row) for row in range(20_000)]
    elif not (DATA / source).exists():
        pytest.skip("needs the shared data (POLYSEME_TEST_DATA)")
    else:
        with (lzma if source.endswith(".xz") else gzip).open(DATA / source, "rt") as lines:
            words = [line.split(" ")[0].strip() for line in lines]
    for count in (1000, 10_000, len(words)):
        part = words[:count]
        assert sorted_by_frequency(part) is True
        for other in (
            sorted(part, key=str.casefold, reverse=True),
            sorted(part, key=lambda word: word[::-1]),
            sorted(part, key=len),
            part[::-1],
            shuffled(part, 1),
        ):
            assert sorted_by_frequency(other) is False


def test_words_that_grow_longer_are_sorted():
    assert not any(sorted_by_frequency(shuffled(abbreviated(), seed)) for seed in range(50))
    long = abbreviated(100_000)
    # The second half is shorter than the first one's end by a twentieth of a letter.
    shorter = [w[:-1] or w if i > 50_000 and i % 9 < 5 else w for i, w in enumerate(long)]
    assert sorted_by_frequency(shorter) is True
    assert sorted_by_frequency(long[::2] + long[1::2]) is False


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], None),
        (abbreviated(MIN_ORDERED - 1), None),
        (abbreviated(MIN_ORDERED), True),
        # Numbers and punctuation are short wherever they are.
        ([*abbreviated(), *(str(n) for n in range(1000))], True),
        (["!"] * MIN_ORDERED, None),
        (["same"] * 1000, False),
        ([f"word{n:04}" for n in range(1000)], False),
    ],
)
def test_the_order_of_few_words_and_of_words_of_one_length(words, expected):
    assert sorted_by_frequency(words) is expected


UNSORTED = (
    "polyseme: Warning: the words are not sorted by frequency, so all words are treated as"
    " equally informative, which separates senses less well; --sorted overrides this test."
)
UNKNOWN_ORDER = (
    "polyseme: Warning: there are too few words to determine whether they are"
    " sorted by frequency, so all words are treated as equally informative; --sorted declares"
    " that they are sorted."
)
BY_RANK, NONE = "rank in the file", "none: the file is not known to be sorted by frequency"


def make(importer, words, vectors, *options):
    """Import rows; return the model, which has the closed form, and the warnings."""
    path = importer.file(files.rows(words, vectors))
    done = importer.run(path, "--name", "made", "--replace", "--no-subwords", *options)
    assert done.code == 0, done.err
    estimate, *warnings = done.err.splitlines()
    assert " words of dimension " in estimate
    return read_model(importer.models / "made"), warnings


def rank_biases(count):
    """log(1e-3 / (1e-3 + p)) with p by the Zipf–Mandelbrot law, 1 / (rank + 2.7)."""
    p = 1 / (np.arange(1, count + 1) + 2.7)
    return np.log(1e-3 / (1e-3 + p / p.sum()))


def assert_word_bias_by_rank(model, warnings):
    assert warnings == []
    np.testing.assert_allclose(model.word_bias, rank_biases(len(model.vocabulary)), rtol=1e-5)
    assert model.layers[0].scoring.word_bias
    assert model.manifest.training["informativeness"] == BY_RANK
    expected = sentence_whitening(model.rows, model.word_bias)
    assert np.array_equal(model.whitening.weight, expected.weight)
    assert np.array_equal(model.whitening.bias, expected.bias)


def assert_no_word_bias(model):
    assert model.word_bias is None
    assert not model.layers[0].scoring.word_bias
    assert not {"word_bias", "sentence_whitening"} & set(model.manifest.tensors)
    assert model.whitening == IDENTITY
    assert model.manifest.training["informativeness"] == NONE


ORDERED = [f"{word}{617 * i % 1000:03}" for i, word in enumerate(abbreviated(1000))]
ORDERS = [
    (ORDERED, []),
    (ORDERED[::-1], [UNSORTED]),
    (files.WORDS, [UNKNOWN_ORDER]),
]


@pytest.mark.parametrize(("words", "expected"), ORDERS, ids=len)
def test_sorted_words_get_a_word_bias_by_their_rank(importer, words, expected):
    vectors = np.random.default_rng(1).standard_normal((len(words), 3)).astype(np.float32)
    model, warnings = make(importer, words, vectors)
    assert warnings == expected
    if expected:
        assert_no_word_bias(model)
    else:
        assert_word_bias_by_rank(model, warnings)


def test_the_order_of_words_may_be_declared(importer):
    assert_word_bias_by_rank(*make(importer, files.WORDS, files.VECTORS, "--sorted"))
    model, warnings = make(importer, ORDERED, np.eye(1000, 3), "--unsorted")
    assert warnings == []
    assert_no_word_bias(model)


def test_an_import_stores_how_senses_are_found(importer):
    words = [f"word{number}" for number in range(RANDOM_SENTENCES)]
    vectors = np.random.default_rng(1).normal(size=(len(words), 3)).astype(np.float32)
    model, _ = make(importer, words, vectors)
    assert "senses.safetensors" in model.manifest.files
    estimated = estimate_projection(model)
    for read, expected in zip(model.senses, estimated, strict=True):
        np.testing.assert_array_equal(read, expected)
    model, _ = make(importer, words[1:], vectors[1:])
    assert "senses.safetensors" not in model.manifest.files and model.senses is None


def test_counts_are_preferred_to_ranks():
    counts = np.array([1, 97, 1, 1])
    counted = in_closed_form(files.VECTORS, counts, by_rank=True)
    np.testing.assert_allclose(counted.word_bias, np.log(1e-3 / (1e-3 + counts / 100)), rtol=1e-6)
    assert counted.facts["informativeness"] == "counts in the file"
