"""The attention of an imported model: by the order of words, by counts, by options."""

import numpy as np
import pytest

from polyseme.importing.weights import in_closed_form
from polyseme.models.reader import read_model
from tests.encoding.calls import ask
from tests.importing import files
from tests.importing.comparison import GENSIM_DATA, word2vec

UNSORTED = (
    "polyseme: Warning: the words are not sorted by frequency, so all words are treated as"
    " equally informative, which separates senses less well; --sorted overrides this test."
)
UNTOLD = (
    "polyseme: Warning: there are too few English function words to determine whether the words are"
    " sorted by frequency, so all words are treated as equally informative; --sorted declares"
    " that they are sorted."
)
BY_RANK, NONE = "rank in the file", "none: the file is not known to be sorted by frequency"
TEXTS = ["the fire in the mountains", "a man said that the government was there", "fire"]

OTHERS = ["reversed", "alphabet", "shuffled", "rarer half in front", "front turned round"]
with_files = pytest.mark.skipif(
    not GENSIM_DATA.exists(), reason="this gensim is without its test data"
)


@pytest.fixture(scope="module")
def rows():
    """Words and vectors of a newspaper's articles, sorted by frequency, in fifty columns."""
    read = word2vec(GENSIM_DATA / "lee_fasttext.vec")
    widened = np.random.default_rng(1).standard_normal((10, 50)).astype(np.float32)
    return read.index_to_key, read.vectors @ widened


def order(name, count, words):
    """The rows of a file in another order."""
    orders = {
        "sorted": np.arange(count),
        "reversed": np.arange(count)[::-1],
        "alphabet": np.argsort(np.array(words), kind="stable"),
        "shuffled": np.random.default_rng(5).permutation(count),
        "rarer half in front": np.roll(np.arange(count), count // 2),
        "front turned round": np.r_[np.arange(300)[::-1], np.arange(300, count)],
    }
    return orders[name]


def make(importer, words, vectors, *options):
    """Import rows with the closed form; return the model and the warnings about their order."""
    content = files.rows(words, vectors)
    done = importer.run(content, "--format", "glove", "--name", "made", "--replace", *options)
    assert done.code == 0, done.err
    first, *said = done.err.splitlines()
    assert " of memory to import, " in first
    return read_model(importer.models / "made"), said


def ordered(importer, rows, name, *options):
    words, vectors = rows
    places = order(name, len(words), words)
    return make(importer, [words[place] for place in places], vectors[places], *options)


def rank_biases(count):
    """log(1e-3 / (1e-3 + p)) with p by Zipf and Mandelbrot, 1 / (rank + 2.7)."""
    p = 1 / (np.arange(1, count + 1) + 2.7)
    return np.log(1e-3 / (1e-3 + p / p.sum()))


def assert_by_rank(model, said):
    assert said == []
    np.testing.assert_allclose(model.word_bias, rank_biases(len(model.vocabulary)), rtol=1e-5)
    assert model.layers[0].scoring.word_bias
    assert model.manifest.training["informativeness"] == BY_RANK


def assert_without(model):
    assert model.word_bias is None
    assert not model.layers[0].scoring.word_bias
    assert "word_bias" not in model.manifest.tensors
    assert model.manifest.training["informativeness"] == NONE


@with_files
def test_words_sorted_by_frequency_count_by_their_rank(importer, rows):
    assert_by_rank(*ordered(importer, rows, "sorted"))


@with_files
@pytest.mark.parametrize("name", OTHERS)
def test_unsorted_words_get_equal_weights_and_a_warning(importer, rows, name):
    model, said = ordered(importer, rows, name)
    assert said == [UNSORTED]
    assert_without(model)


@with_files
@pytest.mark.parametrize("name", ["sorted", "reversed", "alphabet", "shuffled"])
def test_the_order_of_words_may_be_declared(importer, rows, name):
    assert_by_rank(*ordered(importer, rows, name, "--sorted"))
    model, said = ordered(importer, rows, name, "--unsorted")
    assert said == []
    assert_without(model)


@with_files
def test_the_order_is_judged_by_the_words_up_to_the_limit(importer, rows):
    words, vectors = rows
    content = files.rows(words, vectors) + files.rows([f"{word}~" for word in words[::-1]], vectors)
    done = importer.run(content, "--limit", str(len(words)), "--name", "made")
    assert (done.code, len(done.err.splitlines())) == (0, 1)
    assert_by_rank(read_model(importer.models / "made"), [])


def test_words_of_unknown_order_get_equal_weights(importer):
    model, said = make(importer, files.WORDS, files.VECTORS)
    assert said == [UNTOLD]
    assert_without(model)
    assert_by_rank(*make(importer, files.WORDS, files.VECTORS, "--sorted"))


@with_files
@pytest.mark.parametrize("name", ["sorted", "alphabet"])
def test_attention_of_the_closed_form_is_attention(importer, rows, name):
    """Rows sum to 1, are not uniform, and have most weight on informative words."""
    model, _ = ordered(importer, rows, name)
    for one in ask(model, TEXTS):
        weights = one.arrays["attention"]
        np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=0, atol=1e-6)
        assert np.isfinite(one.arrays["contextual"]).all()
    fire = ask(model, TEXTS)[0].arrays["attention"][0, 0, 1]  # the, fire, in, the, mountains
    assert bool(fire[4] > fire[3]) == (name == "sorted")


@with_files
def test_the_scale_of_the_vectors_does_not_matter(importer, rows):
    """Attention is of the words, so that a file with vectors eight times as long gives the same."""
    words, vectors = rows
    one, _ = make(importer, words, vectors)
    eight, _ = make(importer, words, 8 * vectors)
    for small, large in zip(ask(one, TEXTS), ask(eight, TEXTS), strict=True):
        np.testing.assert_allclose(
            small.arrays["attention"], large.arrays["attention"], rtol=0, atol=1e-5
        )


DEGENERATE = {
    "one word": (["zebra"], [[1.0, 2.0, 3.0]]),
    "one column": (list("abcd"), [[1.0], [2.0], [-1.0], [0.5]]),
    "all zero": (list("abc"), np.zeros((3, 4))),
    "all equal": (list("abc"), np.ones((3, 4))),
    "fewer words than columns": (list("ab"), np.arange(14.0).reshape(2, 7)),
    "one column that never varies": (list("abc"), [[1, 5, 2], [2, 5, 0], [0, 5, 1]]),
    "huge": (list("abc"), [[1e38, -1e38], [3e38, 1e30], [0, 1e38]]),
    "tiny": (list("abc"), [[1e-38, -1e-38], [3e-38, 1e-40], [0, 1e-38]]),
}


@pytest.mark.parametrize("by_frequency", ["--sorted", "--unsorted"])
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_vectors_still_make_a_model(importer, case, by_frequency):
    words, vectors = DEGENERATE[case]
    model, _ = make(importer, words, np.array(vectors, np.float32), by_frequency)
    for one in ask(model, ["a b", "zebra", "a a c b"]):
        weights = one.arrays["attention"]
        np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=0, atol=1e-6)


def test_counts_are_preferred_to_ranks():
    """With counts, the rank is not used."""
    counts = np.array([1, 97, 1, 1])
    told = in_closed_form(files.VECTORS, counts, by_rank=True)
    np.testing.assert_allclose(told.word_bias, np.log(1e-3 / (1e-3 + counts / 100)), rtol=1e-6)
    assert told.facts["informativeness"] == "counts in the file"
    by_rank = in_closed_form(files.VECTORS, None, by_rank=True)
    np.testing.assert_allclose(by_rank.word_bias, rank_biases(4), rtol=1e-5)
