"""Text files: decompressed on the fly in bounded memory, hashed, and sampled by paragraph."""

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

from polyseme.command_error import CommandError

OnRead: TypeAlias = Callable[[int], None]
"""Called with the number of bytes of the file on disk that were read."""
LONGEST_LINE = 1 << 20
"""Bytes of a line; a longer one counts as several lines."""
SHORTEST = 4
"""Words of the shortest paragraph that can serve as context."""
_PACKED = 1 << 10
"""Bytes of a .zst that are expanded at once; hostile ones become 32 MiB."""
_DRAWN = 65_536
"""Random numbers generated at once."""


def sample_paragraphs(
    paths: Sequence[Path], words: int, seed: int, on_read: OnRead = lambda _: None
) -> list[str]:
    """Sample lines with `words` words in total, in the order of the files.

    Each line gets a random key, and those with the smallest keys are kept. All lines are equally
    likely wherever they are, and memory is bounded however long the files are.
    """
    kept: list[tuple[float, int, int, str]] = []
    held = 0
    lines = (line for path in paths for line in read_lines(path, on_read))
    for number, (line, key) in enumerate(zip(lines, _random_keys(seed), strict=False)):
        length = line.count(" ") + 1
        if length < SHORTEST or (held >= words and key >= -kept[0][0]):
            continue
        heapq.heappush(kept, (-key, number, length, line))
        held += length
        while held - kept[0][2] >= words:
            held -= heapq.heappop(kept)[2]
    return [line for _, _, _, line in sorted(kept, key=lambda one: one[1])]


def _random_keys(seed: int) -> Iterator[float]:
    rng = np.random.default_rng([seed, 0xC0])
    while True:
        yield from rng.random(_DRAWN).tolist()


def read_lines(path: Path, on_read: OnRead = lambda _: None) -> Iterator[str]:
    """Yield the lines of a UTF-8 file; invalid bytes become U+FFFD."""
    with open_decompressed(path, on_read) as file:
        while line := file.readline(LONGEST_LINE):
            yield line.decode("utf-8", "replace")


def sha256(path: Path) -> str:
    """The sha256 of a file as it is on disk."""
    with _open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def open_decompressed(path: Path, on_read: OnRead = lambda _: None) -> Iterator[IO[bytes]]:
    """Open a file, plain or .gz, .bz2, .xz or .zst, told apart by its first bytes.

    Raises CommandError if it does not exist, is not a regular file, or is damaged.
    """
    with _open_regular(path) as file:
        raw = io.BufferedReader(_Counted(file, on_read), 1 << 17)
        head = raw.peek(8)
        opener = next((o for magic, o in _OPENERS.items() if head.startswith(magic)), None)
        stream = raw if opener is None else opener(raw)
        try:
            yield stream
        except _damage():
            raise CommandError(f"{path.name}: the file is damaged or cut off.") from None


def _open_regular(path: Path) -> FileIO:
    """Open a file, but not a pipe, which cannot be read twice."""
    try:
        if path.is_file():
            return path.open("rb", buffering=0)
    except OSError:
        pass
    raise CommandError(f"{path.name}: no such file, or it may not be read.")


def _damage() -> tuple[type[Exception], ...]:
    """The exceptions that decompression raises for a damaged file."""
    found = (EOFError, OSError, lzma.LZMAError, zlib.error)
    try:
        import zstandard  # noqa: PLC0415 - an extra
    except ImportError:
        return found
    return (*found, zstandard.ZstdError)


class _Counted(io.RawIOBase):
    """A file that reports how many bytes are read."""

    def __init__(self, file: IO[bytes], on_read: OnRead) -> None:
        self._file, self._on_read = file, on_read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        taken = self._file.read(len(buffer))
        buffer[: len(taken)] = taken
        self._on_read(len(taken))
        return len(taken)


class _Zstd(io.RawIOBase):
    """The text of a .zst, frame by frame; zstandard's own reader ignores a truncated end."""

    def __init__(self, file: IO[bytes], decompressor: Any) -> None:
        self._file, self._decompressor = file, decompressor
        self._frame: Any = None
        self._packed = self._plain = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._plain and self._more():
            self._frame = self._frame or self._decompressor.decompressobj()
            self._plain = self._frame.decompress(self._packed)
            self._packed = self._frame.unused_data if self._frame.eof else b""
            self._frame = None if self._frame.eof else self._frame
        taken, self._plain = self._plain[: len(buffer)], self._plain[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)

    def _more(self) -> bool:
        """Whether there are packed bytes; raise EOFError if a frame has no end."""
        self._packed = self._packed or self._file.read(_PACKED)
        if not self._packed and self._frame is not None:
            raise EOFError
        return bool(self._packed)


def _zstd(raw: IO[bytes]) -> IO[bytes]:
    try:
        import zstandard  # noqa: PLC0415 - an extra
    except ImportError:
        raise CommandError(
            "Reading .zst needs zstandard: pip install 'polyseme[train]', or expand the file."
        ) from None
    return io.BufferedReader(_Zstd(raw, zstandard.ZstdDecompressor()), 1 << 17)


_OPENERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b\x08": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
    b"\x28\xb5\x2f\xfd": _zstd,
}
