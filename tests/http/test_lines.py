"""NDJSON as a request: each line a sentence, the rest in the query."""

import json

import httpx
import pytest

from tests.http.problem import SECRET, expect_problem

NDJSON = "application/x-ndjson"
SENTENCES = ["The bank of the river.", "", "Zoë didn’t go to the bank."]
BODY = "".join(json.dumps(text) + "\n" for text in SENTENCES)


def post(client: httpx.Client, body: str | bytes, query: str = "") -> httpx.Response:
    headers = {"Content-Type": NDJSON}
    return client.post(f"/v1/encode{query}", content=body, headers=headers)


def pointers(document: dict) -> list[str]:
    return [error["pointer"] for error in document["errors"]]


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("", {}),
        ("?include=contextual", {"include": ["contextual"]}),
        ("?include=static,attention&heads=mean", {"include": ["static", "attention"]}),
        ("?include=static&include=values", {"include": ["static", "values"]}),
        ("?include=", {"include": []}),
        ("?layers=0,0&include=keys", {"layers": [0, 0], "include": ["keys"]}),
        ("?layers=last&include=keys", {"layers": "last", "include": ["keys"]}),
        ("?encoding=base64&dtype=float16", {"encoding": "base64", "dtype": "float16"}),
        ("?model=wiki-en&case=lower&oov=zero", {"model": "wiki-en", "case": "lower"}),
        ("?truncate=true", {"truncate": True}),
        ("?truncate=false", {"truncate": False}),
    ],
)
def test_lines_and_a_query_are_what_the_same_fields_are_in_json(
    client: httpx.Client, query: str, fields: dict
) -> None:
    fields |= {"heads": "mean"} if "heads" in query else {}
    answer = post(client, BODY, query)
    assert answer.headers["content-type"] == "application/json"
    assert answer.content == client.post("/v1/encode", json={"input": SENTENCES, **fields}).content


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n \r\n\t\n"])
def test_words_that_are_already_cut_are_lists_whatever_ends_the_body(
    client: httpx.Client, end: str
) -> None:
    words = [["New York", "bank"], [], ["river"]]
    body = "\n".join(map(json.dumps, words)) + end
    expected = client.post("/v1/encode", json={"input": words})
    assert post(client, body).content == expected.content
    windows = "\r\n".join(map(json.dumps, words))
    assert post(client, windows).content == expected.content


def test_a_line_each_way(client: httpx.Client) -> None:
    headers = {"Content-Type": NDJSON, "Accept": NDJSON}
    answer = client.post("/v1/encode", content=BODY, headers=headers)
    assert answer.headers["content-type"] == NDJSON
    lines = answer.text.splitlines()
    results = client.post("/v1/encode", json={"input": SENTENCES}).json()["results"]
    assert [json.loads(line) for line in lines] == results


@pytest.mark.parametrize(
    "body",
    [
        '"a"\n"s3cretqx\n',
        '"a"\n\n"b"\n',
        '"a" "b"\n',
        '"a",\n"b"\n',
        b'"a"\n"\xff"\n',
        '"\\ud800"\n',
        "NaN\n",
        "s3cretqx\n",
    ],
)
def test_a_line_that_is_not_json_is_a_400(client: httpx.Client, body: str | bytes) -> None:
    expect_problem(post(client, body), 400, "not_json")


@pytest.mark.parametrize(
    ("body", "query", "where"),
    [
        ("", "", ["/input"]),
        ("\n\n", "", ["/input"]),
        ('"a"\n"b"\n"c"\n4\n', "", ["/input/3"]),
        ('"a"\n["b"]\n', "", ["/input/1"]),
        ('["a"]\n["b", 5]\n', "", ["/input/1/1"]),
        ('{"text": "s3cretqx"}\n', "", ["/input/0"]),
        (BODY, "?include=vectors", ["/include/0"]),
        (BODY, "?include=static,,keys", ["/include/1"]),
        (BODY, "?layers=0,x", ["/layers/1"]),
        (BODY, "?layers=0,99", ["/layers/1"]),
        (BODY, "?layers=first", ["/layers"]),
        (BODY, "?layers=", ["/layers"]),
        (BODY, f"?layers={'9' * 500}", ["/layers"]),
        (BODY, "?truncate=yes", ["/truncate"]),
        (BODY, "?truncate=true&truncate=false", ["/truncate"]),
        (BODY, "?model=wiki-en&model=other", ["/model"]),
        (BODY, "?model=../x", ["/model"]),
        (BODY, "?encoding=hex", ["/encoding"]),
        (BODY, f"?inputs={SECRET}", ["/inputs"]),
        (BODY, f"?{SECRET}%20x=1", [""]),
        (BODY, "?input=a", ["/input"]),
    ],
)
def test_a_wrong_line_or_field_is_a_422_that_points_at_it(
    client: httpx.Client, body: str, query: str, where: list[str]
) -> None:
    document = expect_problem(post(client, body, query), 422, "invalid")
    assert pointers(document) == where
    assert all(error["message"] for error in document["errors"])


def test_words_that_are_an_error_are_found_by_their_line(client: httpx.Client) -> None:
    body = '"the river"\n"the qzxqzx"\n'
    document = expect_problem(post(client, body, "?oov=error"), 422, "unknown_word")
    assert (pointers(document), document["words"]) == (["/input/1"], ["qzxqzx"])


def test_a_query_beside_json_says_nothing(client: httpx.Client) -> None:
    answer = client.post("/v1/encode?include=static", json={"input": "bank"})
    assert "attention" in answer.json()["results"][0]


@pytest.mark.parametrize("path", ["/v1/compare", "/v1/trace", "/v1/neighbors"])
def test_only_encode_takes_lines(client: httpx.Client, path: str) -> None:
    answer = client.post(path, content=BODY, headers={"Content-Type": NDJSON})
    document = expect_problem(answer, 415, "unsupported_media")
    assert NDJSON in document["hint"]


def test_a_body_that_is_compressed_is_refused(client: httpx.Client) -> None:
    headers = {"Content-Type": NDJSON, "Content-Encoding": "gzip"}
    answer = client.post("/v1/encode", content=b"x", headers=headers)
    expect_problem(answer, 415, "unsupported_media")


def test_more_lines_than_sentences_may_be_are_a_413(serve) -> None:
    limited = serve(max_sentences=3)
    # Four lines that are not looked at, since they are too many.
    document = expect_problem(post(limited, "{\n" * 4), 413, "too_large")
    assert (document["setting"], document["size"]) == ("max_sentences", 4)
