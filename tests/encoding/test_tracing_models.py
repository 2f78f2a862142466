"""The steps of a stored model are those of the engine, and follow from one another."""

from dataclasses import replace

import numpy as np
import orjson
import pytest

from polyseme.encoding.trace import trace_document, trace_text
from polyseme.engine.arrays import unit
from polyseme.engine.layers import FeedForward, Residual
from polyseme.engine.positions import sinusoids
from polyseme.errors import InvalidError, TooLargeError
from tests.encoding.asking import EVERY, ask_one
from tests.tiny import LIMITS, deep_model, full_layer, projection

TEXT = "bank zebra river didn't apple Apple"


def trace(model, layer, text=TEXT, limits=LIMITS):
    return {step.name: step.values for step in trace_text(model, text, layer, "auto", limits)[1]}


@pytest.mark.parametrize("layer", [0, 1])
def test_a_trace_is_what_the_engine_does_in_float32(deep, layer):
    arrays = ask_one(deep, TEXT, include=EVERY).arrays
    steps = trace(deep, layer)
    for part, name in (
        ("attention", "weights"),
        ("scores", "scores"),
        ("queries", "queries"),
        ("keys", "keys"),
        ("values", "values"),
    ):
        assert steps[name].dtype == np.float64
        np.testing.assert_allclose(arrays[part][layer], steps[name], rtol=1e-5, atol=1e-5)
    last = trace(deep, 1)["contextual"]
    np.testing.assert_allclose(arrays["contextual"], last, rtol=1e-5, atol=1e-5)


def test_a_layer_begins_where_the_one_before_it_ends(deep):
    assert np.array_equal(trace(deep, 0)["contextual"], trace(deep, 1)["embeddings"])
    static = ask_one(deep, TEXT).arrays["static"]
    assert np.array_equal(trace(deep, 0)["embeddings"], static)


@pytest.mark.parametrize("layer", [0, 1])
def test_the_steps_follow_from_one_another(deep, layer):
    s, parts = trace(deep, layer), deep.layers[layer].astype(np.float64)
    near = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(s["scaled_scores"], s["scores"] / np.sqrt(2), **near)
    factors = parts.scoring.word_bias_scale
    np.testing.assert_allclose(s["scaled_word_bias"], np.outer(factors, s["word_bias"]), **near)
    logits = s["scaled_scores"] + s["position_bias"] + s["scaled_word_bias"][:, None]
    e = np.exp(logits - logits.max(axis=-1, keepdims=True)) * s["visible"]
    np.testing.assert_allclose(s["weights"], e / e.sum(axis=-1, keepdims=True), **near)
    weighted = s["weights"][..., None] * s["values"][:, None]
    np.testing.assert_allclose(s["weighted_values"], weighted, **near)
    np.testing.assert_allclose(s["weighted_values"].sum(axis=2), s["context"], **near)
    joined = s["context"].transpose(1, 0, 2).reshape(len(s["embeddings"]), -1)
    output = joined @ parts.output.weight + parts.output.bias
    np.testing.assert_allclose(s["output"], output, **near)


def test_pre_norm_adds_what_it_changes(deep):
    s = trace(deep, 0)
    near = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(s["residual"], s["embeddings"] + s["output"], **near)
    np.testing.assert_allclose(s["contextual"], s["residual"] + s["feed_forward"], **near)


def test_post_norm_ends_with_the_norm(deep):
    s, layer = trace(deep, 1), deep.layers[1].astype(np.float64)
    near = {"rtol": 0, "atol": 1e-9}
    place = 0.25 * sinusoids(*s["embeddings"].shape)
    residual = unit(s["output"]) + 0.5 * unit(s["embeddings"]) + place
    np.testing.assert_allclose(s["residual"], residual, **near)
    np.testing.assert_allclose(s["attention_norm"], layer.attention_norm(residual), **near)
    end = layer.feed_forward_norm(s["attention_norm"] + s["feed_forward"])
    np.testing.assert_allclose(s["feed_forward_norm"], end, **near)
    np.testing.assert_allclose(s["contextual"], end, **near)


def test_words_that_may_not_be_looked_at_are_seen_in_the_trace(deep):
    s = trace(deep, 0, "bank Bank zebra river")
    assert s["visible"].tolist() == [[0, 0, 0, 1], [0, 0, 0, 1], [1, 1, 0, 1], [1, 1, 0, 0]]


def test_a_model_without_weights_has_no_head_axis(plain):
    names, steps = trace_text(plain, "apple Apple", 0, "auto", LIMITS)
    assert names == ["apple", "Apple"]
    shapes = {step.name: step.values.shape for step in steps}
    assert "scaled_scores" not in shapes
    assert shapes["weights"] == (2, 2)
    assert shapes["weighted_values"] == (2, 2, 5)


@pytest.mark.parametrize("layer", [2, 64])
def test_a_layer_that_is_not_there_is_refused(deep, layer):
    with pytest.raises(InvalidError) as caught:
        trace_text(deep, TEXT, layer, "auto", LIMITS)
    (error,) = caught.value.errors
    assert (error.pointer, error.message) == ("/layer", "the model's layers are 0 to 1")


@pytest.mark.parametrize("text", ["", "  \t\n"])
def test_a_text_without_a_word_is_refused(deep, text):
    with pytest.raises(InvalidError) as caught:
        trace_text(deep, text, 0, "auto", LIMITS)
    assert caught.value.errors[0].pointer == "/text"


def test_a_text_of_too_many_words_is_refused(deep):
    with pytest.raises(TooLargeError) as caught:
        trace_text(deep, "bank bank bank", 0, "auto", replace(LIMITS, max_trace_tokens=2))
    assert caught.value.members()["setting"] == "max_trace_tokens"


def network(width):
    rng = np.random.default_rng(4)
    return FeedForward(projection(rng, 53, width), projection(rng, width, 53))


BROAD = {
    "attention": full_layer(3, d=53, heads=2, k=17, v=23, residual=Residual("unit", 0.5, 0.25)),
    "the network": full_layer(3, d=53, heads=1, feed_forward=network(997)),
}


@pytest.mark.parametrize("part", BROAD)
def test_no_trace_is_larger_than_its_limit(tmp_path, part):
    vectors = np.random.default_rng(3).standard_normal((11, 53)).astype(np.float32)
    broad = deep_model(tmp_path, vectors=vectors, layers=[BROAD[part]])
    for text in ("bank", " ".join(["river bank money did"] * 7)):
        names, steps = trace_text(broad, text, 0, "auto", LIMITS)
        values = [step["values"] for step in trace_document(names, steps)["steps"]]
        size = len(orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY))
        for setting in ("max_trace_bytes", "max_answer_bytes"):
            with pytest.raises(TooLargeError) as caught:
                trace_text(broad, text, 0, "auto", replace(LIMITS, **{setting: size - 1}))
            assert caught.value.members()["setting"] == setting
