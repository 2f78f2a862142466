"""Files of text and archives, plain or compressed."""

import bz2
import gzip
import hashlib
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

from polyseme.errors import CommandError, install_command

OnRead: TypeAlias = Callable[[int], None]
"""A callback that receives the number of bytes just read from the file on disk."""
_MAX_MEMBER_BYTES = 512 << 20
_DAMAGE = (EOFError, OSError, lzma.LZMAError, zlib.error, tarfile.TarError)


def read_lines(path: Path, on_read: OnRead = lambda _: None) -> Iterator[str]:
    """Yield the lines of a UTF-8 file; invalid bytes become U+FFFD."""
    with open_decompressed(path, on_read) as file:
        for line in file:
            yield line.decode("utf-8", "replace")


def read_text_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file without their ends; raise CommandError for other bytes."""
    with open_decompressed(path) as file:
        return split_lines(file.read(), path.name)


def split_lines(data: bytes, name: str) -> list[str]:
    """Return the lines of UTF-8 text; raise CommandError for other bytes."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CommandError(f"{name} is not UTF-8 text.") from None
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_archive(
    path: Path, endings: tuple[str, ...], on_read: OnRead = lambda _: None
) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the files of a tar archive whose names end so.

    Nothing is extracted to disk. Raises CommandError for an archive that is damaged
    or has a file that is too large.
    """
    with (
        open_decompressed(path, on_read) as stream,
        tarfile.open(fileobj=stream, mode="r|") as tar,
    ):
        for member in tar:
            if member.size > _MAX_MEMBER_BYTES:
                limit = f"{_MAX_MEMBER_BYTES >> 20} MiB"
                sentence = f"{path.name} has a file of more than {limit}, unlike any data set."
                raise CommandError(sentence)
            file = tar.extractfile(member) if member.isfile() else None
            if file is not None and member.name.endswith(endings):
                yield member.name, file.read()
        while stream.read(1 << 20):
            pass  # the checksum is at the end of the stream


def sha256(path: Path) -> str:
    """Return the sha256 of a file as stored on disk."""
    with _CountedFile(path, lambda _: None) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def open_decompressed(path: Path, on_read: OnRead = lambda _: None) -> Iterator[IO[bytes]]:
    """Open a file, plain or compressed (.gz, .bz2, .xz or .zst, detected by its first bytes).

    Raises CommandError if it does not exist, is not a regular file, or is damaged.
    """
    with _CountedFile(path, on_read) as file:
        raw = io.BufferedReader(file, 1 << 17)
        head = raw.peek(8)
        opener = next((o for magic, o in _OPENERS.items() if head.startswith(magic)), None)
        stream = raw if opener is None else opener(raw)
        try:
            yield stream
        except _DAMAGE:
            raise CommandError(f"{path.name}: the file is damaged or truncated.") from None


class _CountedFile(io.FileIO):
    """A regular file; calls `on_read` with the number of bytes read."""

    def __init__(self, path: Path, on_read: OnRead) -> None:
        if not path.is_file():  # a pipe cannot be read twice
            raise CommandError(f"{path.name}: the file does not exist or cannot be read.")
        super().__init__(path)
        self._on_read = on_read

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer) or 0
        self._on_read(count)
        return count


def _zstd(raw: IO[bytes]) -> IO[bytes]:
    try:
        import pyarrow as pa
    except ImportError:
        raise CommandError(
            f"Reading .zst needs pyarrow: {install_command('train')}; or decompress the file."
        ) from None
    return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(raw), "zstd"), 1 << 17)


_OPENERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b\x08": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
    b"\x28\xb5\x2f\xfd": _zstd,
}
