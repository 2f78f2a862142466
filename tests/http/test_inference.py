"""The Open Inference Protocol through a real gunicorn: tensors in JSON and as bytes."""

import io
import json
import math
import os
import signal
import time

import httpx
import numpy as np
import pytest
from polyseme.http import inference_replies as replies
from polyseme.http.replies import ReadyReply

from polyseme.api.app import create_app
from polyseme.settings import Settings
from tests.http.numbers import numbers, total
from tests.http.problem import expect_problem
from tests.http.sockets import LONGER, Caller, posted
from tests.http.tensors import KEY, LENGTH, binary_request, post, request, tensors_of
from tests.http.versions import WAIT, service, until
from tests.tiny import VECTORS, full_layer, write_tiny

TEXTS = ["apple Apple river.", "", "qzxqzx", "Zoë didn’t end the high-river bank!"]
EVERY = ["static", "contextual", "attention", "offsets", "attention_offsets", "tokens"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two models: one whose answers can be made on paper, one with two layers of three heads."""
    place = tmp_path_factory.mktemp("models")
    write_tiny(place / "tiny")
    write_tiny(place / "deep", layers=[full_layer(1), full_layer(2)], word_bias=VECTORS[:, 0])
    vectors = write_tiny(place / "cut") / "vectors.npy"
    vectors.write_bytes(vectors.read_bytes()[:-4])
    return place


@pytest.fixture(scope="module")
def guarded(serve, place) -> httpx.Client:
    """A service that wants a key."""
    settings = {"models_dir": place, "model": "tiny", "workers": 1}
    limits = {"max_sentences": 40, "max_sentence_tokens": 200, "stream_bytes": 100_000}
    return serve(api_keys="plain-key", metrics="open", **settings, **limits)


def in_process(**settings) -> httpx.Client:
    """A client of an application without a server, which is there at once."""
    app = create_app(Settings(**settings))
    return httpx.Client(transport=httpx.WSGITransport(app=app), base_url="http://localhost")


def infer(client, texts=TEXTS, model="tiny", **fields) -> dict[str, np.ndarray]:
    return tensors_of(post(client, request(texts, **fields), model))


def test_the_tensors_of_a_sentence_are_those_on_paper(guarded):
    found = infer(guarded, ["apple bank", "river"])
    assert list(found) == EVERY
    np.testing.assert_array_equal(found["static"], VECTORS[[0, 3, 4]])
    assert list(found["offsets"]) == [0, 2, 3]
    assert list(found["tokens"]) == ["apple", "bank", "river"]
    # apple·apple = apple·bank = 1, bank·bank = 2.
    e = math.e
    weights = [0.5, 0.5, 1 / (1 + e), e / (1 + e), 1]
    np.testing.assert_allclose(found["attention"], weights, rtol=1e-6)
    assert list(found["attention_offsets"]) == [0, 4, 5]
    contextual = [[1, 0.5, 0, 0, 0], [1, e / (1 + e), 0, 0, 0], [0, 1, 0, 2, 0]]
    np.testing.assert_allclose(found["contextual"], contextual, rtol=1e-6)


@pytest.mark.parametrize("model", ["tiny", "deep", "wiki-en"])
@pytest.mark.parametrize("heads", ["all", "mean"])
def test_every_way_has_the_bits_of_encode(guarded, model, heads):
    body = {"model": model, "input": TEXTS, "heads": heads}
    accept = {"Accept": "application/x-npz", **KEY}
    file = io.BytesIO(guarded.post("/v1/encode", json=body, headers=accept).content)
    with np.load(file) as archive:
        expected = dict(archive)
    asked = {"parameters": {"heads": heads}}
    in_json = infer(guarded, model=model, **asked)
    asked["parameters"]["binary_data_output"] = True
    body, length = binary_request(TEXTS, **asked)
    answer = post(guarded, body, model, {LENGTH: str(length)})
    assert answer.headers["content-type"] == "application/octet-stream"
    for found in (in_json, tensors_of(answer)):
        assert list(found) == EVERY
        for part in ("offsets", "static", "contextual"):
            np.testing.assert_array_equal(found[part], expected[part])
            assert found[part].dtype == expected[part].dtype
        for number, (start, end) in enumerate(spans(found["attention_offsets"])):
            own = expected[f"attention_{number}"]
            np.testing.assert_array_equal(found["attention"][start:end].reshape(own.shape), own)
        words = [
            t["text"] for one in json.loads(expected["tokens"].tobytes()) for t in one["tokens"]
        ]
        assert list(found["tokens"]) == words


def spans(offsets: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))


def test_what_is_asked_for_comes_in_its_order_and_in_its_form(guarded):
    outputs = [
        {"name": "tokens", "parameters": {"binary_data": True}},
        {"name": "static", "parameters": {"binary_data": False}},
        {"name": "offsets"},
    ]
    body = request(outputs=outputs, id="seven", parameters={"binary_data_output": True})
    answer = post(guarded, body)
    document = json.loads(answer.content[: int(answer.headers[LENGTH])])
    assert {name: document[name] for name in ("id", "model_name", "model_version")} == {
        "id": "seven",
        "model_name": "tiny",
        "model_version": "1",
    }
    assert [list(one) for one in document["outputs"]] == [
        ["name", "datatype", "shape", "parameters"],
        ["name", "datatype", "shape", "data"],
        ["name", "datatype", "shape", "parameters"],
    ]
    found = tensors_of(answer)
    assert list(found) == ["tokens", "static", "offsets"]
    assert list(found["tokens"]) == ["apple", "bank"]
    np.testing.assert_array_equal(found["static"], VECTORS[[0, 3]])
    assert "attention;" not in answer.headers["server-timing"]


def test_parameters_do_what_the_fields_of_encode_do(guarded):
    whole = infer(guarded, ["apple bank"], "deep")["attention"].reshape(2, 3, 2, 2)
    for said, layers in (("last", [1]), (0, [0]), ("0,1", [0, 1]), ([1], [1])):
        asked = {"layers": said, "heads": "all"}
        answer = post(guarded, request(parameters=asked), "deep")
        part = tensors_of(answer)["attention"].reshape(len(layers), 3, 2, 2)
        np.testing.assert_array_equal(part, whole[layers])
        assert answer.json()["parameters"]["layers"] == len(layers)
    lower = infer(guarded, ["APPLE"], parameters={"case": "lower"})
    np.testing.assert_array_equal(lower["static"], VECTORS[[0]])
    answer = post(guarded, request(["apple qzxqzx"], parameters={"oov": "error"}))
    document = expect_problem(answer, 422, "unknown_word")
    assert document["errors"][0]["pointer"] == "/inputs/0/data/0"
    long = ["apple " * 201]
    expect_problem(post(guarded, request(long)), 413, "too_large")
    answer = post(
        guarded, request(long, parameters={"truncate": True}, outputs=[{"name": "offsets"}])
    )
    assert answer.json()["outputs"][0]["data"] == [0, 200]
    usage = {name: answer.json()["parameters"][name] for name in ("tokens", "oov", "truncated")}
    assert usage == {"tokens": 200, "oov": 0, "truncated": 1}


def test_one_column_is_as_good_as_one_row(guarded):
    expected = infer(guarded, TEXTS)
    nested = infer(guarded, [[text] for text in TEXTS], shape=[4, 1])
    flat = infer(guarded, TEXTS, shape=[4, 1])
    for found in (nested, flat):
        for name, tensor in expected.items():
            np.testing.assert_array_equal(found[name], tensor)


@pytest.mark.parametrize("binary", [True, False, None], ids=["bytes", "json", "mixed"])
def test_a_large_answer_is_sent_as_it_is_made_and_is_the_same(guarded, place, binary):
    texts = [*TEXTS, "river bank " * 90] * 4
    outputs = [
        {"name": name, "parameters": {"binary_data": place % 2 == 0 if binary is None else binary}}
        for place, name in enumerate(EVERY)
    ]
    streamed = post(guarded, request(texts, outputs=outputs), "deep")
    assert streamed.headers["transfer-encoding"] == "chunked"
    other = in_process(models_dir=place, model="tiny", stream_bytes=1 << 30)
    whole = post(other, request(texts, outputs=outputs), "deep")
    assert int(whole.headers["content-length"]) == len(whole.content)
    assert streamed.content == whole.content
    assert streamed.headers.get(LENGTH) == whole.headers.get(LENGTH)
    assert list(tensors_of(streamed)) == EVERY


def test_the_server_and_its_models_say_what_they_are(guarded):
    server = guarded.get("/v2").json()
    replies.ServerReply.model_validate(server)
    assert "binary_tensor_data" in server["extensions"]
    model = guarded.get("/v2/models/tiny", headers=KEY).json()
    replies.ModelMetadataReply.model_validate(model)
    assert model["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    assert {one["name"]: (one["datatype"], one["shape"]) for one in model["outputs"]} == {
        "static": ("FP32", [-1, 5]),
        "contextual": ("FP32", [-1, 5]),
        "attention": ("FP32", [-1]),
        "offsets": ("INT64", [-1]),
        "attention_offsets": ("INT64", [-1]),
        "tokens": ("BYTES", [-1]),
    }
    ready = guarded.get("/v2/models/tiny/ready", headers=KEY).json()
    assert ready == {"name": "tiny", "ready": True}
    version = f"/v2/models/tiny/versions/{model['versions'][0]}"
    assert guarded.get(version, headers=KEY).json() == model
    assert guarded.get(f"{version}/ready", headers=KEY).json() == ready
    answer = guarded.post(f"{version}/infer", json=request(), headers=KEY)
    assert answer.content == post(guarded, request()).content
    path = "/v2/models/tiny/versions/2"
    expect_problem(guarded.get(path, headers=KEY), 404, "unknown_route")


def test_health_and_the_server_want_no_key_and_everything_else_does(guarded):
    assert guarded.get("/v2/health/live").json() == {"live": True}
    assert guarded.get("/v2/health/ready").json() == {"ready": True}
    assert guarded.get("/v2").status_code == 200
    for path in ("/v2/models/tiny", "/v2/models/tiny/ready", "/v2/", "/v2/x", "/v2/models/tiny/x"):
        document = expect_problem(guarded.get(path), 401, "unauthorised")
        assert document["error"] == f"{document['detail']} {document['hint']}"
    answer = guarded.post("/v2/models/tiny/infer", json=request())
    expect_problem(answer, 401, "unauthorised")


def test_a_model_that_is_broken_is_not_ready(guarded, place):
    document = expect_problem(guarded.get("/v2/models/cut/ready", headers=KEY), 503, "broken_model")
    assert "vectors.npy has another number of bytes" in document["error"]
    expect_problem(post(guarded, request(), "cut"), 503, "broken_model")
    broken = in_process(models_dir=place, model="cut")
    assert broken.get("/v2/health/live").status_code == 200
    document = expect_problem(broken.get("/v2/health/ready"), 503, "not_ready")
    assert "vectors.npy" in document["detail"]
    with pytest.raises(ValueError, match="status"):
        ReadyReply.model_validate(document)


def test_a_service_that_takes_leave_is_not_ready_and_answers(tmp_path):
    with (
        service(tmp_path, workers=1, drain_seconds=60) as (pid, port),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=WAIT) as client,
    ):
        assert client.get("/v2/health/ready").status_code == 200
        os.kill(pid, signal.SIGTERM)
        until(lambda: client.get("/v2/health/ready").status_code, 503)
        document = expect_problem(client.get("/v2/health/ready"), 503, "draining")
        replies.InferenceProblemReply.model_validate(document)
        assert client.get("/v2/health/live").status_code == 200
        assert post(client, request(), "wiki-en").status_code == 200


def test_sentences_count_towards_a_rate_and_health_does_not(place):
    limited = in_process(models_dir=place, model="tiny", rate_limit="2/hour")
    statuses = [limited.get(f"/v2{path}").status_code for path in ("", "/health/ready") * 3]
    assert statuses == [200] * 6
    assert [post(limited, request()).status_code for _ in "ab"] == [200, 200]
    document = expect_problem(post(limited, request()), 429, "rate_limited")
    replies.InferenceProblemReply.model_validate(document)
    assert limited.get("/v2/health/ready").status_code == 200


def test_a_route_is_counted_by_its_rule(guarded):
    labels = {"route": "/v2/models/<name>/infer", "method": "POST", "status": "200"}
    before = total(numbers(guarded), "requests_total", **labels)
    infer(guarded)
    assert total(numbers(guarded), "requests_total", **labels) == before + 1
    tokens = total(numbers(guarded), "tokens_total", model="tiny")
    infer(guarded, ["apple bank river"])
    assert total(numbers(guarded), "tokens_total", model="tiny") == tokens + 3


def test_what_is_refused_before_a_route_has_seen_it_has_the_error_too(tmp_path):
    settings = {"workers": 1, "threads": 1, "max_waiting": 0}
    with service(tmp_path, **settings) as (_, port), Caller(port) as busy:
        busy.send(posted(LONGER))
        for _ in range(50):
            time.sleep(0.1)  # the request may not be in the thread yet
            with Caller(port) as caller:
                status, _, body = caller.ask(posted(request(), "/v2/models/wiki-en/infer"))
            if status == 503:
                break
        document = json.loads(body)
        replies.InferenceProblemReply.model_validate(document)
        assert document["code"] == "overloaded"
