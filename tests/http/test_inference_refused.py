"""What the Open Inference Protocol refuses, through a real gunicorn: each with one sentence."""

import json

import httpx
import numpy as np
import pytest
from polyseme.http import inference_replies as replies

from tests.http.problem import SECRET, expect_problem
from tests.http.tensors import LENGTH, binary_request, packed, post, request, tensors_of
from tests.tiny import VECTORS, write_tiny


@pytest.fixture(scope="module")
def guarded(serve, tmp_path_factory) -> httpx.Client:
    """A service that wants a key and takes 40 sentences at once."""
    folder = write_tiny(tmp_path_factory.mktemp("models") / "tiny")
    settings = {"models_dir": folder.parent, "model": "tiny", "workers": 1}
    return serve(api_keys="plain-key", max_sentences=40, **settings)


def tensor(**changes) -> dict:
    known = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["apple"], **changes}
    return {"inputs": [{name: value for name, value in known.items() if value is not None}]}


def after(**said) -> dict:
    return {"data": None, "parameters": said}


HOSTILE = {
    "no inputs": ({"inputs": []}, 422),
    "two inputs": ({"inputs": tensor()["inputs"] * 2}, 422),
    "another input": (tensor(name=SECRET), 422),
    "numbers": (tensor(datatype="FP32", data=[1.5]), 422),
    "a number among texts": (tensor(shape=[2], data=["a", 1]), 422),
    "no shape": (tensor(shape=None), 422),
    "shape of nothing": (tensor(shape=[]), 422),
    "no sentences": (tensor(shape=[0], data=[]), 422),
    "negative shape": (tensor(shape=[-1]), 422),
    "shape in texts": (tensor(shape=["1"]), 422),
    "broken shape": (tensor(shape=[1.5]), 422),
    "true shape": (tensor(shape=[True]), 422),
    "huge shape": (tensor(shape=[10**30]), 422),
    "large shape": (tensor(shape=[(1 << 31) - 1]), 413),
    "deep shape": (tensor(shape=[1, 1, 1]), 422),
    "wide shape": (tensor(shape=[1, 2], data=["a", "b"]), 422),
    "too few": (tensor(shape=[2]), 422),
    "too many": (tensor(data=["a", "b"]), 422),
    "nested and flat": (tensor(shape=[2, 1], data=[["a"], "b"]), 422),
    "nested in a row": (tensor(data=[["a"]]), 422),
    "nested too wide": (tensor(shape=[1, 1], data=[["a", "b"]]), 422),
    "nested too deep": (tensor(shape=[1, 1], data=[[["a"]]]), 422),
    "data of no list": (tensor(data="apple"), 422),
    "no data": (tensor(data=None), 422),
    "data twice": (tensor(parameters={"binary_data_size": 9}), 422),
    "bytes that are not there": (tensor(**after(binary_data_size=9)), 422),
    "negative bytes": (tensor(**after(binary_data_size=-1)), 422),
    "bytes in a text": (tensor(**after(binary_data_size="9")), 422),
    "huge bytes": (tensor(**after(binary_data_size=(1 << 64) - 1)), 422),
    "shared memory": (tensor(**after(shared_memory_region=SECRET)), 422),
    "an unknown field": ({**tensor(), "unknown": 1}, 422),
    "an unknown parameter": ({**tensor(), "parameters": {"unknown": 1}}, 422),
    "an unknown output": ({**tensor(), "outputs": [{"name": SECRET}]}, 422),
    "an output twice": ({**tensor(), "outputs": [{"name": "static"}] * 2}, 422),
    "an unknown form": (
        {**tensor(), "outputs": [{"name": "static", "parameters": {"classification": 1}}]},
        422,
    ),
    "no such layer": ({**tensor(), "parameters": {"layers": 9}}, 422),
    "no layer": ({**tensor(), "parameters": {"layers": SECRET}}, 422),
    "no subwords": ({**tensor(), "parameters": {"oov": "subword"}}, 422),
    "a long id": ({**tensor(), "id": SECRET * 100}, 422),
    "an id of no text": ({**tensor(), "id": 7}, 422),
    "no object": ([], 422),
}


@pytest.mark.parametrize(("body", "status"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_wrong_is_refused_with_one_sentence(guarded, body, status):
    sent = json.dumps(body).encode()
    answer = post(guarded, sent, headers={"Content-Type": "application/json"})
    document = expect_problem(answer, status, "invalid" if status == 422 else "too_large")
    replies.InferenceProblemReply.model_validate(document)
    for one in document.get("errors", []):
        assert one["pointer"] in places(body)


def places(value, pointer=""):
    """The pointers to all there is in a document, and to what it may lack."""
    yield pointer
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for name, below in entries:
        if isinstance(below, dict | list):
            yield from places(below, f"{pointer}/{name}")
        yield f"{pointer}/{name}"
    yield from (f"/inputs/0/{name}" for name in ("shape", "parameters/binary_data_size"))


HEAD = json.dumps(tensor(**after(binary_data_size=9))).encode()
NINE = packed(["apple"])
BARE = json.dumps(tensor()).encode()
BOTH = json.dumps(tensor(parameters={"binary_data_size": 9})).encode()


@pytest.mark.parametrize(
    ("length", "content", "status"),
    [
        (len(HEAD), HEAD + NINE, 200),
        (None, HEAD + NINE, 400),
        (0, HEAD + NINE, 400),
        (len(HEAD) - 1, HEAD + NINE, 400),
        (len(HEAD) + 1, HEAD + NINE, 400),
        (len(HEAD + NINE) + 1, HEAD + NINE, 400),
        (10**40, HEAD + NINE, 400),
        (-1, HEAD + NINE, 400),
        ("+5", HEAD + NINE, 400),
        ("", HEAD + NINE, 400),
        ("1e3", HEAD + NINE, 400),
        ("\u0661".encode(), HEAD + NINE, 400),
        (f"{len(HEAD)}, {len(HEAD)}", HEAD + NINE, 400),
        (len(HEAD), HEAD + NINE + b"x", 422),
        (len(HEAD), HEAD + NINE[:-1], 422),
        (len(BARE), BARE, 200),
        (len(BARE) + 1, BARE, 400),
        (len(BARE), BARE + NINE, 422),
        (len(BOTH), BOTH + NINE, 422),
        (len(HEAD), HEAD, 422),
        (len(HEAD), HEAD + b"\x06" + NINE[1:], 422),
        (len(HEAD), HEAD + b"\xff\xff\xff\xff" + NINE[4:], 422),
        (len(HEAD), HEAD + b"\x01\x00\x00\x00" + NINE[4:], 422),
        (len(HEAD), HEAD + NINE[:-1] + b"\xff", 422),
    ],
)
def test_lengths_that_do_not_fit_are_refused(guarded, length, content, status):
    said = length if isinstance(length, bytes) else str(length).encode()
    answer = post(guarded, content, headers={LENGTH: said} if length is not None else {})
    if status == 200:
        np.testing.assert_array_equal(tensors_of(answer)["static"], VECTORS[[0]])
    else:
        code = "invalid" if status == 422 else "not_json"
        replies.InferenceProblemReply.model_validate(expect_problem(answer, status, code))


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Content-Type": "text/plain"}, 415, "unsupported_media"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "unsupported_media"),
        ({"Content-Encoding": "gzip"}, 415, "unsupported_media"),
        ({"Content-Encoding": "deflate"}, 415, "unsupported_media"),
        ({"Accept": "text/html"}, 406, "not_acceptable"),
    ],
)
def test_what_is_declared_as_something_else_is_refused(guarded, headers, status, code):
    answer = post(guarded, json.dumps(request()).encode(), headers=headers)
    document = expect_problem(answer, status, code)
    assert document["error"] == f"{document['detail']} {document['hint']}"


@pytest.mark.parametrize("kind", [None, "application/json", "application/octet-stream"])
def test_a_body_may_be_declared_as_json_as_bytes_or_not_at_all(guarded, kind):
    headers = {"Content-Type": kind} if kind else {}
    answer = post(guarded, json.dumps(request()).encode(), headers=headers)
    assert answer.content == post(guarded, request()).content


def test_more_than_a_limit_is_refused_whichever_way_it_comes(guarded):
    texts = ["a"] * 41
    body, length = binary_request(texts)
    for answer in (
        post(guarded, request(texts)),
        post(guarded, body, headers={LENGTH: str(length)}),
        post(guarded, b" " * (5 << 20)),
    ):
        document = expect_problem(answer, 413, "too_large")
        assert document["detail"] in document["error"]
