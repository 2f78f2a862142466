"""What is over a limit, or comes too often, through a real gunicorn."""

import json

import pytest

from tests.http.problem import expect_problem

LONG = " ".join(["river"] * 50)


@pytest.mark.parametrize(
    ("setting", "limit", "path", "body", "size"),
    [
        ("max_sentences", 3, "/v1/encode", {"input": ["a"] * 4}, 4),
        ("max_sentence_tokens", 49, "/v1/encode", {"input": LONG}, 50),
        ("max_tokens", 99, "/v1/encode", {"input": [LONG, LONG]}, 100),
        ("max_answer_bytes", 4000, "/v1/encode", {"input": LONG, "include": ["attention"]}, 160000),
        ("max_trace_tokens", 49, "/v1/trace", {"text": LONG}, 50),
        (
            *("max_trace_bytes", 100, "/v1/trace"),
            *({"tokens": ["a"], "queries": [[1.0]], "keys": [[1.0]], "values": [[1.0]]}, 520),
        ),
        (
            *("max_trace_tokens", 49, "/v1/trace"),
            *({"tokens": ["a"] * 50, "embeddings": [[1.0]] * 50}, 50),
        ),
        (
            *("max_sentence_tokens", 49, "/v1/compare"),
            *({"occurrences": [{"text": LONG, "word": "river"}] * 2}, 50),
        ),
    ],
)
def test_what_is_over_a_limit_is_a_413_that_names_limit_and_size(
    serve, setting: str, limit: int, path: str, body: dict, size: int
) -> None:
    limited = serve(**{setting: limit})
    document = expect_problem(limited.post(path, json=body), 413, "too_large")
    assert (document["limit"], document["size"], document["setting"]) == (limit, size, setting)
    assert str(limit) in document["detail"] and str(size) in document["detail"]


def test_a_body_over_the_limit_is_a_413_declared_or_in_chunks(serve) -> None:
    limited = serve(max_body_bytes=1000)
    body = json.dumps({"input": "a" * 3_000_000}).encode()
    headers = {"Content-Type": "application/json"}
    document = expect_problem(
        limited.post("/v1/encode", content=body, headers=headers), 413, "too_large"
    )
    assert (document["limit"], document["size"]) == (1000, len(body))

    def chunks():
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    document = expect_problem(
        limited.post("/v1/encode", content=chunks(), headers=headers), 413, "too_large"
    )
    assert document["limit"] == 1000 and "1000" in document["detail"]
    assert limited.post("/v1/encode", json={"input": "a"}).status_code == 200


def test_an_answer_is_limited_where_no_estimate_was_made(serve) -> None:
    limited = serve(max_answer_bytes=300)
    for path, body in (
        ("/v1/encode", {"input": LONG, "include": []}),
        ("/v1/neighbors", {"word": "river", "k": 100}),
        ("/v1/compare", {"occurrences": [{"text": "a river", "word": "river"}] * 2}),
    ):
        document = expect_problem(limited.post(path, json=body), 413, "too_large")
        assert document["setting"] == "max_answer_bytes"
        assert document["size"] > document["limit"] == 300


def test_an_answer_that_is_sent_as_it_is_made_is_limited_before_it_begins(serve) -> None:
    limited = serve(stream_bytes=1, max_answer_bytes=2_000_000)
    for accept in ("application/json", "application/x-ndjson", "application/x-npz"):
        body = {"input": [LONG] * 40, "include": ["contextual"]}
        headers = {"Accept": f"{accept}, application/problem+json"}
        answer = limited.post("/v1/encode", json=body, headers=headers)
        document = expect_problem(answer, 413, "too_large")
        assert document["setting"] == "max_answer_bytes"
        fewer = {**body, "input": [LONG] * 5}
        assert limited.post("/v1/encode", json=fewer, headers=headers).status_code == 200


def test_a_caller_over_its_rate_gets_a_429_that_says_when_to_come_back(serve) -> None:
    limited = serve(rate_limit="3/hour", workers=1)
    answers = [
        limited.post("/v1/encode", json={"input": "a"}, headers={"Authorization": f"Bearer {key}"})
        for key in range(6)  # a key that is none does not make another caller
    ]
    assert [answer.status_code for answer in answers] == [200] * 3 + [429] * 3
    for answer in answers[3:]:
        expect_problem(answer, 429, "rate_limited")
        assert 0 < int(answer.headers["retry-after"]) <= 3600
    assert limited.get("/livez").status_code == 200


def test_each_key_has_a_rate_of_its_own(serve) -> None:
    limited = serve(rate_limit="2/hour", api_keys="one,two", workers=1)
    statuses = [
        limited.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code
        for key in ("one", "one", "one", "two")
    ]
    assert statuses == [200, 200, 429, 200]
