"""SIGHUP, SIGTERM and killed workers: no request is lost, and changes take effect."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from polyseme.api_keys import key_file_line
from polyseme.http.server import Server
from polyseme.settings import Settings
from tests.conftest import ROOT, free_port
from tests.http.service import (
    WAIT,
    Caller,
    client_ports,
    load,
    running,
    until,
)
from tests.models.damage import write

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")


def test_no_request_is_lost_during_reloads_and_shutdown(tmp_path, monkeypatch) -> None:
    pid = tmp_path / "pid"
    # Options of gunicorn survive a reload.
    monkeypatch.setenv("GUNICORN_CMD_ARGS", f"--pid {pid}")
    with running(tmp_path, graceful_timeout=80, drain_seconds=60) as service:
        with load(service) as clients, Caller(service) as kept:
            for _ in range(3):
                clients.go_on()
                service.reload()
                assert int(pid.read_text()) == service.master
            clients.go_on()
            service.signal(signal.SIGTERM)
            until(lambda: service.ask("GET", "/v2/health/ready")[0], 503)
            clients.go_on(10)  # while draining, new requests still get responses
            status, document = service.ask("GET", "/readyz")
            assert (status, document["code"]) == (503, "draining")
            assert service.ask("GET", "/livez")[0] == 200
            service.signal(signal.SIGTERM)  # a second SIGTERM ends draining
            assert service.process.wait(WAIT) == 0
            until(lambda: not clients.accepted)
            assert kept.closed
        assert clients.lost == []
    assert "Traceback" not in service.log.read_text()
    assert not pid.exists()


def test_a_killed_worker_loses_only_its_own_requests(tmp_path) -> None:
    of_victims: set[int] = set()
    with running(tmp_path) as service, load(service) as clients:
        for _ in range(2):
            clients.go_on()
            victim = service.workers()[0]
            os.kill(victim, signal.SIGSTOP)
            of_victims |= client_ports(service, victim)
            os.kill(victim, signal.SIGKILL)
            service.wait_for_workers(2, but={victim})
        clients.go_on()
    assert {port for port, _ in clients.lost} <= of_victims


@pytest.mark.slow
def test_every_worker_uses_changed_keys_and_models(tmp_path) -> None:
    models, keys = tmp_path / "models", tmp_path / "keys"
    write(models / "one", 1)
    write(models / "two", 1)
    keys.write_text(key_file_line("alice", "old"))
    body = {"input": [["apple"]], "include": ["static"]}

    def versions(model: str, key: str = "old") -> list[Any]:
        def version() -> Any:
            authorized = {"Authorization": f"Bearer {key}"}
            found = service.ask("POST", "/v1/encode", {**body, "model": model}, **authorized)
            return found[1]["results"][0]["static"][0][0] if found[0] == 200 else found[0]

        return service.every_worker(version)

    with running(tmp_path, models_dir=models, model="one", api_keys_file=keys) as service:
        assert versions("two") + versions("new") == [1, 1, 404, 404]
        write(models / "new", 3)
        write(models / "two", 2)
        assert versions("two") + versions("new") == [2, 2, 3, 3]
        write(models / "two", 5)
        # A new worker has the newest models from its first request.
        killed = service.workers()[0]
        os.kill(killed, signal.SIGKILL)
        service.wait_for_workers(2, but={killed})
        assert versions("two") == [5, 5]
        write(models / "one", 2)
        keys.write_text(key_file_line("alice", "new"))
        service.reload()
        assert versions("one") + versions("one", "new") == [401, 401, 2, 2]
        # Without its default model the service is not ready.
        (models / "one").rename(models / ".one")
        service.reload()
        found = service.every_worker(lambda: service.ask("GET", "/readyz"))
        assert [status for status, _ in found] == [503, 503]
        assert found[0][1]["detail"].startswith("The default model cannot be used: no model has")


@pytest.mark.slow
def test_an_unfinished_request_does_not_prevent_shutdown(tmp_path) -> None:
    with (
        running(tmp_path, workers=1, graceful_timeout=3) as service,
        Caller(service) as silent,
        Caller(service) as half,
    ):
        half.send(b"POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Le")
        until(lambda: len(client_ports(service, service.workers()[0])), 2)
        service.signal(signal.SIGTERM)
        assert service.process.wait(WAIT) == 0
        assert silent.closed and half.closed


@pytest.mark.parametrize(("graceful", "drain", "expected"), [(45, 10, 35), (5, 10, 0)])
def test_draining_is_part_of_the_graceful_timeout(graceful: int, drain: int, expected: int) -> None:
    settings = Settings(graceful_timeout=graceful, drain_seconds=drain, max_requests=1000)
    cfg = Server(settings).cfg
    assert cfg.graceful_timeout == expected
    assert (cfg.max_requests, cfg.max_requests_jitter) == (1000, 100)


def test_options_of_gunicorn_override_the_settings(monkeypatch, capsys) -> None:
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "--workers 3 --worker-class gthread")
    cfg = Server(Settings(workers=2, threads=5)).cfg
    assert (cfg.workers, cfg.threads, cfg.worker_class.__name__) == (3, 5, "ThreadWorker")
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "--walkers")
    with pytest.raises(SystemExit, match="2"):
        Server(Settings())
    assert "gunicorn: error: unrecognized arguments: --walkers" in capsys.readouterr().err


TERMINATE_AFTER_FORK = """
# On one processor, the parent continues before the child runs.
import os, signal
from pathlib import Path
from polyseme.http.server import Server
from polyseme.settings import Settings

os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])

def kill():
    children = Path("/proc/self/task", str(os.getpid()), "children").read_text().split()
    if not killed:
        killed.append([os.kill(int(pid), signal.SIGTERM) for pid in children])

killed = []
os.register_at_fork(after_in_parent=kill)
Server(Settings()).run()
"""


@pytest.mark.slow
def test_a_worker_terminated_right_after_the_fork_ends(tmp_path) -> None:
    given = {"POLYSEME_PORT": str(free_port()), "POLYSEME_WORKERS": "1"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "service"), **given}
    log = tmp_path / "log"
    with log.open("wb") as out:
        command = [sys.executable, "-c", TERMINATE_AFTER_FORK]
        process = subprocess.Popen(command, env=environment, stderr=out, stdout=out)
    try:
        # The master starts another worker once the first has ended.
        until(lambda: log.read_text("utf-8").count("Booting worker") > 1, seconds=30)
    finally:
        process.terminate()
        assert process.wait(WAIT) == 0


@pytest.mark.slow
def test_workers_are_replaced_after_max_requests_and_no_request_is_lost(tmp_path) -> None:
    with running(tmp_path, max_requests=100) as service:
        seen: set[int] = set()

        def replaced() -> bool:
            seen.update(service.workers())
            return len(seen) > 8

        with load(service) as clients:
            until(replaced)
    assert clients.lost == []
