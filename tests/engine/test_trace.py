"""Each step of a trace follows from the steps before it."""

from typing import get_args

import numpy as np
import pytest

from polyseme.engine.attention import Scoring
from polyseme.engine.layers import IDENTITY, FeedForward, Layer, Residual
from polyseme.engine.trace import StepKind, trace_layer
from tests.engine.cases import random_case, random_sentence
from tests.tiny import full_layer, normal

NORM_BEFORE = """
embeddings: X = given
attention_norm: X̂ = LayerNorm(X) = function embeddings
queries: Q = X̂·Wq + bq = product attention_norm
keys: K = X̂·Wk + bk = product attention_norm
values: V = X̂·Wv + bv = product attention_norm
scores: S = Q·Kᵀ = dot_products queries keys
scaled_scores: S/√k = scaling scores
position_bias: b[j−i], by the distance from the query i to the key j = given
word_bias: log s[j], where s[j] is the informativeness of word j = given
scaled_word_bias: f·log s[j], with a factor f for each head = function word_bias
visible: 1 if query i attends to key j, else 0 = given
weights: A = softmax of each row of the scaled scores plus biases, over the visible keys = \
softmax scaled_scores position_bias scaled_word_bias visible
weighted_values: A[i,j]·V[j] = weighting weights values
context: C[i] = Σj A[i,j]·V[j] = sum weighted_values
concatenation: concat(C of all heads) = concatenation context
output: O = concat(C)·Wo + bo = product concatenation
residual: R = X + O = addition embeddings output
feed_forward_norm: x = LayerNorm(R) = function residual
feed_forward_inner: GELU(x·W1 + b1) = function feed_forward_norm
feed_forward: F = GELU(x·W1 + b1)·W2 + b2 = function feed_forward_inner
layer_output: Y = addition residual feed_forward
contextual: Y·Wf + bf + X₀·Ws = function layer_output
"""
NORM_AFTER = """
queries: Q = X·Wq + bq = product embeddings
position: p, a unit vector for the position of the token; 0 if O and X are = given
residual: R = O/|O| + 0.5·X/|X| + 0.25·p = combination output embeddings position 1.0 0.5 0.25
attention_norm: X̂ = LayerNorm(R) = function residual
feed_forward_inner: GELU(X̂·W1 + b1) = function attention_norm
feed_forward: F = GELU(X̂·W1 + b1)·W2 + b2 = function feed_forward_inner
feed_forward_norm: LayerNorm(X̂ + F) = function attention_norm feed_forward
contextual: the output of the layer = copy feed_forward_norm
"""
WITHOUT_WEIGHTS = """
embeddings: X = given
queries: Q = X = copy embeddings
keys: K = X = copy embeddings
values: V = X = copy embeddings
scores: S = Q·Kᵀ = dot_products queries keys
weights: A = softmax of each row of the scores = softmax scores
weighted_values: A[i,j]·V[j] = weighting weights values
context: C[i] = Σj A[i,j]·V[j] = sum weighted_values
output: O = C = copy context
residual: R = O = copy output
feed_forward_inner: ReLU(R·W1 + b1) = function residual
feed_forward: F = ReLU(R·W1 + b1)·W2 + b2 = function feed_forward_inner
contextual: the output of the layer = addition residual feed_forward
"""
LAYERS = {
    NORM_BEFORE: full_layer(),
    NORM_AFTER: full_layer(
        norm="after", residual=Residual("unit", 0.5, 0.25), skip=None, final=IDENTITY
    ),
    WITHOUT_WEIGHTS: Layer(
        scoring=Scoring(scale=False),
        norm="before",
        feed_forward=FeedForward(IDENTITY, IDENTITY, "relu"),
    ),
}


@pytest.mark.parametrize(("expected", "layer"), LAYERS.items(), ids=["before", "after", "bare"])
def test_steps_are_in_order_and_name_their_operands(expected, layer):
    rng = np.random.default_rng(8)
    sentence = random_sentence(rng, 5, 5, unknown=0.0)._replace(word_bias=normal(rng, 5))
    lines = [
        f"{step.name}: {step.formula} = "
        + " ".join(map(str, (step.operation, *step.operands, *step.factors)))
        for step in trace_layer(sentence, [layer], 0)
    ]
    if expected == NORM_AFTER:  # the other steps are those of the norm before
        lines = [line for line in lines if line in expected]
    assert lines == expected.strip().splitlines()


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
        case "softmax":
            biases = {name: values[name] for name in step.operands}
            visible = biases.pop("visible", 1)
            if "scaled_word_bias" in biases:
                biases["scaled_word_bias"] = biases["scaled_word_bias"][..., None, :]
            total = sum(biases.values())
            exponentials = visible * np.exp(total - total.max(initial=0))
            return exponentials / exponentials.sum(axis=-1, keepdims=True)
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


def test_steps_are_present_if_needed_and_follow_from_their_operands():
    seen = set()
    for case in map(random_case, range(40)):
        for index, layer in enumerate(case.layers):
            steps = trace_layer(case.sentence, case.layers, index)
            values = {step.name: step.values for step in steps}
            scoring, sentence = layer.scoring, case.sentence
            has_bias = scoring.word_bias and sentence.word_bias is not None
            present = {
                "position_bias": scoring.position_bias is not None,
                "word_bias": has_bias,
                "scaled_word_bias": has_bias and scoring.word_bias_scale is not None,
                "visible": scoring.mask != "all" or not sentence.known.all(),
            }
            assert {name: name in values for name in present} == present
            if present["scaled_word_bias"]:
                products = np.outer(scoring.word_bias_scale, values["word_bias"])
                np.testing.assert_allclose(np.atleast_2d(values["scaled_word_bias"]), products)
            for step in steps:
                expected = recomputed(step, values)
                if expected is not None and not (step.operation == "copy" and layer.heads > 1):
                    seen.add(step.operation)
                    if step.name == "values":  # those of unknown tokens are zero
                        expected = np.where(sentence.known[:, None], expected, 0)
                    np.testing.assert_allclose(step.values, expected, rtol=1e-9, atol=1e-9)
    assert seen == set(get_args(StepKind)) - {"given", "product", "function"}
