"""Reading a file as it is or out of .gz, .bz2, .xz or .zip, told apart by their first bytes."""

import bz2
import gzip
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from polyseme.importing.refusal import VectorFileError

MOST_EXPANSION = 100
"""How many times its size a file may expand to; vectors, text or binary, do not reach twenty."""
_HARMLESS = 64 << 20
"""Bytes up to which expansion harms nobody."""
_DAMAGE = (EOFError, OSError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
_OPENERS: dict[bytes, Callable[[Any], Any]] = {
    rb"\x1f\x8b\x08": gzip.open,
    rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)": bz2.open,  # of a block, or of the end of an empty file
    rb"\xfd7zXZ\0": lzma.open,
}
_DAMAGE_OF_ZIP = (RuntimeError, ValueError, LookupError, struct.error)
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # the second begins an empty one


@dataclass
class Plain:
    """The bytes of a file without its compression."""

    stream: IO[bytes]
    raw: IO[bytes]
    size: int
    """of the file, in bytes"""
    given: int = 0
    """how many bytes have been read, without compression"""

    @property
    def done(self) -> int:
        """How many bytes of the file itself have been read."""
        return min(self.raw.tell(), self.size)

    def read(self, count: int) -> bytes:
        """Read this many bytes; fewer at the end."""
        return self._counted(self.stream.read, count)

    def line(self, most: int) -> bytes:
        """Read a line, or its first bytes where it has more than `most`."""
        return self._counted(self.stream.readline, most)

    def _counted(self, take: Callable[[int], bytes], count: int) -> bytes:
        try:
            taken = take(count)
        except _DAMAGE:
            raise VectorFileError(
                f"The file is damaged or cut off: it cannot be expanded beyond byte {self.given}."
            ) from None
        self.given += len(taken)
        if self.given > _HARMLESS and self.given > MOST_EXPANSION * self.size:
            raise VectorFileError(
                f"The file expands to more than {MOST_EXPANSION} times its size, which no vectors"
                f" do (at byte {self.given}); expand it yourself if you trust it."
            )
        return taken


@contextmanager
def open_plain(path: Path, member: str | None = None) -> Iterator[Plain]:
    """Open a file; `member` names a file in a .zip, which is needed where there are several.

    Raises VectorFileError where it cannot be opened.
    """
    with ExitStack() as stack:
        try:
            _require_regular(path)
            raw = stack.enter_context(path.open("rb"))
            size = path.stat().st_size
        except OSError:
            raise VectorFileError("The file is not there, or may not be read.") from None
        yield Plain(stack.enter_context(_expanded(stack, raw, member)), raw, size)


def _require_regular(path: Path) -> None:
    """Refuse a pipe, which cannot be read twice, and whose opening may wait for ever."""
    if path.exists() and not path.is_file():
        raise VectorFileError(
            "The file is not a regular one; write what it gives into a file first."
        )


def _expanded(stack: ExitStack, raw: IO[bytes], member: str | None) -> IO[bytes]:
    head = raw.read(16)
    raw.seek(0)
    if head.startswith(_ZIP):
        return _member(stack, raw, member)
    if member is not None:
        raise VectorFileError("The file is no .zip, so it has no member to name.")
    for magic, opener in _OPENERS.items():
        if re.match(magic, head):
            stream: IO[bytes] = opener(raw)
            return stream
    return raw


def _member(stack: ExitStack, raw: IO[bytes], member: str | None) -> IO[bytes]:
    """The one file of a .zip, or the one that is named. Nothing is written under its names."""
    try:
        archive = stack.enter_context(zipfile.ZipFile(raw))
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        if member is None and len(names) != 1:
            listed = ", ".join(map(_shown, sorted(names)[:10])) or "none"
            raise VectorFileError(f"The .zip has {len(names)} files ({listed}): name one of them.")
        if member is not None and member not in names:
            raise VectorFileError("The .zip has no member of this name.")
        # Its own readline may give more of a line than it is asked for.
        return BufferedReader(archive.open(member or names[0]))  # type: ignore[type-var]
    except (*_DAMAGE, *_DAMAGE_OF_ZIP):  # encrypted, or packed in a rare way
        raise VectorFileError("The .zip is damaged, encrypted or packed in a rare way.") from None


def _shown(name: str) -> str:
    """A name that somebody put into a .zip, made short and harmless."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:60])
