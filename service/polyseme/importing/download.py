"""Download vectors from gensim-data into gensim's data folder."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse, IncompleteRead, InvalidURL
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from polyseme.atomic_files import atomic_write
from polyseme.importing.options import ImportProblem
from polyseme.progress import Progress, ProgressBar

_TIMEOUT = 60.0
"""Seconds without data after which a download fails."""
_BLOCK = 1 << 18
_INVALID_INDEX = "The list.json of gensim-data, or of the mirror, is not an index of vectors."
_INVALID_URL = "The mirror must be a URL that begins with https:// or http://."
_MALFORMED = (ValueError, RecursionError, KeyError, TypeError, AttributeError)
_PLAIN_NAME = re.compile(r"\w[\w.-]*", re.ASCII)
"""A file name that stays in its folder and is safe to print."""


def download_vectors(
    name: str, mirror: str | None, progress: Progress
) -> tuple[Path, dict[str, Any]]:
    """Download a data set of vectors; return the path of the file and facts for the manifest.

    A file that is already in gensim's data folder (`GENSIM_DATA_DIR`) is not downloaded again, and
    without a network, the last index is used. Raises ImportProblem if the download fails.
    """
    from gensim import downloader

    if mirror is not None and not mirror.startswith(("http://", "https://")):
        raise ImportProblem(_INVALID_URL)
    mirror = mirror and mirror.rstrip("/")
    base = Path(downloader.BASE_DIR)
    index_url = f"{mirror}/list.json" if mirror else downloader.DATA_LIST_URL
    entry = _index_entry(name, index_url, base / "information.json")
    folder = base / name
    if not folder.exists():
        size = entry.get("file_size")
        size = size if isinstance(size, int) and size > 0 else 0
        with progress.stage("downloading", size) as bar:
            _download(f"{mirror or downloader.DOWNLOAD_BASE_URL}/{name}", folder, entry, bar)
    path = folder / entry["file_name"]
    if not path.is_file():
        raise ImportProblem(
            "The folder of this name in gensim's data folder lacks the file named in the index;"
            " remove the folder and try again."
        )
    licence = entry.get("license")
    known = isinstance(licence, str) and licence.isprintable()
    return path, {"source": f"gensim-data {name}", **({"licence": licence} if known else {})}


def _index_entry(name: str, url: str, cache: Path) -> dict[str, Any]:
    """Return the entry of a data set in the index of gensim-data, and cache a valid index."""
    try:
        with _opened(url) as response:
            content = response.read()
    except ImportProblem:
        if not cache.exists():
            raise
        content = cache.read_bytes()
    try:
        index = json.loads(content)
        models, corpora = (
            {one: entry for one, entry in index[kind].items() if entry.get("latest", True)}
            for kind in ("models", "corpora")
        )
    except _MALFORMED:
        raise ImportProblem(_INVALID_INDEX, "mirror") from None
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise ImportProblem(
            "gensim's data folder cannot be created; set GENSIM_DATA_DIR to another one."
        ) from None
    atomic_write(cache, content)
    if name in corpora:
        raise ImportProblem("gensim-data has a corpus of this name, not vectors.")
    if name not in models or not _PLAIN_NAME.fullmatch(name):
        known = [other for other in sorted(models) if _PLAIN_NAME.fullmatch(other)]
        listed = ", ".join([other for other in known if not other.startswith("__")][:20])
        raise ImportProblem(f"gensim-data has no such vectors; it has {listed or 'none'}.")
    entry: dict[str, Any] = models[name]
    if not _PLAIN_NAME.fullmatch(str(entry.get("file_name", ""))):
        raise ImportProblem(_INVALID_INDEX, "mirror")
    return entry


def _download(url: str, folder: Path, entry: dict[str, Any], bar: ProgressBar) -> None:
    """Download the files of a data set into a folder, which appears complete or not at all.

    A large file has parts. gensim imports the other file; Polyseme does not.
    """
    try:
        count = entry["parts"]
        names = ["checksum"] if count <= 1 else [f"checksum-{part}" for part in range(count)]
        checksums = [entry[name] for name in names]
    except (KeyError, TypeError):
        raise ImportProblem(_INVALID_INDEX, "mirror") from None
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        new = Path(scratch) / "new"
        new.mkdir()
        _append(f"{url}/__init__.py", new / "__init__.py", ProgressBar())
        for part, checksum in enumerate(checksums):
            suffix = f"_0{part}" if len(checksums) > 1 else ""
            part_url = f"{url}/{folder.name}.gz{suffix}"
            if _append(part_url, new / entry["file_name"], bar) != checksum:
                raise ImportProblem(
                    "The downloaded file does not have the checksum of the index; try again."
                )
        new.rename(folder)


def _append(url: str, path: Path, bar: ProgressBar) -> str:
    """Append the content of a URL to a file; return its MD5 checksum."""
    digest = hashlib.md5(usedforsecurity=False)
    with _opened(url) as response, path.open("ab") as file:
        while block := response.read(_BLOCK):
            file.write(block)
            digest.update(block)
            bar.advance(len(block))
        if response.length:  # the connection ended before
            raise IncompleteRead(b"", response.length)
    return digest.hexdigest()


@contextmanager
def _opened(url: str) -> Iterator[HTTPResponse]:
    try:
        with urlopen(url, timeout=_TIMEOUT) as response:  # noqa: S310 - http and https only
            yield response
    except (InvalidURL, ValueError):
        raise ImportProblem(_INVALID_URL) from None
    except HTTPError as error:
        error.close()
        raise ImportProblem(
            f"The server responds with {error.code} to the request for the file; try again later.",
            "mirror",
        ) from None
    except (HTTPException, ConnectionError, TimeoutError):
        raise ImportProblem("The download is incomplete; try again.") from None
    except URLError:
        raise ImportProblem(
            "gensim-data cannot be reached. On a machine with network access, run `polyseme models"
            " pull` and copy the model's folder, or download the file of vectors and run `polyseme"
            " models import` here.",
            "mirror",
        ) from None
