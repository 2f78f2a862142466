"""gunicorn's settings and hooks, derived from the settings of the service.

`polyseme serve` runs `gunicorn --config python:polyseme.http.server 'polyseme:create_app()'`.
"""

import ctypes
import gc
import logging.config
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from gunicorn import glogging

from polyseme.http import metrics, metrics_files, termination
from polyseme.http.logs import capture_warnings, logging_config
from polyseme.settings import Settings

_settings = Settings()
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - for the workers' heartbeat files
_M_MMAP_THRESHOLD = -3
"""The constant of glibc's malloc.h."""

bind = [f"{_settings.host}:{_settings.port}"]
workers = _settings.workers
threads = _settings.threads
worker_class = "polyseme.http.worker.FairWorker"
timeout = _settings.timeout
# Draining is part of the graceful timeout.
graceful_timeout = max(_settings.graceful_timeout - _settings.drain_seconds, 0)
keepalive = _settings.keep_alive
worker_connections = _settings.max_connections
max_requests = _settings.max_requests
# Workers that start together must not be replaced at the same time.
max_requests_jitter = _settings.max_requests // 10
# The master loads the default model, or all with `preload_models`; the workers share its memory.
preload_app = True
# A heartbeat file on a slow or read-only disk would stop the workers.
worker_tmp_dir = str(_SHARED_MEMORY) if os.access(_SHARED_MEMORY, os.W_OK) else None
# By default, gunicorn trusts headers from this machine that change the path and the scheme.
forwarded_allow_ips = ""
# By default, gunicorn opens a control socket in the user's home directory.
control_socket_disable = True
proc_name = "polyseme"
logger_class = "polyseme.http.server.Logger"
loglevel = _settings.log_level


class Logger(glogging.Logger):  # type: ignore[misc]
    """gunicorn's logger with the log configuration of the service."""

    def setup(self, cfg: Any) -> None:
        """Configure logging. With `logconfig_dict`, gunicorn would also build access log lines."""
        super().setup(cfg)
        logging.config.dictConfig(logging_config(_settings))
        capture_warnings()


def _service(server_or_worker: Any) -> Any:
    return server_or_worker.app.wsgi().extensions["polyseme"]


def _return_memory() -> None:
    """Make glibc map each block of 256 KiB or more separately and unmap it when it is freed.

    By default, glibc raises this threshold to the size of the largest freed block, and the heaps of
    the threads become fragmented: after 20,000 hostile requests, a worker with four threads kept
    185 MB, and 50 MB with a fixed threshold.
    """
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 18)


def _freeze_memory() -> None:
    """Exclude existing objects from garbage collection, which would copy their shared pages."""
    gc.collect()
    gc.freeze()


def when_ready(server: Any) -> None:
    """Drain before stopping: after SIGTERM, `/readyz` fails while requests are still served."""
    stop, seconds = server.handle_term, min(_settings.drain_seconds, _settings.graceful_timeout)

    def handle_term() -> None:
        if _service(server).draining or not seconds:
            stop()
        _service(server).start_draining()
        server.log.info("draining for %s seconds before shutdown", seconds)
        timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM))
        timer.daemon = True
        timer.start()

    server.handle_term = handle_term
    termination.take_precedence(server, draining=lambda: _service(server).draining)
    _return_memory()
    _freeze_memory()


def on_reload(server: Any) -> None:
    """Read changed keys and models in the master; gunicorn then replaces the workers."""
    _service(server).reload()
    _freeze_memory()


def pre_fork(server: Any, _worker: Any) -> None:
    """Read models that changed since the last check, so that no worker starts with the old ones.

    Termination signals are blocked until the worker can handle them, so that none is lost.
    """
    if _service(server).models.refresh_if_changed():
        _freeze_memory()
    signal.pthread_sigmask(signal.SIG_BLOCK, termination.SIGNALS)


def _release_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, termination.SIGNALS)


os.register_at_fork(after_in_parent=_release_signals)


def post_worker_init(worker: Any) -> None:
    """Count the worker, start its trace exporter and unblock termination signals."""
    metrics.start_worker()
    # With 5 ms, the default, a thread that reads a long body waits that long for each other thread
    # at every read, and other requests wait for the thread.
    sys.setswitchinterval(0.001)
    if tracer := worker.app.wsgi().extensions.get("polyseme-tracer"):
        tracer.start()
    _release_signals()


def worker_exit(_server: Any, worker: Any) -> None:
    """Send the remaining traces."""
    if tracer := worker.app.wsgi().extensions.get("polyseme-tracer"):
        tracer.close()


def child_exit(server: Any, worker: Any) -> None:
    """Remove the gauges of a dead worker, and merge its counts with those of earlier ones."""
    metrics_files.remove_dead(worker.pid, live={os.getpid(), *server.WORKERS})


def on_exit(_server: Any) -> None:
    """Remove the metrics directory."""
    metrics_files.remove_directory()
