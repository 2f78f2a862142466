"""`sorted_by_frequency` judges the order of words by their lengths, in any language."""

import numpy as np
import pytest

from polyseme.importing.weights import MIN_ORDERED, sorted_by_frequency
from tests.importing.comparison import GENSIM_DATA, word2vec

needs_gensim_data = pytest.mark.skipif(
    not GENSIM_DATA.exists(), reason="this gensim is without its test data"
)
CYRILLIC = str.maketrans("abcdefghijklmnopqrstuvwxyz", "яющшчцхфутсрпонмлкйизжедгб")


def abbreviated(count=2000, seed=1):
    """Words whose length grows with the logarithm of their rank, with noise, as in a corpus."""
    rng = np.random.default_rng(seed)
    lengths = 1 + np.log2(1 + np.arange(count)) / 2 + rng.normal(0, 1, count)
    return [f"{'x' * max(round(length), 1)}" for length in lengths]


def shuffled(words, seed):
    return [str(word) for word in np.random.default_rng(seed).permutation(words)]


@pytest.fixture(scope="module")
def newspaper():
    """The words of newspaper articles, sorted by frequency."""
    return word2vec(GENSIM_DATA / "lee_fasttext.vec").index_to_key


@needs_gensim_data
def test_real_words_are_judged(newspaper):
    assert sorted_by_frequency(newspaper) is True
    for words in (newspaper[::-1], sorted(newspaper), sorted(newspaper)[::-1]):
        assert sorted_by_frequency(words) is False
    assert not any(sorted_by_frequency(shuffled(newspaper, seed)) for seed in range(50))


@needs_gensim_data
def test_the_letters_do_not_matter(newspaper):
    exchanged = [word.translate(CYRILLIC) for word in newspaper]
    assert exchanged != newspaper
    assert sorted_by_frequency(exchanged) is True
    assert sorted_by_frequency(sorted(exchanged)) is False


def test_words_that_grow_longer_are_sorted():
    assert sorted_by_frequency(abbreviated()) is True
    assert sorted_by_frequency(abbreviated()[::-1]) is False
    assert not any(sorted_by_frequency(shuffled(abbreviated(), seed)) for seed in range(50))


def test_words_that_are_sorted_by_length_are_not_sorted_by_frequency():
    assert sorted_by_frequency(sorted(abbreviated(), key=len)) is False


def test_words_that_hardly_grow_are_not_sorted():
    # One letter more at the end of each group of the same lengths, of which the deviation is 5.
    lengths = np.tile([5, 15], 1600) + np.repeat(np.arange(6) // 2, [100, 100, 200, 400, 800, 1600])
    words = ["x" * length for length in lengths]
    assert sorted_by_frequency(words) is False


@pytest.mark.parametrize("words", [["same"] * 1000, [f"word{n:04}" for n in range(1000)]])
def test_words_of_one_length_are_not_sorted(words):
    assert sorted_by_frequency(words) is False


def test_the_order_of_few_words_is_unknown():
    assert sorted_by_frequency([]) is None
    assert sorted_by_frequency(abbreviated(MIN_ORDERED - 1)) is None
    assert sorted_by_frequency(abbreviated(MIN_ORDERED)) is not None


def test_numbers_and_punctuation_do_not_count():
    # They are short wherever they are.
    assert sorted_by_frequency([*abbreviated(), *(str(n) for n in range(1000))]) is True
    assert sorted_by_frequency(["!"] * MIN_ORDERED) is None


def test_words_may_be_an_iterator():
    assert sorted_by_frequency(iter(abbreviated())) is True
