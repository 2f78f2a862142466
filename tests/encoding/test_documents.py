"""Answers as documents that orjson writes."""

import json

import numpy as np
import orjson

from polyseme.encoding.compare import Occurrence, compare, comparison_document
from polyseme.encoding.encode import Timings
from polyseme.encoding.serialize import manifest_document
from polyseme.encoding.trace import trace_document, trace_text
from tests.tiny import LIMITS


def written(document):
    return json.loads(orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY))


def test_the_document_of_a_comparison_is_that_of_the_contract(plain):
    occurrences = [Occurrence("zebra bank", "bank"), Occurrence("bank river", "bank")]
    comparison = compare(plain, occurrences, 2, "auto", LIMITS, Timings())
    document = written(comparison_document(plain.manifest, comparison))
    assert set(document) == {
        "model",
        "occurrences",
        "static_similarity",
        "contextual_similarity",
        "notes",
    }
    one = document["occurrences"][0]
    assert set(one) == {
        "token",
        "shift",
        "static_neighbors",
        "contextual_neighbors",
        "attends_to",
    }
    token = {"text": "bank", "start": 6, "end": 10, "key": "bank", "resolution": "exact"}
    assert one["token"] == token
    assert one["attends_to"] == [{"text": "bank", "start": 6, "end": 10, "weight": 1}]
    assert [set(neighbour) for neighbour in one["static_neighbors"]] == [{"word", "similarity"}] * 2
    assert np.shape(document["contextual_similarity"]) == (2, 2)
    assert len(document["notes"]) == 1


def test_the_document_of_a_trace_names_shape_and_formula_of_each_step(deep):
    names, steps = trace_text(deep, "bank zebra river", 1, "auto", LIMITS)
    document = written(trace_document(names, steps))
    assert document["tokens"] == ["bank", "zebra", "river"]
    for step, found in zip(steps, document["steps"], strict=True):
        assert set(found) == {"name", "formula", "shape", "values"}
        assert found["shape"] == list(np.shape(found["values"])) == list(step.values.shape)
        assert np.array_equal(found["values"], step.values)


def test_the_document_of_a_model_can_be_written(deep):
    document = written(manifest_document(deep.manifest))
    assert (document["dimension"], document["vocabulary_size"]) == (5, 11)
    assert (document["layers"], document["heads"], document["dtype"]) == (2, 3, "float32")
