"""A disk that is full, one that cannot be written to, and a log that nobody takes."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import COMMAND, ROOT
from tests.faults.asking import crowd
from tests.faults.processes import WAIT, Service, running, until
from tests.server.service import write

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc"),
]
PROGRAM = ("env", f"PYTHONPATH={ROOT}", *COMMAND)


def may_mount() -> bool:
    """Whether this user may have mounts of its own."""
    if shutil.which("unshare") is None or os.getuid() != 0:
        return False
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], check=False)
    return tried.returncode == 0


needs_mounts = pytest.mark.skipif(not may_mount(), reason="needs root and mounts of its own")


def within(script: str, *arguments: object) -> tuple[str, ...]:
    """The program, started by a shell that has first done something; it stays the same process."""
    return (
        "bash",
        "-ec",
        f'{script}\nexec "${{@:{len(arguments) + 1}}}"',
        "bash",
        *map(str, arguments),
        *PROGRAM,
    )


def serves_on(service: Service, answers: int = 200) -> int:
    """Ask until there are so many answers, with a look for models between; how many there were."""
    workers = service.workers()
    with crowd(service, kept=3, new=2) as asking:
        for part in (1, 2):
            until(lambda p=part: asking.answered > p * answers / 2)
            os.kill(service.master, signal.SIGHUP)
    assert asking.lost == []
    assert service.workers() == workers
    return asking.answered


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of some megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def fill(place: Path) -> None:
    """Leave no byte."""
    with suppress(OSError), (place / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


@needs_mounts
@pytest.mark.parametrize("memory", ["a place in memory", "none"])
def test_a_disk_that_fills_up_stops_nobody(small_disk, record, memory):
    write(small_disk / "models" / "one", 1)
    script = 'export TMPDIR="$1"'
    if memory == "none":
        script += "\nmount -t tmpfs -o size=4k none /dev/shm"
    command = ("unshare", "-m", *within(script, small_disk))
    with running(small_disk, command=command, models_dir=small_disk / "models") as service:
        answered = serves_on(service)
        fill(small_disk)
        assert shutil.disk_usage(small_disk).free == 0
        answered += serves_on(service, 600)
        victim = service.workers()[0]
        os.kill(victim, signal.SIGKILL)
        until(lambda: victim not in service.workers() and len(service.workers()) == 2)
        answered += serves_on(service)
        (small_disk / "filler").unlink()
        answered += serves_on(service)
    assert service.process.returncode == 0
    name = "the disk is full" + (", and so is /dev/shm" if memory == "none" else "")
    record("fault", name=name, tried=1, answered=answered, lost=0)


@needs_mounts
def test_disks_that_nobody_may_write_to_stop_nobody(tmp_path, record):
    script = """
mount --make-rprivate /
for place in $(awk '{print $5}' /proc/self/mountinfo | sort -ru); do
    case $place in
        /proc* | /sys* | /dev | /dev/*) ;;
        *) mount -o remount,bind,ro "$place" ;;
    esac
done
! touch "$1/new" 2>/dev/null"""
    with running(tmp_path, command=("unshare", "-m", *within(script, tmp_path))) as service:
        answered = serves_on(service)
    assert service.process.returncode == 0
    record("fault", name="nothing can be written", tried=1, answered=answered, lost=0)


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("the log is a full device", "exec >/dev/full 2>&1"),
        ("the log is a closed pipe", "exec > >(true) 2>&1"),
        ("the log is closed", "exec >&- 2>&-"),
        ("nobody reads the log", "exec > >(exec sleep 60) 2>&1"),
    ],
)
def test_a_log_that_nobody_takes_stops_nobody(tmp_path, record, name, script):
    with running(tmp_path, command=within(script)) as service:
        answered = serves_on(service, 1500 if name == "nobody reads the log" else 300)
        service.process.terminate()
        assert service.process.wait(WAIT) == 0
    record("fault", name=name, tried=1, answered=answered, lost=0)
