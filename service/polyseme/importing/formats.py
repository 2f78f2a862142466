"""Open a file of vectors, plain or compressed, and detect its format from its content."""

import bz2
import gzip
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from polyseme.errors import CommandError

Format: TypeAlias = Literal["glove", "word2vec-text", "word2vec-binary", "fasttext"]

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

HEADER = re.compile(rb"[ \t]*([+-]?\d{1,20})[ \t]+([+-]?\d{1,20})[ \t]*\r?(?:\n|\Z)")
"""The first line of a word2vec file: vocabulary size and dimension."""
FASTTEXT_MAGIC = struct.pack("<i", 793712314)
_HEAD_BYTES = 3 << 20  # more than the longest line
_OLD_FASTTEXT = struct.Struct("<12i")  # dim, ws, epoch, minCount, neg, wordNgrams, loss, model, …
_FOREIGN = {
    rb"\x93NUMPY": "a NumPy array; save words and vectors as word2vec, with gensim's KeyedVectors",
    rb"SQLite format 3": "an SQLite database, perhaps of Magnitude",
    rb"\x89HDF": "an HDF5 file",
    rb".{3}\0{5}\{\"": "a safetensors file",
    rb"\(\xb5/\xfd": "compressed with Zstandard; decompress it first",
    rb"\x1f\x8b\x08|BZh[1-9]1AY&SY|\xfd7zXZ\0|PK\x03\x04": "compressed twice; decompress it once",
    rb".{256}\0ustar": "a .tar archive; unpack it first",
    rb"\xef\xbb\xbf|\xff\xfe[^\0]|\xfe\xff": (
        "text with a byte order mark; save it as UTF-8 without one"
    ),
}
"""First bytes of other formats, and the end of the error message for each."""
_PICKLE = re.compile(
    rb"\x80[\x02-\x05][^\0]"  # an old fastText file of dimension 640 begins with 80 02 00 00
    rb"|c\w[\w.]*\n\w[\w.]*\n|\([dl]p\d+\n|\([VSIFLi][^ \n]*\n|[\]}]q\0[^\0]|\(X.\0\0\0",
    re.DOTALL,
)


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
        return self._counted(self.stream.read, count)

    def line(self, max_bytes: int) -> bytes:
        """Read a line, or its first `max_bytes` bytes."""
        return self._counted(self.stream.readline, max_bytes)

    def _counted(self, read: Callable[[int], bytes], count: int) -> bytes:
        try:
            data = read(count)
        except _DECOMPRESSION_ERRORS:
            raise CommandError(
                "The file is damaged or truncated: it cannot be decompressed."
            ) from None
        self.position += len(data)
        limit = max(_MIN_CHECKED_BYTES, MAX_COMPRESSION_RATIO * self.size)
        if self.position > limit:
            raise CommandError(
                f"The file expands to more than {MAX_COMPRESSION_RATIO} times its size at byte"
                f" {self.position}, unlike vectors; decompress it yourself if you trust it."
            )
        return data


@contextmanager
def open_decompressed(path: Path, member: str | None = None) -> Iterator[Decompressed]:
    """Open a file, plain or compressed as .gz, .bz2, .xz or .zip.

    `member` names a file in a .zip and is required if the archive has several. Raises
    CommandError if the file cannot be opened.
    """
    with ExitStack() as stack:
        try:
            # A pipe cannot be read twice, and opening one may block forever.
            if path.exists() and not path.is_file():
                raise CommandError(
                    "This is not a regular file; write its content into a file first."
                )
            raw = stack.enter_context(path.open("rb"))
            size = path.stat().st_size
        except OSError:
            raise CommandError("The file does not exist or cannot be read.") from None
        yield Decompressed(stack.enter_context(_decompress(stack, raw, member)), raw, size)


def _decompress(stack: ExitStack, raw: IO[bytes], member: str | None) -> IO[bytes]:
    head = raw.read(16)
    raw.seek(0)
    if not head.startswith(_ZIP):
        if member is not None:
            raise CommandError("The file is not a .zip, so it has no members.")
        for magic, opener in _OPENERS.items():
            if re.match(magic, head):
                stream: IO[bytes] = opener(raw)
                return stream
        return raw
    try:  # the member is not extracted to disk
        archive = stack.enter_context(zipfile.ZipFile(raw))
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        if member is None and len(names) != 1:
            if not names:
                raise CommandError("The .zip has no files.")
            raise CommandError(
                f"The .zip has {len(names)} files ({_listed(names)}); --member selects one."
            )
        if member is not None and member not in names:
            raise CommandError(f"The .zip has no member of this name; it has {_listed(names)}.")
        # zipfile's own readline may return more bytes than requested.
        return BufferedReader(archive.open(member or names[0]))  # type: ignore[type-var]
    except _ZIP_ERRORS:
        raise CommandError(
            "The .zip is damaged, encrypted or compressed with an unsupported method."
        ) from None


def _listed(names: Iterable[str]) -> str:
    """List up to ten untrusted file names, shortened; unprintable characters become `?`."""
    shown = (
        "".join(letter if letter.isprintable() else "?" for letter in name[:60])
        for name in sorted(names)[:10]
    )
    return ", ".join(shown) or "none"


def detect_format(head: bytes) -> Format:
    """Detect a format by the first bytes of a file; raise CommandError for an unknown format."""
    check_columns(head)
    if head.startswith(FASTTEXT_MAGIC):
        return "fasttext"
    if len(head) >= _OLD_FASTTEXT.size:  # a .bin without a magic number (before 2017)
        fields = _OLD_FASTTEXT.unpack_from(head)
        dim, ws, _, _, neg, _, loss, model, bucket, min_n, max_n, _ = fields
        sizes = 0 < dim <= 1 << 16 and 0 < ws < 1000 and 0 <= neg < 1000 and 0 <= bucket < 1 << 30
        if sizes and 1 <= loss <= 4 and 1 <= model <= 3 and 0 <= min_n <= 100 and 0 <= max_n <= 100:
            return "fasttext"
    header = HEADER.match(head)
    if header:
        first = head[header.end() :].lstrip().split(b"\n", 1)[0]
        text = _is_row(first) or _is_row(first, max(int(header[2]), 1))
        return "word2vec-text" if text else "word2vec-binary"
    if _is_row(head.split(b"\n", 1)[0]):
        return "glove"
    raise CommandError(
        "The format is unknown: line 1 is neither a word and its values nor a word2vec header, and"
        " the file is not a fastText .bin."
    )


def check_columns(head: bytes) -> None:
    """Raise CommandError for column names, decimal commas, or columns not separated by a space."""
    header = HEADER.match(head)
    row, _, rest = head[header.end() if header else 0 :].lstrip().partition(b"\n")
    row = row.strip()
    if _is_row(row):
        return
    if _is_row(re.sub(rb" +", b" ", row)):
        raise CommandError("The columns are separated by several spaces; replace these by one.")
    if _is_row(row.replace(b",", b".")):
        raise CommandError("The numbers have decimal commas; replace these by points.")
    for separator, name in ((b"\t", "tabs"), (b",", "commas"), (b";", "semicolons")):
        if separator in row and _is_row(row.replace(separator, b" ")):
            raise CommandError(f"The columns are separated by {name}; replace these by spaces.")
    second = rest.partition(b"\n")[0].strip()
    if not header and _is_row(second) and second.count(b" ") == row.count(b" "):
        raise CommandError("Line 1 has the names of the columns; remove it.")


def read_head(path: Path, member: str | None = None) -> bytes:
    """Read the first bytes of a file; raise CommandError if it is empty or in a foreign format."""
    with open_decompressed(path, member) as file:
        head = file.read(_HEAD_BYTES)
    if not head:
        raise CommandError("The file is empty.")
    if _PICKLE.match(head):
        raise CommandError(
            "The file is a pickle, which can run code and is never read; save the vectors with"
            " gensim's save_word2vec_format."
        )
    for magic, description in _FOREIGN.items():
        if re.match(magic, head, re.DOTALL):
            raise CommandError(f"The file is {description}.")
    return head


def _is_row(line: bytes, width: int | None = None) -> bool:
    """Return whether a line is a word followed by numbers, of which the last 50 are checked.

    With a `width`, the word may contain spaces.
    """
    fields = line.rstrip().split(b" ")
    numbers = fields[1:] if width is None else fields[-width:]
    if not numbers or len(fields) < 1 + len(numbers):
        return False
    return all(map(is_number, numbers[-50:]))


def is_number(text: bytes) -> bool:
    """Return whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
