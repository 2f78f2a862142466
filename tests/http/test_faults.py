"""Full disks, unwritable logs, and few file descriptors."""

import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import COMMAND, ROOT
from tests.http.service import (
    SHORT,
    WAIT,
    Caller,
    descriptors,
    load,
    posted,
    running,
    until,
)

pytestmark = [
    pytest.mark.faults,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc"),
]
PROGRAM = ("env", f"PYTHONPATH={ROOT / 'service'}", *COMMAND)


def may_mount() -> bool:
    """Whether this user may create private mounts."""
    if shutil.which("unshare") is None or os.getuid() != 0:
        return False
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], check=False)
    return tried.returncode == 0


def after(script: str, *arguments: object) -> tuple[str, ...]:
    """A command that runs a shell script and then replaces the shell by the program."""
    full_script = f'{script}\nexec "${{@:{len(arguments) + 1}}}"'
    return ("bash", "-ec", full_script, "bash", *map(str, arguments), *PROGRAM)


def check_service(folder: Path, command: tuple[str, ...]) -> None:
    """Start a service by a command, and check that it responds and reloads."""
    with running(folder, command=command) as service:
        with load(service, kept=3, new=2) as clients:
            clients.go_on(100)
            service.reload()
            clients.go_on(100)
        assert clients.lost == []
        service.process.terminate()
        assert service.process.wait(WAIT) == 0


READ_ONLY = """
mount --make-rprivate /
for place in $(awk '{print $5}' /proc/self/mountinfo | sort -ru); do
    case $place in
        /proc* | /sys* | /dev | /dev/*) ;;
        *) mount -o remount,bind,ro "$place" ;;
    esac
done
mount -t tmpfs -o size=4k none /dev/shm
! touch "$1/new" 2>/dev/null"""


@pytest.mark.skipif(not may_mount(), reason="needs root and mounts of its own")
def test_full_disks_stop_no_request(tmp_path) -> None:
    check_service(tmp_path, ("unshare", "-m", *after(READ_ONLY, tmp_path)))


def test_an_unwritable_log_stops_no_request(tmp_path) -> None:
    check_service(tmp_path, after("exec >/dev/full 2>&1"))


def test_a_worker_keeps_descriptors_free_when_many_connections_wait(tmp_path) -> None:
    with running(tmp_path, command=after("ulimit -n 80"), workers=1) as service:
        (worker,) = service.workers()
        idle = descriptors(worker)
        with ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(Caller(service))
            until(lambda: descriptors(worker) >= 80 - 20)
            assert idle < descriptors(worker) < 80
            assert stack.enter_context(Caller(service)).ask(posted(SHORT))[0] == 200
        assert service.ask("GET", "/livez")[0] == 200
        assert service.workers() == [worker]
