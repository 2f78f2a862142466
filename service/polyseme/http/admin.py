"""Probes and metrics on a port of their own, in a process beside the workers.

They are available whatever the workers do. The port is for the operator's network: its clients are
trusted not to be slow.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from flask import Flask

from polyseme.http import metrics
from polyseme.http.context import PROBES
from polyseme.http.middleware import ADMIN

_TIMEOUT = 10
"""Seconds that a client may take for a request, or for the next part of a response."""


class AdminServer(ThreadingMixIn, WSGIServer):
    """A server of the probes and metrics of an application."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, app: Flask, host: str, port: int) -> None:
        """Listen on a port; `start` serves it. Raises OSError."""
        host = host.strip("[]")
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._process: int | None = None
        # The master and the workers keep the end for writing open; the server waits for its end.
        self._pipe = os.pipe()
        super().__init__((host, port), _Handler)
        self.set_app(_only_probes(app.wsgi_app))

    def server_bind(self) -> None:
        """Bind the socket, without looking up the name of the host."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def start(self, prepare: Callable[[], None]) -> None:
        """Serve in a new process, after a call of `prepare` in it; stop the previous process."""
        previous, self._process = self._process, os.fork()
        if self._process == 0:
            try:
                os.close(self._pipe[1])
                prepare()
                metrics.use_slot("admin")
                threading.Thread(target=self._exit_with_master, daemon=True).start()
                self.serve_forever()
            finally:
                os._exit(1)
        self._stop(previous)

    def _exit_with_master(self) -> None:
        os.read(self._pipe[0], 1)
        os._exit(0)

    def stop(self) -> None:
        """Stop the process."""
        self._stop(self._process)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a client has left."""

    @staticmethod
    def _stop(process: int | None) -> None:
        if process:
            os.kill(process, signal.SIGKILL)


class _Handler(WSGIRequestHandler):
    timeout = _TIMEOUT

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base
        """Do nothing: the application logs its requests."""


def _only_probes(wsgi_app: Any) -> Callable[..., Iterable[bytes]]:
    """Return a WSGI application in which all other paths are unknown."""

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        known = environ["PATH_INFO"] in PROBES
        path = environ["PATH_INFO"] if known else "/unknown"
        environ = environ | {"PATH_INFO": path, ADMIN: True}
        response: Iterable[bytes] = wsgi_app(environ, start_response)
        return response

    return application
