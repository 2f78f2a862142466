"""Probes and metrics on a port of their own, and the files of metrics of several processes."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from polyseme.http.metrics import DIRECTORY
from tests.conftest import free_port, start
from tests.http.conftest import numbers, total
from tests.http.service import SHORT, WAIT, Caller, Service, posted, running, runs, until

PATHS = ("/livez", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready")


@contextmanager
def administered(folder: Path, **settings: object) -> Iterator[tuple[Service, httpx.Client]]:
    """Start a service with a port for probes and metrics; yield it and a client of that port."""
    port = free_port()
    with (
        running(folder, admin_port=port, **settings) as service,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=WAIT) as admin,
    ):
        yield service, admin


def admin_process(service: Service) -> int:
    """The process ID of the child that is no worker: the one that has no connection to serve."""
    children = Path(f"/proc/{service.master}/task/{service.master}/children").read_text().split()
    return min(map(int, children))  # it starts first


def test_the_port_has_probes_and_metrics_alone_and_no_other_service_gets_it(tmp_path) -> None:
    with administered(tmp_path, timeout=3600) as (service, admin):
        workers = set(service.workers()) - {admin_process(service)}
        for worker in workers:
            os.kill(worker, signal.SIGSTOP)
        for path in PATHS:
            for _ in range(3):
                response = admin.get(path, headers={"Host": "any.example"})
                assert response.status_code == 200
                assert response.headers["x-request-id"]
            assert admin.head(path).status_code == 200
        for path in ("/", "/docs", "/v1/models", "/v1/encode", "/livez/", "//livez"):
            for response in (admin.get(path), admin.post(path, json=SHORT)):
                assert (response.status_code, response.json()["code"]) == (404, "unknown_route")
        (tmp_path / "other").mkdir()
        with pytest.raises(AssertionError, match="--admin-port selects another one"):
            start(tmp_path / "other" / "log", admin_port=admin.base_url.port)
        for worker in workers:
            os.kill(worker, signal.SIGCONT)


def test_waiting_requests_are_counted_and_their_time_is_reported(tmp_path) -> None:
    settings = {"workers": 1, "threads": 1, "log_format": "json"}
    with administered(tmp_path, **settings) as (service, admin), ExitStack() as stack:
        busy, *others = [stack.enter_context(Caller(service)) for _ in range(4)]
        busy.hold_thread()
        for other in others:
            other.send(posted(SHORT))
        until(lambda: total(numbers(admin), "requests_waiting"), 3)
        time.sleep(0.3)
        assert busy.response()[0] == 200
        for other in others:
            timing = other.response()[1]["server-timing"].replace(";dur=", " ")
            stages = {name: float(ms) for name, ms in map(str.split, timing.split(", "))}
            assert 300 <= stages["wait"] < stages["total"]
        until(lambda: total(numbers(admin), "requests_waiting"), 0)
        assert total(numbers(admin), "stage_duration_seconds_sum", stage="wait") >= 0.9
    lines = [json.loads(line) for line in service.log.read_text().splitlines() if "wait_ms" in line]
    waited = [line["wait_ms"] for line in lines if line["route"] == "/v1/encode"]
    assert len([ms for ms in waited if ms >= 300]) == 3
    assert all(line["wait_ms"] < line["ms"] for line in lines)


def test_the_port_shows_keys_models_and_draining_of_the_service(tmp_path) -> None:
    settings = {"api_keys": "kq7Jx2mV9sW4", "graceful_timeout": 80, "drain_seconds": 60}
    with administered(tmp_path, **settings) as (service, admin):
        assert admin.get("/metrics").status_code == 401
        headers = {"Authorization": "Bearer kq7Jx2mV9sW4"}
        assert admin.get("/metrics", headers=headers).status_code == 200
        assert admin.get("/readyz").json()["status"] == "ready"
        before = admin_process(service)
        service.signal(signal.SIGHUP)
        until(lambda: admin_process(service) != before)
        until(lambda: admin.get("/readyz").status_code, 200)
        service.signal(signal.SIGTERM)
        until(lambda: admin.get("/readyz").status_code, 503)
        assert admin.get("/livez").status_code == 200
        service.signal(signal.SIGTERM)  # a second SIGTERM ends draining
        service.process.wait(WAIT)
        with pytest.raises(httpx.ConnectError):
            admin.get("/livez")


def test_the_process_ends_with_a_killed_master(tmp_path) -> None:
    with administered(tmp_path) as (service, _):
        children = service.workers()
        program = Path(f"/proc/{service.master}/exe").readlink()
        assert len(children) == 3
        os.kill(service.master, signal.SIGKILL)
        service.process.wait(WAIT)
        until(lambda: not any(runs(pid, program) for pid in children))


def test_counts_stay_and_files_stay_the_same_over_reloads(tmp_path, monkeypatch) -> None:
    (tmp_path / "metrics").mkdir()
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "metrics"))
    with running(tmp_path) as service, httpx.Client(base_url=service.url, timeout=WAIT) as client:
        names = set[str]()
        for count in range(1, 4):
            assert service.ask("POST", "/v1/encode", SHORT)[0] == 200
            service.reload()
            # A worker counts itself some time after its process exists.
            until(lambda: total(numbers(client), "worker_starts_total"), 2 + 2 * count)
            until(lambda: total(numbers(client), "workers"), 2)
            found = numbers(client)
            assert total(found, "requests_total", route="/v1/encode", status="200") == count
            assert total(found, "worker_starts_total") == 2 + 2 * count
            names |= {path.name for path in tmp_path.glob("metrics/*/*.db")}
        # At most twice as many workers as usual live at the same time.
        slots = {name.removesuffix(".db").rpartition("_")[2] for name in names}
        assert slots <= {"master", "1", "2", "3", "4"}
    assert list((tmp_path / "metrics").iterdir()) == []


def test_a_killed_worker_loses_no_counts_and_leaves_no_gauges(tmp_path) -> None:
    with running(tmp_path, workers=1) as service:
        with httpx.Client(base_url=service.url, timeout=WAIT) as client:

            def counted() -> float:
                return total(numbers(client), "requests_total", route="/v1/encode", status="200")

            for _ in range(3):
                assert service.ask("POST", "/v1/encode", SHORT)[0] == 200
            until(counted, 3)  # after the response
            (worker,) = service.workers()
            os.kill(worker, signal.SIGKILL)
            service.wait_for_workers(1, but={worker})
        with httpx.Client(base_url=service.url, timeout=WAIT) as client:
            assert counted() == 3
            assert total(numbers(client), "workers") == 1


@pytest.mark.slow
def test_the_next_start_removes_what_a_killed_service_left(tmp_path, monkeypatch) -> None:
    for name in ("metrics", "one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "metrics"))

    def left() -> set[Path]:
        return set((tmp_path / "metrics").iterdir())

    with running(tmp_path / "one") as service:
        (killed,) = left()
        os.kill(service.master, signal.SIGKILL)
        service.process.wait(WAIT)
    assert left() == {killed}
    with running(tmp_path / "one"):
        (used,) = left()
        assert used != killed
        with running(tmp_path / "two"):
            assert used in left() and len(left()) == 2
        assert left() == {used}
    assert left() == set()
