"""SIGHUP takes over models that are new, changed, spoiled or gone, and no request is lost by it."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from flask import Flask
from polyseme.http.upkeep import keep, refresh

from polyseme.models.registry import Registry
from tests.conftest import COMMAND, ROOT, free_port
from tests.http.versions import (
    WAIT,
    ask,
    clients,
    connection_to,
    encode,
    every_worker,
    service,
    spoil,
    until,
    workers_of,
    write,
)

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="needs /proc to find the workers"
)


def deleted_files(process, place):
    """The files of a folder that a process still maps though they are gone."""
    lines = Path(f"/proc/{process}/maps").read_text().splitlines()
    return [line for line in lines if str(place) in line and line.endswith("(deleted)")]


@pytest.mark.parametrize("verify", [True, False])
def test_no_request_is_lost_or_mixed_while_models_come_change_and_go(tmp_path, verify):
    place, made = tmp_path / "models", tmp_path / "made"
    for name in ("one", "two", "three"):
        write(place / name, 1)
    made.mkdir()
    changes = [
        lambda: write(place / "one", 2),
        lambda: write(place / "two", 2),
        lambda: write(place / "new", 1),
        lambda: (write(place / "one", 3), write(place / "two", 3)),
        lambda: spoil(place / "two", made) if verify else write(place / "two", 4),
        lambda: (place / "new" / "manifest.json").write_text("{}"),
        lambda: shutil.rmtree(place / "three"),
        lambda: write(place / "two", 5),
        lambda: (place / "two" / "manifest.json").write_text("{}"),
        lambda: write(place / "one", 6),
        lambda: (write(place / "two", 7), write(place / "new", 8)),
    ]
    settings = {"models_dir": place, "model": "one", "verify_models": verify}
    with service(tmp_path, **settings) as (pid, port):
        workers = workers_of(pid)
        assert len(workers) == 2
        with clients(port, 4, ["one", "two", "three"]) as asking:
            until(lambda: all(one.seen["three"] for one in asking), True)
            for change in changes:
                change()
                os.kill(pid, signal.SIGHUP)
                time.sleep(0.1)
            os.kill(pid, signal.SIGHUP)
            for name, version in {"one": 6, "two": 7, "new": 8, "three": None}.items():
                until(lambda n=name: every_worker(pid, port, lambda c: encode(c, n)), [version] * 2)
        for client in asking:
            assert client.seen["one"][-1] == 6
            assert client.seen["three"][0] == 1
            assert client.seen["three"][-1] is None
            for versions in client.seen.values():
                numbers = [version or 100 for version in versions]
                assert numbers == sorted(numbers)
        assert workers_of(pid) == workers
        for worker in [pid, *workers]:
            until(lambda w=worker: deleted_files(w, place), [])
        assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_model_that_was_changed_into_a_broken_one_is_reported_and_the_old_one_answers(tmp_path):
    place, made = tmp_path / "models", tmp_path / "made"
    write(place / "one", 1)
    made.mkdir()
    with service(tmp_path, models_dir=place, model="one") as (pid, port):
        spoil(place / "one", made)
        os.kill(pid, signal.SIGHUP)
        problem = (
            "the folder has changed, and the previous model is in use:"
            " vectors.npy has another checksum than manifest.json says."
        )

        def state(connection):
            _, document = ask(connection, "GET", "/readyz")
            return next(one for one in document["models"] if one["default"])

        wanted = {"id": "one", "default": True, "status": "loaded", "problem": problem}
        until(lambda: every_worker(pid, port, state), [wanted] * 2)
        with connection_to(port) as connection:
            assert encode(connection, "one") == 1
            status, document = ask(connection, "GET", "/v1/models/one")
            assert (status, document["status"], document["source"]) == (200, "ok", "1")
            assert document["problem"] == problem
        assert f"polyseme: one is loaded: {problem}" in (tmp_path / "log").read_text()
        write(place / "one", 2)
        os.kill(pid, signal.SIGHUP)
        until(lambda: every_worker(pid, port, lambda c: encode(c, "one")), [2, 2])
        with connection_to(port) as connection:
            assert "problem" not in state(connection)


def test_a_service_whose_default_model_goes_is_not_ready_until_it_is_back(tmp_path):
    place = tmp_path / "models"
    write(place / "one", 1)
    with service(tmp_path, models_dir=place, model="one") as (pid, port):

        def readiness(connection):
            return ask(connection, "GET", "/readyz")[0]

        (place / "one").rename(place / ".one")
        os.kill(pid, signal.SIGHUP)
        until(lambda: every_worker(pid, port, readiness), [503, 503])
        with connection_to(port) as connection:
            _, document = ask(connection, "GET", "/readyz")
            assert document["detail"] == (
                "The default model cannot be used: no model of its name is here."
            )
            assert encode(connection, "one") is None
        (place / ".one").rename(place / "one")
        os.kill(pid, signal.SIGHUP)
        until(lambda: every_worker(pid, port, readiness), [200, 200])


def test_a_worker_that_starts_later_has_the_newest_models(tmp_path):
    place = tmp_path / "models"
    write(place / "one", 1)
    with service(tmp_path, models_dir=place, model="one") as (pid, port):
        write(place / "one", 2)
        os.kill(pid, signal.SIGHUP)
        until(lambda: every_worker(pid, port, lambda c: encode(c, "one")), [2, 2])
        before = set(workers_of(pid))
        for worker in before:
            os.kill(worker, signal.SIGKILL)
        until(lambda: len(set(workers_of(pid)) - before), 2)
        assert every_worker(pid, port, lambda c: encode(c, "one")) == [2, 2]


def test_workers_that_are_hung_up_while_they_start_live_and_miss_nothing(tmp_path):
    place = tmp_path / "models"
    write(place / "one", 1)
    with service(tmp_path, models_dir=place, model="one", workers=1) as (pid, port):
        for version in range(2, 7):
            (old,) = workers_of(pid)
            os.kill(old, signal.SIGKILL)
            until(lambda o=old: o not in workers_of(pid) and len(workers_of(pid)), 1)
            (young,) = workers_of(pid)
            for _ in range(200):
                os.kill(young, signal.SIGHUP)
            write(place / "one", version)
            for _ in range(3):
                os.kill(pid, signal.SIGHUP)
            until(lambda: every_worker(pid, port, lambda c: encode(c, "one")), [version])
            assert workers_of(pid) == [young]
        assert "SIGHUP!" not in (tmp_path / "log").read_text()


def test_a_worker_that_starts_looks_for_changes_since_a_signal_may_have_come_too_soon(tmp_path):
    write(tmp_path / "models" / "one", 1)
    settings = {"models_dir": tmp_path / "models", "model": "one", "workers": 1}
    with service(tmp_path, **settings) as (pid, port):
        write(tmp_path / "models" / "one", 2)
        os.kill(*workers_of(pid), signal.SIGKILL)
        until(lambda: every_worker(pid, port, lambda c: encode(c, "one")), [2])


def test_a_service_that_is_hung_up_while_it_starts_starts(tmp_path):
    write(tmp_path / "models" / "one", 1)
    port = free_port()
    given = {"MODELS_DIR": tmp_path / "models", "MODEL": "one", "WORKERS": 2, "PORT": port}
    environment = {f"POLYSEME_{name}": str(value) for name, value in given.items()}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*COMMAND, "serve"],
            env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
        )

    try:
        until(lambda: b"polyseme: http://" in (tmp_path / "log").read_bytes(), True)
        end = time.monotonic() + WAIT
        while b"Booting" not in (tmp_path / "log").read_bytes():
            assert process.poll() is None
            assert time.monotonic() < end
            os.kill(process.pid, signal.SIGHUP)
            time.sleep(0.01)
        until(lambda: len(workers_of(process.pid)), 2)
        assert every_worker(process.pid, port, lambda c: encode(c, "one")) == [1, 1]
    finally:
        process.terminate()
        assert process.wait(WAIT) == 0
    assert b"Handling signal: hup" in (tmp_path / "log").read_bytes()


def test_models_whose_whole_place_goes_away_are_back_when_it_is(tmp_path):
    place = tmp_path / "models"
    write(place / "one", 1)
    with service(tmp_path, models_dir=place, model="one") as (pid, port):
        workers = workers_of(pid)
        place.rename(tmp_path / "away")
        place.write_text("x")
        os.kill(pid, signal.SIGHUP)
        until(lambda: every_worker(pid, port, lambda c: encode(c, "one")), [None, None])
        place.unlink()
        (tmp_path / "away").rename(place)
        os.kill(pid, signal.SIGHUP)
        until(lambda: every_worker(pid, port, lambda c: encode(c, "one")), [1, 1])
        assert workers_of(pid) == workers


def test_a_refresh_that_fails_is_logged_and_ends_nothing(tmp_path, monkeypatch, caplog):
    write(tmp_path / "one", 1)
    registry = Registry([tmp_path], "one")

    def full(_path):
        raise OSError

    monkeypatch.setattr(Path, "iterdir", full)
    app = Flask("test")
    done = []
    keep(app, "models", registry.refresh)
    keep(app, "others", lambda: done.append(True))
    refresh(app)
    assert done
    assert caplog.messages == ["polyseme: the models could not be refreshed"]
    assert registry.ready()
