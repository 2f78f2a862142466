# ruff: noqa: SLF001 - gensim has no other way to be told where to look and what to show
"""Vectors from gensim-data, by gensim's own downloader."""

import io
import logging
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache, partial
from http.client import HTTPException, InvalidURL
from json import JSONDecodeError
from pathlib import Path
from typing import Any
from urllib.error import ContentTooShortError, HTTPError, URLError

from polyseme.importing.progress import Bar, Progress
from polyseme.importing.refusal import VectorFileError

_TIMEOUT = 60.0
"""Seconds without a byte after which a download has failed."""
_OFFLINE = (
    "gensim-data cannot be reached. On a machine with a network run `polyseme models pull` and"
    " copy the model's folder, or download the file of vectors there and `polyseme models import`"
    " it here; --mirror names another place that has list.json and NAME/NAME.gz."
)
_NO_INDEX = (
    "The list.json of gensim-data, or of the mirror, is not an index of vectors; --mirror names"
    " another place."
)
_NO_ADDRESS = "The mirror has to be an address that begins with https:// or http://."
_CUT = "The download was cut off; try again."
_MISSHAPEN = (KeyError, TypeError, AttributeError)
_MALFORMED = (JSONDecodeError, UnicodeDecodeError, RecursionError, *_MISSHAPEN)
_PLAIN_NAME = re.compile(r"\w[\w.-]*", re.ASCII)
"""The name of a file or folder that leads nowhere else, and can be shown at a terminal."""


def pulled(name: str, mirror: str | None, progress: Progress) -> tuple[Path, dict[str, Any]]:
    """Download the vectors of a name, unless they are there; return the file, and facts about it.

    What is downloaded stays in gensim's folder of data (`GENSIM_DATA_DIR`), so that a second time
    needs no download. Raises VectorFileError where it cannot be done.
    """
    from gensim import downloader  # noqa: PLC0415 - a second, for importing alone

    _make_folder(Path(downloader.BASE_DIR))
    with _settled(downloader, mirror):
        entry = _entry(downloader, name)
        with progress.stage("downloading", _integer(entry.get("file_size"))) as bar:
            path = _download(downloader, name, bar)
    folder = (Path(downloader.BASE_DIR) / name).resolve()
    if folder not in path.resolve().parents or not path.is_file():
        raise VectorFileError(
            "In gensim's folder of data the folder of this name lacks the file that the index"
            " names; remove that folder and try again."
        )
    facts = {"source": f"gensim-data {name}"}
    licence = entry.get("license")
    told = isinstance(licence, str) and licence.isprintable()
    return path, facts | ({"licence": licence} if told else {})


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise VectorFileError(
            "gensim's folder of data cannot be made; GENSIM_DATA_DIR names another."
        ) from None


def _entry(downloader: Any, name: str) -> dict[str, Any]:
    """What the index says of a name."""
    models, corpora = _index(downloader)
    if name in corpora:
        raise VectorFileError("gensim-data has a corpus of this name, not vectors.")
    if name not in models or not _PLAIN_NAME.fullmatch(name):
        some = [known for known in sorted(models) if _PLAIN_NAME.fullmatch(known)]
        listed = ", ".join([known for known in some if not known.startswith("__")][:20])
        raise VectorFileError(f"gensim-data has no such vectors; it has {listed or 'none'}.")
    entry = models[name]
    if not _PLAIN_NAME.fullmatch(str(entry.get("file_name"))):
        raise VectorFileError(_NO_INDEX)
    return entry


def _index(downloader: Any) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """The index: vectors and corpora. gensim falls back on the one it has kept."""
    try:
        index = downloader.info()
        return dict(index["models"]), dict(index["corpora"])
    except _MALFORMED:
        (Path(downloader.BASE_DIR) / "information.json").unlink(missing_ok=True)
        raise VectorFileError(_NO_INDEX) from None
    except InvalidURL:
        raise VectorFileError(_NO_ADDRESS) from None
    except HTTPException:
        raise VectorFileError(_CUT) from None
    except ValueError:
        raise VectorFileError(_OFFLINE) from None


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
        except Exception as error:
            told = _told(error)
            if told is None:
                raise
            raise VectorFileError(told) from None
        finally:
            tempfile.tempdir, downloader._progress = before
            shutil.rmtree(half, ignore_errors=True)


def _told(error: Exception) -> str | None:
    """What to say of a download that failed; None where it is no matter of the network."""
    if isinstance(error, HTTPError):
        return (
            f"The server answers {error.code} where the index says the file is; try again later, or"
            " name another place by --mirror."
        )
    if isinstance(error, ContentTooShortError | ConnectionError | TimeoutError | HTTPException):
        return _CUT
    if isinstance(error, URLError):
        return _OFFLINE
    if isinstance(error, (*_MISSHAPEN, ValueError)):
        return _NO_INDEX
    if "Checksum" in str(error):  # gensim has no class of its own for it
        return "What was downloaded has not the checksum that the index says; try again."
    return None


@contextmanager
def _settled(downloader: Any, mirror: str | None) -> Iterator[None]:
    """Point gensim's downloader where it is to look, for a while.

    It has no option for that, writes to standard output, where results belong, logs tracebacks
    and waits for ever.
    """
    if mirror is not None and not mirror.startswith(("http://", "https://")):
        raise VectorFileError(_NO_ADDRESS)
    base, load_info = downloader.DOWNLOAD_BASE_URL, downloader._load_info
    index = f"{mirror.rstrip('/')}/list.json" if mirror else downloader.DATA_LIST_URL
    logger, timeout = logging.getLogger(downloader.__name__), socket.getdefaulttimeout()
    disabled = logger.disabled
    downloader._load_info = cache(partial(load_info, index))  # it would ask four times
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
