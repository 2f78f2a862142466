"""The reverse proxy buffers requests and responses: slow clients do not hold the service."""

import json
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.http.proxy import NGINX, proxied, slow_client, upstream

pytestmark = pytest.mark.skipif(NGINX is None, reason="needs nginx (Debian's nginx-light)")


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_client_that_does_not_read_does_not_hold_the_service(tmp_path, framing):
    size = 16 << 20
    sent = threading.Semaphore(0)

    def respond(connection: socket.socket, _received: bytes) -> None:
        headers = {
            "length": f"Content-Length: {size}\r\n\r\n",
            "chunked": f"Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n",
        }
        # Without "close", nginx may send the next request as the connection is closed.
        connection.sendall(f"HTTP/1.1 200 OK\r\nConnection: close\r\n{headers[framing]}".encode())
        connection.sendall(bytes(size))
        connection.sendall(b"\r\n0\r\n\r\n" if framing == "chunked" else b"")
        sent.release()

    with upstream(respond) as address, proxied(tmp_path, address) as client, ExitStack() as stack:
        for _ in range(5):
            slow_client(stack, client)
        for _ in range(5):
            assert sent.acquire(timeout=20)
        response = client.post("/v1/encode", json={})
        assert response.content == bytes(size)


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
