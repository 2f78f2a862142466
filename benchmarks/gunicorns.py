"""Run gunicorn servers on loopback, configured like the service.

python benchmarks/gunicorns.py APPLICATION      runs one, with the settings of the environment
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from flask import Flask
from gunicorn.util import import_app
from processes import children
from serving import free_port, wait_for_response

from polyseme.settings import Settings

HERE = Path(__file__).parent
SERVICE = "polyseme:create_app()"
_OPEN = "01"
"""The state of an established connection in /proc/net/tcp."""


class Running(NamedTuple):
    """A running gunicorn."""

    address: str
    master: int

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        return children(self.master)

    def connections(self) -> list[int]:
        """Return the number of open connections of each worker."""
        port = int(self.address.rpartition(":")[2])
        lines = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()]
        here = f":{port:04X}"
        ours = {
            f"socket:[{line[9]}]" for line in lines if line[1].endswith(here) and line[3] == _OPEN
        }
        return [len(ours & _sockets(pid)) for pid in self.workers()]


@contextmanager
def running(
    app: str,
    options: Sequence[str] = (),
    service: Path = HERE.parent / "service",
    **settings: object,
) -> Iterator[Running]:
    """Run an application under gunicorn with the configuration of `polyseme serve`.

    `options` are gunicorn's command-line options, which override the configuration. `service` is
    the folder of the package, and `settings` are settings of the service.
    """
    port = free_port()
    environment = {f"POLYSEME_{name.upper()}": str(value) for name, value in settings.items()}
    path = os.pathsep.join([str(service), str(HERE)])
    metrics = tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)  # noqa: S108 - private
    environment["PROMETHEUS_MULTIPROC_DIR"] = metrics  # as `polyseme serve` does
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", f"from gunicorns import serve; serve({app!r})"],
        env={
            **os.environ,
            **environment,
            "POLYSEME_PORT": str(port),
            "PYTHONPATH": path,
            "GUNICORN_CMD_ARGS": shlex.join(options),
        },
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_response(port, "GET", "/livez", any_status=True)
        yield Running(f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        process.wait(60)


def serve(app: str) -> None:
    """Serve an application in this process, with the settings of the environment."""
    from polyseme.http.server import Server

    class AppServer(Server):
        """The service's server of another application."""

        def load(self) -> Flask:
            """Import the application."""
            application: Flask = import_app(app)
            return application

    AppServer(Settings()).run()


def _sockets(pid: int) -> set[str]:
    """Return the targets of a process's file descriptors; that of a socket is `socket:[INODE]`."""
    targets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            targets.add(str(descriptor.readlink()))
    return targets
