"""gunicorn with the settings of the service: configuration, hooks, signals and the admin port."""

import ctypes
import gc
import logging.config
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from flask import Flask
from gunicorn import glogging
from gunicorn.app.base import Application

from polyseme.http import create_app, metrics
from polyseme.http.logs import capture_warnings, logging_config
from polyseme.http.middleware import ADMIN, PROBES
from polyseme.http.worker import require_short_headers
from polyseme.settings import Settings

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - for the workers' heartbeat files
_M_MMAP_THRESHOLD = -3
"""The constant of glibc's malloc.h."""
_TERMINATION = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT}
_ADMIN_TIMEOUT = 10
"""Seconds that a client may take for a request, or for the next part of a response."""


class Server(Application):  # type: ignore[misc]
    """gunicorn's application: the service with its settings, which a reload does not read again.

    The environment variable GUNICORN_CMD_ARGS has options of gunicorn that override them.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.admin: AdminServer | None = None
        super().__init__("%(prog)s [OPTIONS] [APP_MODULE]", prog="gunicorn")

    def load_config(self) -> None:
        """Configure gunicorn, at the start and at every reload."""
        arguments = self.cfg.parser().parse_args(self.cfg.get_cmd_args_from_env())
        options = {name: value for name, value in vars(arguments).items() if value is not None}
        for name, value in {**configuration(self.settings), **options}.items():
            if name != "args":  # the name of an application
                self.cfg.set(name, value)
        self.chdir()

    def load(self) -> Flask:
        """Create the application."""
        return create_app(self.settings)

    def run(self) -> None:
        """Run the master and its workers until a signal ends them."""
        os.register_at_fork(after_in_parent=_release_signals)
        super().run()


def configuration(settings: Settings) -> dict[str, Any]:
    """Return gunicorn's settings, among them the hooks below."""

    class Logger(glogging.Logger):  # type: ignore[misc]
        def setup(self, cfg: Any) -> None:
            """Configure logging. With `logconfig_dict`, gunicorn would also build access lines."""
            super().setup(cfg)
            logging.config.dictConfig(logging_config(settings))
            capture_warnings()

    return {
        "bind": [f"{settings.host}:{settings.port}"],
        "workers": settings.workers,
        "threads": settings.threads,
        "worker_class": "polyseme.http.worker.QueueWorker",
        "timeout": settings.timeout,
        # Draining is part of the graceful timeout.
        "graceful_timeout": max(settings.graceful_timeout - settings.drain_seconds, 0),
        "keepalive": settings.keep_alive,
        "worker_connections": settings.max_connections,
        "max_requests": settings.max_requests,
        # Workers that start together must not be replaced at the same time.
        "max_requests_jitter": settings.max_requests // 10,
        # The master loads the default model, or all with `preload_models`; the workers share its
        # memory.
        "preload_app": True,
        # A heartbeat file on a slow or read-only disk would stop the workers.
        "worker_tmp_dir": str(_SHARED_MEMORY) if os.access(_SHARED_MEMORY, os.W_OK) else None,
        # By default, gunicorn trusts headers from this machine that change the path and the scheme.
        "forwarded_allow_ips": "",
        # By default, gunicorn opens a control socket in the user's home directory.
        "control_socket_disable": True,
        "proc_name": "polyseme",
        "logger_class": Logger,
        "loglevel": settings.log_level,
        "when_ready": when_ready,
        "on_reload": on_reload,
        "pre_fork": pre_fork,
        "post_fork": lambda _server, worker: metrics.use_slot(worker.slot),
        "post_worker_init": post_worker_init,
        "pre_request": require_short_headers,
        "worker_exit": worker_exit,
        "child_exit": lambda _server, worker: metrics.free_slot(worker.slot),
        "on_exit": on_exit,
    }


def _service(server_or_worker: Any) -> Any:
    return server_or_worker.app.wsgi().extensions["polyseme"]


def _freeze_memory() -> None:
    """Exclude existing objects from garbage collection, which would copy their shared pages."""
    gc.collect()
    gc.freeze()


def when_ready(server: Any) -> None:
    """Drain before stopping: after SIGTERM, `/readyz` fails while requests are still served."""
    settings = server.app.settings
    stop, seconds = server.handle_term, min(settings.drain_seconds, settings.graceful_timeout)

    def handle_term() -> None:
        if _service(server).draining or not seconds:
            stop()
        _service(server).start_draining()
        server.log.info("draining for %s seconds before shutdown", seconds)
        timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM))
        timer.daemon = True
        timer.start()

    server.handle_term = handle_term
    # Let glibc map each block of 256 KiB or more separately, and unmap it when it is freed. By
    # default, it raises this threshold to the size of the largest freed block, and the heaps of the
    # threads become fragmented: after 20,000 hostile requests, a worker with four threads kept
    # 185 MB, and 50 MB with a fixed threshold.
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 18)
    _freeze_memory()
    if settings.admin_port:
        server.app.admin = AdminServer(server.app.wsgi(), settings.host, settings.admin_port)
        server.app.admin.start(server.LISTENERS)


def on_reload(server: Any) -> None:
    """Read changed keys and models in the master; gunicorn then replaces the workers."""
    _service(server).reload()
    _freeze_memory()
    if server.app.admin:
        server.app.admin.start(server.LISTENERS)


def pre_fork(server: Any, worker: Any) -> None:
    """Prepare for a worker.

    The worker gets the first free slot for its metrics. Termination signals are blocked until the
    worker can handle them, so that none is lost.
    """
    used = {other.slot for other in server.WORKERS.values()}
    worker.slot = next(slot for slot in map(str, count(1)) if slot not in used)
    signal.pthread_sigmask(signal.SIG_BLOCK, _TERMINATION)


def _release_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TERMINATION)


def post_worker_init(worker: Any) -> None:
    """Count the worker, start its trace exporter and unblock termination signals."""
    metrics.start_worker()
    # With 5 ms, the default, a thread that reads a long body waits that long for each other thread
    # at every read, and other requests wait for the thread.
    sys.setswitchinterval(0.001)
    if tracer := _service(worker).tracer:
        tracer.start()
    _release_signals()


def worker_exit(_server: Any, worker: Any) -> None:
    """Send the remaining traces."""
    if tracer := _service(worker).tracer:
        tracer.close()


def on_exit(server: Any) -> None:
    """Stop the process for probes and metrics, and remove the metrics directory."""
    if server.app.admin:
        server.app.admin.stop()
    metrics.remove_directory()


class AdminServer(ThreadingMixIn, WSGIServer):
    """A server of the probes and metrics of an application, in a process beside the workers.

    They are available whatever the workers do. The port is for the operator's network: its clients
    are trusted not to be slow.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, app: Flask, host: str, port: int) -> None:
        """Listen on a port; `start` serves it. Raises OSError."""
        host = host.strip("[]")
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._process: int | None = None
        # The master and the workers keep the end for writing open; the server waits for its end.
        self._pipe = os.pipe()
        super().__init__((host, port), _AdminHandler)
        self.set_app(partial(_serve_probes, app.wsgi_app))

    def server_bind(self) -> None:
        """Bind the socket, without looking up the name of the host."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def start(self, listeners: Iterable[Any]) -> None:
        """Serve in a new process, which has the current keys and models; stop the previous one.

        The new process closes `listeners`, the sockets of the service.
        """
        previous, self._process = self._process, os.fork()
        if self._process == 0:
            try:
                os.close(self._pipe[1])
                signal.set_wakeup_fd(-1)
                # Ctrl+C in a terminal and a hangup end the master first, which then stops this.
                for signum in (signal.SIGINT, signal.SIGHUP):
                    signal.signal(signum, signal.SIG_IGN)
                for signum in (signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD):
                    signal.signal(signum, signal.SIG_DFL)
                for listener in listeners:
                    listener.sock.close()
                metrics.use_slot("admin")
                threading.Thread(target=self._exit_with_master, daemon=True).start()
                self.serve_forever()
            finally:
                os._exit(1)
        _kill(previous)

    def _exit_with_master(self) -> None:
        os.read(self._pipe[0], 1)
        os._exit(0)

    def stop(self) -> None:
        """Stop the process."""
        _kill(self._process)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a client has left."""


def _kill(process: int | None) -> None:
    if process:
        os.kill(process, signal.SIGKILL)


class _AdminHandler(WSGIRequestHandler):
    timeout = _ADMIN_TIMEOUT

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base
        """Do nothing: the application logs its requests."""


def _serve_probes(wsgi_app: Any, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Call a WSGI application in which all other paths are unknown."""
    path = environ["PATH_INFO"] if environ["PATH_INFO"] in PROBES else "/unknown"
    environ = environ | {"PATH_INFO": path, ADMIN: True}
    response: Iterable[bytes] = wsgi_app(environ, start_response)
    return response
