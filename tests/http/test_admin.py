"""Probes and metrics on a port of their own, and the files of metrics of several processes."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from polyseme.cli.serve import _create_metrics_directory
from polyseme.http.metrics import DIRECTORY
from tests.conftest import free_port, start
from tests.http.conftest import numbers, total
from tests.http.service import SHORT, WAIT, Caller, Service, posted, running, runs, until

KEY = "kq7Jx2mV9sW4"
PATHS = ("/livez", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready")


@contextmanager
def administered(folder: Path, **settings: object) -> Iterator[tuple[Service, httpx.Client]]:
    """Start a service with a port for probes and metrics; yield it and a client of that port."""
    port = free_port()
    headers = {"Authorization": f"Bearer {KEY}"}
    with (
        running(folder, admin_port=port, **settings) as service,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=WAIT, headers=headers) as admin,
    ):
        yield service, admin


@pytest.fixture(scope="module")
def single(tmp_path_factory) -> Iterator[tuple[Service, httpx.Client]]:
    """A service of one worker with one thread."""
    folder = tmp_path_factory.mktemp("single")
    with administered(folder, workers=1, threads=1, timeout=3600, log_format="json") as made:
        yield made


def admin_process(service: Service) -> int:
    """The process ID of the child that is no worker: the one that has no connection to serve."""
    return min(service.workers())  # it starts first


def test_the_port_has_probes_and_metrics_alone_and_is_of_one_service(single, tmp_path) -> None:
    service, admin = single
    (worker,) = set(service.workers()) - {admin_process(service)}
    os.kill(worker, signal.SIGSTOP)
    try:
        for path in PATHS:
            response = admin.get(path, headers={"Host": "any.example"})
            assert response.status_code == 200
            assert response.headers["x-request-id"]
            assert admin.head(path).status_code == 200
        for path in ("/", "/v1/encode", "/livez/", "//livez"):
            for response in (admin.get(path), admin.post(path, json=SHORT)):
                assert (response.status_code, response.json()["code"]) == (404, "unknown_route")
        with pytest.raises(AssertionError, match="--admin-port selects another one"):
            start(tmp_path / "log", admin_port=admin.base_url.port)
    finally:
        os.kill(worker, signal.SIGCONT)


def test_waiting_requests_are_counted_and_their_time_is_reported(single) -> None:
    service, admin = single
    with ExitStack() as stack:
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


def test_counts_and_files_stay_over_reloads_and_kills_until_the_end(tmp_path, monkeypatch) -> None:
    (tmp_path / "metrics").mkdir()
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "metrics"))
    settings = {"api_keys": KEY, "graceful_timeout": 80, "drain_seconds": 60}
    with administered(tmp_path, workers=1, **settings) as (service, admin):
        (metrics,) = (tmp_path / "metrics").iterdir()
        assert admin.get("/metrics", headers={"Authorization": ""}).status_code == 401

        def counted() -> list[float]:
            found = numbers(admin)
            encoded = total(found, "requests_total", route="/v1/encode", status="200")
            return [encoded, total(found, "worker_starts_total"), total(found, "workers")]

        for count in range(1, 4):
            authorized = {"Authorization": f"Bearer {KEY}"}
            assert service.ask("POST", "/v1/encode", SHORT, **authorized)[0] == 200
            until(counted, [count, count, 1])  # after the response
            before = set(service.workers())
            if count < 3:
                service.signal(signal.SIGHUP)
                service.wait_for_workers(2, but=before)
                until(lambda: admin.get("/readyz").status_code, 200)
            else:
                os.kill(max(before - {admin_process(service)}), signal.SIGKILL)
                service.wait_for_workers(2, but={max(before)})
            until(counted, [count, count + 1, 1])
        # At most twice as many workers as usual live at the same time.
        slots = {path.stem.rpartition("_")[2] for path in metrics.glob("*.db")}
        assert slots <= {"master", "admin", "1", "2"}
        service.signal(signal.SIGTERM)
        until(lambda: admin.get("/readyz").status_code, 503)
        assert admin.get("/livez").status_code == 200
        service.signal(signal.SIGTERM)  # a second SIGTERM ends draining
        service.process.wait(WAIT)
        with pytest.raises(httpx.ConnectError):
            admin.get("/livez")
    assert list((tmp_path / "metrics").iterdir()) == []


@pytest.mark.slow
def test_the_children_of_a_killed_master_end(tmp_path) -> None:
    with administered(tmp_path) as (service, _):
        children = service.workers()
        program = Path(f"/proc/{service.master}/exe").readlink()
        assert len(children) == 3
        os.kill(service.master, signal.SIGKILL)
        service.process.wait(WAIT)
        until(lambda: not any(runs(pid, program) for pid in children))


def test_the_next_start_removes_what_a_killed_master_left(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    for pid in (ended.pid, os.getpid(), 1):
        (tmp_path / f"polyseme-metrics-{pid}-x").mkdir()
    _create_metrics_directory()
    new = Path(os.environ[DIRECTORY])
    assert new.name.startswith(f"polyseme-metrics-{os.getpid()}-")
    running = {tmp_path / f"polyseme-metrics-{pid}-x" for pid in (os.getpid(), 1)}
    assert set(tmp_path.iterdir()) == running | {new}
