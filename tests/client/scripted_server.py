"""A server that sends scripted responses over a real socket, also ones a service never sends."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, repeat
from typing import NamedTuple

import orjson


class ScriptedResponse(NamedTuple):
    """A response to send."""

    status: int = 200
    media: str = "application/json"
    body: bytes = b"{}"
    headers: dict[str, str] = {}  # noqa: RUF012 - never written to
    cut: bool = False
    """the connection ends midway through the body, or before the response if the body is empty"""
    endless: bool = False
    """the body is repeated endlessly, without a Content-Length"""


class ReceivedRequest(NamedTuple):
    """A request as the server received it."""

    path: str
    headers: dict[str, str]
    body: bytes


class ScriptedServer(NamedTuple):
    """The address of a server, and its requests so far."""

    url: str
    requests: list[ReceivedRequest]


Script = ScriptedResponse | Callable[[ReceivedRequest], ScriptedResponse]


@contextmanager
def scripted_server(
    *responses: Script, tls: ssl.SSLContext | None = None
) -> Iterator[ScriptedServer]:
    """Run a server that sends these responses in order, the last one repeatedly."""
    script, requests = chain(responses, repeat(responses[-1])), list[ReceivedRequest]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = ReceivedRequest(self.path, dict(self.headers), body)
            requests.append(request)
            response = next(script)
            self.send(response(request) if callable(response) else response)

        do_GET = do_POST  # noqa: N815 - the name is http.server's

        def send(self, response: ScriptedResponse) -> None:
            if response.cut and not response.body:
                self.close_connection = True
                return
            self.send_response(response.status)
            length = {"Content-Length": str(len(response.body))}
            end = {"Connection": "close"} if response.endless else length
            headers = {"Content-Type": response.media, **end, **response.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            half = response.body[: len(response.body) // 2]
            self.wfile.write(half if response.cut else response.body)
            while response.endless:
                self.wfile.write(response.body)
            self.close_connection = self.close_connection or response.cut

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Ignore that the client has closed the connection early."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        scheme = "https" if tls else "http"
        yield ScriptedServer(f"{scheme}://127.0.0.1:{server.server_port}", requests)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def embeddings(*vectors):
    """A response of /v1/embeddings with the index and the vector of each text."""
    data = [{"object": "embedding", "index": index, "embedding": v} for index, v in vectors]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return orjson.dumps({"object": "list", "data": data, "model": "tiny", "usage": usage})
