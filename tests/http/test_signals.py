"""SIGHUP, SIGTERM and killed workers: no request is lost, and changes take effect."""

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from polyseme.http.server import Server
from polyseme.settings import Settings
from tests.http.service import (
    WAIT,
    Caller,
    Service,
    client_ports,
    get,
    load,
    running,
    until,
)
from tests.models.versions import write

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
            until(lambda: all(one.refused for one in clients.clients))
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


def version_of(service: Service, model: str) -> float | None:
    """The version of a served model; None if there is no such model."""
    body = {"input": [["apple"]], "include": ["static"], "model": model}
    status, document = service.ask("POST", "/v1/encode", body)
    return document["results"][0]["static"][0][0] if status == 200 else None


@pytest.mark.slow
def test_every_worker_loads_changed_models_with_and_without_a_reload(tmp_path) -> None:
    models = tmp_path / "models"
    write(models / "one", 1)
    write(models / "two", 1)

    def versions(name: str) -> list[int | None]:
        return service.every_worker(lambda: version_of(service, name))

    with running(tmp_path, models_dir=models, model="one") as service:
        workers = service.workers()
        with load(service) as clients:
            assert versions("two") + versions("new") == [1, 1, None, None]
            write(models / "new", 3)
            write(models / "two", 2)
            assert versions("two") + versions("new") == [2, 2, 3, 3]
        assert (clients.lost, service.workers()) == ([], workers)
        for pid in workers:
            lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
            mapped = [line for line in lines if str(models) in line]
            assert not [line for line in mapped if line.endswith("(deleted)")]
        write(models / "two", 5)
        # A new worker has the newest models from its first request.
        os.kill(workers[0], signal.SIGKILL)
        service.wait_for_workers(2, but={workers[0]})
        assert versions("two") == [5, 5]
        write(models / "one", 2)
        service.reload()
        assert versions("one") == [2, 2]
        # Without its default model the service is not ready.
        (models / "one").rename(models / ".one")
        service.reload()
        found = service.every_worker(lambda: service.ask("GET", "/readyz"))
        assert [status for status, _ in found] == [503, 503]
        assert found[0][1]["detail"].startswith("The default model cannot be used: no model has")


def status_of(pid: int) -> dict[str, str]:
    """The fields of /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def has_pending_sigterm(pid: int) -> bool:
    return bool(int(status_of(pid)["ShdPnd"], 16) & 1 << signal.SIGTERM - 1)


@pytest.mark.slow
def test_queued_connections_get_responses_during_shutdown(tmp_path) -> None:
    with running(tmp_path, workers=1) as service, ExitStack() as stack:
        (worker,) = service.workers()
        os.kill(worker, signal.SIGSTOP)
        until(lambda: status_of(worker)["State"].startswith("T"))
        callers = [stack.enter_context(Caller(service)) for _ in range(8)]
        for caller in callers:
            caller.send(get("/livez"))
        service.signal(signal.SIGTERM)
        # The master closes its listener before it signals the worker.
        until(lambda: has_pending_sigterm(worker))
        os.kill(worker, signal.SIGCONT)
        assert [caller.response()[0] for caller in callers] == [200] * 8


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
        assert service.process.wait(15) == 0
        assert silent.closed and half.closed


@pytest.mark.parametrize(("graceful", "drain", "expected"), [(45, 10, 35), (5, 10, 0)])
def test_draining_is_part_of_the_graceful_timeout(graceful: int, drain: int, expected: int) -> None:
    settings = Settings(graceful_timeout=graceful, drain_seconds=drain, max_requests=1000)
    cfg = Server(settings).cfg
    assert cfg.graceful_timeout == expected
    assert (cfg.max_requests, cfg.max_requests_jitter) == (1000, 100)


def test_options_of_gunicorn_override_the_settings(monkeypatch) -> None:
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "--workers 3 --worker-class gthread")
    cfg = Server(Settings(workers=2, threads=5)).cfg
    assert (cfg.workers, cfg.threads, cfg.worker_class.__name__) == (3, 5, "ThreadWorker")


def test_unknown_options_of_gunicorn_are_a_usage_error(monkeypatch, capsys) -> None:
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "--walkers")
    with pytest.raises(SystemExit, match="2"):
        Server(Settings())
    assert "gunicorn: error: unrecognized arguments: --walkers" in capsys.readouterr().err


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
