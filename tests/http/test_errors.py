"""The errors of the API and its limits."""

import json
import re

import httpx
import pytest

from polyseme.errors import UnknownRouteError
from tests.conftest import BUNDLED_NAMES
from tests.http.bodies import BODIES
from tests.http.conftest import SECRET, expect_problem
from tests.http.tensors import request


@pytest.mark.parametrize(
    ("kind", "body", "problem"),
    [
        ("json", b"", "The body is empty."),
        ("json", b"{", "The body is not well-formed JSON at line 1, column 2."),
        (
            "json",
            b'{"\xc3\xa4":\n "s3cretqx",}',
            "The body is not well-formed JSON at line 2, column 12.",
        ),
        ("json", b'{"input": "\\ud800"}', "The body is not well-formed JSON at line 1, column 12."),
        ("json", b'{"input": "\xff\xfe"}', "The body is not UTF-8 at byte 11."),
        ("json", b"[" * 10_000, "The body is nested too deeply."),
        ("json", b'{"a": [-1e999]}', "The body is not well-formed JSON at line 1, column 8."),
        (
            "x-ndjson",
            b'"a"\n"s3cretqx\n"b"',
            "Line 2 of the body is not well-formed JSON at column 10.",
        ),
        ("x-ndjson", b'"a"\n\n"c"', "Line 2 of the body is empty."),
        ("x-ndjson", b'"a"\n"b"\n"\xff"', "Line 3 of the body is not UTF-8 at byte 1."),
    ],
)
def test_a_body_that_is_not_json_is_a_400_with_the_position(client, kind, body, problem):
    headers = {"Content-Type": f"application/{kind}"}
    answer = client.post("/v1/encode", content=body, headers=headers)
    assert expect_problem(answer, 400, "not_json")["detail"] == problem


@pytest.mark.parametrize("path", BODIES)
def test_a_query_beside_a_json_body_is_a_422(client: httpx.Client, path: str) -> None:
    document = expect_problem(client.post(f"{path}?x={SECRET}", json={}), 422, "invalid")
    message = "has a query string, which is not read"
    assert document["errors"] == [{"pointer": "", "message": message}]
    assert client.get("/v1/models?x=1").status_code == 200


def test_an_unknown_model_is_a_404(client: httpx.Client) -> None:
    for path in ("/v1/encode", "/v1/compare", "/v1/senses/apply"):
        body = {**BODIES[path], "model": SECRET}
        if inventory := body.get("inventory"):
            body = {"inventory": {**inventory, "model": SECRET}, "texts": ["a"]}
        answer = client.post(path, json=body)
        detail = expect_problem(answer, 404, "unknown_model")["detail"]
        assert detail == f"There is no model of this name. Available: {', '.join(BUNDLED_NAMES)}."
    expect_problem(client.get(f"/v1/models/{SECRET}"), 404, "unknown_model")


@pytest.mark.parametrize("path", ["/v1/v1/encode", "/v1/encode/", "/encode", f"/{SECRET}"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_hint_of_an_unknown_route_names_what_is_wrong_with_the_path(client, method, path):
    document = expect_problem(client.request(method, path), 404, "unknown_route")
    without = "The path lacks the prefix `/v1`: add it to the client's base URL."
    assert document["hint"] == (without if path == "/encode" else UnknownRouteError.hint)
    assert path not in json.dumps(document)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "code"),
    [
        ("POST", "/v1/encode", {"Accept": "text/html"}, 406, "not_acceptable"),
        ("POST", "/v1/neighbors", {"Accept": "application/x-npz"}, 406, "not_acceptable"),
        ("GET", "/v1/models", {"Accept": "text/html"}, 406, "not_acceptable"),
        ("POST", "/v1/encode", {"Content-Encoding": "gzip"}, 415, "unsupported_media"),
        ("GET", "/v1/encode", {}, 405, "method_not_allowed"),
        ("DELETE", "/v1/models", {}, 405, "method_not_allowed"),
    ],
)
def test_another_media_type_or_method_is_rejected(client, method, path, headers, status, code):
    headers = {"Content-Type": "application/json", **headers}
    answer = client.request(method, path, content=b'{"input": "s3cretqx"}', headers=headers)
    expect_problem(answer, status, code)
    assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.parametrize(
    "headers",
    [
        {"Accept": "text/html, application/json;q=0.1"},
        {"Accept": ""},
        {"Content-Type": "Application/JSON; charset=utf-8"},
    ],
)
def test_json_is_accepted_in_any_notation(client: httpx.Client, headers: dict) -> None:
    headers = {"Content-Type": "application/json", **headers}
    answer = client.post("/v1/encode", content=b'{"input": "a"}', headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")


A = {"text": "a", "word": "a"}
# `tests/client/test_same_results.py` has further invalid values.
BAD_FIELDS = [
    ("/v1/encode", {}, ["/input"]),
    ("/v1/encode", {"input": ["a", "b", "c", 4]}, ["/input/3"]),
    ("/v1/encode", {"input": [["a"], ["b", 5]]}, ["/input/1/1"]),
    ("/v1/encode", {"input": [["a"], "b"]}, ["/input/1"]),
    ("/v1/encode", {"input": [1] * 200_000}, ["/input/0"]),
    ("/v1/encode", {"input": "a", "inputs": SECRET}, ["/inputs"]),
    ("/v1/encode", {"input": "a", f"{SECRET} {SECRET}": 1}, [""]),
    ("/v1/encode", {"input": "a", "include": [None]}, ["/include/0"]),
    ("/v1/encode", {"input": "a", "layers": [0, 99]}, ["/layers/1"]),
    ("/v1/encode", {"input": "a", "layers": [True]}, ["/layers/0"]),
    ("/v1/encode", {"input": "a", "model": "../../etc/passwd"}, ["/model"]),
    ("/v1/compare", {"occurrences": [{"text": "a"}] * 2}, ["/occurrences/0", "/occurrences/1"]),
    ("/v1/compare", {"occurrences": [A, {**A, "word": SECRET}]}, ["/occurrences/1/word"]),
    ("/v1/compare", {"occurrences": [A, {**A, "nth": 1}]}, ["/occurrences/1/nth"]),
    ("/v1/compare", {"occurrences": [A, {**A, "text": ["a", 5]}]}, ["/occurrences/1/text/1"]),
    ("/v1/senses", {"word": "a", "texts": ["a", ["b", ["c"]]]}, ["/texts/1/1"]),
    ("/v1/senses", {"texts": ["a"]}, [""]),
    ("/v1/neighbors", {"positive": ["river"] * 33}, ["/positive"]),
    ("/v1/neighbors", {"positive": ["river", [1.0, "2"]]}, ["/positive/1/1"]),
    ("/v1/embeddings", {}, ["/input"]),
    *(("/v1/embeddings", {"input": one}, ["/input"]) for one in ([1, 2, 3], [[1, 2], [3]], 5)),
    ("/v1/embeddings", {"input": ["bank", ["end"]]}, ["/input/1"]),
    ("/v1/embeddings", {"input": "bank", "dimensions": 301}, ["/dimensions"]),
    ("/v1/embeddings", {"input": [["bank", 5]]}, ["/input/0/1"]),
    ("/v1/embeddings", {"input": "bank", "not a name": 1}, [""]),
    ("/v1/trace", {"embeddings": [[1.0]]}, [""]),
    ("/v1/trace", {"tokens": ["a"], "embeddings": [["x"] * 100_000]}, ["/embeddings/0/0"]),
    ("/v1/trace", {"tokens": ["a"], "embeddings": [[1.0], [2.0]]}, ["/embeddings"]),
]


@pytest.mark.parametrize(("path", "body", "expected"), BAD_FIELDS)
def test_a_wrong_field_is_a_422_that_points_at_it(client, path, body, expected):
    answer = client.post(path, json=body)
    document = expect_problem(answer, 422, "invalid")
    assert [one["pointer"] for one in document["errors"]] == expected
    assert all(error["message"] for error in document["errors"])
    if path == "/v1/embeddings":
        error, parameter = document["error"], re.sub(r"/(\d+)", r"[\1]", expected[0])[1:]
        assert (error["type"], error["param"]) == ("invalid_request_error", parameter or None)
        assert document["errors"][0]["message"] in error["message"]
        # For token IDs, the message says what to send instead.
        has_tokens = parameter == "input" and "input" in body
        assert ("check_embedding_ctx_length=False" in error["message"]) == has_tokens


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, "`input`: is required."),
        ({"inputs": "a", "x": 1}, "`input`? There are 2 more errors."),
        ({"input": [5], "heds": "mean"}, " There is one more error."),
        ({"input": "a", "heds": "mean"}, "did you mean `heads`?"),
        ({"input": "a", "s3cr et": 1}, "The request: has an unknown field."),
        ({"input": [["a"], ["b", 5]]}, "`input[1][1]`: "),
        ({"input": "bank 銀行", "oov": "error"}, "`input`: token 1 is not"),
    ],
)
def test_the_detail_of_a_422_names_the_first_field_and_how_many_more(client, body, detail):
    document = client.post("/v1/encode", json=body).json()
    assert detail in document["detail"]
    assert document["errors"][0]["message"] in document["detail"]


LONG = " ".join(["river"] * 50)
OCCURRENCE = {"text": LONG, "word": "river"}
GIVEN, ROWS = dict.fromkeys(("queries", "keys", "values"), ((1.0,),)), [[1.0]] * 50


@pytest.mark.parametrize(
    ("setting", "limit", "path", "body", "size"),
    [
        ("max_sentences", 3, "/v1/encode", {"input": ["a"] * 4}, 4),
        ("max_sentence_tokens", 49, "/v1/encode", {"input": LONG}, 50),
        ("max_tokens", 99, "/v1/encode", {"input": [LONG, LONG]}, 100),
        ("max_answer_bytes", 4000, "/v1/encode", {"input": LONG, "include": ["attention"]}, 178792),
        ("max_pairs", 9999, "/v1/encode", {"input": LONG}, 10_000),
        ("max_occurrences", 49, "/v1/senses", {"word": "river", "texts": [LONG]}, 50),
        ("max_trace_bytes", 100, "/v1/trace", {"tokens": ["a"], **GIVEN}, 572),
        ("max_trace_tokens", 49, "/v1/trace", {"tokens": ["a"] * 50, "embeddings": ROWS}, 50),
    ],
)
def test_exceeding_a_limit_is_a_413_with_limit_and_size(
    make_client, setting, limit, path, body, size
):
    limited = make_client(**{setting: limit})
    document = expect_problem(limited.post(path, json=body), 413, "too_large")
    assert (document["limit"], document["size"], document["setting"]) == (limit, size, setting)
    assert str(limit) in document["detail"] and str(size) in document["detail"]


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("/v1/encode", {"input": ["a", LONG]}, "/input/1"),
        ("/v1/encode", {"input": [["a"], ["a"], ["a"] * 50]}, "/input/2"),
        ("/v1/embeddings", {"input": ["a", LONG]}, "/input/1"),
        ("/v1/compare", {"occurrences": [A, OCCURRENCE]}, "/occurrences/1/text"),
        ("/v1/senses", {"word": "river", "texts": ["a", "river", LONG]}, "/texts/2"),
        ("/v2/models/wiki-en/infer", request(["a", LONG]), "/inputs/0/data/1"),
    ],
)
def test_a_sentence_over_the_limit_is_named_with_what_helps(make_client, path, body, pointer):
    document = expect_problem(
        make_client(max_sentence_tokens=49).post(path, json=body), 413, "too_large"
    )
    assert document["errors"] == [{"pointer": pointer, "message": "has 50 tokens"}]
    assert "`truncate: true`" in document["hint"]
    if path == "/v1/embeddings":
        assert document["error"]["param"] == "input[1]"
        assert document["error"]["message"].startswith("`input[1]`: A sentence has too many tokens")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/encode", {"input": LONG, "include": []}),
        ("/v1/neighbors", {"word": "river", "k": 100}),
    ],
)
def test_a_response_without_an_estimate_is_limited(make_client, path, body) -> None:
    answer = make_client(max_answer_bytes=300).post(path, json=body)
    document = expect_problem(answer, 413, "too_large")
    assert document["setting"] == "max_answer_bytes"
    assert document["size"] > document["limit"] == 300
