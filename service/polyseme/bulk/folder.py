"""The folder that shards go into: who writes there, which job it is, and what is done."""

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import orjson

from polyseme.bulk.refusal import BulkError
from polyseme.whole_files import BEGUN, write_whole

MANIFEST = "_bulk.json"
"""Begins as files do that readers of a folder of Parquet leave aside."""
_LOCK = "_lock"
_SHARD = re.compile(r"part-\d{5,}\.(?:parquet|npz)")


@contextmanager
def claimed(folder: Path, document: dict[str, Any]) -> Iterator[None]:
    """Hold the folder for one job; raise BulkError where it is another's, or held by another run.

    A run that went before may have left half-written files: they go.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with folder.joinpath(_LOCK).open("a") as lock:
        _hold(lock)
        _require_same(folder, document)
        clear(folder)
        try:
            yield
        finally:
            clear(folder)


def _hold(lock: IO[str]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BulkError("Another run is writing into this folder: wait until it ends.") from None
    except OSError:
        pass  # a file system without locks; two runs of one job write the same bytes


def _require_same(folder: Path, document: dict[str, Any]) -> None:
    """Note the job in a fresh folder; refuse one that has another job's shards, or other files."""
    place = folder / MANIFEST
    if place.exists():
        try:
            found = orjson.loads(place.read_bytes())
            before = found.pop("job")
        except (ValueError, TypeError, KeyError, AttributeError):
            raise BulkError(f"{MANIFEST} in the folder is damaged: give another folder.") from None
        if before != orjson.loads(orjson.dumps(document)):
            raise BulkError(
                f"The folder holds another job's shards ({_other(before, document)}): give another"
                " folder, or remove it."
            )
        return
    others = [one for one in folder.iterdir() if one.name not in {_LOCK, MANIFEST}]
    if any(not one.name.startswith(BEGUN) for one in others):
        raise BulkError("The folder holds other files: give one that is empty or not there yet.")
    note(folder, document, None)


def _other(before: dict[str, Any], now: dict[str, Any]) -> str:
    """What two jobs differ in."""
    return "other " + " and ".join(sorted(name for name in now if before.get(name) != now[name]))


def note(folder: Path, document: dict[str, Any], totals: dict[str, Any] | None) -> None:
    """Write down which job the folder is for, and at the end what is in it."""
    style = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    told = {"complete": totals is not None, **({"totals": totals} if totals else {})}
    write_whole(folder / MANIFEST, orjson.dumps({"job": document, **told}, option=style))


def shard_path(folder: Path, number: int, kind: str) -> Path:
    """Where a shard goes."""
    return folder / f"part-{number:05}.{kind}"


def finished(folder: Path) -> set[str]:
    """The names of the shards that are there."""
    return {one.name for one in folder.iterdir() if _SHARD.fullmatch(one.name)}


def clear(folder: Path) -> None:
    """Remove what was never finished."""
    for one in folder.glob(f"{BEGUN}*"):
        one.unlink(missing_ok=True)
