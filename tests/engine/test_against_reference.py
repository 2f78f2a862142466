"""The engine and the independent reference give the same numbers."""

from dataclasses import fields, is_dataclass, replace
from functools import cache

import numpy as np
import pytest

from polyseme.engine.attention import BLOCK
from polyseme.engine.layers import Layer, contextualize, other_terms
from polyseme.engine.trace import trace_layer
from tests.engine.cases import (
    normal,
    projection,
    random_case,
    random_residual,
    random_scoring,
    random_sentence,
)
from tests.engine.reference import (
    FLOAT32_TOLERANCE,
    FLOAT64_TOLERANCE,
    assert_close,
    attended_positions,
    run_stack,
)

SEEDS = range(80)
RECORDED = ("queries", "keys", "values", "scores", "weights")
BY_HEAD = {*RECORDED, "scaled_scores", "weighted_values", "context"}


@cache
def case_and_expected(seed):
    case = random_case(seed)
    return case, run_stack(case.sentence, case.layers)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_float32_engine_agrees_with_the_reference(seed):
    case, expected = case_and_expected(seed)
    result = contextualize(case.sentence, case.layers, RECORDED)
    label = case.describe()
    for number, (steps, record) in enumerate(zip(expected, result.records, strict=True)):
        assert set(record) == set(RECORDED), f"names of layer {number}\n{label}"
        for name in RECORDED:
            where = f"{name} of layer {number}\n{label}"
            assert record[name].dtype == np.float32, where
            assert_close(record[name], steps.arrays[name], FLOAT32_TOLERANCE, where)
    assert result.contextual.dtype == np.float32
    assert_close(result.contextual, expected[-1].contextual, FLOAT32_TOLERANCE, label)


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_a_final_projection_and_a_skip_agree_with_the_reference(seed):
    """In every layer, so that their sum is also the input of the next one."""
    case, rng = random_case(seed), np.random.default_rng([seed, 1])
    d = case.sentence.vectors.shape[1]
    skip = None if seed % 4 == 0 else normal(rng, d, d) / np.float32(d)
    layers = [replace(layer, final=projection(rng, d, d), skip=skip) for layer in case.layers]
    found = contextualize(case.sentence, layers).contextual
    expected = run_stack(case.sentence, layers)
    assert_close(found, expected[-1].contextual, FLOAT32_TOLERANCE, case.describe())
    steps = {step.name: step for step in trace_layer(case.sentence, layers, len(layers) - 1)}
    final = layers[-1].final
    contextual = steps["layer_output"].values @ final.weight.astype(np.float64)
    contextual += 0 if final.bias is None else final.bias
    if skip is not None:
        contextual += case.sentence.vectors.astype(np.float64) @ skip
    np.testing.assert_allclose(steps["contextual"].values, contextual, rtol=1e-9, atol=1e-12)
    bias = "" if final.bias is None else " + bf"
    added = "" if skip is None else " + X₀·Ws"
    assert steps["contextual"].formula == f"Y·Wf{bias}{added}"


@pytest.mark.parametrize("seed", SEEDS)
def test_contributions_agree_with_the_reference_and_sum_to_one(seed):
    case, expected = case_and_expected(seed)
    result = contextualize(case.sentence, case.layers, ["contributions", "weights"])
    terms = ["residual", "position", "bias"]
    columns = [terms.index(term) for term in other_terms(case.layers)]
    for steps, record in zip(expected, result.records, strict=True):
        shares, n = record["contributions"], len(case.sentence.known)
        whole = steps.arrays["contributions"]
        kept = np.concatenate([whole[:, :n], whole[:, n:][:, columns]], axis=1)
        # A sum that nearly cancels out has large shares.
        large = max(1.0, np.abs(kept).max(initial=0))
        assert_close(shares / large, kept / large, 2e-4, case.describe())
        nonzero = np.any(steps.arrays["residual"] != 0, axis=1)
        np.testing.assert_allclose(shares.sum(axis=1), nonzero, atol=2e-4 * large)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_float64_trace_agrees_with_the_reference(seed):
    case, expected = case_and_expected(seed)
    for number, (layer, reference) in enumerate(zip(case.layers, expected, strict=True)):
        arrays = dict(reference.arrays, contextual=reference.contextual)
        del arrays["contributions"]  # not a step
        for step in trace_layer(case.sentence, case.layers, number):
            if step.name not in arrays:
                continue
            array = arrays.pop(step.name)
            if step.name in BY_HEAD and layer.heads == 1:
                array = array[0]
            where = f"{step.name} of layer {number}\n{case.describe()}"
            assert step.values.dtype == np.float64, where
            assert_close(step.values, array, FLOAT64_TOLERANCE, where)
        assert not arrays, f"not traced: {sorted(arrays)}\n{case.describe()}"


def weights_of(case):
    """Yield each layer and its attention weights; nothing for an empty sentence."""
    if len(case.sentence.vectors):
        records = contextualize(case.sentence, case.layers, ["weights"]).records
        for layer, record in zip(case.layers, records, strict=True):
            yield layer, record["weights"]


def test_rows_of_attention_sum_to_one_and_masked_keys_get_zero():
    for seed in SEEDS:
        case = random_case(seed)
        n = len(case.sentence.vectors)
        for layer, weights in weights_of(case):
            assert weights.shape == (layer.heads, n, n)
            assert (weights >= 0).all()
            np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6, err_msg=case.describe())
            for i in range(n):
                attended = attended_positions(case.sentence, layer.scoring.mask, i)
                assert not np.delete(weights[:, i], attended, axis=-1).any(), case.describe()


def test_unknown_tokens_are_attended_to_by_themselves_at_most():
    for seed in SEEDS:
        case = random_case(seed)
        known = case.sentence.known
        for _, weights in weights_of(case):
            columns = weights[:, :, ~known]
            own = np.eye(len(known))[:, ~known]
            assert not (columns * (1 - own)).any(), case.describe()
            if known.sum() > 1:
                assert not columns.any(), case.describe()


@pytest.mark.parametrize("n", [1, 64, 65, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
def test_sentences_about_as_long_as_a_block_or_the_cache_agree_with_the_reference(n):
    rng = np.random.default_rng(n)
    heads, d, k, v = 2, 7, 3, 5
    layer = Layer(
        heads,
        projection(rng, d, heads * k),
        projection(rng, d, heads * k),
        projection(rng, d, heads * v),
        projection(rng, heads * v, d),
        scoring=random_scoring(rng, heads),
        residual=random_residual(rng),
    )
    sentence = random_sentence(rng, n, d, unknown=0.2)
    expected = run_stack(sentence, [layer])[0]
    result = contextualize(sentence, [layer], ["weights"])
    assert_close(result.contextual, expected.contextual, FLOAT32_TOLERANCE, repr(layer))
    assert_close(result.records[0]["weights"], expected.arrays["weights"], FLOAT32_TOLERANCE)
    if n in (1, BLOCK + 1):
        steps = {step.name: step.values for step in trace_layer(sentence, [layer], 0)}
        assert_close(steps["contextual"], expected.contextual, FLOAT64_TOLERANCE)
        assert_close(steps["weights"], expected.arrays["weights"], FLOAT64_TOLERANCE)


def test_running_a_stack_changes_none_of_its_inputs():
    for seed in SEEDS:
        case, untouched = random_case(seed), random_case(seed)
        contextualize(case.sentence, case.layers, RECORDED)
        assert_same(case.sentence, untouched.sentence)
        assert_same(case.layers, untouched.layers)


def assert_same(left, right):
    """Compare nested dataclasses and lists of arrays."""
    if is_dataclass(left):
        left, right = ([getattr(p, f.name) for f in fields(p)] for p in (left, right))
    if isinstance(left, list | tuple):
        for one, other in zip(left, right, strict=True):
            assert_same(one, other)
    else:
        assert np.array_equal(left, right)


def test_records_are_returned_for_the_requested_layers_only():
    case = random_case(3)
    layers = (case.layers * 3)[:3]
    result = contextualize(case.sentence, layers, ["weights", "keys"], of_layers=[0, 2])
    assert [sorted(record) for record in result.records] == [
        ["keys", "weights"],
        [],
        ["keys", "weights"],
    ]
