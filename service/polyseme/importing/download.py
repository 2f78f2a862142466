# ruff: noqa: SLF001 - gensim's downloader has no public option for the address and the progress
"""Downloading vectors from gensim-data with gensim's own downloader."""

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

from polyseme.command_error import CommandError
from polyseme.progress import Progress, ProgressBar

_TIMEOUT = 60.0
"""Seconds without a byte after which a download fails."""
_OFFLINE = (
    "gensim-data cannot be reached. On a machine with a network run `polyseme models pull` and"
    " copy the model's folder, or download the file of vectors there and run `polyseme models"
    " import` here; --mirror names another server with list.json and NAME/NAME.gz."
)
_NO_INDEX = (
    "The list.json of gensim-data, or of the mirror, is not an index of vectors; --mirror names"
    " another one."
)
_NO_ADDRESS = "The mirror has to be an address that begins with https:// or http://."
_CUT = "The download is incomplete; try again."
_MISSHAPEN = (KeyError, TypeError, AttributeError)
_MALFORMED = (JSONDecodeError, UnicodeDecodeError, RecursionError, *_MISSHAPEN)
_PLAIN_NAME = re.compile(r"\w[\w.-]*", re.ASCII)
"""A file name that stays in its folder and is safe to print."""


def download_vectors(
    name: str, mirror: str | None, progress: Progress
) -> tuple[Path, dict[str, Any]]:
    """Download a data set of vectors; return the file, and facts for the manifest.

    The file stays in gensim's data folder (`GENSIM_DATA_DIR`), and is not downloaded again. Raises
    CommandError if the download fails.
    """
    from gensim import downloader  # noqa: PLC0415 - takes a second

    try:
        Path(downloader.BASE_DIR).mkdir(parents=True, exist_ok=True)
    except OSError:
        raise CommandError(
            "gensim's data folder cannot be created; GENSIM_DATA_DIR names another one."
        ) from None
    with _configured(downloader, mirror):
        entry = _index_entry(downloader, name)
        size = entry.get("file_size")
        size = size if isinstance(size, int) and size > 0 else 0
        with progress.stage("downloading", size) as bar:
            path = _download(downloader, name, bar)
    folder = (Path(downloader.BASE_DIR) / name).resolve()
    if folder not in path.resolve().parents or not path.is_file():
        raise CommandError(
            "The folder of this name in gensim's data folder lacks the file that the index"
            " names; remove the folder and try again."
        )
    facts = {"source": f"gensim-data {name}"}
    licence = entry.get("license")
    known = isinstance(licence, str) and licence.isprintable()
    return path, facts | ({"licence": licence} if known else {})


def _index_entry(downloader: Any, name: str) -> dict[str, Any]:
    """The entry of a data set in the index of gensim-data."""
    try:
        index = downloader.info()  # falls back to the cached copy
        models, corpora = dict(index["models"]), dict(index["corpora"])
    except _MALFORMED:
        (Path(downloader.BASE_DIR) / "information.json").unlink(missing_ok=True)
        raise CommandError(_NO_INDEX) from None
    except InvalidURL:
        raise CommandError(_NO_ADDRESS) from None
    except HTTPException:
        raise CommandError(_CUT) from None
    except ValueError:
        raise CommandError(_OFFLINE) from None
    if name in corpora:
        raise CommandError("gensim-data has a corpus of this name, not vectors.")
    if name not in models or not _PLAIN_NAME.fullmatch(name):
        some = [known for known in sorted(models) if _PLAIN_NAME.fullmatch(known)]
        listed = ", ".join([known for known in some if not known.startswith("__")][:20])
        raise CommandError(f"gensim-data has no such vectors; it has {listed or 'none'}.")
    entry: dict[str, Any] = models[name]
    if not _PLAIN_NAME.fullmatch(str(entry.get("file_name"))):
        raise CommandError(_NO_INDEX)
    return entry


def _download(downloader: Any, name: str, bar: ProgressBar) -> Path:
    """Have gensim download the file if it is missing; an interruption leaves nothing behind."""
    totals: dict[int, int] = {}

    def report(chunks: int, size: int, total: int, part: int = 0, total_parts: int = 1) -> None:  # noqa: ARG001
        totals[part] = min(chunks * size, total) if total > 0 else chunks * size
        bar.reach(sum(totals.values()))

    half = Path(downloader.BASE_DIR) / f"{name}_tmp"
    shutil.rmtree(half, ignore_errors=True)  # gensim fails if an interrupted download left it
    with tempfile.TemporaryDirectory(prefix="polyseme-") as folder:
        before = tempfile.tempdir, downloader._progress
        tempfile.tempdir, downloader._progress = folder, report
        try:
            return Path(downloader.load(name, return_path=True))
        except Exception as error:
            sentence = _explanation(error)
            if sentence is None:
                raise
            raise CommandError(sentence) from None
        finally:
            tempfile.tempdir, downloader._progress = before
            shutil.rmtree(half, ignore_errors=True)


def _explanation(error: Exception) -> str | None:
    """Why a download failed; None if the network is not the reason."""
    if isinstance(error, HTTPError):
        return (
            f"The server responds with {error.code} to the request for the file; try again later,"
            " or name another mirror by --mirror."
        )
    if isinstance(error, ContentTooShortError | ConnectionError | TimeoutError | HTTPException):
        return _CUT
    if isinstance(error, URLError):
        return _OFFLINE
    if isinstance(error, (*_MISSHAPEN, ValueError)):
        return _NO_INDEX
    if "Checksum" in str(error):  # gensim raises a plain Exception
        return "The downloaded file does not have the checksum of the index; try again."
    return None


@contextmanager
def _configured(downloader: Any, mirror: str | None) -> Iterator[None]:
    """Configure gensim's downloader for the duration of the context.

    It has no option for the address, prints to standard output, logs tracebacks, and has no
    timeout.
    """
    if mirror is not None and not mirror.startswith(("http://", "https://")):
        raise CommandError(_NO_ADDRESS)
    base, load_info = downloader.DOWNLOAD_BASE_URL, downloader._load_info
    index = f"{mirror.rstrip('/')}/list.json" if mirror else downloader.DATA_LIST_URL
    logger, timeout = logging.getLogger(downloader.__name__), socket.getdefaulttimeout()
    disabled = logger.disabled
    downloader._load_info = cache(partial(load_info, index))  # gensim fetches it four times
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
