"""What a service hears of its proxy: whole requests, once, and whose they are."""

import re
import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest

from polyseme.settings import Settings
from tests.api.problem import expect_problem
from tests.conftest import start
from tests.server.proxy import CONFIGURATION, NGINX, proxied

SENTENCE = {"input": "The bank of the river"}

pytestmark = pytest.mark.skipif(NGINX is None, reason="needs nginx (Debian's nginx-light)")


def test_it_lets_idle_connections_go_before_the_service_does() -> None:
    (seconds,) = re.findall(r"keepalive_timeout (\d+)s;\n    }", CONFIGURATION.read_text())
    assert int(seconds) < Settings.model_fields["keep_alive"].default


def test_a_slow_client_is_not_heard_of_by_the_service(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.settimeout(0.5)
        with proxied(tmp_path, f"127.0.0.1:{listener.getsockname()[1]}") as client:
            place = client.base_url.host, client.base_url.port
            with closing(socket.create_connection(place)) as line:
                line.sendall(b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n")
                line.sendall(b"ab")
                with pytest.raises(TimeoutError):
                    listener.accept()
                line.sendall(b"c")
                connection, _ = listener.accept()
                with closing(connection):
                    assert connection.recv(4096).endswith(b"abc")


def test_a_request_that_may_have_been_heard_is_not_sent_again(tmp_path: Path) -> None:
    heard: list[bytes] = []

    def hear(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            heard.append(connection.recv(65536))
            connection.close()

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=hear, args=[listener], daemon=True).start()
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        # Where there is a second one, to which it could be sent.
        two = (f"server {place} max_fails=0;", f"server {place}; server {place};")
        with proxied(tmp_path, place, two) as client:
            expect_problem(client.post("/v1/encode", json=SENTENCE), 503, "not_ready")
        listener.shutdown(socket.SHUT_RDWR)
    assert len(heard) == 1


def test_what_the_service_is_told_of_a_caller_is_the_proxys_word(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"

        def answer() -> None:
            connection, _ = listener.accept()
            with closing(connection):
                heard.append(connection.recv(65536).decode())
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        heard: list[str] = []
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        sent = {"X-Forwarded-For": "10.1.1.1", "X-Real-IP": "10.1.1.1", "Forwarded": "for=10.1.1.1"}
        with proxied(tmp_path, place) as client:
            client.post("/v1/encode", json=SENTENCE, headers={**sent, "X-Request-ID": "a b"})
            thread.join(10)
    (request,) = heard
    assert "10.1.1.1" not in request
    assert "\r\nX-Forwarded-For: 127.0.0.1\r\n" in request
    (request_id,) = re.findall(r"(?i)\r\nX-Request-ID: (.*)\r\n", request)
    assert re.fullmatch("[0-9a-f]{32}", request_id)


def test_a_service_that_is_stopped_loses_no_request_it_took(tmp_path: Path) -> None:
    process, address = start(tmp_path / "service", drain_seconds=0, workers=1)
    statuses: list[int] = []
    with proxied(tmp_path, address) as client:
        for number in range(200):
            if number == 100:
                process.terminate()
            statuses.append(client.post("/v1/encode", json=SENTENCE).status_code)
        assert process.wait(40) == 0
    assert set(statuses) <= {200, 503}
    assert set(statuses[:100]) == {200}
