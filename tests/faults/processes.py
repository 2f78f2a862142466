"""A running service seen from outside: its processes, their memory and what they hold open."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from typing import Any, NamedTuple

from tests.conftest import start

WAIT = 60


class Service(NamedTuple):
    """A service of its own for one test."""

    process: Popen[bytes]
    port: int
    log: Path

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def master(self) -> int:
        return self.process.pid

    def workers(self) -> list[int]:
        """The ids of the workers, sorted."""
        try:
            children = Path(f"/proc/{self.master}/task/{self.master}/children").read_text()
        except FileNotFoundError:
            return []
        try:
            program = Path(f"/proc/{self.master}/exe").readlink()
        except FileNotFoundError:
            return []
        return sorted(pid for pid in map(int, children.split()) if runs(pid, program))

    def wait_for_workers(self, number: int = 2, but: set[int] = frozenset()) -> list[int]:
        """Wait until there are so many that are not some others, and give them."""
        until(lambda: len(set(self.workers()) - but) == number)
        return [one for one in self.workers() if one not in but]


def runs(pid: int, program: Path) -> bool:
    """Whether a process runs a program, and is not one that has ended or a child of a shell."""
    try:
        return Path(f"/proc/{pid}/exe").readlink() == program
    except OSError:
        return False


@contextmanager
def running(folder: Path, **settings: object) -> Iterator[Service]:
    """Start a service; stop it where the block has not."""
    log = folder / "log"
    process, address = start(log, **settings)
    service = Service(process, int(address.rpartition(":")[2]), log)
    try:
        service.wait_for_workers(int(str(settings.get("workers", 2))))
        yield service
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(WAIT)
        finally:
            process.kill()


def until(true: Callable[[], Any], seconds: float = WAIT) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"it did not come to be within {seconds} s"
        time.sleep(0.02)


def private_bytes(pid: int) -> int:
    """What a process has in memory that it shares with nobody."""
    return _rollup(pid, "Private_Clean:") + _rollup(pid, "Private_Dirty:")


def proportional_bytes(pid: int) -> int:
    """What a process has in memory, shared pages divided among those that share them."""
    return _rollup(pid, "Pss:")


def anonymous_bytes(pid: int) -> int:
    """Of that, what is of no file: processes beside the service do not share any of it."""
    return _rollup(pid, "Pss_Anon:") + _rollup(pid, "Pss_Shmem:")


def _rollup(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def descriptors(pid: int) -> int:
    """How many files and sockets a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def processor_seconds(pid: int) -> float:
    """How long a process has computed, on all processors together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def client_ports(service: Service, pid: int) -> set[int]:
    """The clients' ports of the connections that a worker has."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            inodes.add(str(link.readlink()))
    ports = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _state, *rest = line.split()
        if int(local.partition(":")[2], 16) == service.port and f"socket:[{rest[5]}]" in inodes:
            ports.add(int(remote.partition(":")[2], 16))
    return ports - {0}
