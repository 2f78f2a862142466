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
)
from polyseme.engine.trace import trace_layer
from tests.engine.cases import layer_norm, normal, projection, random_case, random_sentence

CASES = [random_case(seed) for seed in range(40)]
BY_HEAD = {
    *("queries", "keys", "values", "scores", "scaled_scores", "position_bias"),
    *("scaled_word_bias", "weights", "weighted_values", "context"),
}
"""The steps that have a head axis if there are several heads."""


def steps_of(case, number):
    """The steps of a layer by name, with a head axis also if there is one head."""
    steps = {s.name: s.values for s in trace_layer(case.sentence, case.layers, number)}
    if case.layers[number].heads == 1:
        for name in BY_HEAD & steps.keys():
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
        visible = steps.get("visible", np.ones(total.shape[1:])) == 1
        exponentials = np.where(visible, np.exp(total - total.max(initial=0)), 0)
        if not len(case.sentence.vectors):
            continue
        assert_close(steps["weights"], exponentials / exponentials.sum(-1, keepdims=True))
        assert ("scaled_scores" in steps) == layer.scoring.scale
        assert ("position_bias" in steps) == (layer.scoring.position_bias is not None)
        has_bias = layer.scoring.word_bias and case.sentence.word_bias is not None
        factors = layer.scoring.word_bias_scale
        assert ("word_bias" in steps) == has_bias
        assert ("scaled_word_bias" in steps) == (has_bias and factors is not None)
        has_mask = layer.scoring.mask != "all" or not case.sentence.known.all()
        assert ("visible" in steps) == has_mask


@pytest.mark.parametrize("norm", ["before", "after"])
def test_the_steps_are_in_the_order_of_the_arithmetic(norm):
    rng = np.random.default_rng(8)
    d = 6
    layer = Layer(
        2,
        *(projection(rng, d, d) for _ in range(4)),
        Scoring(True, "other-words", normal(rng, 2, 5), True, normal(rng, 2)),
        Residual("add"),
        norm,
        layer_norm(rng, d),
        FeedForward(projection(rng, d, 7), projection(rng, 7, d)),
        layer_norm(rng, d),
    )
    sentence = random_sentence(rng, 5, d, unknown=0.0)
    sentence = type(sentence)(sentence.vectors, sentence.known, sentence.words, normal(rng, 5))
    attention = [
        *("queries", "keys", "values", "scores", "scaled_scores", "position_bias", "word_bias"),
        *("scaled_word_bias", "visible"),
        *("weights", "weighted_values", "context", "concatenation", "output", "residual"),
    ]
    feed_forward = ["feed_forward_inner", "feed_forward"]
    expected = {
        "before": ["attention_norm", *attention, "feed_forward_norm", *feed_forward],
        "after": [*attention, "attention_norm", *feed_forward, "feed_forward_norm"],
    }[norm]
    steps = trace_layer(sentence, [layer], 0)
    assert [step.name for step in steps] == ["embeddings", *expected, "contextual"]
    operands = {step.name: step.operands for step in steps}
    source = "attention_norm" if norm == "before" else "embeddings"
    assert operands["queries"] == (source,)
    assert operands["weights"] == (
        *("scaled_scores", "position_bias", "scaled_word_bias", "visible"),
    )
    assert operands["output"] == ("concatenation",)
    before, after = ("residual", "feed_forward"), ("feed_forward_norm",)
    assert operands["contextual"] == (before if norm == "before" else after)
    for i, step in enumerate(steps):
        assert set(step.operands) <= {one.name for one in steps[:i]}, step.name


def recomputed(step, values):  # noqa: PLR0911 - a case for each operation
    """The values of a step from its operands; None if the operands alone do not determine them."""
    terms = [values[name] for name in step.operands]
    match step.operation:
        case "copy":
            return terms[0]
        case "concatenation":
            return np.concatenate(terms[0], axis=-1)
        case "dot_products":
            return np.einsum("...ik,...jk->...ij", *terms)
        case "scaling":
            return terms[0] / np.sqrt(values["queries"].shape[-1])
        case "weighting":
            return np.einsum("...ij,...jv->...ijv", *terms)
        case "sum":
            return terms[0].sum(-2)
        case "addition":
            return sum(terms)
        case "combination":
            norms = [np.linalg.norm(term, axis=-1, keepdims=True) for term in terms]
            units = [t / np.where(n, n, 1) for t, n in zip(terms, norms, strict=True)]
            return sum(f * u for f, u in zip(step.factors, units, strict=True))
    return None


def test_operations_of_the_operands_give_the_values():
    seen = set()
    for case in CASES:
        for number, layer in enumerate(case.layers):
            steps = trace_layer(case.sentence, case.layers, number)
            values = {step.name: step.values for step in steps}
            names = [step.name for step in steps]
            for step in steps:
                expected = recomputed(step, values) if names.count(step.name) == 1 else None
                if expected is not None and not (step.operation == "copy" and layer.heads > 1):
                    seen.add(step.operation)
                    if step.name == "values":  # those of unknown tokens are zero
                        expected = np.where(case.sentence.known[:, None], expected, 0)
                    assert_close(step.values, expected)
    expected = {"copy", "concatenation", "dot_products", "scaling", "weighting", "sum"}
    assert seen >= expected | {"addition", "combination"}


def test_a_norm_that_is_used_twice_is_two_steps():
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


@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_the_formula_of_the_output_matches_the_computation(weight: bool, bias: bool) -> None:
    rng = np.random.default_rng(5)
    output = Projection(normal(rng, 4, 4) if weight else None, normal(rng, 4) if bias else None)
    sentence = random_sentence(rng, 3, 4)
    steps = {s.name: s for s in trace_layer(sentence, [Layer(2, output=output)], 0)}
    joined = np.concatenate(list(steps["context"].values), axis=-1)
    expected = joined @ (output.weight if weight else np.eye(4)) + (output.bias if bias else 0)
    np.testing.assert_allclose(steps["output"].values, expected)
    np.testing.assert_array_equal(steps["concatenation"].values, joined)
    assert steps["output"].formula.startswith("O = concat(C)")
    assert ("Wo" in steps["output"].formula) == weight
    assert ("bo" in steps["output"].formula) == bias


OPERANDS = {"X": "embeddings", "X̂": "attention_norm", "R": "residual"}
"""The steps that letters in formulas stand for."""


@pytest.mark.parametrize("norm", ["none", "before", "after"])
@pytest.mark.parametrize("identity", [False, True])
def test_the_formulas_of_projections_name_their_operands(norm: str, identity: bool) -> None:
    rng = np.random.default_rng(6)
    parts = [Projection()] * 3 if identity else [projection(rng, 4, 4) for _ in range(3)]
    layer = Layer(1, *parts, norm=norm, attention_norm=layer_norm(rng, 4))
    steps = {s.name: s for s in trace_layer(random_sentence(rng, 3, 4, unknown=0.0), [layer], 0)}
    assert ("attention_norm" in steps) == (norm != "none")
    for name, letter, part in zip(["queries", "keys", "values"], "qkv", parts, strict=True):
        operand, *rest = steps[name].formula.removeprefix(f"{letter.upper()} = ").split("·")
        x = steps[OPERANDS[operand]].values
        bias = "" if part.bias is None else f" + b{letter}"
        assert rest == ([] if identity else [f"W{letter}{bias}"])
        expected = x if identity else x @ part.weight + (0 if part.bias is None else part.bias)
        np.testing.assert_allclose(steps[name].values, expected)


@pytest.mark.parametrize("norm", ["before", "after"])
@pytest.mark.parametrize("has_norms", [False, True])
def test_the_formulas_after_attention_name_their_operands(norm: str, has_norms: bool) -> None:
    rng = np.random.default_rng(7)
    first, second = (layer_norm(rng, 4) if has_norms else None for _ in range(2))
    feed_forward = FeedForward(projection(rng, 4, 5), projection(rng, 5, 4), "relu")
    layer = Layer(
        residual=Residual("add"),
        norm=norm,
        attention_norm=first,
        feed_forward=feed_forward,
        feed_forward_norm=second,
    )
    steps = {s.name: s for s in trace_layer(random_sentence(rng, 3, 4), [layer], 0)}
    operands = {letter: steps[name].values for letter, name in OPERANDS.items() if name in steps}
    operands["F"] = steps["feed_forward"].values

    def check_norm(name: str, part: LayerNorm) -> None:
        """Compare a step with the norm of the sum in its formula."""
        _, _, formula = steps[name].formula.partition("LayerNorm(")
        total = sum(operands[letter] for letter in formula.removesuffix(")").split(" + "))
        np.testing.assert_allclose(steps[name].values, part(total))

    if first:
        assert steps["attention_norm"].formula.startswith("X̂ = ")
        check_norm("attention_norm", first)
    if second:
        check_norm("feed_forward_norm", second)
        operands["x"] = steps["feed_forward_norm"].values
        assert steps["feed_forward_norm"].formula.startswith("x = ") == (norm == "before")
    inner, outer = (steps[name].formula for name in ("feed_forward_inner", "feed_forward"))
    operand = inner.removeprefix("ReLU(").removesuffix("·W1 + b1)")
    expected = np.maximum(feed_forward.inner(operands[operand]), 0)
    np.testing.assert_allclose(steps["feed_forward_inner"].values, expected)
    assert outer == f"F = {inner}·W2 + b2"
