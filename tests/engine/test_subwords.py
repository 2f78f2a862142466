"""fastText's subwords: by hand, against a slow second implementation, and against gensim."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gensim.models import fasttext
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polyseme.engine import subwords as module
from polyseme.engine.subwords import LONGEST, Subwords, distinct_ngrams, ngram_hashes, word_hashes

PROPERTY = settings(deadline=None, max_examples=100, derandomize=True)
AWKWARD = ["e\u0301", "👩🏽\u200d🚒", "🇩🇪", "\u200d", "日本語"]
AWKWARD += ["<", ">", "<>", "</s>", "\x00", "\x7f", "\x80"]
LENGTHS = [(1, 1), (1, 2), (1, 3), (2, 2), (3, 3), (3, 6), (4, 6), (5, 5), (6, 9), (1, 64)]
words = st.lists(st.one_of(st.sampled_from(AWKWARD), st.text(max_size=6)), max_size=5).map("".join)
lengths = st.sampled_from(LENGTHS)


def slow_ngrams(word, min_n, max_n):
    """The n-grams of a word by their definition (Bojanowski et al. 2017, §3.2)."""
    marked = f"<{word}>"
    # The boundary marks are no n-grams, but the same characters inside the word are.
    whole = [*word] if min_n == 1 else []
    longer = range(max(min_n, 2), max_n + 1)
    return whole + [marked[i : i + n] for n in longer for i in range(len(marked) - n + 1)]


def slow_hash(ngram):
    """FNV-1a over signed bytes, in Python integers."""
    found = 2166136261
    for byte in ngram.encode():
        signed = byte - 256 if byte > 127 else byte
        found = ((found ^ (signed % 2**32)) * 16777619) % 2**32
    return found


def vector_of(subwords, word):
    """The vector of one word."""
    (vector,) = subwords.vectors([word])
    assert vector.dtype == np.float32
    return vector


def table(rows=101, d=7, dtype=np.float32):
    return np.random.default_rng(3).standard_normal((rows, d)).astype(dtype)


def test_ascii_letters_have_the_published_hashes_of_fnv_1a():
    for hashes in (ngram_hashes(["abc"], 1, 1)[0], word_hashes("abc", 1, 1)):
        assert hashes.tolist() == [0xE40C292C, 0xE70C2DE5, 0xE60C2C52]


@PROPERTY
@given(st.lists(words, max_size=5), lengths)
@example(["👍🏽", "<", ""], (3, 6))
@example(["<", "", "ab", "é"], (1, 1))
def test_hashes_are_those_of_a_slow_implementation_and_of_gensim(several, between):
    together = ngram_hashes(several, *between)
    assert len(together) == len(several)
    for word, found in zip(several, together, strict=True):
        ngrams = [slow_hash(ngram) for ngram in slow_ngrams(word, *between)]
        assert found.dtype == np.uint32
        assert sorted(found.tolist()) == sorted(ngrams)
        assert word_hashes(word, *between).tolist() == found.tolist()
        assert Subwords(table(), *between).composes(word) == bool(ngrams)
        if word:
            expected = fasttext.ft_ngram_hashes(word, *between, 2_000_003)
            assert sorted(one % 2_000_003 for one in ngrams) == sorted(expected)


@PROPERTY
@given(words, lengths, st.sampled_from([np.float32, np.float16]))
@example("".join(map(chr, range(0x3A0, 0x3A0 + LONGEST))), (1, 64), np.float32)
def test_vectors_equal_those_of_a_slow_implementation(word, between, dtype):
    subwords = Subwords(table(dtype=dtype), *between)
    if subwords.composes(word):
        rows = [slow_hash(ngram) % 101 for ngram in slow_ngrams(word, *between)]
        expected = subwords.table[rows].astype(np.float64).mean(axis=0)
        np.testing.assert_allclose(vector_of(subwords, word), expected, rtol=0, atol=1e-6)


def test_a_word_over_the_limit_or_with_a_lone_surrogate_is_not_composed():
    subwords = Subwords(table(), 1, 6)
    for letter in ("x", "\U0010ffff"):
        assert subwords.composes(letter * LONGEST)
        assert not subwords.composes(letter * (LONGEST + 1))
    assert not any(map(subwords.composes, ["\ud800", "abc\udfff", "\udc00abc"]))
    assert np.isfinite(vector_of(subwords, "\U0010ffff" * LONGEST)).all()


def test_a_mean_of_the_largest_numbers_does_not_overflow():
    largest = np.finfo(np.float32).max
    subwords = Subwords(np.full((5, 2), largest, np.float32), 1, 6)
    assert vector_of(subwords, "apple").tolist() == [largest, largest]


def test_a_table_with_own_rows_composes_words_of_known_ngrams():
    known = np.sort(np.array([slow_hash(one) for one in ("<ab", "abc", "bc>")], np.uint32))
    rows = np.eye(3, dtype=np.float32)
    subwords = Subwords(rows, 3, 3, known, 0.5, own_rows=True)
    # abc has three known n-grams of three; abcd <ab and abc of four; xabc abc and bc> of four.
    words = ("abc", "abcd", "xabc", "ab", "xyz")
    assert [*filter(subwords.composes, words)] == ["abc"]
    generous = replace(subwords, coverage=0.4)
    assert [*filter(generous.composes, words)] == ["abc", "abcd", "xabc", "ab"]
    indices = [known.tolist().index(slow_hash(ngram)) for ngram in ("<ab", "abc")]
    assert vector_of(generous, "abcd").tolist() == rows[indices].mean(axis=0).tolist()
    # A hashed table decides by the known n-grams too, and has the vectors of all.
    hashed = replace(generous, own_rows=False)
    assert [hashed.composes(word) for word in ("abcd", "xyz")] == [True, False]
    indices = [slow_hash(ngram) % 3 for ngram in ("<ab", "abc", "bcd", "cd>")]
    np.testing.assert_allclose(vector_of(hashed, "abcd"), rows[indices].mean(axis=0), rtol=1e-6)


def test_the_most_frequent_ngrams_come_first():
    ngrams = distinct_ngrams(["aba", "bab", "aba"], 2, 2)
    # <a a> of aba twice; ab and ba in each word; <b b> once.
    expected = ["ab", "ba", "<a", "a>", "<b", "b>"]
    assert ngrams.tolist() == [slow_hash(one) for one in expected]


@pytest.mark.parametrize("letters", ["abcdefghij", "абвгдежзик", "ABCDEFGHIJ"])
def test_random_strings_of_any_alphabet_are_not_composed(letters):
    rng = np.random.default_rng(4)
    syllables = ["".join(rng.choice(list(letters), 2)) for _ in range(12)]
    known = sorted({"".join(rng.choice(syllables, 3)) for _ in range(3000)})
    subwords = Subwords(table(), 2, 4).restricted(known)
    random = ["".join(rng.choice(list(letters), rng.integers(4, 9))) for _ in range(500)]
    assert np.mean([subwords.composes(word) for word in random]) < 0.25
    new = ["".join(rng.choice(syllables, 4)) for _ in range(500)]
    assert np.mean([subwords.composes(word) for word in new]) > 0.9
    assert not subwords.composes("qwrtpsz")


def test_only_the_most_frequent_words_have_known_ngrams(monkeypatch):
    monkeypatch.setattr(module, "MAX_WORDS", 1100)
    several = [f"{i:x}" for i in range(1200)]
    known = {slow_hash(one) for word in several[:1100] for one in slow_ngrams(word, 2, 3)}
    assert Subwords(table(), 2, 3).restricted(several).ngrams.tolist() == sorted(known)


def test_few_words_restrict_nothing():
    subwords = Subwords(table(), 3, 6)
    assert subwords.restricted(["word"] * 999) is subwords


# gensim has its own reader of fastText's files, and composes words in Cython.

FILES = (
    *("crime-and-punishment", "lee_fasttext", "lee_fasttext_new", "non_ascii_fasttext"),
    *("toy-model", "toy-model-pretrained", "cp852_fasttext"),
)


@pytest.fixture(scope="module", params=FILES)
def gensim_and_subwords(request):
    """A fastText file as gensim's word vectors and as `Subwords`."""
    folder = Path(fasttext.__file__).parents[1] / "test" / "test_data"
    path = folder / f"{request.param}.bin"
    if not path.exists():
        pytest.skip("this gensim comes without its test data")
    encoding = "cp852" if "cp852" in request.param else "utf-8"
    vectors = fasttext.load_facebook_vectors(path, encoding=encoding)
    return vectors, Subwords(vectors.vectors_ngrams, vectors.min_n, vectors.max_n)


def test_unknown_words_have_the_vectors_of_gensim(gensim_and_subwords):
    vectors, subwords = gensim_and_subwords
    assert len(subwords.table) == vectors.bucket
    unknown = ["", "q", "qz", "zebra", "Gnu", "naïve", "日本語", "👩🏽\u200d🚒", "e\u0301e\u0301"]
    unknown += [f"{word}qz" for word in vectors.index_to_key[:500]]
    for word in unknown:
        if word in vectors.key_to_index:
            continue
        expected = vectors.get_vector(word)
        if subwords.composes(word):
            np.testing.assert_allclose(vector_of(subwords, word), expected, rtol=0, atol=1e-6)
        else:
            assert not expected.any()
