"""Answers that are sent as they are made, through a real gunicorn."""

import io
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import httpx
import numpy as np
import pytest

from tests.conftest import start
from tests.http.problem import expect_problem
from tests.tiny import VECTORS, WORDS, write_tiny

JSON, NDJSON, NPZ = "application/json", "application/x-ndjson", "application/x-npz"
EVERY = ["static", "contextual", "attention", "queries", "keys", "values", "scores"]
TEXTS = ["The bank of the river.", "", "Zoë didn’t go to the bank: qzxqzx!", "river " * 300] * 3


def post(client, accept, **body):
    answer = client.post("/v1/encode", json=body, headers={"Accept": accept})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == accept
    return answer


@pytest.mark.parametrize("accept", [JSON, NDJSON, NPZ])
@pytest.mark.parametrize(
    "body",
    [
        {"include": EVERY, "encoding": "base64"},
        {"include": ["contextual", "attention"], "heads": "mean", "dtype": "float16"},
        {"include": []},
    ],
)
def test_an_answer_is_the_same_as_it_is_made_and_at_once(serve, accept, body):
    streamed = post(serve(stream_bytes=1), accept, input=TEXTS, **body)
    whole = post(serve(stream_bytes=1 << 30), accept, input=TEXTS, **body)
    assert streamed.headers["transfer-encoding"] == "chunked"
    assert "content-length" not in streamed.headers
    assert int(whole.headers["content-length"]) == len(whole.content)
    assert "transfer-encoding" not in whole.headers
    assert streamed.content == whole.content
    assert streamed.headers["x-request-id"] and "tokens;" in streamed.headers["server-timing"]


def test_the_npz_that_is_streamed_has_the_arrays_of_the_json(serve):
    body = {"input": TEXTS, "include": EVERY, "encoding": "base64"}
    with np.load(io.BytesIO(post(serve(stream_bytes=1), NPZ, **body).content)) as file:
        arrays = dict(file)
    lines = post(serve(stream_bytes=1), NDJSON, **body).text.splitlines()
    assert len(lines) == len(TEXTS) == len(arrays["offsets"]) - 1
    facts = json.loads(arrays["tokens"].tobytes())
    for number, line in enumerate(lines):
        result = json.loads(line)
        assert facts[number] == {name: result[name] for name in ("tokens", "truncated")}
        rows = slice(*arrays["offsets"][number : number + 2])
        for part in EVERY:
            found = arrays.get(f"{part}_{number}", arrays.get(part, [])[rows])
            assert list(found.shape) == result[part]["shape"]


def test_only_what_may_be_over_the_setting_is_streamed(client):
    for texts, chunked in (([TEXTS[0]], False), ([TEXTS[0]] * 1000, True)):
        answer = post(client, JSON, input=texts, include=["contextual"])
        assert ("transfer-encoding" in answer.headers) is chunked
        assert len(answer.json()["results"]) == len(texts)


def test_a_long_sentence_with_attention_is_streamed_in_pieces(client):
    text = " ".join(["river", "bank", "money"] * 340)
    with client.stream("POST", "/v1/encode", json={"input": text}) as answer:
        sizes = [len(chunk) for chunk in answer.iter_raw()]
    assert sum(sizes) > 20_000_000
    assert max(sizes) < 2_000_000


def test_limits_and_unknown_words_are_errors_before_the_first_byte(serve):
    streaming = serve(stream_bytes=1, max_sentence_tokens=400, max_tokens=4000)
    for body, status, code in (
        ({"input": [*TEXTS, "river " * 401]}, 413, "too_large"),
        ({"input": TEXTS * 5}, 413, "too_large"),
        ({"input": TEXTS, "oov": "error"}, 422, "unknown_word"),
        ({"input": TEXTS, "layers": [7]}, 422, "invalid"),
    ):
        for accept in (JSON, NDJSON, NPZ):
            headers = {"Accept": f"{accept}, */*;q=0.1"}
            answer = streaming.post("/v1/encode", json=body, headers=headers)
            expect_problem(answer, status, code)


def raw(client, version, body):
    """What a client of some version of HTTP gets, until the connection closes."""
    content = json.dumps(body).encode()
    head = (
        f"POST /v1/encode HTTP/{version}\r\nHost: x\r\nContent-Type: {JSON}\r\n"
        f"Connection: close\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    with closing(connected(client)) as link:
        link.sendall(head.encode() + content)
        received = b"".join(iter(lambda: link.recv(1 << 16), b""))
    return received.partition(b"\r\n\r\n")[::2]


def connected(client):
    return socket.create_connection((client.base_url.host, client.base_url.port), timeout=60)


def test_a_client_of_http_1_0_gets_the_same_until_the_connection_closes(serve):
    body = {"input": TEXTS}
    head, content = raw(serve(stream_bytes=1), "1.0", body)
    assert b"200 OK" in head and b"chunked" not in head and b"Content-Length" not in head
    assert content == post(serve(stream_bytes=1 << 30), JSON, **body).content


def test_a_connection_is_kept_after_a_streamed_answer(serve):
    streaming = serve(stream_bytes=1)
    with closing(connected(streaming)) as link:
        first = ask_on(link, {"input": TEXTS})
        assert ask_on(link, {"input": TEXTS}) == first


def ask_on(link, body):
    """The chunked answer to a request on a connection, without its headers."""
    content = json.dumps(body).encode()
    head = f"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\n"
    link.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    received = b""
    while not received.endswith(b"\r\n0\r\n\r\n"):
        received += link.recv(1 << 16)
    return received.partition(b"\r\n\r\n")[2]


@contextmanager
def far(tmp_path):
    """A service with a model of which one word, `end`, is larger than any float16."""
    vectors = VECTORS * np.float32(1)
    vectors[WORDS.index("end")] *= np.float32(1e6)
    write_tiny(tmp_path / "models" / "far", vectors=vectors)
    settings = {"models_dir": tmp_path / "models", "model": "far", "stream_bytes": 1, "workers": 1}
    process, address = start(tmp_path / "log", **settings)
    try:
        with httpx.Client(base_url=address, timeout=60) as client:
            yield client
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.parametrize("accept", [JSON, NDJSON, NPZ])
def test_an_error_in_the_middle_breaks_the_answer_off_and_the_service_goes_on(tmp_path, accept):
    many = ["bank river money"] * 3000
    body = {"dtype": "float16", "include": ["static"], "oov": "zero"}
    with far(tmp_path) as client:
        headers = {"Accept": accept, "X-Request-ID": "broken-off"}
        broken = {"input": [*many, "the end"], **body}
        with client.stream("POST", "/v1/encode", json=broken, headers=headers) as answer:
            assert answer.status_code == 200
            with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
                answer.read()
        fine = post(client, accept, input=many, **body)
        assert len(fine.content) > 1 << 16
        at_once = {"input": ["the end", *many[:9]], **body}
        answer = client.post("/v1/encode", json=at_once, headers=headers)
        expect_problem(answer, 422, "out_of_range")
    log = (tmp_path / "log").read_text()
    assert "OutOfRangeError in the middle of the answer to request broken-off" in log
    assert "service/polyseme/encoding/encoder.py" in log
    assert "leaves the range" not in log and "bank" not in log
    assert log.count("Traceback") == log.count("Error handling request") == 0


def test_a_client_that_goes_away_in_the_middle_takes_nothing_with_it(tmp_path):
    body = {"input": TEXTS * 30, "include": EVERY}
    with far(tmp_path) as client:
        for _ in range(6):  # more than there are threads
            content = json.dumps(body).encode()
            head = f"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\n"
            with closing(connected(client)) as link:
                link.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
                assert link.recv(1 << 10).startswith(b"HTTP/1.1 200 OK")
        end = time.monotonic() + 60
        while post(client, JSON, input="bank").elapsed.total_seconds() > 1:
            assert time.monotonic() < end
        with ThreadPoolExecutor(4) as pool:
            answers = pool.map(lambda _: post(client, NDJSON, input=TEXTS), range(8))
            assert len({answer.content for answer in answers}) == 1
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log and "in the middle" not in log
