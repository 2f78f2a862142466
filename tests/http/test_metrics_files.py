"""The files of metrics: merged after a process has exited, and harmless if their folder is full."""

import logging
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.mmap_dict import mmap_key
from prometheus_client.multiprocess import MultiProcessCollector

from polyseme.http import metrics
from polyseme.http.metrics import DIRECTORY, CountingFile, remove_dead
from tests.http.conftest import Numbers, numbers, total
from tests.http.service import WAIT, Service, running, until


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    return tmp_path


def write_counts(folder: Path, pid: int, **counts: int) -> None:
    """Write a counter and a histogram with one bucket, as a process does."""
    for label, count in counts.items():
        for file, name, names in (
            ("counter", "requests_total", ("route",)),
            ("histogram", "seconds_bucket", ("route", "le")),
            ("histogram", "seconds_sum", ("route",)),
        ):
            key = mmap_key(name.rpartition("_")[0], name, names, (label, "0.5")[: len(names)], "")
            values = CountingFile(str(folder / f"{file}_{pid}.db"))
            values.write_value(key, values.read_value(key)[0] + count, 0.0)
            values.close()


def counts(folder: Path) -> Numbers:
    """The samples that prometheus_client reads."""
    with metrics.locked(str(folder)):
        families = list(MultiProcessCollector(CollectorRegistry(), str(folder)).collect())
    return {(s.name, frozenset(s.labels.items())): s.value for f in families for s in f.samples}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.db")}


def test_counts_of_processes_that_have_exited_are_merged_and_stay_the_same(folder: Path) -> None:
    write_counts(folder, 101, a=1, b=20)
    write_counts(folder, 102, b=300, c=4000)
    write_counts(folder, 103, a=50_000)
    before = counts(folder)
    route_b = frozenset({("route", "b")})
    assert before["requests_total", route_b] == before["seconds_count", route_b] == 320
    for dead, live, left in (
        (101, {102, 103}, {"102", "103"}),
        (102, {103}, {"103"}),
        (103, {}, ()),
    ):
        remove_dead(dead, live)
        assert counts(folder) == before
        kinds = ("counter", "histogram")
        assert names(folder) == {f"{kind}_{pid}.db" for kind in kinds for pid in (*left, "merged")}


def test_gauges_of_a_process_that_has_exited_are_removed(folder: Path) -> None:
    for pid in (101, 102):
        CountingFile(str(folder / f"gauge_livesum_{pid}.db")).close()
    remove_dead(101, {102})
    assert names(folder) == {"gauge_livesum_102.db"}


def test_counts_are_merged_later_if_metrics_are_being_read(folder: Path) -> None:
    write_counts(folder, 101, a=1)
    write_counts(folder, 102, a=20)
    before = counts(folder)
    with metrics.locked(str(folder)):
        remove_dead(101, {102})
        assert "counter_101.db" in names(folder)
    remove_dead(102, ())
    assert names(folder) == {"counter_merged.db", "histogram_merged.db"}
    assert counts(folder) == before


def test_readers_never_see_a_count_twice_or_not_at_all(folder: Path) -> None:
    for pid in range(1000, 1100):
        write_counts(folder, pid, a=1)
    expected, found, ended = counts(folder), [], threading.Event()

    def read() -> None:
        while not ended.is_set():
            found.append(counts(folder) == expected)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        until(lambda: found)
        for first in range(1000, 1100):
            remove_dead(first, range(first + 1, 1100))
    finally:
        ended.set()
        reader.join()
    assert len(found) > 2 and all(found)
    assert counts(folder) == expected


def test_every_page_is_allocated_before_it_is_written(folder: Path) -> None:
    with closing(CountingFile(str(folder / "counter_1.db"))) as file:
        for number in range(500):
            file.write_value(f"{number}" * 50, number, 0.0)
            state = (folder / "counter_1.db").stat()
            assert state.st_blocks * 512 >= state.st_size >= file._used
        assert not file.full
    read = CountingFile.read_all_values_from_file(str(folder / "counter_1.db"))
    assert [value for _, value, _, _ in read] == list(range(500))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB in memory."""
    with mounted(tmp_path / "small", "2m") as folder:
        yield folder


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> Path:
    """Fill a file system; return the file that fills it."""
    filler = folder / "filler"
    filler.write_bytes(b"a" * shutil.disk_usage(folder).free)
    assert shutil.disk_usage(folder).free == 0
    return filler


def test_a_full_folder_costs_counts_and_is_reported_once(small: Path, caplog) -> None:
    with closing(CountingFile(str(small / "counter_1.db"))) as file:
        file.write_value("first", 7.0, 0.0)
        filler = fill(small)
        with closing(CountingFile(str(small / "counter_2.db"))) as other:
            for one in (file, other):
                for number in range(2000):
                    one.write_value(f"{number}", number, 0.0)
                    assert one.read_value(f"{number}") == (number, 0.0)
        assert file.read_value("first") == (7.0, 0.0)
    assert names(small) == {"counter_1.db"} and not list(small.glob("*.new"))
    read = list(CountingFile.read_all_values_from_file(str(small / "counter_1.db")))
    assert read[0][:2] == ("first", 7.0)
    with caplog.at_level(logging.WARNING, "polyseme"):
        metrics.warn_if_full()
        metrics.warn_if_full()
    assert caplog.text.count("the folder of the metrics is full") == 1
    filler.unlink()
    CountingFile(str(small / "counter_3.db")).close()
    assert not CountingFile.full


def test_counts_are_merged_in_a_full_folder(small: Path, monkeypatch) -> None:
    monkeypatch.setenv(DIRECTORY, str(small))
    for pid in (101, 102, 103):
        write_counts(small, pid, a=1, b=20)
    (small / "lock").touch()
    fill(small)
    before = counts(small)
    remove_dead(101, {102, 103})
    remove_dead(102, {103})
    assert names(small) == {
        f"{k}_{p}.db" for k in ("counter", "histogram") for p in ("merged", 103)
    }
    assert counts(small) == before


def answers(service: Service, number: int) -> None:
    for _ in range(number):
        assert service.ask("POST", "/v1/encode", {"input": "a b"})[0] == 200


def counted(service: Service) -> float:
    with httpx.Client(base_url=service.url, timeout=WAIT) as client:
        return total(numbers(client), "requests_total", route="/v1/encode", status="200")


@pytest.mark.slow
def test_reloads_do_not_fill_the_folder_and_counts_stay(small: Path, tmp_path, monkeypatch) -> None:
    reloads = int(os.environ.get("POLYSEME_TEST_RELOADS", "100"))
    monkeypatch.setenv(DIRECTORY, str(small))
    with running(tmp_path) as service:
        for number in range(1, reloads + 1):
            answers(service, 1)
            service.reload()
            assert counted(service) == number
        with httpx.Client(base_url=service.url, timeout=WAIT) as client:
            assert total(numbers(client), "worker_starts_total") == 2 + 2 * reloads
        assert sum(path.stat().st_blocks for path in small.rglob("*")) * 512 < 1 << 20
    log = service.log.read_text()
    assert "SIGBUS" not in log and "Traceback" not in log and "is full" not in log
    assert list(small.iterdir()) == []


@pytest.mark.slow
def test_a_service_whose_metrics_folder_is_full_serves_and_reloads(small, tmp_path, monkeypatch):
    monkeypatch.setenv(DIRECTORY, str(small))
    with running(tmp_path) as service:
        answers(service, 4)
        until(lambda: counted(service), 4)
        filler = fill(small)
        for _ in range(3):
            service.reload()
            answers(service, 4)
            assert counted(service) >= 4
        until(lambda: "the folder of the metrics is full" in service.log.read_text())
        filler.unlink()
        service.reload()
        before = counted(service)
        answers(service, 4)
        until(lambda: counted(service), before + 4)
    log = service.log.read_text()
    assert "SIGBUS" not in log and "Traceback" not in log


@pytest.mark.slow
def test_the_next_start_removes_what_a_killed_service_left(tmp_path, monkeypatch) -> None:
    for name in ("metrics", "temporary", "one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "metrics"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    shared_memory = set(Path("/dev/shm").iterdir())

    def left() -> set[Path]:
        new = {one for one in Path("/dev/shm").iterdir() if one.name.startswith("wgunicorn")}
        folders = (tmp_path / "metrics", tmp_path / "temporary")
        return (new - shared_memory).union(*(folder.iterdir() for folder in folders))

    with running(tmp_path / "one") as service:
        workers = service.workers()
        (killed,) = left()
        os.kill(service.master, signal.SIGKILL)
        service.process.wait(WAIT)
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    assert left() == {killed}
    with running(tmp_path / "one"):
        (used,) = left()
        assert used != killed
        with running(tmp_path / "two"):
            assert used in left() and len(left()) == 2
        assert left() == {used}
    assert left() == set()
