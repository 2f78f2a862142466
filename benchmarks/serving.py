"""Run the service, or another server with its settings, on loopback."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from socket import socket
from typing import NamedTuple

import httpx
from processes import children

SERVICE = ("-m", "polyseme", "serve")
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
def running(command: Sequence[str] = SERVICE, **settings: object) -> Iterator[Running]:
    """Run `polyseme serve` or another program of Python; it accepts requests in the block."""
    with closing(socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        settings["port"] = probe.getsockname()[1]
    environment = {f"POLYSEME_{name.upper()}": str(value) for name, value in settings.items()}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as metrics:
        environment["PROMETHEUS_MULTIPROC_DIR"] = metrics
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, *command], env={**os.environ, **environment}, stderr=subprocess.DEVNULL
        )
        try:
            server = Running(f"http://127.0.0.1:{settings['port']}", process.pid)
            _wait(server.address)
            yield server
        finally:
            process.terminate()
            process.wait(60)


def _wait(address: str) -> None:
    """Wait for a response of any status."""
    for _ in range(1000):
        with suppress(httpx.TransportError):
            httpx.get(f"{address}/livez", timeout=30)
            return
        time.sleep(0.02)
    raise SystemExit("The service did not start.")


def _sockets(pid: int) -> set[str]:
    """Return the targets of a process's file descriptors; that of a socket is `socket:[INODE]`."""
    targets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            targets.add(str(descriptor.readlink()))
    return targets
