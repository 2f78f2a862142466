"""Servers that send scripted responses over a real socket, also ones a service never sends."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Said(NamedTuple):
    """A response."""

    status: int = 200
    media: str = "application/json"
    body: bytes = b"{}"
    headers: dict[str, str] = {}  # noqa: RUF012 - never written to
    cut: bool = False
    """the connection ends midway through the body, or before it if it is empty"""
    endless: bool = False
    """the body is repeated endlessly, without a Content-Length"""


class Heard(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Speaker:
    """Sends responses in order, the last one repeatedly; records requests."""

    url: str
    answers: list[Said | Callable[[Heard], Said]]
    heard: list[Heard] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, heard: Heard) -> Said:
        with self.lock:
            self.heard.append(heard)
            said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return said if isinstance(said, Said) else said(heard)


@contextmanager
def speaking(
    *answers: Said | Callable[[Heard], Said], tls: ssl.SSLContext | None = None
) -> Iterator[Speaker]:
    """A server that sends these responses."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.say(speaker.next(Heard(self.path, dict(self.headers), body)))

        do_GET = do_POST  # noqa: N815 - the name is http.server's

        def say(self, said: Said) -> None:
            if said.cut and not said.body:
                self.close_connection = True
                return
            self.send_response(said.status)
            headers = {"Content-Type": said.media}
            if said.endless:
                headers["Connection"] = "close"
            else:
                headers["Content-Length"] = str(len(said.body))
            for name, value in (headers | said.headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said.body[: len(said.body) // 2] if said.cut else said.body)
            while said.endless:
                self.wfile.write(said.body)
            self.close_connection = self.close_connection or said.cut

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """The client has closed the connection early."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "https" if tls else "http"
    speaker = Speaker(f"{scheme}://127.0.0.1:{server.server_port}", list(answers))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield speaker
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
