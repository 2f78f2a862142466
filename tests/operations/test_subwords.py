"""Out-of-vocabulary words composed of subwords: numbers derived by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from polyseme.engine.attention import Scoring
from polyseme.engine.layers import Layer, Projection
from polyseme.engine.subwords import LONGEST, Subwords
from polyseme.errors import UnknownWordError
from polyseme.operations.compare import Occurrence
from tests.operations.calls import (
    EVERY,
    ask,
    ask_one,
    compare_occurrences,
    neighbors_of_vector,
    neighbors_of_word,
    same_bits,
    trace_text,
)
from tests.tiny import SUBWORDS, WORDS, tiny_model
from tests.tokenizer.vocabularies import texts

GNU, ZEBRA, BANK = [2, 0, 0, 0, 1], [3, 0, 0, 0, 0], [1, 1, 0, 0, 0]


@pytest.fixture(scope="module")
def wide(deep):
    """The deep model with n-grams of several lengths in many buckets."""
    rows = np.random.default_rng(5).standard_normal((1009, 5)).astype(np.float16)
    return replace(deep, subwords=Subwords(rows, 2, 5))


def resolved(one):
    """The text, the key and the resolution of each token."""
    return [(token.text, token.key, token.resolution) for token in one.tokens]


def test_an_unknown_word_is_the_mean_of_its_trigrams(composing):
    one = ask_one(composing, ["gnu", "bank", "zebra bank", "zebra", ""])
    assert resolved(one) == [
        ("gnu", None, "subword"),
        ("bank", "bank", "exact"),
        ("zebra bank", None, "subword"),
        ("zebra", None, "subword"),
        ("", None, "oov"),
    ]
    assert one.arrays["static"][[0, 1, 3, 4]].tolist() == [GNU, BANK, ZEBRA, [0] * 5]


def test_a_composed_word_is_a_query_and_a_key(composing):
    one = ask_one(composing, "gnu bank")
    # gnu·gnu = 5 and gnu·bank = bank·bank = 2.
    e = np.exp([[5.0, 2.0], [2.0, 2.0]])
    weights = e / e.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(one.arrays["attention"][0, 0], weights, atol=1e-6)
    expected = weights @ np.array([GNU, BANK])
    np.testing.assert_allclose(one.arrays["contextual"], expected, rtol=0, atol=1e-6)


def biased(tmp_path, *biases):
    """A model without association, with these word biases."""
    zero = Projection(np.zeros((5, 5), np.float32))
    layer = Layer(query=zero, scoring=Scoring(scale=False, word_bias=True))
    model = tiny_model(tmp_path, layers=[layer], word_bias=np.array(biases, np.float32))
    return replace(model, subwords=SUBWORDS)


def test_a_composed_word_has_the_mean_word_bias_of_tokens_of_its_length(tmp_path):
    # Of three letters are n't, did and end, of five apple, Apple, APPLE, river and money.
    frequencies = {"n't": 1, "did": 3, "end": 0, "apple": 1, "bank": 2}
    model = biased(tmp_path, *(-np.log1p(frequencies.get(word, 0)) for word in WORDS))
    three, five = -(np.log(2) + 3 * np.log(4)) / 4, -np.log(2)
    found = model.expected_word_bias(["gnu", "zebra", "x", "x" * 300], "tokens")
    assert found == pytest.approx([three, five, 0, 0])
    found = model.expected_word_bias(["gnu", "zebra", "x"], "words")
    assert found == pytest.approx([-(np.log(2) + np.log(4)) / 3, five / 5, 0])
    weights = ask_one(model, "gnu bank").arrays["attention"][0, 0]
    scores = np.exp([three, -np.log(3)])
    np.testing.assert_allclose(weights, [scores / scores.sum()] * 2, rtol=0, atol=1e-6)
    # Without negative word biases, that of a composed word is zero.
    model = biased(tmp_path / "positive", *[np.log(3)] * len(WORDS))
    weights = ask_one(model, "gnu bank").arrays["attention"][0, 0]
    np.testing.assert_allclose(weights, [[1 / 4, 3 / 4]] * 2, rtol=0, atol=1e-6)


def test_a_composed_word_does_not_attend_to_its_own_occurrences(deep_composing):
    weights = ask_one(deep_composing, "gnu river Gnu zebra").arrays["attention"]
    assert not weights[..., [0, 0, 2, 2], [0, 2, 0, 2]].any()
    assert (weights[..., [0, 0, 2, 2], [1, 3, 1, 3]] > 0).all()


@pytest.mark.parametrize(
    ("case", "text", "composed"),
    [
        ("auto", "Gnu", "Gnu"),
        ("lower", "GNU", "gnu"),
        ("auto", "bAnk", None),
    ],
)
def test_the_case_option_selects_the_composed_spelling(wide, case, text, composed):
    (vector,) = ask_one(wide, text, case=case).arrays["static"]
    right = wide.vectors[3] if composed is None else wide.subwords.vectors([composed])[0]
    assert vector.tolist() == right.tolist()


def test_oov_zero_disables_subwords(plain, deep, composing, deep_composing):
    text = "gnu bank zebra-river zebra-gnu didn't"
    for with_subwords, without in ((composing, plain), (deep_composing, deep)):
        zero = ask_one(with_subwords, text, oov="zero", include=EVERY)
        assert same_bits(zero, ask_one(without, text, include=EVERY))
        assert not zero.arrays["static"][0].any()


def test_oov_error_rejects_words_that_could_be_composed(composing):
    with pytest.raises(UnknownWordError) as caught:
        ask(composing, ["bank gnu", "zebra-river gnu"], oov="error")
    assert caught.value.words == ["gnu", "zebra"]
    assert ask_one(composing, "bank didn't", oov="error").tokens[0].key == "bank"


def test_a_word_without_ngrams_or_too_long_stays_unknown(composing):
    fives = replace(composing, subwords=replace(SUBWORDS, min_n=5, max_n=5))
    long = "x" * (LONGEST + 1)
    words = ((fives, "ox"), (composing, long), (composing, f"{long}-gnu-bank"))
    for model, word in words:
        one = ask_one(model, f"bank {word}")
        assert resolved(one) == [("bank", "bank", "exact"), (word, None, "oov")]
        assert not one.arrays["static"][1].any()
        assert not one.arrays["attention"][..., 1].any()
    with pytest.raises(UnknownWordError):
        neighbors_of_word(composing, long, 4)
    # Its only n-gram is <gnu>.
    assert ask_one(fives, "gnu").arrays["static"].tolist() == [[0, 0, 0, 0, 3]]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(texts)
def test_any_text_gives_finite_numbers(composing, text):
    for min_n, max_n in ((1, 1), (3, 3), (5, 64)):
        model = replace(composing, subwords=replace(SUBWORDS, min_n=min_n, max_n=max_n))
        for arrays in (ask_one(model, text).arrays, ask_one(model, [text]).arrays):
            assert all(np.isfinite(array).all() for array in arrays.values())


def test_occurrences_of_a_composed_word_are_compared_and_noted(composing):
    both = Occurrence("gnu bank", "gnu"), Occurrence("the gnu", "gnu")
    result = compare_occurrences(composing, both, neighbors=3)
    substitute = "is not in the vocabulary; its static vector is composed from its subwords."
    assert result.notes == [
        (
            "Occurrences 0 and 1 are composed from the subwords of one spelling, so their static"
            " vectors are equal and only context tells them apart."
        ),
        *(f"Occurrence {index} {substitute}" for index in (0, 1)),
    ]
    np.testing.assert_allclose(result.static_similarity, np.ones((2, 2)), atol=1e-6)
    first = result.occurrences[0]
    assert (first.token.resolution, first.token.key) == ("subword", None)
    assert tuple(first.static_neighbors[0]) == ("apple", pytest.approx(2 / 5**0.5, abs=1e-6))
    # Occurrences of two composed spellings have no common note.
    pair = Occurrence("gnu bank", "gnu"), Occurrence("Gnu bank", "Gnu")
    for case, count in (("lower", 3), ("auto", 2)):
        assert len(compare_occurrences(composing, pair, case=case).notes) == count


def test_the_neighbors_of_a_composed_word_are_those_of_its_vector(composing):
    found = neighbors_of_word(composing, "gnu", 4, "auto")
    assert found == neighbors_of_vector(composing, GNU, 4)
    assert neighbors_of_word(composing, "GNU", 4, "lower") == found
    assert tuple(found[0]) == ("apple", pytest.approx(2 / 5**0.5, abs=1e-6))


@pytest.mark.parametrize("layer", [0, 1])
def test_a_trace_composes_as_encoding_does(deep_composing, layer):
    found = trace_text(deep_composing, "gnu bank zebra", layer)
    arrays = ask_one(deep_composing, "gnu bank zebra").arrays
    values = {step.name: step.values for step in found.steps}
    assert found.tokens == ["gnu", "bank", "zebra"]
    if not layer:
        assert values["embeddings"].tolist() == [GNU, BANK, ZEBRA]
    np.testing.assert_allclose(arrays["attention"][layer], values["weights"], atol=1e-5)
    expected = deep_composing.expected_word_bias(["gnu", "zebra"], "tokens")
    assert expected[1] and (values["word_bias"][[0, 2]] == expected).all()
    assert values["word_bias"][1] == deep_composing.word_bias[3]
