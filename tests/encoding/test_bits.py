"""A sentence gets the same bits alone, in a batch, and in a batch of another order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.encoding.asking import EVERY, ask, ask_one, same_bits
from tests.tiny import WORDS, full_layer, normal, tiny_model

SENTENCE = st.lists(st.sampled_from([*WORDS, "zebra", "BANK"]), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def broad(tmp_path_factory):
    """A model as wide as real ones, where BLAS has different kernels for different shapes."""
    rng = np.random.default_rng(5)
    words = [f"w{n}" for n in range(211)]
    layers = [full_layer(n, d=101, heads=2, k=53, v=47) for n in range(2)]
    place = tmp_path_factory.mktemp("broad")
    bias = normal(rng, 211)
    return tiny_model(
        place, words=words, vectors=normal(rng, 211, 101), layers=layers, word_bias=bias
    )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(texts=st.lists(SENTENCE, min_size=1, max_size=6), data=st.data())
def test_a_sentence_gets_the_same_bits_in_any_batch(deep, texts, data):
    alone = [ask_one(deep, text, include=EVERY) for text in texts]
    order = data.draw(st.permutations(range(len(texts))))
    batch = ask(deep, texts, include=EVERY)
    other = ask(deep, [texts[number] for number in order], include=EVERY)
    assert all(same_bits(a, b) for a, b in zip(alone, batch, strict=True))
    assert all(same_bits(alone[n], one) for n, one in zip(order, other, strict=True))


def test_a_wide_model_gives_the_same_bits_in_any_batch(broad):
    rng = np.random.default_rng(11)
    texts = [[f"w{n}" for n in rng.integers(0, 220, size)] for size in (1, 2, 3, 7, 17, 64, 301, 1)]
    alone = [ask_one(broad, text, include=EVERY) for text in texts]
    batch = ask(broad, texts[::-1], include=EVERY)[::-1]
    assert all(same_bits(a, b) for a, b in zip(alone, batch, strict=True))


def test_two_times_the_same_sentence_gives_the_same_bits_twice(broad):
    one, other = ask(broad, ["w1 w2 w3 w1"] * 2, include=EVERY)
    assert same_bits(one, other)


def test_an_empty_sentence_leaves_a_batch_in_float32(deep):
    texts = ["bank river", "", "apple", []]
    for one, text in zip(ask(deep, texts, include=EVERY), texts, strict=True):
        assert same_bits(one, ask_one(deep, text, include=EVERY))
        assert {array.dtype for array in one.arrays.values()} == {np.dtype(np.float32)}


def test_two_occurrences_of_a_word_differ_where_the_model_has_places(deep):
    contextual = ask_one(deep, "bank river bank").arrays["contextual"]
    assert not np.array_equal(contextual[0], contextual[2])
