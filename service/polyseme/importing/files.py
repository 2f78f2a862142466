"""Files of vectors, plain or compressed, and the signatures of other formats."""

import bz2
import gzip
import lzma
import re
import struct
import zipfile
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from polyseme.importing import ImportProblem

HEAD_BYTES = 3 << 20
"""Number of bytes from which the format is detected: more than the longest line."""
MAX_COMPRESSION_RATIO = 100
"""Maximum ratio of decompressed to compressed size; that of real vectors is below 20."""
_MIN_CHECKED_BYTES = 64 << 20
"""The ratio is not checked up to this number of decompressed bytes."""
_OPENERS: dict[bytes, Callable[[Any], Any]] = {
    rb"\x1f\x8b\x08": gzip.open,
    rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)": bz2.open,  # start of a block, or end of an empty file
    rb"\xfd7zXZ\0": lzma.open,
}
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # the second starts an empty archive
_DECOMPRESSION_ERRORS = (EOFError, OSError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
_ZIP_ERRORS = (*_DECOMPRESSION_ERRORS, RuntimeError, ValueError, LookupError, struct.error)
_PICKLE = re.compile(
    rb"\x80[\x02-\x05][^\0]"  # an old fastText file of dimension 640 begins with 80 02 00 00
    rb"|c\w[\w.]*\n\w[\w.]*\n|\([dl]p\d+\n|\([VSIFLi][^ \n]*\n|[\]}]q\0[^\0]|\(X.\0\0\0",
    re.DOTALL,
)
_ARRAY = "a NumPy array; save words and vectors as word2vec, with gensim's KeyedVectors"
_TABLE = "a database, tensors or a table; save words and vectors as text"
_FOREIGN = {
    rb"\x93NUMPY": _ARRAY,
    rb"SQLite format 3|\x89HDF|.{3}\0{5}\{\"|PAR1|ARROW1|FEA1|%%MatrixMarket": _TABLE,
    rb"\xd0\xcf\x11\xe0|MATLAB .{,4}MAT-file": _TABLE,
    rb"\(\xb5/\xfd|\x04\"M\x18|\x1f\x9d|7z\xbc\xaf\x27\x1c|Rar!|.{256}\0ustar": (
        "an archive; unpack it first"
    ),
    rb"\x1f\x8b\x08|BZh[1-9]1AY&SY|\xfd7zXZ\0|PK\x03\x04": "compressed twice; decompress it once",
    rb"version https://git-lfs": "a pointer of Git LFS; fetch its content with `git lfs pull`",
    rb"\s*(?:<!doctype|<html|<\?xml|<mediawiki)": "a web page or XML, not vectors",
    rb"\s*[\[{]\s*(?:[\[{]\s*)?\"[^\n]*[\[:]": "JSON; save words and vectors as text",
}
"""First bytes of other formats, and the end of the error message for each."""
_FOREIGN_MEMBERS = {r".*\.npy": _ARRAY, r"\[Content_Types\]\.xml|mimetype|.*\bdata\.pkl": _TABLE}
"""Names in a .zip of NumPy, of an office program or of PyTorch."""


@dataclass
class Decompressed:
    """The decompressed bytes of a file."""

    stream: IO[bytes]
    raw: IO[bytes]
    """the file on disk"""
    size: int
    """size of the file on disk, in bytes"""
    position: int = 0
    """decompressed bytes read so far"""

    @property
    def done(self) -> int:
        """The number of bytes of the file on disk read so far."""
        return min(self.raw.tell(), self.size)

    def read(self, count: int) -> bytes:
        """Read `count` bytes, fewer at the end."""
        try:
            data = self.stream.read(count)
        except _DECOMPRESSION_ERRORS:
            raise ImportProblem(
                "The file is damaged or truncated: it cannot be decompressed."
            ) from None
        self.position += len(data)
        limit = max(_MIN_CHECKED_BYTES, MAX_COMPRESSION_RATIO * self.size)
        if self.position > limit:
            raise ImportProblem(
                f"The file expands to more than {MAX_COMPRESSION_RATIO} times its size at byte"
                f" {self.position}, unlike vectors; decompress it yourself if you trust it."
            )
        return data


@dataclass(frozen=True)
class VectorFile:
    """A file, plain or compressed as .gz, .bz2, .xz or .zip.

    `member` names a file in a .zip and is required if the archive has several.
    """

    path: Path
    member: str | None = None

    @contextmanager
    def open(self) -> Iterator[Decompressed]:
        """Open the file; raise ImportProblem if it cannot be opened."""
        with ExitStack() as stack:
            try:
                # A pipe cannot be read twice, and opening one may block forever.
                if self.path.exists() and not self.path.is_file():
                    raise ImportProblem(
                        "This is not a regular file; write its content into a file first."
                    )
                raw = stack.enter_context(self.path.open("rb"))
                size = self.path.stat().st_size
            except OSError:
                raise ImportProblem("The file does not exist or cannot be read.") from None
            yield Decompressed(stack.enter_context(_decompress(stack, raw, self.member)), raw, size)

    def head(self) -> bytes:
        """Read the first bytes; raise ImportProblem for an empty file or another format."""
        with self.open() as file:
            head = file.read(HEAD_BYTES)
        if not head:
            raise ImportProblem("The file is empty.")
        if _PICKLE.match(head):
            raise ImportProblem(
                "The file is a pickle, which can run code and is never read; save the vectors with"
                " gensim's save_word2vec_format."
            )
        for magic, description in _FOREIGN.items():
            if re.match(magic, head.removeprefix(BOM_UTF8), re.DOTALL | re.IGNORECASE):
                raise ImportProblem(f"The file is {description}.")
        return head


def _decompress(stack: ExitStack, raw: IO[bytes], member: str | None) -> IO[bytes]:
    head = raw.read(16)
    raw.seek(0)
    if not head.startswith(_ZIP):
        if member is not None:
            raise ImportProblem("The file is not a .zip, so it has no members.")
        for magic, opener in _OPENERS.items():
            if re.match(magic, head):
                stream: IO[bytes] = opener(raw)
                return stream
        return raw
    try:  # the member is not extracted to disk
        archive = stack.enter_context(zipfile.ZipFile(raw))
        names = [info.filename for info in archive.infolist() if _is_member(info)]
        if member is None and len(names) != 1:
            if not names:
                raise ImportProblem("The .zip has no files.")
            for pattern, description in _FOREIGN_MEMBERS.items():
                if any(re.fullmatch(pattern, name) for name in names):
                    raise ImportProblem(f"The file is {description}.")
            raise ImportProblem(f"The .zip has {len(names)} files ({_listed(names)}).", "member")
        if member is not None and member not in names:
            raise ImportProblem(f"The .zip has no member of this name; it has {_listed(names)}.")
        return archive.open(member or names[0])
    except _ZIP_ERRORS:
        raise ImportProblem(
            "The .zip is damaged, encrypted or compressed with an unsupported method."
        ) from None


def _is_member(info: zipfile.ZipInfo) -> bool:
    """Return whether an entry is a file that somebody has put into the archive.

    macOS adds a folder `__MACOSX` and files `._NAME` and `.DS_Store`.
    """
    path = PurePosixPath(info.filename)
    added = "__MACOSX" in path.parts or path.name.startswith("._") or path.name == ".DS_Store"
    return not (info.is_dir() or added)


def _listed(names: Iterable[str]) -> str:
    """List up to ten untrusted file names, shortened; unprintable characters become `?`."""
    shown = (
        "".join(letter if letter.isprintable() else "?" for letter in name[:60])
        for name in sorted(names)[:10]
    )
    return ", ".join(shown) or "none"
