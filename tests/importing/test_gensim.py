"""Files of gensim's tests, published ones and trained ones are read as gensim reads them."""

import hashlib
import warnings
from collections import Counter
from pathlib import Path

import gensim
import numpy as np
import pytest
from gensim.models import KeyedVectors
from gensim.models.fasttext import FastText, load_facebook_vectors, save_facebook_model

from polyseme.engine.subwords import MIN_WORDS
from tests.importing import files
from tests.importing.conftest import (
    SHARED,
    assert_quantized,
    assert_same,
    assert_word_bias,
    words_of,
)
from tests.operations.calls import ask_one

DATA = Path(gensim.__file__).parent / "test" / "test_data"
"""The files that gensim tests its readers with."""
GENUINE = SHARED / "vectors"
"""Rows of GloVe's and Word2Vec's published vectors."""
needs_data = pytest.mark.skipif(not DATA.exists(), reason="this gensim is without its test data")
TEXT = [
    "lee_fasttext.vec",
    "IT.1-10.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt",
    "word2vec_pre_kv_c",
    "high_precision.kv.txt",
]
BINARY = ["euclidean_vectors.bin", "poincare_vectors.bin", "high_precision.kv.bin"]
READ_ROWS = [
    *((name, "word2vec-text", {}) for name in TEXT),
    ("test_glove.txt", "glove", {"no_header": True}),
    *((name, "word2vec-binary", {"binary": True}) for name in BINARY),
]


def word2vec(path, **options):
    """The vectors that gensim reads from a GloVe or word2vec file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # without a header it opens a file twice
        return KeyedVectors.load_word2vec_format(path, **options)


@needs_data
@pytest.mark.parametrize(("name", "kind", "options"), READ_ROWS)
def test_rows_are_read_as_gensim_reads_them(importer, name, kind, options):
    right = word2vec(DATA / name, **options)
    model = importer.model(DATA / name, "--no-weights", "--no-subwords")
    assert_same(model, right.index_to_key, right.vectors)
    assert model.manifest.training["file"]["format"] == kind


PUBLISHED = {
    "glove.6B.50d.9k.txt.gz": ("glove", "--subwords", {"no_header": True}),
    "glove.twitter.27B.25d.12k.txt.gz": ("glove", "--no-subwords", {"no_header": True}),
    "GoogleNews.8k.300d.bin.gz": ("word2vec-binary", "--no-subwords", {"binary": True}),
}


@pytest.mark.slow
@pytest.mark.parametrize("file", PUBLISHED)
@pytest.mark.skipif(not GENUINE.exists(), reason="needs published rows (POLYSEME_TEST_DATA)")
def test_published_rows_are_read_as_gensim_reads_them(importer, file):
    kind, subwords, options = PUBLISHED[file]
    right = word2vec(GENUINE / file, **options)
    model = importer.model(GENUINE / file, "--licence", "PDDL", subwords)
    assert "Warning" not in str(importer.progress)  # the words are found to be sorted
    assert_same(model, right.index_to_key, right.vectors)
    manifest = model.manifest
    assert manifest.cased is ("Google" in file)
    assert (manifest.vocabulary_size, manifest.dimension) == right.vectors.shape
    assert (manifest.dtype, manifest.licence, manifest.source) == ("float32", "PDDL", file)
    assert (manifest.heads, len(manifest.layers)) == (1, 1)
    if subwords == "--subwords":
        entry = manifest.subwords
        assert (entry.min_n, entry.max_n, entry.dtype, entry.own_rows) == (2, 4, "int8", True)
    digest = hashlib.sha256((GENUINE / file).read_bytes()).hexdigest()
    assert manifest.training == {
        "attention": "closed form",
        "informativeness": "rank in the file",
        "file": {"format": kind, "sha256": digest, "left_out": 0},
    }


CORPUS = [
    *[["the", "cat", "sat", "by", "the", "naïve", "zebra"]] * 7,
    *[["日本語", "の", "単語", "ベクトル"], ["привет", "мир", "ёлка"], ["שלום", "עולם"]] * 5,
    *[["مرحبا", "بالعالم"], ["γειά", "σου", "κόσμε"], ["नमस्ते", "दुनिया"], ["สวัสดี", "ชาวโลก"]] * 3,
    *[["한국어", "단어"], ["👩🏽\u200d🚒", "🇫🇷", "don't", "3.14", "ﬃ", "e\u0301"]] * 2,
]
LACKING = [
    *("catz", "q", "zebras", "Θάλασσα", "привета", "日本", "単語帳", "שלומות", "مرحبان", "नमस्तेजी"),
    *("สวัสดีครับ", "한국", "👩🏽", "🚒🚒", "e\u0301e\u0301", "ϢϥϧϩϫϭϯϢϥ", "naïveté"),
    *("x" * 200, "\u200d"),
]
LENGTHS = [(2, 5), (1, 1), (5, 6)]


def save(path, min_n=2, max_n=5):
    """Train vectors with gensim and save them in the format of fastText's program."""
    settings = {"vector_size": 7, "window": 2, "min_count": 1, "bucket": 101, "epochs": 2, "sg": 1}
    model = FastText(CORPUS, **settings, min_n=min_n, max_n=max_n, seed=3, workers=1)
    save_facebook_model(model, str(path))
    return path


@pytest.fixture(scope="module", params=LENGTHS, ids=str)
def trained(request, tmp_path_factory):
    """A file, and the vectors that gensim reads from it."""
    path = save(tmp_path_factory.mktemp("fasttext") / "words.bin", *request.param)
    return path, load_facebook_vectors(str(path))


def composed(model, words):
    """The static vectors of words, and their resolutions. -> [n, d], [n]"""
    one = ask_one(model, list(words), case="exact")
    return one.arrays["static"], [token.resolution for token in one.tokens]


def grams(right, word):
    """The number of n-grams of a word."""
    longest = min(right.max_n, len(word) + 2)
    return sum(len(word) + 3 - n - 2 * (n == 1) for n in range(right.min_n, longest + 1))


def test_words_of_many_scripts_have_the_vectors_of_gensim(importer, trained):
    path, right = trained
    model = importer.model(path)
    assert_same(model, right.index_to_key, right.vectors)
    assert set(right.index_to_key) == {word for line in CORPUS for word in line}
    static, resolutions = composed(model, right.index_to_key)
    assert static.tobytes() == right.vectors.tobytes()
    assert set(resolutions) == {"exact"}
    static, resolutions = composed(model, LACKING)
    for word, row, resolution in zip(LACKING, static, resolutions, strict=True):
        assert resolution == ("subword" if grams(right, word) > 0 else "oov"), word
        np.testing.assert_allclose(row, right[word], rtol=0, atol=1e-6, err_msg=word)
    assert len({row.tobytes() for row in static}) > len(LACKING) // 2


ENCODINGS = {
    "lee_fasttext.bin": "utf-8",
    "lee_fasttext_new.bin": "utf-8",
    "toy-model.bin": "utf-8",
    "non_ascii_fasttext.bin": "utf-8",
    "cp852_fasttext.bin": "cp852",
}


@pytest.mark.parametrize("name", ENCODINGS)
@needs_data
def test_files_of_facebooks_program_are_read_as_gensim_reads_them(importer, name):
    """Words of too few known n-grams are not composed."""
    right = load_facebook_vectors(DATA / name, ENCODINGS[name])
    model = importer.model(DATA / name, "--encoding", ENCODINGS[name])
    assert_same(model, right.index_to_key, right.vectors)
    assert (model.subwords.min_n, model.subwords.max_n) == (right.min_n, right.max_n)
    assert model.subwords.table.tobytes() == right.vectors_ngrams.tobytes()
    lacking = [f"{word[::-1]}q" for word in right.index_to_key[:200]] + LACKING
    static, resolutions = composed(model, lacking)
    is_composed = np.array(resolutions) == "subword"
    count = len(lacking) - is_composed.sum()
    assert 50 < count < 200 if len(right.index_to_key) >= MIN_WORDS else count == 0
    expected = np.array([right[word] for word in lacking]) * is_composed[:, None]
    # The longest word, before the last, has 800 n-grams, whose float32 sum in gensim is less exact.
    np.testing.assert_allclose(static[:-2], expected[:-2], rtol=0, atol=1e-6)
    np.testing.assert_allclose(static, expected, rtol=0, atol=1e-5)


@needs_data
def test_the_ngrams_of_fasttext_are_quantized(importer):
    file = DATA / "lee_fasttext_new.bin"
    right, model = load_facebook_vectors(file), importer.model(file, "--dtype", "int8")
    assert_quantized(model.rows, right.vectors)
    assert_quantized(model.subwords.table, right.vectors_ngrams)


def test_counts_in_any_order_and_of_any_size_are_preferred_to_ranks(importer):
    for counts in ([5, 1, 300, 2], [2**62, 2**62, 2**63 - 1, 1]):
        model = importer.model(files.fasttext(counts=counts), "--sorted")
        assert_word_bias(model, counts)
        assert model.manifest.training["informativeness"] == "counts in the file"
        assert words_of(model) == list(files.WORDS)


def test_a_file_without_ngrams_has_no_subwords(importer, tmp_path):
    """fastText's `-maxn 0` turns n-grams off and does not change `minn`."""
    path = save(tmp_path / "words.bin", 3, 0)
    right = load_facebook_vectors(str(path))
    model = importer.model(path)
    assert_same(model, right.index_to_key, right.vectors)
    assert model.subwords is None
    assert composed(model, ["catz"])[1] == ["oov"]


def test_words_beyond_the_limit_are_composed_of_ngrams(importer, trained):
    path, right = trained
    model = importer.model(path, "--limit", "3")
    assert_same(model, right.index_to_key[:3], right.vectors[:3])
    beyond = right.index_to_key[3]
    static, _ = composed(model, [beyond, "catz"])
    ngrams = right.vectors_ngrams[right.buckets_word[3]]
    expected = ngrams.mean(axis=0) if len(ngrams) else np.zeros(7)
    np.testing.assert_allclose(static[0], expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(static[1], right["catz"], rtol=0, atol=1e-6)


def test_skipped_words_do_not_affect_others(importer, tmp_path):
    """The words after a skipped one keep their own vectors and counts."""
    path = save(tmp_path / "words.bin")
    right = load_facebook_vectors(str(path))
    data = path.read_bytes()
    mir = "мир".encode()
    damaged = data.replace(b"cat\0", b"c\xfft\0").replace(mir + b"\0", b"\xff" * len(mir) + b"\0")
    kept = [row for row, word in enumerate(right.index_to_key) if word not in {"cat", "мир"}]
    model = importer.model(damaged, "--skip-bad-rows")
    assert_same(model, [right.index_to_key[row] for row in kept], right.vectors[kept])
    counts = Counter(word for line in CORPUS for word in line)
    assert_word_bias(model, [counts[right.index_to_key[row]] for row in kept])
    assert model.manifest.training["file"]["left_out"] == 2
