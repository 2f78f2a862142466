"""What is lost when processes are killed, stopped, hung up or replaced while clients ask."""

import os
import random
import signal
import socket
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.faults.asking import crowd
from tests.faults.processes import WAIT, Service, client_ports, running, until
from tests.faults.sending import ORDINARY, converse
from tests.http import versions

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc"),
]


def kill(service: Service, worker: int) -> set[int]:
    """Kill a worker with -9; give the ports of the clients whose connections were in it."""
    os.kill(worker, signal.SIGSTOP)
    ports = client_ports(service, worker)
    os.kill(worker, signal.SIGKILL)
    return ports


def test_a_worker_that_is_killed_takes_with_it_only_what_was_in_it(tmp_path, full, record):
    kills = 40 if full else 6
    rng, inside = random.Random(1), set()
    with running(tmp_path) as service:
        with crowd(service) as asking:
            for _ in range(kills):
                workers = service.wait_for_workers()
                before = asking.answered
                until(lambda b=before: asking.answered > b + 50)
                victim = rng.choice(workers)
                inside |= kill(service, victim)
                until(lambda v=victim: v not in service.workers())
            service.wait_for_workers()
            before = asking.answered
            until(lambda: asking.answered > before + 50)
        assert {lost.port for lost in asking.lost} <= inside
        assert len(asking.lost) <= len(inside)
    assert service.process.returncode == 0
    record(
        "fault",
        name="a worker is killed with -9",
        tried=kills,
        answered=asking.answered,
        lost=len(asking.lost),
        inside=len(inside),
    )


def readiness(service: Service) -> str:
    """What /readyz says on a connection of its own, or that there is none any more."""
    try:
        answer = httpx.get(f"http://127.0.0.1:{service.port}/readyz", timeout=WAIT)
    except httpx.ConnectError:
        return "refused"
    except httpx.TransportError:
        return "ended"
    return answer.json()["code"] if answer.status_code == 503 else str(answer.status_code)


def test_a_service_that_is_told_to_end_loses_nothing(tmp_path, full, record):
    rounds, answered = (8 if full else 2), 0
    for number in range(rounds):
        folder = tmp_path / str(number)
        folder.mkdir()
        with running(folder, drain_seconds=1, graceful_timeout=15) as service:
            with crowd(service) as asking:
                until(lambda: asking.answered > 100)
                service.process.terminate()
                end, said = time.monotonic() + WAIT, ["200"]
                while said[-1] != "refused" and time.monotonic() < end:
                    now = readiness(service)
                    said += [now] if now != said[-1] else []
                assert service.process.wait(15) == 0
                until(lambda: all(one.refused for one in asking.askers))
            assert said[:2] == ["200", "draining"]
            assert said[-1] == "refused"
            assert asking.lost == []
            answered += asking.answered
    record("fault", name="the service is told to end", tried=rounds, answered=answered, lost=0)


def test_a_storm_of_hangups_loses_nothing_and_mixes_nothing(tmp_path, full, record):
    hangups, place = (600 if full else 100), tmp_path / "models"
    for name in ("one", "two"):
        versions.write(place / name, 1)
    rng = random.Random(2)
    with running(tmp_path, models_dir=place) as service:
        workers = service.workers()
        with (
            crowd(service, kept=3, new=2, but="models") as asking,
            versions.clients(service.port, 3, ["one", "two"]) as readers,
        ):
            for number in range(hangups):
                if number % 5 == 0:
                    versions.write(place / rng.choice(["one", "two"]), 1 + number // 5)
                os.kill(service.master, signal.SIGHUP)
                time.sleep(rng.choice([0, 0, 0.02, 0.05]))
            before = asking.answered
            until(lambda: asking.answered > before + 50)
        assert asking.lost == []
        assert service.workers() == workers
        seen = {
            version for one in readers for versions_ in one.seen.values() for version in versions_
        }
        assert len(seen) > 2
        assert "Traceback" not in service.log.read_text()
    answered = asking.answered + sum(len(v) for one in readers for v in one.seen.values())
    record("fault", name="SIGHUP, models changing", tried=hangups, answered=answered, lost=0)


def test_workers_that_are_recycled_lose_nothing(tmp_path, full, record):
    wanted = 40 if full else 6
    with running(tmp_path, max_requests=100) as service:
        seen = set(service.workers())
        with crowd(service) as asking:
            end = time.monotonic() + WAIT
            while len(seen) < 2 + wanted:
                assert time.monotonic() < end, f"{len(seen)} workers, {asking.answered} answers"
                seen.update(service.workers())
                time.sleep(0.01)
        assert asking.lost == []
    assert service.process.returncode == 0
    recycled = len(seen) - 2
    record("fault", name="a worker is recycled", tried=recycled, answered=asking.answered, lost=0)


def test_workers_whose_master_is_killed_end_and_leave_the_port(tmp_path, record):
    with running(tmp_path) as service:
        workers = service.workers()
        with crowd(service, kept=3, new=2) as asking:
            until(lambda: asking.answered > 50)
            service.process.kill()
            service.process.wait()
            until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
        with closing(socket.socket()) as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(service.address)
            again.listen()
    lost = len(asking.lost)
    record(
        "fault", name="the master is killed with -9", tried=1, answered=asking.answered, lost=lost
    )


def test_a_worker_that_stands_still_is_replaced_and_the_others_answer(tmp_path, full, record):
    rounds, inside = (5 if full else 1), set()
    with running(tmp_path, timeout=2) as service:
        with crowd(service) as asking:
            for _ in range(rounds):
                workers = service.wait_for_workers()
                before = asking.answered
                until(lambda b=before: asking.answered > b + 50)
                os.kill(workers[0], signal.SIGSTOP)
                inside |= client_ports(service, workers[0])
                # Those inside may be all that ask; whoever comes now is taken by the other one.
                (answer,) = converse(service.address, ORDINARY)
                assert answer.status == 200
                until(lambda v=workers[0]: v not in service.workers())
        assert {lost.port for lost in asking.lost} <= inside
    lost = len(asking.lost)
    record(
        "fault",
        name="a worker stands still",
        tried=rounds,
        answered=asking.answered,
        lost=lost,
        inside=len(inside),
    )
