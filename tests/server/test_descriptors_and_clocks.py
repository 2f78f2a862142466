"""Descriptors and memory that run out, and clocks that jump."""

import os
import resource
import shutil
import socket
import struct
import subprocess
import time
from contextlib import ExitStack, contextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path

import orjson
import pytest

from tests.conftest import COMMAND, ROOT
from tests.faults.answers import Answer, fault_of
from tests.faults.asking import crowd
from tests.faults.processes import descriptors, processor_seconds, running, until
from tests.faults.requests import posted
from tests.faults.sending import ORDINARY, Kept, converse

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc"),
]
DAY = 86_400


@contextmanager
def only(limit: int, number: int, *pids: int):
    """Leave running processes so much of something, and give it back."""
    before = [resource.prlimit(pid, limit) for pid in pids]
    for pid, (_, hard) in zip(pids, before, strict=True):
        resource.prlimit(pid, limit, (number, hard))
    try:
        yield
    finally:
        for pid, both in zip(pids, before, strict=True):
            resource.prlimit(pid, limit, both)


def test_workers_without_descriptors_let_others_wait_and_do_not_spin(tmp_path, full, record):
    rounds, waiting = (10 if full else 1), 60
    with running(tmp_path, keep_alive=30) as service:
        workers = service.workers()
        (wanted,) = converse(service.address, ORDINARY)
        for _ in range(rounds):
            room = max(map(descriptors, workers)) + 8
            with only(resource.RLIMIT_NOFILE, room, *workers), ExitStack() as open_ones:
                for _ in range(waiting):
                    one = open_ones.enter_context(socket.create_connection(service.address, 60))
                    one.sendall(ORDINARY[:20])
                until(lambda most=room: max(map(descriptors, workers)) >= most)
                before = sum(map(processor_seconds, workers))
                time.sleep(2)
                spent = sum(map(processor_seconds, workers)) - before
                assert spent < 1, "workers that can accept nothing compute without end"
            until(lambda most=room: max(map(descriptors, workers)) < most)
            answers = converse(service.address, ORDINARY)
            assert [one.body for one in answers] == [wanted.body]
        assert service.workers() == workers
        assert "Traceback" not in service.log.read_text()
    record("fault", name="workers have no descriptors left", tried=rounds, lost=0)


def test_connections_that_wait_for_a_descriptor_are_answered_in_the_end(tmp_path):
    with running(tmp_path) as service:
        workers = service.workers()
        room = max(map(descriptors, workers)) + 4
        with (
            only(resource.RLIMIT_NOFILE, room, *workers),
            crowd(service, kept=0, new=24) as asking,
        ):
            until(lambda: asking.answered > 120)
        assert asking.lost == []
        assert service.workers() == workers


def test_a_master_without_descriptors_replaces_its_workers_once_it_has_some(tmp_path, record):
    with running(tmp_path) as service:
        victim, other = service.workers()
        with only(resource.RLIMIT_NOFILE, descriptors(service.master), service.master):
            os.kill(victim, 9)
            until(lambda: victim not in service.workers())
            (answer,) = converse(service.address, ORDINARY)
            assert answer.status == 200
            # It has what the dead worker's file took, which is too little for a new one to begin.
            until(lambda: "could not begin" in service.log.read_text())
            tried = service.log.read_text().count("Booting")
        until(lambda: service.log.read_text().count("Booting") > tried)
        service.wait_for_workers()
        assert other in service.workers()
    assert service.process.returncode == 0
    record("fault", name="the master has no descriptors left", tried=1, lost=0)


def test_a_worker_without_memory_refuses_what_needs_it_and_answers_the_next(tmp_path, record):
    def sentences(number: int, pairs: int) -> bytes:
        document = {"input": ["the bank " * pairs] * number, "include": ["attention", "scores"]}
        return posted("/v1/encode", orjson.dumps(document))

    # Both are answered in one piece; that of the first has half a gigabyte.
    large, small = sentences(6, 500), sentences(1, 150)
    with running(tmp_path, workers=1, threads=1, stream_bytes=1 << 30) as service:
        (worker,) = service.workers()
        (wanted,) = converse(service.address, ORDINARY)
        status = Path(f"/proc/{worker}/statm").read_text().split()[0]
        size = int(status) * resource.getpagesize()
        with only(resource.RLIMIT_AS, size + (64 << 20), worker):
            (refused,) = converse(service.address, large)
            assert refused.status in {500, 503}
            assert b"Traceback" not in refused.body
            (answer,) = converse(service.address, ORDINARY)
            assert answer.body == wanted.body
        (answer,) = converse(service.address, small)
        assert answer.status == 200
        assert service.workers() == [worker]
    record("fault", name="a worker has no memory left", tried=1, lost=0)


@pytest.fixture
def clock(tmp_path: Path) -> tuple[Path, Path]:
    """A library that sets the clock of who preloads it, and the file of seconds it adds."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library, offset = tmp_path / "clock.so", tmp_path / "offset"
    source = Path(__file__).parent / "clock.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, source], check=True)
    offset.write_bytes(bytes(8))
    return library, offset


def put(offset: Path, seconds: int) -> None:
    """Set the clock so far from the real one."""
    with offset.open("r+b", buffering=0) as file:
        file.write(struct.pack("=q", seconds))


def seconds_off(answer: Answer) -> float:
    """How far the time in an answer is from the real one."""
    return parsedate_to_datetime(answer.headers["date"]).timestamp() - time.time()


def test_clocks_that_jump_cost_no_request(tmp_path, clock, full, record):
    library, offset = clock
    settings = {"LD_PRELOAD": library, "CLOCK_OFFSET": offset, "PYTHONPATH": ROOT}
    command = ("env", *(f"{name}={value}" for name, value in settings.items()), *COMMAND)
    to_2038 = (1 << 31) - int(time.time()) - 1
    jumps = [DAY, -DAY, 0, to_2038, -30 * DAY, 3600, -3600, -int(time.time()) + 1, 0]
    jumps *= 4 if full else 1
    with running(tmp_path, command=command, rate_limit="1000000/minute") as service:
        workers = service.workers()
        kept = Kept(service.address)
        with crowd(service, kept=3, new=2) as asking:
            for jump in jumps:
                put(offset, jump)
                before = asking.answered
                until(lambda b=before: asking.answered > b + 60)
                (answer,) = kept.ask(ORDINARY)
                assert fault_of(answer) is None
                assert abs(seconds_off(answer) - jump) < 60
        kept.close()
        assert asking.lost == []
        assert service.workers() == workers
        assert "Traceback" not in service.log.read_text()
    assert service.process.returncode == 0
    record("fault", name="the clock jumps", tried=len(jumps), answered=asking.answered, lost=0)
