"""The estimated work of a request, its limit, and the work in progress of a process."""

import logging
import math

import orjson
import pytest

from polyseme.errors import OverloadedError
from polyseme.http.context import WorkInProgress
from polyseme.operations.encode import TokenCounts
from polyseme.settings import SettingError, Settings
from tests.http.service import inventory_document

TEXT = "the river bank is near the money bank and the boats lie there"
BODIES = {
    "/v1/encode": {"input": [TEXT] * 20},
    "/v1/embeddings": {"input": [TEXT] * 20},
    "/v1/compare": {"occurrences": [{"text": TEXT, "word": "river"}] * 5},
    "/v1/senses": {"word": "bank", "texts": [TEXT] * 20},
    "/v1/senses/apply": {"inventory": inventory_document(), "texts": [TEXT] * 20},
    "/v1/neighbors": {"word": "river"},
    "/v1/trace": {"text": TEXT},
    "/v2/models/wiki-en/infer": {
        "inputs": [{"name": "text", "datatype": "BYTES", "shape": [9], "data": [TEXT] * 9}]
    },
}
ENCODE = "/v1/encode"


@pytest.fixture
def work_of(caplog, client):
    """The estimated work of a request, in milliseconds, from its log line."""

    def estimate(path, body, **headers) -> float:
        caplog.clear()
        with caplog.at_level(logging.INFO, "polyseme.requests"):
            assert client.post(path, json=body, headers=headers).status_code == 200
        return caplog.records[-1].fields["work_ms"]

    return estimate


@pytest.mark.parametrize("path", BODIES)
def test_work_over_the_limit_is_a_413_that_names_the_estimate_and_what_to_send(
    make_client, work_of, path
):
    estimate = work_of(path, BODIES[path])
    most = int(estimate)
    assert most > 0
    allowed = make_client(max_work=most + 1).post(path, json=BODIES[path])
    assert allowed.status_code == 200
    response = make_client(max_work=most).post(path, json=BODIES[path])
    problem = response.json()
    assert response.status_code == 413
    assert problem["code"] == "too_large"
    assert (problem["setting"], problem["limit"]) == ("max_work", most)
    assert most < problem["size"] <= most + 1
    assert f"{problem['size']}, over the limit max_work of {most}" in problem["detail"]
    assert "fewer or shorter texts" in problem["hint"]


def test_long_requests_are_rejected_before_they_are_tokenized(make_client, monkeypatch):
    counted = []
    monkeypatch.setattr(
        "polyseme.operations.encode.tokenize_text", lambda *_: counted.append(1) or 1 / 0
    )
    for path in ("/v1/encode", "/v1/embeddings"):
        response = make_client(max_work=50).post(path, json={"input": [TEXT] * 3000})
        assert response.json()["setting"] == "max_work"
    assert counted == []


def test_tokenization_ends_once_its_tokens_are_too_much_work(make_client, monkeypatch) -> None:
    # A text without white space has one chunk, and a token for each letter.
    seen = []
    counts = TokenCounts.__init__
    monkeypatch.setattr(TokenCounts, "__init__", lambda *given: seen.append(1) or counts(*given))
    text = "、。" * 50
    response = make_client(max_work=100).post(ENCODE, json={"input": [text] * 500})
    assert response.status_code == 413
    assert response.json()["setting"] == "max_work"
    assert response.json()["size"] < 110
    assert seen == []


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"input": [TEXT] * 10}, {"input": [TEXT] * 20}),
        ({"input": TEXT}, {"input": " ".join([TEXT] * 8)}),
        ({"input": TEXT, "include": ["static"]}, {"input": TEXT, "include": ["contextual"]}),
        ({"input": TEXT, "encoding": "base64"}, {"input": TEXT}),
        ({"input": TEXT, "heads": "mean"}, {"input": TEXT, "heads": "all"}),
        ({"input": "bank " * 20}, {"input": "bxnkly " * 20}),
        ({"input": "bxnkly " * 20}, {"input": "bxnklybxnkly " * 20}),
        ({"input": [TEXT]}, {"input": [TEXT, "", "", ""]}),
    ],
)
def test_more_of_anything_is_more_work(work_of, less: dict, more: dict) -> None:
    assert work_of(ENCODE, less) < work_of(ENCODE, more)


def test_each_neighbor_search_is_work(work_of) -> None:
    two, four = (
        work_of("/v1/compare", {"occurrences": [{"text": TEXT, "word": "river"}] * number})
        for number in (2, 4)
    )
    one = work_of("/v1/neighbors", {"word": "river", "k": 5})
    assert four - two == pytest.approx(4 * one, rel=0.3)


def test_the_work_of_npz_and_ndjson_is_estimated(work_of) -> None:
    body = {"input": [TEXT] * 20}
    npz = work_of(ENCODE, body, Accept="application/x-npz")
    assert npz < work_of(ENCODE, body, Accept="application/x-ndjson") == work_of(ENCODE, body)


def test_the_body_is_work(client, caplog) -> None:
    body = orjson.dumps({"word": "river"}) + b" " * 1_000_000
    with caplog.at_level(logging.INFO, "polyseme.requests"):
        sent = {"content": body, "headers": {"Content-Type": "application/json"}}
        assert client.post("/v1/neighbors", **sent).status_code == 200
        assert client.post("/v1/neighbors", json={"word": "river"}).status_code == 200
    long, short = (one.fields["work_ms"] for one in caplog.records)
    assert long - short == pytest.approx(20, abs=1)


def test_work_in_progress_leaves_room_for_short_requests() -> None:
    work = WorkInProgress(1000)
    assert work.add(800)
    with pytest.raises(OverloadedError) as raised:
        work.add(300)
    assert raised.value.headers() == {"Retry-After": "1"}
    assert work.add(200)
    assert not work.add(20)  # 1/50 of the limit, not counted
    with pytest.raises(OverloadedError):
        work.add(21)
    work.remove(1000)
    assert work.add(1000)


def test_the_work_of_requests_that_ended_does_not_count(make_client) -> None:
    client = make_client(max_work=150)
    for _ in range(3):
        response = client.post(ENCODE, json={"input": [TEXT] * 200})
        assert response.status_code == 200, response.json()
        assert client.post(ENCODE, json={"input": [TEXT] * 200, "oov": "subword", "layers": [9]})


def test_rates_of_work_count_the_estimates_of_a_caller(make_client, work_of) -> None:
    body = {"input": [TEXT] * 400}
    work = work_of(ENCODE, body)
    assert 150 < work < 1000
    client = make_client(rate_limit="1s/hour")
    answered = 0
    while (response := client.post(ENCODE, json=body)).status_code == 200:
        answered += 1
    assert answered == 1000 // math.ceil(work)
    assert response.status_code == 429
    assert "work" in response.json()["detail"]
    assert 0 < int(response.headers["Retry-After"]) <= 3600
    # What is left of the window is enough for a short request, and another path counts, too.
    assert client.post("/v1/embeddings", json={"input": TEXT}).status_code == 200
    assert client.post(ENCODE, json=body).status_code == 429


def test_a_request_with_more_work_than_a_window_needs_a_window_of_its_own(make_client) -> None:
    client = make_client(rate_limit="1s / minute")
    long = {"input": [TEXT] * 2500}
    streamed = {"Accept": "application/x-ndjson"}
    assert client.post(ENCODE, json=long, headers=streamed).status_code == 200
    assert client.post(ENCODE, json={"input": TEXT}).status_code == 429


def test_rates_of_requests_and_of_work_are_combined(make_client) -> None:
    client = make_client(rate_limit="3/hour; 60s/minute")
    statuses = [client.post(ENCODE, json={"input": TEXT}).status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]


@pytest.mark.parametrize("rate", ["0s/minute", "s/minute", "5s", "5s/eternity", "-1s/hour", "1/s"])
def test_invalid_rates_are_rejected(rate: str) -> None:
    with pytest.raises(SettingError, match="60s/minute"):
        Settings(rate_limit=rate)
