"""Gunicorn's configuration, from the settings; `polyseme serve` starts gunicorn with it.

`gunicorn --config python:polyseme.http.serving 'polyseme.http.app:create_app()'` is the same.
"""

import os
import signal
from pathlib import Path
from typing import Any

from polyseme.http import watching
from polyseme.http.draining import hold_endings, take_over_endings
from polyseme.http.upkeep import share, take_over_hangups
from polyseme.settings import Settings

# Until the master can handle it, SIGHUP would end it.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})

_settings = Settings()
if _settings.metrics != "off":
    watching.open_shares(_settings.workers)  # before the application makes any metric
_memory = Path("/dev/shm")  # noqa: S108 - workers only touch a file there to show they live

bind = [f"{_settings.host}:{_settings.port}"]
workers = _settings.workers
threads = _settings.threads
worker_class = "polyseme.http.worker.Worker"
timeout = _settings.timeout
# What is left of the time to stop when no more requests are taken.
graceful_timeout = max(_settings.graceful_timeout - _settings.drain_seconds, 0)
keepalive = _settings.keep_alive
worker_connections = _settings.max_connections
max_requests = _settings.max_requests
# Not all workers of one start at once.
max_requests_jitter = _settings.max_requests // 10
# The models are read once, before the workers are forked, and shared by them.
preload_app = True
# A heartbeat file on a slow or read-only disk would stop the workers.
worker_tmp_dir = str(_memory) if os.access(_memory, os.W_OK) else None
# From this machine, gunicorn would believe headers that change the path and the scheme.
forwarded_allow_ips = ""
# Gunicorn would open a control socket in the home of the user.
control_socket_disable = True
proc_name = "polyseme"
logger_class = "polyseme.http.logs.Logs"
loglevel = _settings.log_level


def when_ready(server: Any) -> None:
    """Handle SIGHUP from now on, also one that came while the models were read, and SIGTERM."""
    take_over_hangups(server)
    take_over_endings(server, min(_settings.drain_seconds, _settings.graceful_timeout))
    share()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


def pre_fork(server: Any, worker: Any) -> None:
    """Give a worker its files, and no signal to end before it can handle one."""
    watching.prepare(server, worker)
    hold_endings()


def post_fork(_server: Any, worker: Any) -> None:
    """Count in one's own files."""
    watching.begin(worker)


def child_exit(_server: Any, worker: Any) -> None:
    """Take the files of a worker that has ended back."""
    watching.end(worker)


def worker_exit(_server: Any, worker: Any) -> None:
    """Send the traces that a worker still has."""
    watching.flush(worker)
