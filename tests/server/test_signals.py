"""SIGHUP, SIGTERM and killed workers: no request is lost, and changes take effect."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from polyseme.api_keys import key_file_line
from polyseme.models.writer import remove_model, rename_model
from polyseme.observability import metrics
from tests.api.problem import SECRET
from tests.conftest import ROOT, free_port
from tests.observability.samples import numbers, total
from tests.server.service import (
    WAIT,
    Caller,
    Service,
    client_ports,
    damage,
    get,
    load,
    running,
    until,
    version_of,
    write_version,
)

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
ALICE, BOB = "polyseme_" + "a" * 43, "polyseme_" + "b" * 43


def test_no_request_is_lost_over_three_reloads_and_the_end(tmp_path) -> None:
    with running(tmp_path, graceful_timeout=20, drain_seconds=3) as service:
        with load(service) as asking:
            for _ in range(3):
                asking.go_on()
                service.reload()
            asking.go_on()
            service.signal(signal.SIGTERM)
            until(lambda: service.ask("GET", "/readyz")[0], 503)
            asking.go_on(10)  # draining: new requests are still answered
            assert service.process.wait(WAIT) == 0
            until(lambda: all(one.refused for one in asking.clients))
        assert asking.lost == []
    assert "Traceback" not in service.log.read_text()


def test_a_killed_worker_loses_only_its_own_requests(tmp_path) -> None:
    inside: set[int] = set()
    with running(tmp_path) as service, load(service) as asking:
        for _ in range(2):
            asking.go_on()
            victim = service.workers()[0]
            os.kill(victim, signal.SIGSTOP)
            inside |= client_ports(service, victim)
            os.kill(victim, signal.SIGKILL)
            service.wait_for_workers(2, but={victim})
        asking.go_on()
    assert {port for port, _ in asking.lost} <= inside


@pytest.mark.slow
def test_the_numbers_are_right_with_two_workers_and_after_a_kill(tmp_path, monkeypatch) -> None:
    (tmp_path / "metrics").mkdir()
    monkeypatch.setenv(metrics.DIRECTORY, str(tmp_path / "metrics"))
    with running(tmp_path) as service, httpx.Client(base_url=service.url, timeout=WAIT) as client:
        asked = 0

        def answered() -> float:
            return total(numbers(client), "requests_total", route="/v1/encode", status="200")

        for kills in range(2):
            found = service.every_worker(
                lambda: service.ask("POST", "/v1/encode", {"input": "a b"})
            )
            assert [status for status, _ in found] == [200, 200]
            asked += 2
            until(answered, asked)
            seen = numbers(client)
            assert total(seen, "tokens_total", model="wiki-en") == 2 * asked
            assert total(seen, "workers") == 2
            assert total(seen, "worker_starts_total") == 2 + kills
            assert total(seen, "ready") == 1
            assert total(seen, "connections") >= 1
            victim = service.workers()[0]
            os.kill(victim, signal.SIGKILL)
            service.wait_for_workers(2, but={victim})
            until(lambda: total(numbers(client), "worker_starts_total"), 3 + kills)
            counted = numbers(client)
            rising = [key for key in seen if key[0].endswith(("_total", "_count", "_bucket"))]
            assert all(counted[key] >= seen[key] for key in rising)
            until(lambda: total(numbers(client), "workers"), 2)
    assert list((tmp_path / "metrics").iterdir()) == []


@pytest.mark.slow
def test_models_change_in_every_worker_by_themselves_and_on_a_reload(tmp_path) -> None:
    place, made = tmp_path / "models", tmp_path / "made"
    for name in ("one", "two", "three"):
        write_version(place / name, 1)
    made.mkdir()

    def versions(name: str) -> list[int | None]:
        return service.every_worker(lambda: version_of(service, name))

    settings = {"models_dir": place, "model": "one", "metrics": "open"}
    with running(tmp_path, **settings) as service:
        workers = service.workers()
        with load(service) as asking:
            assert versions("two") + versions("three") + versions("new") == [1] * 4 + [None] * 2
            write_version(place / "new", 3)
            assert versions("new") == [3, 3]
            write_version(place / "two", 2)
            remove_model(place / "three")
            rename_model(place / "new", "newer")
            until(lambda: versions("three"), [None, None])
            assert versions("newer") == [3, 3]
            until(lambda: versions("two"), [2, 2])
        assert (asking.lost, service.workers()) == ([], workers)
        for pid in workers:
            lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
            mapped = [line for line in lines if str(place) in line]
            assert not [line for line in mapped if line.endswith("(deleted)")]
            assert sum(line.endswith("/vectors.npy") for line in mapped) == 3
        # An idle service finds a change too.
        logged = service.log.read_text().count('"polyseme: changed models: two"')
        write_version(place / "two", 5)
        until(lambda: service.log.read_text().count('"polyseme: changed models: two"'), logged + 2)
        assert versions("two") == [5, 5]
        # A worker that replaces a dead one has the newest models from its first request.
        os.kill(workers[0], signal.SIGKILL)
        service.wait_for_workers(2, but={workers[0]})
        assert versions("two") + versions("three") == [5, 5, None, None]
        # A damaged model is reported and the loaded one answers.
        write_version(place / "one", 2)
        service.reload()
        assert versions("one") == [2, 2]
        damage(place / "one", made)
        service.reload()
        assert versions("one") == [2, 2]
        problem = "vectors.npy: the checksum differs from manifest.json."
        for status, document in service.every_worker(lambda: service.ask("GET", "/readyz")):
            assert status == 200
            assert document["models"][1]["problem"].endswith(problem)
        assert problem in service.log.read_text()
        # Without its default model the service is not ready until the model is back.
        (place / "one").rename(place / ".one")
        service.reload()
        found = service.every_worker(lambda: service.ask("GET", "/readyz"))
        assert [status for status, _ in found] == [503, 503]
        assert found[0][1]["detail"].startswith("The default model cannot be used: no model has")
        assert found[0][1]["hint"].startswith("Add the model")
        write_version(place / "one", 4)
        service.reload()
        assert versions("one") == [4, 4]


@pytest.mark.slow
def test_a_reload_adds_and_removes_keys_and_a_bad_file_changes_nothing(tmp_path) -> None:
    file = tmp_path / f"keys-{SECRET}"
    alice, bob = key_file_line("alice", ALICE), key_file_line("bob", BOB)
    file.write_text(alice)

    def statuses(service: Service) -> list[list[int]]:
        return [
            service.every_worker(
                lambda k=key: service.ask("GET", "/v1/models", Authorization=f"Bearer {k}")[0]
            )
            for key in (ALICE, BOB)
        ]

    with running(tmp_path, api_keys_file=file) as service:
        assert statuses(service) == [[200, 200], [401, 401]]
        file.write_text(f"{alice}\n{bob}\n")
        service.reload()
        assert statuses(service) == [[200, 200], [200, 200]]
        file.write_text(f"{bob}\n{SECRET}\n")
        service.reload()
        assert statuses(service) == [[200, 200], [200, 200]]
        file.write_text(bob)
        service.reload()
        assert statuses(service) == [[401, 401], [200, 200]]
        log = service.log.read_text()
        assert log.count("the previous keys stay valid") == 1
        assert SECRET not in log and "Traceback" not in log


EARLY = """
import os, signal
from polyseme.server.config import *

def post_fork(server, worker):
    if worker.age == 1:
        os.kill(os.getpid(), signal.SIGTERM)
"""
EARLIER = """
# On one processor a parent goes on before its child takes a step.
import os, signal
from pathlib import Path
from polyseme.server.config import *

os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])

def kill():
    children = Path("/proc/self/task", str(os.getpid()), "children").read_text().split()
    if not told:
        told.append([os.kill(int(pid), signal.SIGTERM) for pid in children])

told = []
os.register_at_fork(after_in_parent=kill)
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", [EARLY, EARLIER], ids=["in the worker", "before its first step"])
def test_a_worker_terminated_right_after_the_fork_ends(tmp_path, moment) -> None:
    (tmp_path / "early.py").write_text(moment, "utf-8")
    command = [sys.executable, "-m", "gunicorn", "--config", tmp_path / "early.py"]
    given = {"POLYSEME_PORT": str(free_port()), "POLYSEME_WORKERS": "1"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "service"), **given}
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "polyseme.api.app:create_app()"], env=environment, stderr=out, stdout=out
        )
    try:
        # The worker is replaced; otherwise the master would wait for it.
        until(lambda: log.read_text("utf-8").count("Booting worker") > 1, seconds=30)
    finally:
        process.terminate()
        assert process.wait(WAIT) == 0


@pytest.mark.slow
def test_requests_in_progress_get_responses_during_shutdown(tmp_path) -> None:
    with running(tmp_path, threads=1, workers=1) as service:
        with Caller(service) as busy, Caller(service) as kept:
            assert kept.ask(get("/livez"))[0] == 200
            busy.hold_thread()
            waiting = [Caller(service) for _ in range(5)]
            for caller in waiting:
                caller.send(get("/livez"))
            service.signal(signal.SIGTERM)
            kept.send(get("/livez"))
            responses = [caller.response() for caller in (busy, kept, *waiting)]
            for caller in waiting:
                caller.socket.close()
        assert [status for status, _, _ in responses] == [200] * 7
        headers = responses[-1][1]
        assert headers["connection"] == "close"
        assert service.process.wait(WAIT) == 0


@pytest.mark.slow
def test_queued_connections_get_responses_during_shutdown(tmp_path) -> None:
    with running(tmp_path, workers=1) as service, ExitStack() as stack:
        (worker,) = service.workers()
        os.kill(worker, signal.SIGSTOP)
        callers = [stack.enter_context(Caller(service)) for _ in range(8)]
        for caller in callers:
            caller.send(get("/livez"))
        service.signal(signal.SIGTERM)
        # The master closes its listener before it signals the worker.
        until(lambda: "signal: term" in service.log.read_text())
        time.sleep(0.5)
        os.kill(worker, signal.SIGCONT)
        assert [caller.response()[0] for caller in callers] == [200] * 8


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Le"])
def test_a_client_that_never_finishes_does_not_keep_the_service(tmp_path, sent) -> None:
    with running(tmp_path, workers=1, graceful_timeout=3) as service, Caller(service) as half:
        half.send(sent)
        until(lambda: client_ports(service, service.workers()[0]))
        service.signal(signal.SIGTERM)
        assert service.process.wait(15) == 0
        assert half.closed


@pytest.mark.parametrize(("together", "drain", "left"), [(45, 10, 35), (5, 10, 0)])
def test_responses_have_the_time_that_draining_leaves(together: int, drain: int, left: int) -> None:
    given = {"GRACEFUL_TIMEOUT": together, "DRAIN_SECONDS": drain, "MAX_REQUESTS": 1000}
    code = (
        "from polyseme.server import config;"
        "print(config.graceful_timeout, config.max_requests, config.max_requests_jitter)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **{f"POLYSEME_{name}": str(value) for name, value in given.items()}},
    )
    assert done.stdout.split() == [str(left), "1000", "100"]


def test_the_not_ready_document_while_draining(tmp_path) -> None:
    with running(tmp_path, workers=1, drain_seconds=60) as service, Caller(service) as kept:
        assert kept.ask(get("/readyz"))[0] == 200
        service.signal(signal.SIGTERM)
        until(lambda: service.ask("GET", "/v2/health/ready")[0], 503)
        status, headers, body = kept.ask(get("/readyz"))
        assert (status, json.loads(body)["code"], headers["retry-after"]) == (503, "draining", "5")
        assert httpx.get(f"{service.url}/livez").status_code == 200
        assert service.ask("POST", "/v1/encode", {"input": "a"})[0] == 200
        service.signal(signal.SIGTERM)  # a second one ends the wait
        assert service.process.wait(WAIT) == 0


@pytest.mark.slow
def test_workers_are_replaced_after_enough_requests_and_none_is_lost(tmp_path) -> None:
    with running(tmp_path, max_requests=100) as service:
        seen = set(service.workers())
        with load(service) as asking:
            until(lambda: len(seen.union(service.workers())) > 8 or seen.update(service.workers()))
    assert asking.lost == []


@pytest.mark.slow
def test_a_storm_of_reloads_loses_nothing(tmp_path) -> None:
    write_version(tmp_path / "models" / "one", 1)
    with running(tmp_path, models_dir=tmp_path / "models") as service:
        with load(service) as asking:
            for number in range(20):
                write_version(tmp_path / "models" / "one", 1 + number)
                service.signal(signal.SIGHUP)
                asking.go_on(20)
        service.wait_for_workers(2)
        assert asking.lost == []
        assert "Traceback" not in service.log.read_text()


@pytest.mark.slow
def test_workers_whose_master_is_killed_end(tmp_path) -> None:
    with running(tmp_path, graceful_timeout=3) as service:
        workers = service.workers()
        with load(service, kept=3, new=2) as asking:
            asking.go_on()
            service.process.kill()
            service.process.wait()
            until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


@pytest.mark.slow
def test_a_stopped_worker_is_replaced(tmp_path) -> None:
    with running(tmp_path, timeout=2) as service:
        stopped = service.workers()[0]
        os.kill(stopped, signal.SIGSTOP)
        service.wait_for_workers(2, but={stopped})
        assert service.ask("POST", "/v1/encode", {"input": "a"})[0] == 200
