# ruff: noqa: SLF001 - gensim has no other way to be told where to look and what to show
"""Vectors from gensim-data, by gensim's own downloader."""

import io
import logging
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

from service.importing.progress import Bar, Progress
from service.importing.refusal import VectorFileError

_TIMEOUT = 60.0
"""Seconds without a byte after which a download has failed."""
_OFFLINE = (
    "gensim-data cannot be reached. On a machine with a network run `polyseme models pull` and"
    " copy the model's folder, or download the file of vectors there and `polyseme models import`"
    " it here; --mirror names another place that has list.json and NAME/NAME.gz."
)


def pulled(name: str, mirror: str | None, progress: Progress) -> tuple[Path, dict[str, Any]]:
    """Download the vectors of a name, unless they are there; return the file, and facts about it.

    What is downloaded stays in gensim's folder of data (`GENSIM_DATA_DIR`), so that a second time
    needs no download. Raises VectorFileError where it cannot be done.
    """
    from gensim import downloader  # noqa: PLC0415 - a second, for importing alone

    with _settled(downloader, mirror):
        entry = _entry(downloader, name)
        with progress.stage("downloading", _integer(entry.get("file_size"))) as bar:
            path = _download(downloader, name, bar)
    folder = (Path(downloader.BASE_DIR) / name).resolve()
    if folder not in path.resolve().parents or not path.is_file():
        raise VectorFileError("The index of gensim-data names a file that was not downloaded.")
    facts = {"source": f"gensim-data {name}"}
    licence = entry.get("license")
    return path, facts | ({"licence": licence} if isinstance(licence, str) else {})


def _entry(downloader: Any, name: str) -> dict[str, Any]:
    """What the index says of a name."""
    try:
        index = downloader.info()
        models, corpora = dict(index["models"]), dict(index["corpora"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise VectorFileError(_OFFLINE) from None
    if name in corpora:
        raise VectorFileError("gensim-data has a corpus of this name, not vectors.")
    if not isinstance(models.get(name), dict):
        some = ", ".join(sorted(known for known in models if not known.startswith("__"))[:20])
        raise VectorFileError(f"gensim-data has no vectors of this name; it has {some}.")
    entry: dict[str, Any] = models[name]
    return entry


def _download(downloader: Any, name: str, bar: Bar) -> Path:
    """Have gensim download, where it has not; an interrupted one leaves nothing behind."""
    totals: dict[int, int] = {}

    def report(chunks: int, size: int, total: int, part: int = 0, total_parts: int = 1) -> None:  # noqa: ARG001
        totals[part] = min(chunks * size, total) if total > 0 else chunks * size
        bar.reach(sum(totals.values()))

    half = Path(downloader.BASE_DIR) / f"{name}_tmp"
    shutil.rmtree(half, ignore_errors=True)  # gensim stumbles over what an interruption left
    with tempfile.TemporaryDirectory(prefix="polyseme-") as folder:
        before = tempfile.tempdir, downloader._progress
        tempfile.tempdir, downloader._progress = folder, report
        try:
            return Path(downloader.load(name, return_path=True))
        except (OSError, ValueError, KeyError, TypeError, HTTPException):
            raise VectorFileError(_OFFLINE) from None
        except Exception:  # noqa: BLE001 - gensim raises this very class for a wrong checksum
            raise VectorFileError(
                "What was downloaded has another checksum than the index of gensim-data says; try"
                " again."
            ) from None
        finally:
            tempfile.tempdir, downloader._progress = before
            shutil.rmtree(half, ignore_errors=True)


@contextmanager
def _settled(downloader: Any, mirror: str | None) -> Iterator[None]:
    """Point gensim's downloader where it is to look, for a while.

    It has no option for that, writes to standard output, where results belong, logs tracebacks
    and waits for ever.
    """
    if mirror is not None and not mirror.startswith(("http://", "https://")):
        raise VectorFileError(
            "The mirror has to be an address that begins with https:// or http://."
        )
    base, load_info = downloader.DOWNLOAD_BASE_URL, downloader._load_info
    index = f"{mirror.rstrip('/')}/list.json" if mirror else downloader.DATA_LIST_URL
    logger, timeout = logging.getLogger(downloader.__name__), socket.getdefaulttimeout()
    disabled = logger.disabled
    downloader._load_info = partial(load_info, index)
    downloader.DOWNLOAD_BASE_URL = mirror.rstrip("/") if mirror else base
    logger.disabled = True
    socket.setdefaulttimeout(_TIMEOUT)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        downloader._load_info, downloader.DOWNLOAD_BASE_URL = load_info, base
        logger.disabled = disabled
        socket.setdefaulttimeout(timeout)


def _integer(size: object) -> int:
    return size if isinstance(size, int) and size > 0 else 0
