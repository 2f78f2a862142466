"""Read text files: decompress in bounded memory, compute checksums, and sample paragraphs."""

import bz2
import gzip
import hashlib
import heapq
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from polyseme.errors import CommandError, install_command

OnRead: TypeAlias = Callable[[int], None]
"""A callback that receives the number of bytes just read from the file on disk."""
MAX_LINE_BYTES = 1 << 20
"""Maximum length of a line in bytes; a longer one is treated as several lines."""
MIN_WORDS = 4
"""Minimum number of words in a paragraph."""
_ZSTD_CHUNK_BYTES = 1 << 10
"""Bytes of a .zst to decompress at once, which expand to 32 MiB at most."""
_RANDOM_BLOCK = 65_536
"""Number of random numbers to generate at once."""


def sample_paragraphs(
    paths: Sequence[Path], words: int, seed: int, on_read: OnRead = lambda _: None
) -> list[str]:
    """Return a uniform sample of lines, in file order, with about `words` words in total.

    Lines with fewer than MIN_WORDS words are skipped. Each line gets a random key, and the lines
    with the smallest keys are kept, so memory does not depend on the size of the files.
    """
    kept: list[tuple[float, int, int, str]] = []
    held = 0
    lines = (line for path in paths for line in read_lines(path, on_read))
    for number, (line, key) in enumerate(zip(lines, _random_keys(seed), strict=False)):
        length = line.count(" ") + 1
        if length < MIN_WORDS or (held >= words and key >= -kept[0][0]):
            continue
        heapq.heappush(kept, (-key, number, length, line))
        held += length
        while held - kept[0][2] >= words:
            held -= heapq.heappop(kept)[2]
    return [line for _, _, _, line in sorted(kept, key=lambda one: one[1])]


def _random_keys(seed: int) -> Iterator[float]:
    rng = np.random.default_rng([seed, 0xC0])
    while True:
        yield from rng.random(_RANDOM_BLOCK).tolist()


def read_lines(path: Path, on_read: OnRead = lambda _: None) -> Iterator[str]:
    """Yield the lines of a UTF-8 file; invalid bytes become U+FFFD."""
    with open_decompressed(path, on_read) as file:
        while line := file.readline(MAX_LINE_BYTES):
            yield line.decode("utf-8", "replace")


def sha256(path: Path) -> str:
    """Return the sha256 of a file as stored on disk."""
    with _open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def open_decompressed(path: Path, on_read: OnRead = lambda _: None) -> Iterator[IO[bytes]]:
    """Open a file, plain or compressed (.gz, .bz2, .xz or .zst, detected by its first bytes).

    Raises CommandError if it does not exist, is not a regular file, or is damaged.
    """
    with _open_regular(path) as file:
        raw = io.BufferedReader(_Counted(file, on_read), 1 << 17)
        head = raw.peek(8)
        opener = next((o for magic, o in _OPENERS.items() if head.startswith(magic)), None)
        stream = raw if opener is None else opener(raw)
        try:
            yield stream
        except _decompression_errors():
            raise CommandError(f"{path.name}: the file is damaged or truncated.") from None


def _open_regular(path: Path) -> FileIO:
    """Open a regular file; reject a pipe, which cannot be read twice."""
    try:
        if path.is_file():
            return path.open("rb", buffering=0)
    except OSError:
        pass
    raise CommandError(f"{path.name}: the file does not exist or cannot be read.")


def _decompression_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that decompression raises for a damaged file."""
    errors = (EOFError, OSError, lzma.LZMAError, zlib.error)
    try:
        import zstandard
    except ImportError:
        return errors
    return (*errors, zstandard.ZstdError)


class _Counted(io.RawIOBase):
    """A file that calls `on_read` with the number of bytes read."""

    def __init__(self, file: IO[bytes], on_read: OnRead) -> None:
        self._file, self._on_read = file, on_read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._on_read(len(data))
        return len(data)


class _Zstd(io.RawIOBase):
    """The content of a .zst, frame by frame; zstandard's reader ignores a truncated end."""

    def __init__(self, file: IO[bytes], decompressor: Any) -> None:
        self._file, self._decompressor = file, decompressor
        self._frame: Any = None
        self._compressed = self._plain = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._plain and self._read_compressed():
            self._frame = self._frame or self._decompressor.decompressobj()
            self._plain = self._frame.decompress(self._compressed)
            self._compressed = self._frame.unused_data if self._frame.eof else b""
            self._frame = None if self._frame.eof else self._frame
        data, self._plain = self._plain[: len(buffer)], self._plain[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def _read_compressed(self) -> bool:
        """Return whether there is compressed data; raise EOFError if a frame is truncated."""
        self._compressed = self._compressed or self._file.read(_ZSTD_CHUNK_BYTES)
        if not self._compressed and self._frame is not None:
            raise EOFError
        return bool(self._compressed)


def _zstd(raw: IO[bytes]) -> IO[bytes]:
    try:
        import zstandard
    except ImportError:
        raise CommandError(
            f"Reading .zst needs zstandard: {install_command('train')}; or decompress the file."
        ) from None
    return io.BufferedReader(_Zstd(raw, zstandard.ZstdDecompressor()), 1 << 17)


_OPENERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b\x08": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
    b"\x28\xb5\x2f\xfd": _zstd,
}
