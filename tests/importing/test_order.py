"""`sorted_by_frequency` judges the order of words by English function words."""

import numpy as np
import pytest

from polyseme.importing.weights import FUNCTION_WORDS, MIN_FUNCTION_WORDS, sorted_by_frequency
from tests.tiny import WORDS

OTHERS = [f"{word}{number}" for number in range(200) for word in WORDS]


def spread(words, step):
    """Words with `step` other words after each, and then the rest of the others."""
    others = iter(OTHERS)
    mixed = []
    for word in words:
        mixed += [word, *(next(others) for _ in range(step))]
    return mixed + list(others)


def shuffled(words, seed=0):
    return [str(word) for word in np.random.default_rng(seed).permutation(words)]


def test_frequent_function_words_before_rare_ones_are_sorted():
    assert sorted_by_frequency([*FUNCTION_WORDS, *OTHERS]) is True
    assert sorted_by_frequency(spread(FUNCTION_WORDS, step=3)) is True


def test_words_may_be_sorted_with_a_few_out_of_order():
    words = list(FUNCTION_WORDS)
    for place in range(0, 40, 4):
        words[place], words[place + 3] = words[place + 3], words[place]
    assert sorted_by_frequency([*words, *OTHERS]) is True


@pytest.mark.parametrize(
    "words",
    [
        sorted([*FUNCTION_WORDS, *OTHERS]),
        sorted([*FUNCTION_WORDS, *OTHERS], reverse=True),
        [*FUNCTION_WORDS, *OTHERS][::-1],
        *(shuffled([*FUNCTION_WORDS, *OTHERS], seed) for seed in range(20)),
    ],
)
def test_another_order_is_not_sorted(words):
    assert sorted_by_frequency(words) is False


def test_function_words_in_order_behind_everything_else_are_not_sorted():
    assert sorted_by_frequency([*OTHERS, *FUNCTION_WORDS]) is False


def test_function_words_in_front_in_another_order_are_not_sorted():
    assert sorted_by_frequency([*sorted(FUNCTION_WORDS), *OTHERS]) is False


@pytest.mark.parametrize(
    "words", [[], OTHERS, [*FUNCTION_WORDS[: MIN_FUNCTION_WORDS - 1], *OTHERS]]
)
def test_the_order_is_unknown_without_enough_function_words(words):
    assert sorted_by_frequency(words) is None


def test_the_minimum_of_function_words_suffices():
    assert sorted_by_frequency([*FUNCTION_WORDS[:MIN_FUNCTION_WORDS], *OTHERS]) is True
    assert sorted_by_frequency([*FUNCTION_WORDS[:MIN_FUNCTION_WORDS][::-1], *OTHERS]) is False


def test_the_order_check_is_case_sensitive():
    assert sorted_by_frequency([word.title() for word in FUNCTION_WORDS]) is None


def test_a_repeated_word_counts_at_its_first_position():
    assert sorted_by_frequency([*FUNCTION_WORDS, *OTHERS, *FUNCTION_WORDS[::-1]]) is True


def test_a_file_of_function_words_may_be_sorted():
    assert sorted_by_frequency(FUNCTION_WORDS) is True


def test_words_may_be_an_iterator():
    assert sorted_by_frequency(iter([*FUNCTION_WORDS, *OTHERS])) is True
