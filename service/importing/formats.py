"""The formats of pretrained vectors, and which one a file has by its first bytes."""

import re
import struct
from pathlib import Path
from typing import Literal, TypeAlias

from service.importing.compression import open_plain
from service.importing.refusal import VectorFileError

Format: TypeAlias = Literal["glove", "word2vec-text", "word2vec-binary", "fasttext"]

HEADER = re.compile(rb"[ \t]*(\d{1,12})[ \t]+(\d{1,7})[ \t]*\r?\n")
"""The first line of a word2vec file: the number of words, and of numbers for each."""
FASTTEXT_MAGIC = struct.pack("<i", 793712314)
_HEAD = 1 << 18
_OLD_FASTTEXT = struct.Struct("<12i")  # dim, ws, epoch, minCount, neg, wordNgrams, loss, model, …
_FOREIGN = {
    b"\x93NUMPY": "a NumPy array",
    b"SQLite format 3": "an SQLite database, as Magnitude's files are",
    b"\x89HDF": "an HDF5 file",
    b"(\xb5/\xfd": "compressed with Zstandard; expand it first",
    b"ustar": "a .tar archive; unpack it first",
}
_PICKLES = (b"ccopy_reg\n", b"c__builtin__\n", b"cgensim", b"cnumpy", b"(dp", b"(lp", b"(i")


def guess(path: Path, member: str | None = None) -> Format:
    """The format of a file; raise VectorFileError where it has none of them."""
    head = head_of(path, member)
    if head.startswith(FASTTEXT_MAGIC) or _is_old_fasttext(head):
        return "fasttext"
    header = HEADER.match(head)
    if header:
        first = head[header.end() :].split(b"\n", 1)[0]
        return "word2vec-text" if _is_row(first, int(header[2])) else "word2vec-binary"
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
    if re.match(rb"\x80[\x02-\x05]", head) or head.startswith(_PICKLES):
        raise VectorFileError(
            "The file is a pickle, which runs code when it is read, so it never is; save the"
            " vectors with gensim's save_word2vec_format."
        )
    for magic, what in _FOREIGN.items():
        if head.startswith(magic) or (magic == b"ustar" and head[257:262] == magic):
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
    kinds: bool = 1 <= loss <= 4 and 1 <= model <= 3 and 0 <= min_n <= max_n <= 100  # noqa: PLR2004
    return sizes and kinds
