"""A model folder that is replaced, spoiled or deleted while it serves."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.faults.processes import Service, running, until
from tests.server.service import ask, connection_to, encode, every_worker, write

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc"),
]

FILES = ("vectors.npy", "index.npy", "vocabulary.txt", "attention.safetensors", "manifest.json")


def away(file: Path) -> None:
    file.unlink()


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def a_link_to_nowhere(file: Path) -> None:
    file.unlink()
    file.symlink_to("/nowhere")


def a_link_to_itself(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


def the_endless_device(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


def half_of_it(file: Path) -> None:
    half = file.read_bytes()[: file.stat().st_size // 2]
    file.unlink()
    file.write_bytes(half)


def other_bytes(file: Path) -> None:
    spoiled = bytes(byte ^ 0x55 for byte in file.read_bytes())
    file.unlink()
    file.write_bytes(spoiled)


REPLACEMENTS = (
    *(away, a_pipe, a_folder, a_link_to_nowhere, a_link_to_itself, the_endless_device),
    *(half_of_it, other_bytes),
)


def state(service: Service) -> list[dict]:
    """How the model stands in each worker."""

    def default(connection) -> dict:
        return ask(connection, "GET", "/readyz")[1]["models"][0]

    return every_worker(service.master, service.port, default)


def answers(service: Service, version: int | None) -> bool:
    """Whether this version, and no other, answers in each worker."""
    try:
        found = every_worker(service.master, service.port, lambda c: encode(c, "one"))
    except (OSError, AssertionError):
        return False
    return found == [version, version]


def hang_up(service: Service) -> None:
    os.kill(service.master, signal.SIGHUP)


def make_anew(place: Path, version: int) -> None:
    """Put a sound folder in the place of a spoiled one, at once."""
    shutil.rmtree(place, ignore_errors=True)
    write(place, version)


def test_a_file_that_is_replaced_changes_no_answer(tmp_path, full, record):
    place, version = tmp_path / "models" / "one", 1
    write(place, version)
    files = [name for name in FILES if (place / name).exists()]
    pairs = [(name, change) for name in files for change in REPLACEMENTS]
    pairs = pairs if full else pairs[::5]
    with running(tmp_path, models_dir=place.parent, model="one") as service:
        workers = service.workers()
        for name, change in pairs:
            change(place / name)
            assert answers(service, version)
            hang_up(service)
            until(lambda: all("problem" in one for one in state(service)))
            assert {one["status"] for one in state(service)} == {"loaded"}
            assert answers(service, version)
            version += 1
            make_anew(place, version)
            hang_up(service)
            until(lambda v=version: answers(service, v))
        assert service.workers() == workers
        assert "Traceback" not in service.log.read_text()
    record("fault", name="a file of a model is replaced", tried=len(pairs), lost=0)


def test_a_folder_that_is_deleted_answers_until_it_is_looked_for(tmp_path, record):
    place = tmp_path / "models" / "one"
    write(place, 1)
    with running(tmp_path, models_dir=place.parent, model="one") as service:
        workers = service.workers()

        shutil.rmtree(place)
        assert answers(service, 1)
        hang_up(service)
        until(lambda: answers(service, None))
        write(place, 2)
        hang_up(service)
        until(lambda: answers(service, 2))
        assert service.workers() == workers
    record("fault", name="a model is deleted", tried=1, lost=0)


def overwritten(file: Path) -> None:
    with file.open("r+b") as open_file:
        open_file.write(bytes(byte ^ 0x55 for byte in file.read_bytes()))


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def cut_in_half(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def refused(service: Service) -> bool:
    """Whether every worker says that the model is broken."""

    def question(connection) -> int:
        body = {"input": "apple", "model": "one"}
        status, document = ask(connection, "POST", "/v1/encode", body)
        return status == 503 and document["code"] == "broken_model"

    try:
        return every_worker(service.master, service.port, question) == [True, True]
    except (OSError, AssertionError):
        return False


def asked(service: Service) -> bool:
    """Whether a request gets an answer, whatever it says of what nobody has checked."""
    try:
        with connection_to(service.port) as connection:
            ask(connection, "POST", "/v1/encode", {"input": "apple", "model": "one"})
    except OSError:
        return False
    return True


@pytest.mark.parametrize("change", [overwritten, emptied, cut_in_half])
def test_a_file_that_is_changed_in_place_is_found_out_at_the_next_look(tmp_path, record, change):
    place, version, lost = tmp_path / "models" / "one", 1, 0
    write(place, version)
    with running(tmp_path, models_dir=place.parent, model="one") as service:
        for name in ("vectors.npy", "index.npy", "vocabulary.txt"):
            change(place / name)
            # What is mapped is not what was checked: until somebody looks, an answer may be wrong,
            # and reading what is there no more ends the worker (SIGBUS).
            for _ in range(4):
                lost += not asked(service)
            hang_up(service)
            until(lambda: refused(service))
            version += 1
            make_anew(place, version)
            hang_up(service)
            until(lambda v=version: answers(service, v))
    record(
        "fault",
        name=f"a mapped file is {change.__name__.replace('_', ' ')}",
        tried=3,
        lost=lost,
        inside=lost,
    )
