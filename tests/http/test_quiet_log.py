"""Nothing of what callers send comes into the log, at its most talkative, and no key of theirs."""

import base64
import re
import socket
from pathlib import Path

import httpx
import pytest

from polyseme.api_keys import key_file_line
from tests.conftest import start

MARK = "s3cretqx"
KEY = f"polyseme_{MARK}" + "k" * 35
GIVEN = f"given-{MARK}"
TEXT = f"{MARK} river \N{LATIN SMALL LETTER E WITH ACUTE}"


def send(client: httpx.Client, method: str, path: str, **rest: object) -> int:
    return client.request(method, path, **rest).status_code


def ask_rightly(client: httpx.Client) -> None:
    for key in (KEY, GIVEN):
        headers = {"Authorization": f"Bearer {key}"}
        asked = {"input": [TEXT, MARK], "oov": "zero"}
        assert send(client, "POST", "/v1/encode", json=asked, headers=headers) == 200
        # A word that is not there, a model, a field, a type: each an error about the text.
        for path, body in (
            ("/v1/encode", {"input": TEXT, "oov": "error"}),
            ("/v1/encode", {"input": TEXT, "model": MARK}),
            ("/v1/encode", {"input": TEXT, MARK: MARK}),
            ("/v1/encode", {"input": TEXT, "include": [MARK]}),
            ("/v1/neighbors", {"word": MARK}),
            ("/v1/trace", {"text": TEXT * 100}),
            ("/v1/trace", {"tokens": [MARK], "embeddings": [[1e300, 1e300]]}),
        ):
            assert send(client, "POST", path, json=body, headers=headers) in {200, 404, 413, 422}
        assert send(client, "GET", f"/v1/models/{MARK}", headers=headers) == 404


def ask_oddly(client: httpx.Client) -> None:
    basic = base64.b64encode(f"{MARK}:{KEY}".encode()).decode()
    for headers in (
        {"Authorization": f"Bearer {KEY}x"},
        {"Authorization": f"Basic {basic}"},
        {"Authorization": KEY},
        {"X-API-Key": KEY, "Cookie": f"key={KEY}", "Referer": f"http://x/{KEY}"},
        {"User-Agent": MARK, "X-Request-ID": f"{MARK} {MARK}", "Origin": f"http://{MARK}"},
        {"Origin": f"http://{MARK}", "Access-Control-Request-Method": MARK},
        {"X-Forwarded-For": MARK, "X-Forwarded-Proto": MARK, "Forwarded": f"for={MARK}"},
        {"X-Forwarded-For": f"1.2.3.4, {MARK}"},
        {"traceparent": MARK, "Accept": MARK, "Content-Type": MARK, "Content-Encoding": MARK},
        {"SCRIPT_NAME": f"/{MARK}", "Expect": MARK, "Host": f"{MARK}.example"},
    ):
        for method in ("GET", "POST", "OPTIONS", MARK.upper()):
            path = f"/v1/encode?key={KEY}&input={MARK}"
            assert 400 <= send(client, method, path, headers=headers) < 500 or method == "OPTIONS"
    for path in (
        f"/{KEY}",
        f"/page/{MARK}",
        f"/v1/{MARK}",
        f"/docs/{MARK}",
        f"/livez/{MARK}?{KEY}",
    ):
        assert send(client, "GET", path) in {401, 404}


def send_what_is_not_http(client: httpx.Client) -> None:
    mark, key = MARK.encode(), KEY.encode()
    head = b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + b"\r\n"
    for sent in (
        mark + b"\r\n\r\n",
        b"GET /" + mark + b" HTTP/" + mark + b"\r\n\r\n",
        b"GET /" + mark * 2000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        head + mark + b"\r\n\r\n",
        head + mark + b" : " + mark + b"\r\n\r\n",
        head + b"Content-Length: " + mark + b"\r\n\r\n",
        head + b"Transfer-Encoding: " + mark + b"\r\n\r\n" + mark,
        head + b"Transfer-Encoding: chunked\r\n\r\n" + mark + b"\r\n",
        head + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n" + mark,
        head + b"Content-Type: application/json\r\nContent-Length: 8\r\n\r\n" + mark,
        head + b"X-Forwarded-Proto: http\r\nX-Forwarded-Ssl: on\r\nX: " + mark + b"\r\n\r\n",
        b"\x16\x03\x01" + mark + b"\r\n\r\n",
    ):
        with socket.create_connection((client.base_url.host, client.base_url.port), 30) as one:
            one.sendall(sent)
            one.shutdown(socket.SHUT_WR)
            while one.recv(1 << 16):
                pass


@pytest.fixture(scope="module", params=["json", "text"])
def log(request: pytest.FixtureRequest, tmp_path_factory) -> str:
    """What a service has logged when it was asked everything and has ended."""
    folder: Path = tmp_path_factory.mktemp("quiet")
    (folder / "keys").write_text(key_file_line("alice", KEY))
    process, address = start(
        folder / "log",
        workers=1,
        api_keys=GIVEN,
        api_keys_file=folder / "keys",
        cors_origins="https://example.org",
        rate_limit="100000/hour",
        proxies=1,
        log_level="debug",
        log_format=request.param,
    )
    try:
        with httpx.Client(base_url=address, timeout=60) as client:
            ask_rightly(client)
            ask_oddly(client)
            send_what_is_not_http(client)
            assert send(client, "GET", "/livez") == 200
    finally:
        process.terminate()
        process.wait(60)
    return (folder / "log").read_text("utf-8")


def test_the_log_speaks_of_requests_and_callers(log: str) -> None:
    assert len(re.findall("/v1/encode", log)) > 20
    assert "alice" in log and "key-1" in log


def test_no_key_and_nothing_of_the_callers_text_is_in_the_log(log: str) -> None:
    found = [line for line in log.splitlines() if MARK in line.lower()]
    assert found == []
    encoded = base64.b64encode(MARK.encode()).decode()[:10]
    assert encoded not in log
    assert "Traceback" not in log
