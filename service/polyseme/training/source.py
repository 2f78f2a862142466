"""Files of text to learn from: read in bounded memory, out of their compression, with a digest."""

import bz2
import gzip
import hashlib
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import IO, Any, TypeAlias

from polyseme.training.refusal import TrainingError

_PACKED = 1 << 10
"""Bytes of a .zst that are expanded at one time; hostile ones become 32 MiB."""
Read: TypeAlias = Callable[[int], None]
"""Is told how many more bytes of a file, as it lies on the disk, have been read."""
LONGEST_LINE = 1 << 20
"""Bytes of a line that are taken at once; what is longer counts as several lines."""


def _zstd(raw: IO[bytes]) -> IO[bytes]:
    try:
        import zstandard  # noqa: PLC0415 - an extra
    except ImportError:
        raise TrainingError(
            "Reading .zst needs zstandard: pip install 'polyseme[train]', or expand the file."
        ) from None
    return io.BufferedReader(_Zstd(raw, zstandard.ZstdDecompressor()), 1 << 17)


class _Zstd(io.RawIOBase):
    """The text of a .zst, frame after frame; zstandard's own reader passes over a cut-off end."""

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
        """Whether there are packed bytes; raise EOFError where a frame has no end."""
        self._packed = self._packed or self._file.read(_PACKED)
        if not self._packed and self._frame is not None:
            raise EOFError
        return bool(self._packed)


_OPENERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b\x08": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
    b"\x28\xb5\x2f\xfd": _zstd,
}


class _Counted(io.RawIOBase):
    """A file that tells how much of it is read."""

    def __init__(self, file: IO[bytes], read: Read) -> None:
        self._file, self._told = file, read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        taken = self._file.read(len(buffer))
        buffer[: len(taken)] = taken
        self._told(len(taken))
        return len(taken)


@contextmanager
def expanded(path: Path, read: Read = lambda _: None) -> Iterator[IO[bytes]]:
    """Open a file, plain or .gz, .bz2, .xz or .zst, told apart by its first bytes.

    Raises TrainingError where it is not there, not a regular file, or damaged.
    """
    with _regular(path) as file:
        raw = io.BufferedReader(_Counted(file, read), 1 << 17)
        head = raw.peek(8)
        opener = next((o for magic, o in _OPENERS.items() if head.startswith(magic)), None)
        stream = raw if opener is None else opener(raw)
        try:
            yield stream
        except _damage():
            raise TrainingError(f"{path.name}: the file is damaged or cut off.") from None


def _regular(path: Path) -> FileIO:
    """Refuse what is not there, and a pipe, which cannot be read twice."""
    try:
        if path.is_file():
            return path.open("rb", buffering=0)
    except OSError:
        pass
    raise TrainingError(f"{path.name}: no such file, or it may not be read.")


def _damage() -> tuple[type[Exception], ...]:
    """What the readers raise of a file that is not whole."""
    found = (EOFError, OSError, lzma.LZMAError, zlib.error)
    try:
        import zstandard  # noqa: PLC0415 - an extra
    except ImportError:
        return found
    return (*found, zstandard.ZstdError)


def lines(path: Path, read: Read = lambda _: None) -> Iterator[str]:
    """Yield the lines of a text in UTF-8; bytes that are none become U+FFFD."""
    with expanded(path, read) as file:
        while line := file.readline(LONGEST_LINE):
            yield line.decode("utf-8", "replace")


def digest(path: Path) -> str:
    """The sha256 of a file as it is."""
    with _regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
