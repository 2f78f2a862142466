"""The reverse proxy: nginx with the configuration of deploy/nginx, in front of a service."""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from polyseme.http.middleware import SECURITY_HEADERS
from tests.conftest import start
from tests.http.conftest import SECRET, expect_problem
from tests.http.proxy import NGINX, proxied, slow_client, upstream
from tests.http.service import Caller, until

SENTENCE = {"input": "The bank of the river"}
UNREACHABLE = "127.0.0.1:1"

pytestmark = pytest.mark.skipif(NGINX is None, reason="needs nginx (Debian's nginx-light)")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of the shared proxy."""
    return tmp_path_factory.mktemp("proxy") / "log"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that trusts one proxy."""
    settings = {"proxies": 1, "workers": 1, "metrics": "open"}
    process, address = start(tmp_path_factory.mktemp("service") / "log", **settings)
    yield address
    process.terminate()
    assert process.wait(40) == 0


@pytest.fixture(scope="module")
def proxy(service: str, log: Path) -> Iterator[httpx.Client]:
    """A client of the proxy in front of the service."""
    with proxied(log.parent, service) as client:
        yield client


def raw(proxy: httpx.Client, request: bytes) -> httpx.Response:
    """Send bytes, and read the response to the end of the connection."""
    with Caller((proxy.base_url.host, proxy.base_url.port)) as caller:
        caller.send(request)
        received = b"".join(iter(lambda: caller.socket.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = [tuple(one.split(": ", 1)) for one in lines]
    return httpx.Response(int(status.split()[1]), headers=headers, content=body)


@pytest.mark.parametrize("media_type", ["application/json", "application/x-ndjson"])
def test_a_response_is_that_of_the_service(proxy, service, media_type):
    body = {"input": ["The bank of the river is near the bank of the city"] * 400}
    headers = {"Accept": media_type, "X-Request-ID": "mine.1"}
    direct = httpx.post(f"{service}/v1/encode", json=body, headers=headers, timeout=60)
    through = proxy.post("/v1/encode", json=body, headers=headers)
    assert through.content == direct.content
    for name in ("content-type", "x-request-id", *map(str.lower, SECURITY_HEADERS)):
        assert through.headers.get_list(name) == direct.headers.get_list(name) != []
    assert "server-timing" in through.headers


@pytest.mark.parametrize("path", ["/metrics", "/readyz"])
def test_internal_routes_are_not_found(proxy: httpx.Client, service: str, path: str) -> None:
    assert httpx.get(f"{service}{path}").status_code == 200

    def response_of(target: str) -> httpx.Response:
        head = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        return raw(proxy, head.encode())

    escaped = f"/%{ord(path[1]):x}{path[2:]}"
    for target in (path, f"/{path}", f"{path}?x", f"/page/..{path}", escaped, f"http://x{path}"):
        expect_problem(response_of(target), 404, "unknown_route")
    for target in (f"{path}/", path.upper(), f"{path}%2f", f"{path};x", f"{path}%00"):
        assert response_of(target).status_code in {400, 404}


TRACE = b"TRACE /s3cretqx HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "malformed"),
        (b"nothing of HTTP s3cretqx\r\n\r\n", 400, "malformed"),
        (TRACE, 405, "method_not_allowed"),
    ],
)
def test_errors_of_the_proxy_are_problem_documents(proxy, request_, status, code):
    response = raw(proxy, request_)
    expect_problem(response, status, code)
    for name, value in SECURITY_HEADERS.items():
        assert response.headers[name] == value


def test_without_a_service_the_503_has_retry_after(tmp_path: Path) -> None:
    with proxied(tmp_path, UNREACHABLE) as client:
        headers = {"X-Request-ID": "mine"}
        response = client.post(f"/v1/encode?{SECRET}", json=SENTENCE, headers=headers)
        expect_problem(response, 503, "not_ready")
        assert response.headers["x-request-id"] == "mine"
        assert int(response.headers["retry-after"]) > 0
    # nginx writes a line after the response, so the log is read after the end of nginx.
    log = (tmp_path / "log").read_text()
    assert SECRET not in log
    last = json.loads(log.splitlines()[-1])
    assert (last["route"], last["status"]) == ("/v1/encode", 503)


def test_the_log_is_json_without_keys_queries_and_texts(proxy: httpx.Client, log: Path) -> None:
    authorization = {"Authorization": f"Bearer {SECRET}", "User-Agent": SECRET, "Cookie": SECRET}
    paths = [
        f"/v1/encode?key={SECRET}",
        f"/v1/models/{SECRET}",
        f"/v2/models/{SECRET}/infer",
        f"/{SECRET}",
    ]
    for path in paths:
        proxy.post(path, json={"input": SECRET}, headers={**authorization, "Referer": SECRET})
    raw(proxy, f"{SECRET} /{SECRET} HTTP/1.1\r\nHost: {SECRET}\r\n\r\n".encode())
    proxy.get("/livez", headers={"X-Request-ID": "last-of-all"})
    # nginx writes a line after the response.
    until(lambda: '"last-of-all"' in log.read_text())
    text = log.read_text()
    assert SECRET not in text
    lines = [json.loads(line) for line in text.splitlines()]
    routes = {"/v1/encode", "/v1/models/<name>", "/v2/models/<name>/infer", "unmatched"}
    assert routes <= {line["route"] for line in lines}
    (last,) = (line for line in lines if line["request_id"] == "last-of-all")
    assert (last["status"], last["method"], last["route"]) == (200, "GET", "/livez")


def test_the_service_gets_a_request_only_when_its_body_is_complete(tmp_path: Path) -> None:
    received: list[bytes] = []
    head = b"POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n"
    with (
        upstream(lambda _, request: received.append(request)) as address,
        proxied(tmp_path, address) as client,
        Caller((client.base_url.host, client.base_url.port)) as slow,
    ):
        received.clear()
        slow.send(head + b"ab")
        time.sleep(0.5)
        assert received == []
        slow.send(b"c")
        until(lambda: received)
    assert received[0].endswith(b"abc")


def test_a_request_that_was_sent_is_not_repeated(tmp_path: Path) -> None:
    received: list[bytes] = []
    with upstream(lambda _, request: received.append(request)) as address:
        # A second server, to which nginx could send the request again.
        two = (f"server {address} max_fails=0;", f"server {address}; server {address};")
        with proxied(tmp_path, address, two) as client:
            expect_problem(client.post("/v1/encode", json=SENTENCE), 503, "not_ready")
    assert len(received) == 1


def test_the_service_gets_the_address_from_the_proxy(tmp_path: Path) -> None:
    received: list[str] = []

    def respond(connection: socket.socket, request: bytes) -> None:
        received.append(request.decode())
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    sent = {"X-Forwarded-For": "10.1.1.1", "X-Real-IP": "10.1.1.1", "Forwarded": "for=10.1.1.1"}
    with upstream(respond) as address, proxied(tmp_path, address) as client:
        client.post("/v1/encode", json=SENTENCE, headers={**sent, "X-Request-ID": "a b"})
    (request,) = received
    assert "10.1.1.1" not in request
    assert "\r\nX-Forwarded-For: 127.0.0.1\r\n" in request
    (request_id,) = re.findall(r"(?i)\r\nX-Request-ID: (.*)\r\n", request)
    assert re.fullmatch("[0-9a-f]{32}", request_id)


def test_clients_that_do_not_read_do_not_hold_the_service(tmp_path):
    size = 16 << 20
    sent = threading.Semaphore(0)

    def respond(connection: socket.socket, _received: bytes) -> None:
        # Without "close", nginx may send the next request as the connection is closed.
        headers = f"Connection: close\r\nContent-Length: {size}\r\n\r\n"
        connection.sendall(f"HTTP/1.1 200 OK\r\n{headers}".encode())
        connection.sendall(bytes(size))
        sent.release()

    with upstream(respond) as address, proxied(tmp_path, address) as client, ExitStack() as stack:
        for _ in range(5):
            slow_client(stack, client)
        for _ in range(5):
            assert sent.acquire(timeout=20)
        assert client.post("/v1/encode", json={}).content == bytes(size)


def test_ndjson_lines_are_passed_on_while_further_ones_are_computed(tmp_path: Path) -> None:
    line = json.dumps({"contextual": [0.125] * 2000}).encode() + b"\n"
    received = threading.Event()

    def respond(connection: socket.socket, _received: bytes) -> None:
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(3):
            connection.sendall(b"%x\r\n%b\r\n" % (len(line), line))
            assert received.wait(20)
        connection.sendall(b"0\r\n\r\n")

    with upstream(respond) as address, proxied(tmp_path, address) as client:
        content = b""
        with client.stream("POST", "/v1/encode", json={}, timeout=20) as response:
            for part in response.iter_raw():
                content += part
                # nginx holds back less than one buffer of 4 KiB until the next line.
                if len(content) > len(line) - 4096:
                    received.set()
    assert content == line * 3
