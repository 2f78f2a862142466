"""The files in which all processes count: whose they are, what becomes of them, and their room."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from polyseme.http.shares import ROOM

from tests.conftest import ROOT
from tests.http.numbers import numbers, numbers_in, total
from tests.http.test_metrics import ask, counting, files, settled
from tests.http.versions import until, workers_of

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="needs /proc to find the workers"
)


def test_a_service_that_is_told_to_stop_leaves_no_files(tmp_path, monkeypatch):
    with counting(tmp_path, monkeypatch):
        assert files(tmp_path)
    assert not list((tmp_path / "shares").iterdir())


def test_what_a_killed_service_left_is_removed_by_the_next_one(tmp_path, monkeypatch):
    with counting(tmp_path, monkeypatch) as (process, _):
        workers = workers_of(process.pid)
        process.kill()
        process.wait()
        (left,) = (tmp_path / "shares").iterdir()
        until(lambda: [one for one in workers if Path(f"/proc/{one}").exists()], [])
        with counting(tmp_path, monkeypatch):
            (folder,) = (tmp_path / "shares").iterdir()
            assert folder.name != left.name
            # One that is in use is not.
            with counting(tmp_path, monkeypatch) as (_, client):
                assert len(list((tmp_path / "shares").iterdir())) == 2
                until(lambda: total(numbers(client), "workers"), 2)


def test_what_a_worker_made_in_a_folder_that_was_being_removed_is_removed_too(
    tmp_path, monkeypatch
):
    left = tmp_path / "shares" / "polyseme-metrics-left"
    left.mkdir(parents=True)
    (left / "counter_0.db").touch()
    with counting(tmp_path, monkeypatch):
        assert not left.exists()


def fill(path):
    """Write until there is no room left."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 12))
    assert os.statvfs(path).f_bavail == 0


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 4 MiB."""
    disk = tmp_path / "shares"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_disk_that_is_full_ends_no_worker_and_everything_is_counted(
    tmp_path, monkeypatch, small_disk
):
    with counting(tmp_path, monkeypatch) as (process, client):
        fill(small_disk / "much")
        workers = workers_of(process.pid)
        asked = ask(client, 20)
        for status in (404, 405, 422):
            path = {404: "/nothing", 405: "/v1/encode", 422: "/v1/trace"}[status]
            client.request("GET" if status < 422 else "POST", path, json={})
        assert asked == [200] * 20
        settled(client, 20)
        os.kill(workers[0], signal.SIGKILL)
        until(lambda: workers[0] in workers_of(process.pid), False)
        until(lambda: len(workers_of(process.pid)), 2)
        assert ask(client, 20) == [200] * 20
        settled(client, 40)
        (small_disk / "much").unlink()


NO_ROOM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 15, 1 << 15))
from polyseme.http.shares import shares
shares.open(2)
assert shares.folder is None
from types import SimpleNamespace
for age in (1, 2):
    shares.give(SimpleNamespace(age=age))
from polyseme.api.app import create_app
client = create_app().test_client()
client.get("/nothing", buffered=True)
print(client.get("/metrics", buffered=True).text)
"""


def test_where_no_folder_has_room_each_worker_counts_for_itself_and_says_so_once(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", NO_ROOM],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    found = numbers_in(done.stdout)
    assert total(found, "requests_total", route="unmatched", status="404") == 1
    assert done.stderr.count("no folder has room for the metrics") == 1
    assert list(tmp_path.iterdir()) == []


EVERYTHING = """
import os, sys
from polyseme.http.shares import shares
shares.open(1)
from polyseme.http import accounts, metrics, tally
from polyseme.api.app import create_app
from polyseme.encoding.encode import Counts
app = create_app()
metrics.touch(app)
methods = ["other", *sorted(accounts._METHODS)]
statuses = [200, 204, 206, 304, 308, 400, 401, 404, 405, 406, 413, 415, 416, 422, 429, 500, 503]
routes = ["unmatched", *{rule.rule for rule in app.url_map.iter_rules()}]
for route in routes:
    tally._duration(route), tally._bytes(route)
    for method in methods:
        for status in statuses:
            tally._requests(route, method, status)
for number in range(1000):
    tally._words(f"a-model-with-a-name-that-is-quite-long-for-a-model-{number:05}")
for name in os.listdir(shares.folder):
    found = os.stat(shares.folder / name)
    print(name, found.st_size, found.st_blocks * 512)
"""


def test_all_there_can_be_has_room_in_the_files_from_the_start():
    command = [sys.executable, "-c", EVERYTHING]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    lines = [line.split() for line in done.stdout.splitlines()]
    sizes = {name: (int(size), int(room)) for name, size, room in lines if name.endswith(".db")}
    wanted = {f"{kind}_{slot}.db": size for kind, size in ROOM.items() for slot in ("master", "0")}
    assert {name: size for name, (size, _) in sizes.items()} == wanted
    assert all(room >= size for size, room in sizes.values())
