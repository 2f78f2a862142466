# ruff: noqa: SLF001 - gensim's downloader has no public option for the address and the progress
"""Download vectors from gensim-data with gensim's downloader."""

import io
import logging
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import cache, partial
from http.client import HTTPException, InvalidURL
from json import JSONDecodeError
from pathlib import Path
from typing import Any
from urllib.error import ContentTooShortError, HTTPError, URLError

from polyseme.importing import ImportProblem
from polyseme.terminal import Progress, ProgressBar

_TIMEOUT = 60.0
"""Seconds without data after which a download fails."""
_OFFLINE = (
    "gensim-data cannot be reached. On a machine with network access, run `polyseme models pull`"
    " and copy the model's folder, or download the file of vectors and run `polyseme models import`"
    " here."
)
_INVALID_INDEX = "The list.json of gensim-data, or of the mirror, is not an index of vectors."
_INVALID_URL = "The mirror must be a URL that begins with https:// or http://."
_INCOMPLETE = "The download is incomplete; try again."
_UNEXPECTED_SHAPE = (KeyError, TypeError, AttributeError)
_MALFORMED = (JSONDecodeError, UnicodeDecodeError, RecursionError, *_UNEXPECTED_SHAPE)
_PLAIN_NAME = re.compile(r"\w[\w.-]*", re.ASCII)
"""A file name that stays in its folder and is safe to print."""


def download_vectors(
    name: str, mirror: str | None, progress: Progress
) -> tuple[Path, dict[str, Any]]:
    """Download a data set of vectors; return the path of the file and facts for the manifest.

    A file that is already in gensim's data folder (`GENSIM_DATA_DIR`) is not downloaded again.
    Raises ImportProblem if the download fails.
    """
    from gensim import downloader

    base = Path(downloader.BASE_DIR)
    created = not base.exists()
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise ImportProblem(
            "gensim's data folder cannot be created; set GENSIM_DATA_DIR to another one."
        ) from None
    try:
        with _configured(downloader, mirror):
            entry = _index_entry(downloader, name)
            size = entry.get("file_size")
            size = size if isinstance(size, int) and size > 0 else 0
            with progress.stage("downloading", size) as bar:
                path = _download(downloader, name, bar)
    finally:
        if created:
            with suppress(OSError):  # it is not empty
                base.rmdir()
    folder = (base / name).resolve()
    if folder not in path.resolve().parents or not path.is_file():
        raise ImportProblem(
            "The folder of this name in gensim's data folder lacks the file named in the index;"
            " remove the folder and try again."
        )
    licence = entry.get("license")
    known = isinstance(licence, str) and licence.isprintable()
    return path, {"source": f"gensim-data {name}", **({"licence": licence} if known else {})}


def _index_entry(downloader: Any, name: str) -> dict[str, Any]:
    """Return the entry of a data set in the index of gensim-data."""
    try:
        index = downloader.info()  # falls back to the cached copy
        models, corpora = dict(index["models"]), dict(index["corpora"])
    except _MALFORMED:
        (Path(downloader.BASE_DIR) / "information.json").unlink(missing_ok=True)
        raise ImportProblem(_INVALID_INDEX, "mirror") from None
    except InvalidURL:
        raise ImportProblem(_INVALID_URL) from None
    except HTTPException:
        raise ImportProblem(_INCOMPLETE) from None
    except ValueError:
        raise ImportProblem(_OFFLINE, "mirror") from None
    if name in corpora:
        raise ImportProblem("gensim-data has a corpus of this name, not vectors.")
    if name not in models or not _PLAIN_NAME.fullmatch(name):
        known = [other for other in sorted(models) if _PLAIN_NAME.fullmatch(other)]
        listed = ", ".join([other for other in known if not other.startswith("__")][:20])
        raise ImportProblem(f"gensim-data has no such vectors; it has {listed or 'none'}.")
    entry: dict[str, Any] = models[name]
    if not _PLAIN_NAME.fullmatch(str(entry.get("file_name"))):
        raise ImportProblem(_INVALID_INDEX, "mirror")
    return entry


def _download(downloader: Any, name: str, bar: ProgressBar) -> Path:
    """Download the file with gensim if it is missing; remove partial files on an interruption."""
    totals: dict[int, int] = {}

    def report(chunks: int, size: int, total: int, part: int = 0, **_: int) -> None:
        totals[part] = min(chunks * size, total) if total > 0 else chunks * size
        bar.reach(sum(totals.values()))

    partial_folder = Path(downloader.BASE_DIR) / f"{name}_tmp"
    shutil.rmtree(partial_folder, ignore_errors=True)  # gensim fails if the folder exists
    with tempfile.TemporaryDirectory(prefix="polyseme-") as folder:
        before = tempfile.tempdir, downloader._progress
        tempfile.tempdir, downloader._progress = folder, report
        try:
            return Path(downloader.load(name, return_path=True))
        except HTTPError as error:
            raise ImportProblem(
                f"The server responds with {error.code} to the request for the file; try again"
                " later.",
                "mirror",
            ) from None
        except (ContentTooShortError, ConnectionError, TimeoutError, HTTPException):
            raise ImportProblem(_INCOMPLETE) from None
        except URLError:
            raise ImportProblem(_OFFLINE, "mirror") from None
        except (*_UNEXPECTED_SHAPE, ValueError):
            raise ImportProblem(_INVALID_INDEX, "mirror") from None
        except Exception as error:
            if "Checksum" not in str(error):  # gensim raises a plain Exception
                raise
            raise ImportProblem(
                "The downloaded file does not have the checksum of the index; try again."
            ) from None
        finally:
            tempfile.tempdir, downloader._progress = before
            shutil.rmtree(partial_folder, ignore_errors=True)


@contextmanager
def _configured(downloader: Any, mirror: str | None) -> Iterator[None]:
    """Configure gensim's downloader for the duration of the context.

    The downloader has no option for the URL and no timeout, prints to standard output and logs
    tracebacks.
    """
    if mirror is not None and not mirror.startswith(("http://", "https://")):
        raise ImportProblem(_INVALID_URL)
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
