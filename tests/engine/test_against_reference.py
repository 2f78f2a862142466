"""The engine and the independent reference give the same numbers."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from polyseme.engine.attention import BLOCK
from polyseme.engine.layers import contextualize, other_terms
from polyseme.engine.trace import trace_layer
from tests.engine.cases import arrays_of, projection, random_case, random_sentence
from tests.engine.reference import (
    FLOAT32_TOLERANCE,
    FLOAT64_TOLERANCE,
    assert_close,
    contributions,
    run_stack,
)
from tests.tiny import full_layer, normal

SEEDS = range(80)
RECORDED = ("queries", "keys", "values", "scores", "weights")
BY_HEAD = {*RECORDED, "scaled_scores", "weighted_values", "context"}


@cache
def case_and_expected(seed):
    """A case, whose arrays cannot be changed, and the steps of the reference."""
    case, rng = random_case(seed), np.random.default_rng([seed, 1])
    if seed >= 60:  # in every layer, so that their sum is also the input of the next one
        d = case.sentence.vectors.shape[1]
        skip = None if seed % 4 == 0 else normal(rng, d, d) / np.float32(d)
        layers = [replace(layer, final=projection(rng, d, d), skip=skip) for layer in case.layers]
        case = case._replace(layers=layers)
    for array in arrays_of([case]):
        array.setflags(write=False)
    return case, run_stack(case.sentence, case.layers)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float32, FLOAT32_TOLERANCE), (np.float64, FLOAT64_TOLERANCE)]
)
@pytest.mark.parametrize("seed", SEEDS)
def test_engine_agrees_with_reference(seed, dtype, tolerance):
    case, expected = case_and_expected(seed)
    sentence, layers = case.sentence, case.layers
    if dtype == np.float64:
        layers = [layer.astype(dtype) for layer in layers]
        assert {array.dtype for array in arrays_of(layers)} <= {np.dtype(dtype)}
        sentence = sentence._replace(vectors=sentence.vectors.astype(dtype))
    result = contextualize(sentence, layers, RECORDED)
    for steps, record in zip(expected, result.records, strict=True):
        assert set(record) == set(RECORDED)
        for name in RECORDED:
            assert record[name].dtype == dtype
            assert_close(record[name], steps[name], tolerance, name)
    assert result.contextual.dtype == dtype
    assert_close(result.contextual, expected[-1]["contextual"], tolerance)


@pytest.mark.parametrize("seed", SEEDS)
def test_contributions_agree_with_reference_and_sum_to_one(seed):
    case, expected = case_and_expected(seed)
    result = contextualize(case.sentence, case.layers, ["contributions", "weights"])
    terms = ["residual", "position", "bias"]
    columns = [terms.index(term) for term in other_terms(case.layers)]
    for layer, steps, record in zip(case.layers, expected, result.records, strict=True):
        shares, n = record["contributions"], len(case.sentence.known)
        whole = contributions(steps, layer)
        kept = np.concatenate([whole[:, :n], whole[:, n:][:, columns]], axis=1)
        # A sum that nearly cancels out has large shares.
        large = max(1.0, np.abs(kept).max(initial=0))
        assert_close(shares / large, kept / large, 2e-4)
        nonzero = np.any(steps["residual"] != 0, axis=1)
        np.testing.assert_allclose(shares.sum(axis=1), nonzero, atol=2e-4 * large)


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_share_is_that_of_the_last_residual(seed):
    case = random_case(seed)
    *others, last = case.layers
    last = replace(last, residual=replace(last.residual, share=0.3))
    expected = contextualize(case.sentence, [*others, last], ["contributions"])
    found = contextualize(case.sentence, case.layers, ["contributions"], share=0.3)
    assert np.array_equal(found.contextual, expected.contextual)
    for record, other in zip(found.records, expected.records, strict=True):
        assert np.array_equal(record["contributions"], other["contributions"])


@pytest.mark.parametrize("seed", SEEDS)
def test_float64_trace_agrees_with_reference(seed):
    case, expected = case_and_expected(seed)
    for index, (layer, reference) in enumerate(zip(case.layers, expected, strict=True)):
        arrays = dict(reference)
        for step in trace_layer(case.sentence, case.layers, index):
            if step.name not in arrays:
                continue
            array = arrays.pop(step.name)
            if step.name in BY_HEAD and layer.heads == 1:
                array = array[0]
            assert step.values.dtype == np.float64
            assert_close(step.values, array, FLOAT64_TOLERANCE, step.name)
        assert not arrays, f"not traced: {sorted(arrays)}"


@pytest.mark.parametrize("n", [1, 64, 65, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
def test_sentence_of_a_block_or_cache_length_agrees_with_reference(n):
    layers = [full_layer(n, d=7, heads=2, k=3, v=5)]
    sentence = random_sentence(np.random.default_rng(n), n, 7, unknown=0.2)
    (expected,) = run_stack(sentence, layers)
    result = contextualize(sentence, layers, ["weights"])
    assert_close(result.contextual, expected["contextual"], FLOAT32_TOLERANCE)
    assert_close(result.records[0]["weights"], expected["weights"], FLOAT32_TOLERANCE)
    if n in (1, BLOCK + 1):
        steps = {step.name: step.values for step in trace_layer(sentence, layers, 0)}
        assert_close(steps["contextual"], expected["contextual"], FLOAT64_TOLERANCE)
        assert_close(steps["weights"], expected["weights"], FLOAT64_TOLERANCE)


def test_records_are_those_of_the_requested_layers():
    case = random_case(3)
    layers = (case.layers * 3)[:3]
    result = contextualize(case.sentence, layers, ["weights", "keys"], of_layers=[0, 2])
    assert [sorted(record) for record in result.records] == ([["keys", "weights"], []] * 2)[:3]
