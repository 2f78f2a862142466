"""Each step of a trace follows from the steps before it."""

import numpy as np
import pytest

from polyseme.engine.attention import Scoring
from polyseme.engine.layers import (
    FeedForward,
    Layer,
    LayerNorm,
    Projection,
    Residual,
    contextualize,
)
from polyseme.engine.trace import trace_layer
from tests.engine.cases import layer_norm, normal, projection, random_case, random_sentence

CASES = [random_case(seed) for seed in range(40)]


def steps_of(case, number):
    """The steps of a layer by name, a head axis on all that have heads."""
    steps = {s.name: s.values for s in trace_layer(case.sentence, case.layers, number)}
    by_head = "queries keys values scores scaled_scores position_bias weights weighted_values"
    by_head += " scaled_word_bias"
    if case.layers[number].heads == 1:
        for name in {*by_head.split(), "context"} & steps.keys():
            steps[name] = steps[name][None]
    return steps


def all_steps():
    for case in CASES:
        for number in range(len(case.layers)):
            yield case, case.layers[number], steps_of(case, number)


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


def test_weights_are_the_softmax_of_the_sum_of_the_steps_before():
    for case, layer, steps in all_steps():
        total = steps.get("scaled_scores", steps["scores"])
        bias = steps.get("word_bias", 0)
        if "scaled_word_bias" in steps:
            factors = layer.scoring.word_bias_scale.astype(np.float64)
            assert_close(steps["scaled_word_bias"], np.outer(factors, bias))
            bias = steps["scaled_word_bias"][:, None]
        total = total + steps.get("position_bias", 0) + bias
        seen = steps.get("visible", np.ones(total.shape[1:])) == 1
        raised = np.where(seen, np.exp(total - total.max(initial=0)), 0)
        if not len(case.sentence.vectors):
            continue
        assert_close(steps["weights"], raised / raised.sum(-1, keepdims=True))
        assert ("scaled_scores" in steps) == layer.scoring.scale
        assert ("position_bias" in steps) == (layer.scoring.position_bias is not None)
        biased = layer.scoring.word_bias and case.sentence.word_bias is not None
        factors = layer.scoring.word_bias_scale
        assert ("word_bias" in steps) == biased
        assert ("scaled_word_bias" in steps) == (biased and factors is not None)
        hides = layer.scoring.mask != "all" or not case.sentence.known.all()
        assert ("visible" in steps) == hides


def test_scores_are_the_products_of_queries_and_keys():
    for _, layer, steps in all_steps():
        queries, keys = steps["queries"], steps["keys"]
        assert_close(steps["scores"], np.einsum("aik,ajk->aij", queries, keys))
        if layer.scoring.scale:
            assert_close(steps["scaled_scores"], steps["scores"] / np.sqrt(queries.shape[2]))


def test_weighted_values_are_weights_times_values_and_add_up_to_the_context():
    for _, _, steps in all_steps():
        weights, values = steps["weights"], steps["values"]
        assert_close(steps["weighted_values"], np.einsum("aij,ajv->aijv", weights, values))
        assert_close(steps["weighted_values"].sum(axis=2), steps["context"])


def test_the_next_layer_starts_where_the_last_one_ended():
    for case in CASES:
        start = case.sentence.vectors.astype(np.float64)
        for number in range(len(case.layers)):
            steps = steps_of(case, number)
            assert_close(steps["embeddings"], start)
            start = steps["contextual"]
        result = contextualize(case.sentence, case.layers).contextual
        np.testing.assert_allclose(result, start, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_steps_are_in_the_order_of_the_arithmetic(place):
    rng = np.random.default_rng(8)
    d = 6
    layer = Layer(
        2,
        *(projection(rng, d, d) for _ in range(4)),
        Scoring(True, "other-words", normal(rng, 2, 5), True, normal(rng, 2)),
        Residual("add"),
        place,
        layer_norm(rng, d),
        FeedForward(projection(rng, d, 7), projection(rng, 7, d)),
        layer_norm(rng, d),
    )
    sentence = random_sentence(rng, 5, d, unknown=0.0)
    sentence = type(sentence)(sentence.vectors, sentence.known, sentence.words, normal(rng, 5))
    attention = [
        *("queries", "keys", "values", "scores", "scaled_scores", "position_bias", "word_bias"),
        *("scaled_word_bias", "visible"),
        *("weights", "weighted_values", "context", "output", "residual"),
    ]
    network = ["feed_forward_inner", "feed_forward"]
    expected = {
        "before": ["attention_norm", *attention, "feed_forward_norm", *network],
        "after": [*attention, "attention_norm", *network, "feed_forward_norm"],
    }[place]
    names = [step.name for step in trace_layer(sentence, [layer], 0)]
    assert names == ["embeddings", *expected, "contextual"]


def test_one_norm_in_two_places_is_two_steps():
    norm = LayerNorm(np.ones(3, np.float32), np.zeros(3, np.float32))
    wide = Projection(np.eye(3, dtype=np.float32) * np.float32(3))
    layer = Layer(
        residual=Residual("add"),
        norm="after",
        attention_norm=norm,
        feed_forward=FeedForward(wide, wide, "relu"),
        feed_forward_norm=norm,
    )
    sentence = random_sentence(np.random.default_rng(1), 5, 3, unknown=0.0)
    steps = {step.name: step.values for step in trace_layer(sentence, [layer], 0)}
    assert not np.array_equal(steps["attention_norm"], steps["feed_forward_norm"])
    assert np.array_equal(steps["feed_forward_norm"], steps["contextual"])


def test_each_step_has_a_formula():
    for case in CASES[:20]:
        for number in range(len(case.layers)):
            for step in trace_layer(case.sentence, case.layers, number):
                assert step.formula


@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_the_formula_of_the_output_matches_the_computation(weight: bool, bias: bool) -> None:
    rng = np.random.default_rng(5)
    output = Projection(normal(rng, 4, 4) if weight else None, normal(rng, 4) if bias else None)
    sentence = random_sentence(rng, 3, 4)
    steps = {s.name: s for s in trace_layer(sentence, [Layer(2, output=output)], 0)}
    joined = np.concatenate(list(steps["context"].values), axis=-1)
    right = joined @ (output.weight if weight else np.eye(4)) + (output.bias if bias else 0)
    np.testing.assert_allclose(steps["output"].values, right)
    assert ("Wo" in steps["output"].formula) == weight
    assert ("bo" in steps["output"].formula) == bias


WORKED_ON = {"X": "embeddings", "X̂": "attention_norm", "R": "residual"}
"""The steps that a formula names."""


@pytest.mark.parametrize("place", ["none", "before", "after"])
@pytest.mark.parametrize("bare", [False, True])
def test_the_formulas_of_projections_name_their_operands(place: str, bare: bool) -> None:
    rng = np.random.default_rng(6)
    parts = [Projection()] * 3 if bare else [projection(rng, 4, 4) for _ in range(3)]
    layer = Layer(1, *parts, norm=place, attention_norm=layer_norm(rng, 4))
    steps = {s.name: s for s in trace_layer(random_sentence(rng, 3, 4, unknown=0.0), [layer], 0)}
    assert ("attention_norm" in steps) == (place != "none")
    for name, letter, part in zip(["queries", "keys", "values"], "qkv", parts, strict=True):
        start, *rest = steps[name].formula.removeprefix(f"{letter.upper()} = ").split("·")
        x = steps[WORKED_ON[start]].values
        bias = "" if part.bias is None else f" + b{letter}"
        assert rest == ([] if bare else [f"W{letter}{bias}"])
        right = x if bare else x @ part.weight + (0 if part.bias is None else part.bias)
        np.testing.assert_allclose(steps[name].values, right)


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("norms", [False, True])
def test_the_formulas_after_attention_name_their_operands(place: str, norms: bool) -> None:
    rng = np.random.default_rng(7)
    first, second = (layer_norm(rng, 4) if norms else None for _ in range(2))
    network = FeedForward(projection(rng, 4, 5), projection(rng, 5, 4), "relu")
    layer = Layer(
        residual=Residual("add"),
        norm=place,
        attention_norm=first,
        feed_forward=network,
        feed_forward_norm=second,
    )
    steps = {s.name: s for s in trace_layer(random_sentence(rng, 3, 4), [layer], 0)}
    known = {letter: steps[name].values for letter, name in WORKED_ON.items() if name in steps}
    known["F"] = steps["feed_forward"].values

    def said(formula: str) -> np.ndarray:
        """The sum or the norm in a formula."""
        return sum(known[letter] for letter in formula.split(" + "))

    def normed(name: str, norm: LayerNorm) -> np.ndarray:
        _, _, inner = steps[name].formula.partition("LayerNorm(")
        np.testing.assert_allclose(steps[name].values, norm(said(inner.removesuffix(")"))))
        return steps[name].values

    if first:
        assert steps["attention_norm"].formula.startswith("X̂ = ")
        normed("attention_norm", first)
    if second:
        known["x"] = normed("feed_forward_norm", second)
        assert steps["feed_forward_norm"].formula.startswith("x = ") == (place == "before")
    start = known[steps["feed_forward_inner"].formula.split("·")[1].split(" ")[0]]
    inner = np.maximum(network.inner(start), 0)
    np.testing.assert_allclose(steps["feed_forward_inner"].values, inner)
    assert steps["feed_forward_inner"].formula[11:-1] in steps["feed_forward"].formula
