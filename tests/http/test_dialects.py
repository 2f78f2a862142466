"""Every error that a client of OpenAI's API can meet: a problem as all are, and OpenAI's shape."""

import json
import socket

import httpx
import orjson
import pytest
from polyseme.http.answering import refusal
from polyseme.http.dialects import openai
from polyseme.http.replies import OpenAIProblemReply

from polyseme.api.app import create_app
from polyseme.errors import DrainingError, InvalidError, OverloadedError, RateLimitedError
from tests.http.problem import SECRET, expect_problem

PATH = "/v1/embeddings"
KEY = {"Authorization": "Bearer right-key"}


def expect_both(answer, status, code, told, kind="invalid_request_error"):
    """Check that an error is a problem and an error of OpenAI's, which say the same."""
    document = expect_problem(answer, status, code)
    OpenAIProblemReply.model_validate(document)
    error = document["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["type"]) == (told, kind)
    if status != 422:
        assert error["message"] == f"{document['detail']} {document['hint']}"
    return document


@pytest.fixture(scope="module")
def small(serve) -> httpx.Client:
    """A service with keys and with limits that are soon met."""
    limits = {"max_sentences": 3, "max_sentence_tokens": 8, "max_tokens": 12}
    return serve(api_keys="right-key", workers=1, max_body_bytes=400, **limits)


def test_a_body_that_is_not_json_or_not_declared_so(small):
    headers = {**KEY, "Content-Type": "application/json"}
    expect_both(small.post(PATH, content=b"{", headers=headers), 400, "not_json", "not_json")
    plain = small.post(PATH, content=b"{}", headers={**KEY, "Content-Type": "text/plain"})
    expect_both(plain, 415, "unsupported_media", "unsupported_media")


def test_a_missing_or_wrong_key(small):
    for path in (PATH, "/v1/models", "/v1/models/wiki-en", f"/v1/models/{SECRET}"):
        for headers in ({}, {"Authorization": f"Bearer {SECRET}"}):
            answer = small.request("POST" if path == PATH else "GET", path, headers=headers)
            expect_both(answer, 401, "unauthorised", "invalid_api_key")
            assert answer.headers["www-authenticate"] == "Bearer"


def test_no_such_model_route_method_or_answer_type(small):
    for answer in (
        small.post(PATH, json={"input": "a", "model": SECRET}, headers=KEY),
        small.get(f"/v1/models/{SECRET}", headers=KEY),
    ):
        expect_both(answer, 404, "unknown_model", "model_not_found")
    for path in (f"{PATH}/", f"{PATH}/{SECRET}", "/v1/models/a/b", "/v1/models/"):
        expect_both(small.get(path, headers=KEY), 404, "unknown_route", "unknown_route")
    for path in ("/embeddings", "/v1/completions", "/models"):
        expect_both(small.post(path, headers=KEY), 404, "unknown_route", "unknown_route")
    for method, path in (("GET", PATH), ("DELETE", "/v1/models")):
        answer = small.request(method, path, headers=KEY)
        expect_both(answer, 405, "method_not_allowed", "method_not_allowed")
        assert "allow" in answer.headers
    html = {**KEY, "Accept": "text/html"}
    for answer in (
        small.post(PATH, json={"input": "a"}, headers=html),
        small.get("/v1/models", headers=html),
    ):
        expect_both(answer, 406, "not_acceptable", "not_acceptable")


@pytest.mark.parametrize(
    ("texts", "setting", "limit", "size"),
    [
        (["a"] * 4, "max_sentences", 3, 4),
        ("river " * 9, "max_sentence_tokens", 8, 9),
        (["river " * 7] * 2, "max_tokens", 12, 14),
        ("a" * 400, "max_body_bytes", 400, 412),
    ],
)
def test_more_than_a_limit_is_refused_and_never_cut(small, texts, setting, limit, size):
    content = orjson.dumps({"input": texts})
    headers = {**KEY, "Content-Type": "application/json"}
    answer = small.post(PATH, content=content, headers=headers)
    document = expect_both(answer, 413, "too_large", "too_large")
    assert (document["setting"], document["limit"], document["size"]) == (setting, limit, size)


def test_an_answer_over_its_limit_is_refused_by_what_is_sent_and_not_by_what_is_computed(serve):
    # A vector of 300 numbers: 16 bytes each as text at most, 16/3 as base64, and some around it.
    tight = serve(workers=1, max_answer_bytes=3000, stream_bytes=1)
    body = {"input": "the river bank is near the money bank " * 20}
    answer = tight.post(PATH, json=body)
    document = expect_both(answer, 413, "too_large", "too_large")
    assert document["setting"] == "max_answer_bytes"
    answer = tight.post(PATH, json={**body, "encoding_format": "base64"})
    assert answer.status_code == 200
    assert 1600 < len(answer.content) <= 3000


def test_a_caller_over_its_rate_is_told_when_to_come_back(serve):
    limited = serve(rate_limit="2/hour", workers=1, max_sentences=1)
    answers = [limited.post(PATH, json={"input": "the river"}) for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    expect_both(answers[2], 429, "rate_limited", "rate_limit_exceeded", "rate_limit_error")
    assert int(answers[2].headers["retry-after"]) > 0
    listed = limited.get("/v1/models")
    expect_both(listed, 429, "rate_limited", "rate_limit_exceeded", "rate_limit_error")


def test_a_broken_model(serve, broken_models):
    broken = serve(models_dir=broken_models, model="broken")
    answer = broken.post(PATH, json={"input": "a"})
    expect_both(answer, 503, "broken_model", "broken_model", "server_error")
    assert int(answer.headers["retry-after"]) > 0


def test_what_the_worker_refuses_before_any_route_has_seen_it(small):
    port = small.base_url.port
    with socket.create_connection(("127.0.0.1", port), 10) as caller:
        caller.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost a\r\n\r\n")
        told = b"".join(iter(lambda: caller.recv(65_536), b""))
    for received, code in (
        (told, "malformed"),
        (refusal(OverloadedError()), "overloaded"),
        (refusal(DrainingError()), "draining"),
    ):
        head, _, body = received.partition(b"\r\n\r\n")
        document = json.loads(body)
        OpenAIProblemReply.model_validate(document)
        assert document["code"] == document["error"]["code"] == code
        assert b"application/problem+json" in head
        assert (b"Retry-After" in head) is (document["status"] == 503)


def test_a_fault_of_the_service_says_nothing_of_it(monkeypatch):
    def fail(*_):
        raise RuntimeError(SECRET)

    monkeypatch.setattr("polyseme.http.embeddings.sentence_vectors", fail)
    answer = create_app().test_client().post(PATH, json={"input": "a"})
    assert (answer.status_code, answer.json["error"]["type"]) == (500, "server_error")
    assert SECRET not in answer.text


def test_other_routes_have_no_members_of_others(client):
    for answer in (
        client.get("/v1/encode"),
        client.post("/v1/encode", json={"input": "a", "model": "none"}),
        client.post("/v1/neighbors", json={}),
    ):
        assert "error" not in expect_problem(answer, answer.status_code, answer.json()["code"])


def test_an_error_without_fields_has_no_parameter():
    told = openai(InvalidError([]))["error"]
    assert told["param"] is None
    assert told["message"] == f"{InvalidError.detail} {InvalidError.hint}"
    assert openai(RateLimitedError())["error"]["code"] == "rate_limit_exceeded"
