"""The attention of an imported model: by the order of words, by counts, by options."""

import gzip
import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from polyseme.engine.layers import IDENTITY
from polyseme.importing.closed_form import sentence_whitening
from polyseme.importing.importer import ImportOptions, import_vectors
from polyseme.importing.weights import MIN_ORDERED, in_closed_form, sorted_by_frequency
from polyseme.models.reader import read_model
from polyseme.senses.occurrences import RANDOM_SENTENCES, estimate_projection
from tests.importing import files
from tests.importing.comparison import GENSIM_DATA, word2vec

needs_gensim_data = pytest.mark.skipif(
    not GENSIM_DATA.exists(), reason="this gensim is without its test data"
)
SHARED = Path(__file__).parents[3] / "shared" / "data"
DATA = Path(os.environ.get("POLYSEME_TEST_DATA", SHARED))


def abbreviated(count=2000, seed=1):
    """Words whose length grows with the logarithm of their rank, with noise, as in a corpus."""
    rng = np.random.default_rng(seed)
    lengths = 1 + np.log2(1 + np.arange(count)) / 2 + rng.normal(0, 1, count)
    return [f"{'x' * max(round(length), 1)}" for length in lengths]


def shuffled(words, seed):
    return [str(word) for word in np.random.default_rng(seed).permutation(words)]


@pytest.mark.parametrize(
    "source",
    [
        "bundled",
        "languages/words/ru_words_by_frequency.txt.xz",
        "languages/words/zh_words_by_frequency.txt.xz",
        "vectors/glove.6B.50d.9k.txt.gz",
        "vectors/glove.twitter.27B.25d.12k.txt.gz",
    ],
)
def test_order_of_real_files(source, bundled):
    if source == "bundled":
        words = [bundled.vocabulary.word(row) for row in range(len(bundled.vocabulary))]
    elif not (DATA / source).exists():
        pytest.skip("needs the shared data (POLYSEME_TEST_DATA)")
    else:
        with (lzma if source.endswith(".xz") else gzip).open(DATA / source, "rt") as lines:
            words = [line.split(" ")[0].strip() for line in lines]
    for count in (1000, 10_000, len(words)):
        part = words[:count]
        assert sorted_by_frequency(part) is True
        for other in (
            sorted(part),
            sorted(part, key=str.casefold, reverse=True),
            sorted(part, key=lambda word: word[::-1]),
            sorted(part, key=len),
            part[::-1],
            *(shuffled(part, seed) for seed in range(5)),
        ):
            assert sorted_by_frequency(other) is False


def test_words_that_grow_longer_are_sorted():
    assert sorted_by_frequency(abbreviated()) is True
    assert sorted_by_frequency(abbreviated()[::-1]) is False
    assert not any(sorted_by_frequency(shuffled(abbreviated(), seed)) for seed in range(50))
    long = abbreviated(100_000)
    # The second half is shorter than the first one's end by a twentieth of a letter.
    shorter = [w[:-1] or w if i > 50_000 and i % 9 < 5 else w for i, w in enumerate(long)]
    assert sorted_by_frequency(shorter) is True
    assert sorted_by_frequency(long[::2] + long[1::2]) is False


def test_the_order_of_few_words_is_unknown():
    assert sorted_by_frequency([]) is None
    assert sorted_by_frequency(abbreviated(MIN_ORDERED - 1)) is None
    assert sorted_by_frequency(abbreviated(MIN_ORDERED)) is not None


def test_numbers_and_punctuation_do_not_count():
    # They are short wherever they are.
    assert sorted_by_frequency([*abbreviated(), *(str(n) for n in range(1000))]) is True
    assert sorted_by_frequency(["!"] * MIN_ORDERED) is None


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


@pytest.fixture(scope="module")
def rows():
    """Words of newspaper articles, sorted by frequency, with vectors of dimension 50."""
    read = word2vec(GENSIM_DATA / "lee_fasttext.vec")
    widened = np.random.default_rng(1).standard_normal((10, 50)).astype(np.float32)
    return read.index_to_key, read.vectors @ widened


def make(importer, words, vectors, *options):
    """Import rows; return the model, which has the closed form, and the warnings."""
    content = files.rows(words, vectors)
    names = ("--format", "glove", "--name", "made", "--replace", "--no-subwords")
    done = importer.run(content, *names, *options)
    assert done.code == 0, done.err
    estimate, *lines = done.err.splitlines()
    assert " words of dimension " in estimate
    warnings = [line for line in lines if "of the language en;" not in line]
    return read_model(importer.models / "made"), warnings


ORDERS = {
    "sorted": lambda n: n,
    "reversed": lambda n: n[::-1],
    "rarer half in front": lambda n: np.roll(n, len(n) // 2),
    "front reversed": lambda n: np.r_[n[:300][::-1], n[300:]],
}


def ordered(importer, rows, name, *options):
    """Import the rows in an order; return the model and the warnings."""
    words, vectors = rows
    order = ORDERS[name](np.arange(len(words)))
    return make(importer, [words[i] for i in order], vectors[order], *options)


def rank_biases(count):
    """log(1e-3 / (1e-3 + p)) with p by the Zipf–Mandelbrot law, 1 / (rank + 2.7)."""
    p = 1 / (np.arange(1, count + 1) + 2.7)
    return np.log(1e-3 / (1e-3 + p / p.sum()))


def assert_word_bias_by_rank(model, warnings):
    assert warnings == []
    np.testing.assert_allclose(model.word_bias, rank_biases(len(model.vocabulary)), rtol=1e-5)
    assert model.layers[0].scoring.word_bias
    assert model.manifest.training["informativeness"] == BY_RANK


def assert_no_word_bias(model):
    assert model.word_bias is None
    assert not model.layers[0].scoring.word_bias
    assert "word_bias" not in model.manifest.tensors
    assert model.manifest.training["informativeness"] == NONE


@needs_gensim_data
def test_words_sorted_by_frequency_get_a_word_bias_by_their_rank(importer, rows):
    assert_word_bias_by_rank(*ordered(importer, rows, "sorted"))


@needs_gensim_data
@pytest.mark.parametrize("name", [name for name in ORDERS if name != "sorted"])
def test_unsorted_words_get_no_word_bias_and_a_warning(importer, rows, name):
    model, warnings = ordered(importer, rows, name)
    assert warnings == [UNSORTED]
    assert_no_word_bias(model)


@needs_gensim_data
def test_the_order_is_judged_by_the_words_up_to_the_limit(importer, rows):
    words, vectors = rows
    content = files.rows(words, vectors) + files.rows([f"{word}~" for word in words[::-1]], vectors)
    done = importer.run(content, "--limit", str(len(words)), "--name", "made")
    assert done.code == 0 and "Warning" not in done.err
    assert_word_bias_by_rank(read_model(importer.models / "made"), [])


def test_words_of_unknown_order_get_no_word_bias_and_a_warning(importer):
    model, warnings = make(importer, files.WORDS, files.VECTORS)
    assert warnings == [UNKNOWN_ORDER]
    assert_no_word_bias(model)
    assert_word_bias_by_rank(*make(importer, files.WORDS, files.VECTORS, "--sorted"))


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
    ranked = in_closed_form(files.VECTORS, None, by_rank=True)
    np.testing.assert_allclose(ranked.word_bias, rank_biases(4), rtol=1e-5)


@pytest.mark.parametrize("ordered", [True, False])
def test_an_import_stores_the_whitening_if_frequencies_are_known(tmp_path, ordered):
    vectors = np.random.default_rng(5).standard_normal((300, 5)).astype(np.float32)
    lines = (f"word{place} {' '.join(map(str, row))}\n" for place, row in enumerate(vectors))
    file = tmp_path / "v.txt"
    file.write_text("".join(lines))
    import_vectors(file, tmp_path / "v", ImportOptions(format="glove", sorted=ordered))
    model = read_model(tmp_path / "v")
    assert ("sentence_whitening" in model.manifest.tensors) == ordered
    if ordered:
        expected = sentence_whitening(model.rows, model.word_bias)
        assert np.array_equal(model.whitening.weight, expected.weight)
        assert np.array_equal(model.whitening.bias, expected.bias)
    else:
        assert model.whitening == IDENTITY


@pytest.mark.parametrize("words", [["same"] * 1000, [f"word{n:04}" for n in range(1000)]])
def test_words_of_one_length_are_not_sorted(words):
    assert sorted_by_frequency(words) is False


@needs_gensim_data
@pytest.mark.parametrize("name", ["sorted", "reversed"])
def test_the_order_of_words_may_be_declared(importer, rows, name):
    assert_word_bias_by_rank(*ordered(importer, rows, name, "--sorted"))
    model, warnings = ordered(importer, rows, name, "--unsorted")
    assert warnings == []
    assert_no_word_bias(model)
