"""The formats of pretrained vectors, and which one a file has by its first bytes."""

import re
import struct
from pathlib import Path
from typing import Literal, TypeAlias

from polyseme.importing.compression import open_plain
from polyseme.importing.refusal import VectorFileError

Format: TypeAlias = Literal["glove", "word2vec-text", "word2vec-binary", "fasttext"]

HEADER = re.compile(rb"[ \t]*([+-]?\d{1,20})[ \t]+([+-]?\d{1,20})[ \t]*\r?(?:\n|\Z)")
"""The first line of a word2vec file: the number of words, and of numbers for each."""
FASTTEXT_MAGIC = struct.pack("<i", 793712314)
_HEAD = 3 << 20  # more than the longest line
_OLD_FASTTEXT = struct.Struct("<12i")  # dim, ws, epoch, minCount, neg, wordNgrams, loss, model, …
_FOREIGN = {
    rb"\x93NUMPY": "a NumPy array",
    rb"SQLite format 3": "an SQLite database, as Magnitude's files are",
    rb"\x89HDF": "an HDF5 file",
    rb".{3}\0{5}\{\"": "a safetensors file",
    rb"\(\xb5/\xfd": "compressed with Zstandard; expand it first",
    rb"\x1f\x8b\x08|BZh[1-9]1AY&SY|\xfd7zXZ\0|PK\x03\x04": "compressed twice; expand it once",
    rb".{256}\0ustar": "a .tar archive; unpack it first",
    rb"\xef\xbb\xbf|\xff\xfe[^\0]|\xfe\xff": (
        "text with a byte order mark; save it as UTF-8 without one"
    ),
}
"""Beginnings of files of other kinds, and what these are."""
_PICKLE = re.compile(
    rb"\x80[\x02-\x05][^\0]"  # with a zero byte: an old fastText file of 640 numbers, or 896, …
    rb"|c\w[\w.]*\n\w[\w.]*\n|\([dl]p\d+\n|\([VSIFLi][^ \n]*\n|[\]}]q\0[^\0]|\(X.\0\0\0",
    re.DOTALL,
)


def guess(path: Path, member: str | None = None) -> Format:
    """The format of a file; raise VectorFileError where it has none of them."""
    head = head_of(path, member)
    if head.startswith(FASTTEXT_MAGIC) or _is_old_fasttext(head):
        return "fasttext"
    header = HEADER.match(head)
    if header:
        first = head[header.end() :].lstrip(b"\r\n").split(b"\n", 1)[0]
        text = _is_row(first) or _is_row(first, max(int(header[2]), 1))
        return "word2vec-text" if text else "word2vec-binary"
    if _is_row(head.split(b"\n", 1)[0]):
        return "glove"
    raise VectorFileError(
        "The format cannot be told: line 1 is neither a word with its numbers nor a word2vec"
        " header, and the file is no fastText .bin."
    )


def head_of(path: Path, member: str | None = None) -> bytes:
    """The first bytes of a file, of one that is none of the formats for sure a VectorFileError."""
    with open_plain(path, member) as plain:
        head = plain.read(_HEAD)
    if not head:
        raise VectorFileError("The file is empty.")
    if _PICKLE.match(head):
        raise VectorFileError(
            "The file is a pickle, which runs code when it is read, so it never is; save the"
            " vectors with gensim's save_word2vec_format."
        )
    for magic, what in _FOREIGN.items():
        if re.match(magic, head, re.DOTALL):
            raise VectorFileError(f"The file is {what}.")
    return head


def _is_row(line: bytes, width: int | None = None) -> bool:
    """Whether a line is a word and its numbers; `width`: how many there have to be."""
    fields = line.rstrip().split(b" ")
    numbers = fields[1:] if width is None else fields[-width:]
    if not numbers or len(fields) < 1 + len(numbers):
        return False
    try:
        [float(number) for number in numbers[-50:]]
    except ValueError:
        return False
    return True


def _is_old_fasttext(head: bytes) -> bool:
    """Whether this looks like fastText's .bin before it had a magic number (until 2017)."""
    if len(head) < _OLD_FASTTEXT.size:
        return False
    dim, ws, _, _, neg, _, loss, model, bucket, min_n, max_n, _ = _OLD_FASTTEXT.unpack_from(head)
    sizes: bool = 0 < dim <= 1 << 16 and 0 < ws < 1000 and 0 <= neg < 1000 and 0 <= bucket < 1 << 30  # noqa: PLR2004
    kinds: bool = 1 <= loss <= 4 and 1 <= model <= 3 and 0 <= min_n <= 100 and 0 <= max_n <= 100  # noqa: PLR2004
    return sizes and kinds
