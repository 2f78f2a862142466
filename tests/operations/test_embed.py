"""Sentence vectors: weighted means of length 1, or zero if no word is known."""

from dataclasses import replace

import numpy as np
import pytest

from polyseme.engine.layers import Projection
from polyseme.errors import UnknownWordError
from polyseme.operations.embed import (
    EmbeddingsRequest,
    embed,
    sentence_vectors,
    token_weights,
)
from tests.operations.calls import ask_one
from tests.tiny import LIMITS, WORDS, tiny_model


@pytest.fixture(scope="module")
def weighted(tmp_path_factory):
    """Parameter-free attention; each word weighs 1, 1/2, 1/4, … in their order."""
    bias = -np.log(2, dtype=np.float32) * np.arange(len(WORDS), dtype=np.float32)
    return tiny_model(tmp_path_factory.mktemp("weighted"), word_bias=bias)


def vectors(model, *texts, dimensions=None, pooling="informativeness"):
    request = EmbeddingsRequest.of(
        input=[*texts], dimensions=dimensions, pooling=pooling, wordless="zero"
    )
    found = embed(model, request, LIMITS)
    assert [one.index for one in found.data] == [*range(len(texts))]
    return [one.embedding for one in found.data]


def unit(vector):
    return pytest.approx(vector / np.linalg.norm(vector), abs=1e-6)


# exp(word bias) = 1e-3 / (1e-3 + p): p of Apple is 0.001, of apple 0, of bank 0.007.
FREQUENCIES = np.array([0.001, 0, 0.007])
SIF = 1e-4 / (1e-4 + FREQUENCIES)
WEIGHTS = {
    "mean": ("contextual", np.ones(3)),
    "informativeness": ("contextual", 1e-3 / (1e-3 + FREQUENCIES)),
    "sif": ("static", SIF),
    "whitened": ("static", SIF),  # without whitening, the same
}


@pytest.mark.parametrize("has_word_bias", [True, False])
@pytest.mark.parametrize("pooling", WEIGHTS)
def test_vector_is_the_weighted_mean_of_the_known_words(weighted, plain, pooling, has_word_bias):
    model, text = weighted if has_word_bias else plain, "Apple apple bank qzx"
    part, weights = WEIGHTS[pooling]
    weights = weights if has_word_bias else np.ones(3)
    rows = ask_one(model, text).arrays[part][:3].astype(np.float64)
    if part == "static":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    mean = weights @ rows
    (vector,) = vectors(model, text, pooling=pooling)
    assert vector == unit(mean)
    assert vector.dtype == np.float32
    (cut,) = vectors(model, text, dimensions=2, pooling=pooling)
    assert cut == unit(mean[:2])


@pytest.mark.parametrize("text", ["", "qzx", "qzx qzy"])
@pytest.mark.parametrize("pooling", ["whitened", "sif", "informativeness", "mean"])
def test_without_known_words_the_vector_is_zero(weighted, text, pooling):
    (found,) = vectors(weighted, text, pooling=pooling)
    assert found.tolist() == [0] * 5


def test_a_composed_word_has_the_weight_of_words_of_its_length(deep_composing):
    sentence = ask_one(deep_composing, "zebra bank")
    assert [token.resolution for token in sentence.tokens] == ["subword", "exact"]
    bank = deep_composing.word_bias[WORDS.index("bank")]
    (tokens,) = deep_composing.expected_word_bias(["zebra"], "tokens")
    (found,) = token_weights(deep_composing, [sentence.tokens], "informativeness")
    assert found[1] / found[0] == pytest.approx(np.exp(bank - tokens), rel=1e-6)
    (words,) = deep_composing.expected_word_bias(["zebra"], "words")
    assert words != tokens
    p = 1e-3 * np.expm1(-np.minimum([words, bank], 0))
    weights = 1e-4 / (1e-4 + p)
    for pooling in ("sif", "whitened"):
        (found,) = token_weights(deep_composing, [sentence.tokens], pooling)
        assert found == pytest.approx(weights / weights.max(), rel=1e-5)


def test_whitening_projects_the_mean_of_smooth_inverse_frequency(weighted):
    rng = np.random.default_rng(3)
    weight, bias = rng.standard_normal((5, 5)), rng.standard_normal(5)
    whitening = Projection(weight.astype(np.float32), bias.astype(np.float32))
    model = replace(weighted, whitening=whitening)
    one = ask_one(model, "Apple apple bank")
    static = one.arrays["static"] / np.linalg.norm(one.arrays["static"], axis=1, keepdims=True)
    expected = SIF @ static / SIF.sum() @ weight + bias
    (vector,) = sentence_vectors(model, [one.sentence])
    assert vector == unit(expected)
    (cut,) = sentence_vectors(model, [one.sentence], "whitened", 2)
    assert cut == unit(expected[:2])
    # A text without known words has no direction, not that of the bias.
    assert not sentence_vectors(model, [ask_one(model, "qzx").sentence], "whitened").any()


def test_weights_of_any_size_are_relative_and_finite(weighted):
    bias = np.full(len(WORDS), 1000, np.float32)
    bias[WORDS.index("bank")] = -1000
    tokens = ask_one(weighted, "apple bank").tokens
    extreme = replace(weighted, word_bias=bias)
    for pooling in ("informativeness", "sif"):
        assert token_weights(extreme, [tokens], pooling)[0].tolist() == [1, 0]
    tiny = replace(weighted, word_bias=np.full(len(WORDS), -1000, np.float32))
    assert token_weights(tiny, [tokens], "sif")[0].tolist() == [1, 1]


def test_a_sentence_has_the_same_vector_alone_and_in_a_batch(deep):
    texts = ["river bank", "", "Apple did n't end", "bank"]
    together = vectors(deep, *texts)
    assert [one.tobytes() for one in together] == [vectors(deep, t)[0].tobytes() for t in texts]


def test_sentences_without_a_known_word_are_rejected_by_default(plain, composing):
    texts = ["bank zebra", "zebra", ""]
    with pytest.raises(UnknownWordError) as caught:
        embed(plain, EmbeddingsRequest(input=texts))
    assert [(error.pointer, error.message) for error in caught.value.errors] == [
        ("/input/1", "no word is in the vocabulary"),
        ("/input/2", "the text has no words"),
    ]
    assert len(vectors(plain, *texts)) == 3
    assert len(embed(composing, EmbeddingsRequest(input=texts[:2])).data) == 2
