"""The model and its controls: the vectors of each system."""

from dataclasses import replace

import numpy as np
import pytest

from polyseme.engine.layers import Layer, contextualize
from polyseme.importing.weights import in_closed_form
from polyseme_lab.evaluation.datasets import TokenizedOccurrence
from polyseme_lab.evaluation.systems import (
    NAMES,
    SEEDS,
    knows,
    random_layers,
    systems,
    tabulate,
)
from tests.tiny import SUBWORDS, VECTORS, deep_model, full_layer, tiny_model
from tests.tokenizer.vocabularies import resolve_all

SENTENCE = ("end", "bank", "zebra", "river", "Apple")
OCCURRENCES = [
    TokenizedOccurrence(SENTENCE, 1),
    TokenizedOccurrence(("river", "bank"), 1),
    TokenizedOccurrence(SENTENCE, 4),
]


def vectors_of(model, name, occurrences=OCCURRENCES, number=0):
    reader = systems(model, [name])[name].readers[number]
    return tabulate(model, {name: reader}, occurrences)[name](occurrences)


def sentence_of(model, words=SENTENCE):
    return model.inputs(resolve_all(words, model.vocabulary))


def test_systems_have_a_fixed_order_with_the_model_last(model):
    assert tuple(systems(model)) == NAMES
    assert NAMES[-1] == "model"
    assert [one.kind for one in systems(model).values()] == ["control"] * 5 + ["model"]
    assert list(systems(model, ("model", "mean"))) == ["mean", "model"]


def test_the_static_vector_is_the_row_of_the_word_or_composed_or_zero(model, tmp_path):
    found = vectors_of(model, "static")
    assert np.array_equal(found, VECTORS[[3, 3, 1]])
    assert found.dtype == np.float32
    assert not vectors_of(model, "static", [TokenizedOccurrence(SENTENCE, 2)]).any()
    assert knows(model, ["zebra", "BANK", ""]) == [False, True, False]
    composing = tiny_model(tmp_path / "composing", subwords=SUBWORDS)
    gnu = [TokenizedOccurrence(("a", "gnu"), 1)]
    assert vectors_of(composing, "static", gnu).tolist() == [[2, 0, 0, 0, 1]]
    assert knows(composing, ["gnu", "bank"]) == [True, True]


def test_the_mean_of_the_context_is_that_of_the_other_words(model):
    found = vectors_of(model, "mean")
    end, river, apple = VECTORS[10], VECTORS[4], VECTORS[1]
    assert np.array_equal(found, [end + river + apple, river, end + VECTORS[3] + river])
    assert not vectors_of(model, "mean", [TokenizedOccurrence(("bank",), 0)]).any()


def test_parameter_free_attention_is_the_formula(model):
    x = VECTORS[[10, 3, 4, 1]].astype(np.float64)
    scores = x @ x.T / 5**0.5
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        vectors_of(model, "parameter-free")[[0, 2]], (weights @ x)[[1, 3]], rtol=1e-5
    )


def test_the_model_has_the_vectors_of_the_service(tmp_path):
    deep = deep_model(tmp_path)
    expected = contextualize(sentence_of(deep), deep.layers).contextual
    found = vectors_of(deep, "model")
    assert found[[0, 2]].tobytes() == expected[[1, 4]].tobytes()


def test_the_closed_form_is_that_of_an_import_of_the_same_vectors(tmp_path):
    """Whatever weights the model has; by rank only if the words are sorted by frequency."""
    # Words grow longer with their rank, except for every third.
    words = [f"{'tree' if n % 3 else 'sea'}{n * n * n}" for n in range(700)]
    vectors = np.random.default_rng(3).standard_normal((len(words), 5)).astype(np.float32)
    asked = [TokenizedOccurrence(("sea0", "tree1", "tree8", "sea27"), 1)]
    for order in (words, sorted(words)):
        model = tiny_model(tmp_path / "one", words=order, vectors=vectors, replace=True)
        closed = in_closed_form(vectors, None, by_rank=order is words)
        assert (closed.word_bias is not None) == (order is words)
        imported = replace(model, layers=closed.layers, word_bias=closed.word_bias)
        expected = vectors_of(imported, "model", asked)
        assert vectors_of(model, "closed-form", asked).tobytes() == expected.tobytes()
        assert vectors_of(model, "model", asked).tobytes() != expected.tobytes()


def test_random_projections_are_those_of_three_seeds(tmp_path):
    deep = deep_model(tmp_path)
    assert len(systems(deep, ["random"])["random"].readers) == len(SEEDS) == 3
    first, again, second = (vectors_of(deep, "random", number=n) for n in (0, 0, 1))
    assert first.tobytes() == again.tobytes()
    assert not np.allclose(first, second)


def test_random_projections_change_nothing_else():
    layers = [full_layer(11), full_layer(12, norm="after")]
    for layer, own in zip(random_layers(layers, 5, seed=1), layers, strict=True):
        network, whole = layer.feed_forward, own.feed_forward
        parts = [(getattr(layer, n), getattr(own, n)) for n in ("query", "key", "value", "output")]
        parts += [(network.inner, whole.inner), (network.outer, whole.outer)]
        for random, original in parts:
            assert random.weight.shape == original.weight.shape
            assert not np.allclose(random.weight, original.weight)
            assert random.bias is None
        assert network.activation == whole.activation == "gelu"
        replaced = ("query", "key", "value", "output", "feed_forward")
        assert replace(layer, **{name: getattr(own, name) for name in replaced}) == own


def test_random_projections_keep_the_mean_square():
    plain, wide = random_layers([Layer(), full_layer(d=307, heads=1, k=11, v=503)], 307, seed=1)
    # Missing projections are replaced, except the output.
    assert plain.query.weight.shape == plain.key.weight.shape == plain.value.weight.shape
    assert plain.value.weight.shape == (307, 307)
    assert plain.output.weight is None
    for projection in (wide.query, wide.key, wide.value, wide.output, wide.feed_forward.inner):
        weight = projection.weight * len(projection.weight) ** 0.5
        assert weight.std() == pytest.approx(1, abs=0.05)
        assert abs(weight.mean()) < 0.05
