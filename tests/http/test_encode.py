"""POST /v1/encode: vectors, formats and streams."""

import json
import math
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from docs.openapi import EncodeDocument, ProblemResponse

from polyseme.operations.encode import UNSEGMENTED
from tests.http.conftest import SECRET, expect_problem
from tests.tiny import VECTORS, WORDS, write_tiny


def encode(client: httpx.Client, **body: object) -> dict:
    answer = client.post("/v1/encode", json=body)
    assert answer.status_code == 200, answer.text
    assert int(answer.headers["content-length"]) == len(answer.content)
    document = answer.json()
    EncodeDocument.model_validate(document)
    return document


def test_a_sentence_gets_the_same_bits_alone_in_a_batch_and_in_any_thread(client):
    sentences = [" ".join(WORDS[: 1 + i % 11] * (1 + i % 3)) for i in range(40)]
    batch = encode(client, input=sentences, encoding="base64")["results"]
    with ThreadPoolExecutor(8) as pool:
        alone = pool.map(lambda one: encode(client, input=one, encoding="base64"), sentences)
        assert [one["results"][0] for one in alone] == batch


def test_every_response_has_a_request_id_and_stages(client: httpx.Client) -> None:
    answer = client.post("/v1/encode", json={"input": "x"}, headers={"X-Request-ID": "a-1.B_2"})
    assert answer.headers["x-request-id"] == "a-1.B_2"
    stages = [entry.split(";dur=") for entry in answer.headers["server-timing"].split(", ")]
    assert {"parse", "tokens", "static", "attention", "write", "total"} == {n for n, _ in stages}
    assert all(math.isfinite(float(ms)) and float(ms) >= 0 for _, ms in stages)
    for sent in ("", "x" * 200, "<script>"):
        own = client.get("/livez", headers={"X-Request-ID": sent}).headers["x-request-id"]
        assert own != sent and len(own) == 32


NDJSON, NPZ = "application/x-ndjson", "application/x-npz"
TEXTS = ["The bank of the river.", "", "Zoë didn’t go to the bank: qzxqzx!", "river " * 300]


def lines(client: httpx.Client, **body: object) -> list[dict]:
    """The lines of an NDJSON response."""
    response = client.post("/v1/encode", json=body, headers={"Accept": NDJSON})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == NDJSON
    assert "content-length" not in response.headers
    assert response.text.endswith("\n")
    return [json.loads(line) for line in response.text.splitlines()]


@pytest.mark.parametrize(
    "body",
    [
        {"include": ["static", "contextual", "attention", "scores"], "encoding": "base64"},
        {"include": []},
    ],
)
def test_ndjson_has_the_results_of_json_and_a_last_line_with_the_usage(client, body):
    whole = client.post("/v1/encode", json={"input": TEXTS, **body}).json()
    *results, last = lines(client, input=TEXTS, **body)
    assert results == whole["results"]
    assert last == {"complete": True, "usage": whole["usage"]}


@pytest.mark.parametrize(
    ("text", "has_note"),
    [
        ("私は銀行に行った。", True),
        ("東京 銀行 river 東", True),
        ("東京 river", False),
        ("qzxy é", False),
    ],
)
def test_a_text_that_cannot_be_segmented_has_a_note(client, text, has_note):
    whole = client.post("/v1/encode", json={"input": ["river", text]}).json()
    *_, last = lines(client, input=["river", text])
    notes = [UNSEGMENTED] if has_note else None
    assert whole.get("notes") == last.get("notes") == notes
    assert "notes" not in client.post("/v1/encode", json={"input": [["river", text]]}).json()


def test_an_ndjson_body_takes_its_fields_from_the_query(client: httpx.Client) -> None:
    texts = [*TEXTS, "a well known bank"]  # a phrase of the vocabulary
    content = "\n".join([*map(json.dumps, texts), ""])
    query = "?include=static,contextual&layers=0,0&truncate=true&encoding=base64&case=lower"
    query += "&phrases=true&share=1.5"
    headers = {"Content-Type": f"{NDJSON}; charset=utf-8"}
    found = client.post(f"/v1/encode{query}", content=content, headers=headers).json()
    body = {"include": ["static", "contextual"], "layers": [0], "truncate": True}
    body |= {"encoding": "base64", "case": "lower", "phrases": True, "share": 1.5}
    wanted = client.post("/v1/encode", json={"input": texts, **body}).json()["results"]
    assert found["results"] == wanted
    response = client.post("/v1/encode", content='["river", "bank"]\n["a"]', headers=headers)
    first, _ = response.json()["results"]
    assert [token["text"] for token in first["tokens"]] == ["river", "bank"]
    for query, content, pointer in (
        ("?dtype=float64", '"a"', "/dtype"),
        ("?truncate=yes", '"a"', "/truncate"),
        ("?share=4.01", '"a"', "/share"),
        ("?input=a", '"a"', "/input"),
        ("", '"a"\n5', "/input/1"),
    ):
        response = client.post(f"/v1/encode{query}", content=content, headers=headers)
        assert expect_problem(response, 422, "invalid")["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize("accept", ["application/json", NDJSON, NPZ])
def test_every_rejection_comes_before_the_first_byte(make_client, accept: str) -> None:
    limited = make_client(max_sentence_tokens=400, max_tokens=900)
    for body, status, code in (
        ({"input": [*TEXTS, "river " * 401]}, 413, "too_large"),
        ({"input": TEXTS * 5}, 413, "too_large"),
        ({"input": TEXTS, "oov": "error"}, 422, "unknown_word"),
        ({"input": TEXTS, "layers": [7]}, 422, "invalid"),
    ):
        headers = {"Accept": f"{accept}, */*;q=0.1"}
        expect_problem(limited.post("/v1/encode", json=body, headers=headers), status, code)


def test_the_size_limit_is_per_line_for_streams_and_per_response_otherwise(make_client) -> None:
    limited = make_client(max_answer_bytes=2_000_000)
    body = {"input": ["river " * 50] * 40, "include": ["contextual"]}
    for accept in ("application/json", NPZ):
        response = limited.post("/v1/encode", json=body, headers={"Accept": accept})
        document = expect_problem(response, 413, "too_large")
        assert document["setting"] == "max_answer_bytes"
        assert "application/x-ndjson" in document["hint"] and "polyseme bulk" in document["hint"]
    assert len(lines(limited, **body)) == 41
    long = {**body, "input": ["river " * 500], "include": ["attention", "scores"]}
    response = limited.post("/v1/encode", json=long, headers={"Accept": NDJSON})
    assert (response.status_code, response.json()["setting"]) == (413, "max_answer_bytes")


def test_an_error_in_the_middle_of_a_stream_is_its_last_line(make_client, tmp_path, caplog) -> None:
    vectors = VECTORS.copy()
    vectors[WORDS.index("end")] *= np.float32(1e6)  # beyond the range of float16
    write_tiny(tmp_path / "far", vectors=vectors)
    far = make_client(models_dir=tmp_path, model="far")
    body = {"input": ["bank river", "the end", "money"], "dtype": "float16", "include": ["static"]}
    first, last = lines(far, **body)
    assert [token["text"] for token in first["tokens"]] == ["bank", "river"]
    assert last["complete"] is False
    ProblemResponse.model_validate(last["error"])
    assert (last["error"]["status"], last["error"]["code"]) == (422, "out_of_range")
    expect_problem(far.post("/v1/encode", json=body), 422, "out_of_range")
    assert not caplog.records


def test_an_internal_error_in_a_stream_is_logged_and_leaks_nothing(client, monkeypatch, caplog):
    def fail(*_: object) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr("polyseme.http.routes.sentence_parts", fail)
    (last,) = lines(client, input=TEXTS)
    assert (last["complete"], last["error"]["code"]) == (False, "internal")
    assert SECRET not in json.dumps(last)
    (record,) = caplog.records
    assert record.fields == {"event": "fault", "request_id": last["error"]["request_id"]}
