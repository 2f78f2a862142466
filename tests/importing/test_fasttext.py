"""fastText files: vectors of known and composed words, counts and n-grams, as gensim has them."""

from collections import Counter

import numpy as np
import pytest
from gensim.models.fasttext import FastText, save_facebook_model

from polyseme.engine.subwords import MIN_WORDS
from tests.importing import files
from tests.importing.comparison import (
    GENSIM_DATA,
    assert_same,
    facebook,
    imported,
    table_of,
)
from tests.operations.calls import ask_one

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


def save(path, min_n=2, max_n=5, **options):
    """Train vectors with gensim and save them in the format of fastText's program."""
    settings = {"vector_size": 7, "window": 2, "min_count": 1, "bucket": 101, "epochs": 2}
    model = FastText(
        CORPUS, **settings, min_n=min_n, max_n=max_n, seed=3, workers=1, sg=1, **options
    )
    save_facebook_model(model, str(path))
    return path


@pytest.fixture(scope="module", params=LENGTHS, ids=str)
def trained(request, tmp_path_factory):
    """A file, and the vectors that gensim reads from it."""
    path = save(tmp_path_factory.mktemp("fasttext") / "words.bin", *request.param)
    return path, facebook(path)


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
    model = imported(importer, path)
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
@pytest.mark.skipif(not GENSIM_DATA.exists(), reason="this gensim is without its test data")
def test_files_of_facebooks_program_are_read_as_gensim_reads_them(importer, name):
    """Words of too few known n-grams are not composed."""
    right = facebook(GENSIM_DATA / name, ENCODINGS[name])
    model = imported(importer, GENSIM_DATA / name, "--encoding", ENCODINGS[name])
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


def assert_biases(model, counts):
    p = np.array(counts) / np.sum(counts, dtype=np.float64)
    np.testing.assert_allclose(model.word_bias, np.log(1e-3 / (1e-3 + p)), rtol=1e-6)
    assert model.layers[0].scoring.word_bias


def test_counts_apply_in_any_order_and_of_any_size(importer):
    for counts in ([5, 1, 300, 2], [2**62, 2**62, 2**63 - 1, 1]):
        model = imported(importer, files.fasttext(counts=counts))
        assert_biases(model, counts)
        assert table_of(model)[0] == list(files.WORDS)


def test_a_file_without_ngrams_has_no_subwords(importer, tmp_path):
    """fastText's `-maxn 0` turns n-grams off and does not change `minn`."""
    path = save(tmp_path / "words.bin", 3, 0)
    right = facebook(path)
    model = imported(importer, path)
    assert_same(model, right.index_to_key, right.vectors)
    assert model.subwords is None
    assert composed(model, ["catz"])[1] == ["oov"]


def test_words_beyond_the_limit_are_composed_of_ngrams(importer, trained):
    path, right = trained
    model = imported(importer, path, "--limit", "3")
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
    right = facebook(path)
    data = path.read_bytes()
    mir = "мир".encode()
    damaged = data.replace(b"cat\0", b"c\xfft\0").replace(mir + b"\0", b"\xff" * len(mir) + b"\0")
    kept = [row for row, word in enumerate(right.index_to_key) if word not in {"cat", "мир"}]
    model = imported(importer, importer.file(damaged), "--skip-bad-rows")
    assert_same(model, [right.index_to_key[row] for row in kept], right.vectors[kept])
    counts = Counter(word for line in CORPUS for word in line)
    assert_biases(model, [counts[right.index_to_key[row]] for row in kept])
    assert model.manifest.training["file"]["left_out"] == 2
