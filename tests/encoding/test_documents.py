"""Answers as documents that orjson writes, for every way of writing an array."""

import json
from dataclasses import replace

import numpy as np
import orjson
import pybase64
import pytest

from service.encoding.compare import Occurrence, compare
from service.encoding.documents import (
    as_base64,
    as_numbers,
    compare_document,
    encode_document,
    model_document,
    trace_document,
)
from service.encoding.stages import Stages
from service.encoding.tracing import trace_text
from tests.encoding.asking import EVERY, ask
from tests.tiny import LIMITS

TEXTS = ["Bank zebra didn't", "", "river"]


def written(document):
    return json.loads(orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY))


def decoded(document):
    data = pybase64.b64decode(document["data"], validate=True)
    return np.frombuffer(data, np.dtype(document["dtype"]).newbyteorder("<")).reshape(
        document["shape"]
    )


def in_dtype(encoded, dtype):
    return [
        replace(one, arrays={part: array.astype(dtype) for part, array in one.arrays.items()})
        for one in encoded
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("mean", [True, False])
def test_arrays_as_numbers_come_back_equal(deep, dtype, mean):
    encoded = in_dtype(ask(deep, TEXTS, include=EVERY, mean_of_heads=mean), dtype)
    results = written(encode_document(deep.manifest, encoded))["results"]
    for one, result in zip(encoded, results, strict=True):
        for part, array in one.arrays.items():
            found = np.array(result[part], dtype).reshape(array.shape)
            assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("mean", [True, False])
def test_arrays_as_base64_come_back_equal(deep, dtype, mean):
    encoded = in_dtype(ask(deep, TEXTS, include=EVERY, mean_of_heads=mean), dtype)
    results = written(encode_document(deep.manifest, encoded, as_base64))["results"]
    for one, result in zip(encoded, results, strict=True):
        for part, array in one.arrays.items():
            assert result[part]["shape"] == list(array.shape)
            assert result[part]["dtype"] == np.dtype(dtype).name
            assert decoded(result[part]).tobytes() == array.tobytes()


@pytest.mark.parametrize("part", sorted(EVERY))
def test_an_array_that_was_not_asked_for_is_absent(deep, part):
    encoded = ask(deep, TEXTS, include=EVERY - {part})
    for result in written(encode_document(deep.manifest, encoded))["results"]:
        assert set(result) == {"tokens", "truncated"} | EVERY - {part}


def test_base64_is_little_endian_in_c_order_whatever_the_array_is():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = {
        "shape": [2, 3],
        "dtype": "float32",
        "data": "AAAAAAAAgD8AAABAAABAQAAAgEAAAKBA",
    }
    for view in (
        array,
        np.asfortranarray(array),
        array.astype(">f4"),
        np.repeat(array, 2, 1)[:, ::2],
    ):
        assert as_base64(view) == expected


def test_numbers_are_written_whatever_the_array_is(tmp_path):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "array.npy", array)
    mapped = np.load(tmp_path / "array.npy", mmap_mode="r")
    for view in (np.asfortranarray(array), array[::-1][::-1], mapped, mapped[:, :3]):
        assert written(as_numbers(view)) == array.tolist()


def test_the_document_of_an_answer_is_that_of_the_contract(deep):
    limits = replace(LIMITS, max_sentence_tokens=2)
    encoded = ask(deep, ["Bank zebra river", "apple"], limits, truncate=True)
    document = written(encode_document(deep.manifest, encoded))
    assert {k: v for k, v in document.items() if k != "results"} == {
        "model": "tiny",
        "dimension": 5,
        "layers": 2,
        "heads": 3,
        "usage": {"tokens": 3, "oov": 1, "truncated": 1},
    }
    first, second = document["results"]
    assert list(first) == ["tokens", "truncated", "static", "contextual", "attention"]
    assert first["tokens"] == [
        {"text": "Bank", "start": 0, "end": 4, "key": "bank", "resolution": "lower"},
        {"text": "zebra", "start": 5, "end": 10, "key": None, "resolution": "oov"},
    ]
    assert (first["truncated"], second["truncated"]) == (1, 0)


def test_words_that_are_already_cut_have_no_place(deep):
    document = encode_document(deep.manifest, ask(deep, [["bank"]]))
    assert document["results"][0]["tokens"] == [
        {"text": "bank", "start": None, "end": None, "key": "bank", "resolution": "exact"}
    ]


def test_the_document_of_a_comparison_is_that_of_the_contract(plain):
    occurrences = [Occurrence("zebra bank", "bank"), Occurrence("bank river", "bank")]
    comparison = compare(plain, occurrences, 2, "auto", LIMITS, Stages())
    document = written(compare_document(plain.manifest, comparison))
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
    document = written(model_document(deep.manifest))
    assert (document["dimension"], document["vocabulary_size"]) == (5, 11)
    assert (document["layers"], document["heads"], document["dtype"]) == (2, 3, "float32")
