"""Gunicorn's configuration, from the settings; `polyseme serve` starts gunicorn with it.

`gunicorn --config python:service.http.serving 'service.http.app:create_app()'` is the same.
"""

import signal
from pathlib import Path
from typing import Any

from service.http.upkeep import share, take_over_hangups
from service.settings import Settings

# Until the master can handle it, SIGHUP would end it.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})

_settings = Settings()
_memory = Path("/dev/shm")  # noqa: S108 - workers only touch a file there to show they live

bind = [f"{_settings.host}:{_settings.port}"]
workers = _settings.workers
threads = _settings.threads
worker_class = "service.http.worker.Worker"
timeout = _settings.timeout
graceful_timeout = _settings.graceful_timeout
keepalive = _settings.keep_alive
# The models are read once, before the workers are forked, and shared by them.
preload_app = True
# A heartbeat file on a slow or read-only disk would stop the workers.
worker_tmp_dir = str(_memory) if _memory.is_dir() else None
# Gunicorn would open a control socket in the home of the user.
control_socket_disable = True
proc_name = "polyseme"


def when_ready(server: Any) -> None:
    """Handle SIGHUP from now on, also one that came while the models were read."""
    take_over_hangups(server)
    share()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


def pre_fork(server: Any, worker: Any) -> None:
    """Let a worker see which signals came before it could handle any."""
    worker.heard = server.SIG_QUEUE
