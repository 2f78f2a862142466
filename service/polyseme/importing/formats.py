"""The formats of files of vectors, and their detection from the first bytes."""

import re

from polyseme.importing.binary import BinaryReader
from polyseme.importing.dialect import COMMA, POINT, Line
from polyseme.importing.fasttext import MAGIC, OLD_FIELDS, FastTextReader
from polyseme.importing.files import VectorFile
from polyseme.importing.options import Format, ImportOptions, ImportProblem
from polyseme.importing.readers import HEADER, Reader
from polyseme.importing.text import GloveReader, TextReader, as_utf8

READERS: dict[Format, type[Reader]] = {
    "glove": GloveReader,
    "word2vec-text": TextReader,
    "word2vec-binary": BinaryReader,
    "fasttext": FastTextReader,
}
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1a\x7f]")


def open_reader(file: VectorFile, options: ImportOptions) -> tuple[Format, Reader]:
    """Return the format of a file, declared or detected, and its reader.

    A file of an unknown format has a reader of text, which rejects it with the reason.
    """
    head = file.head()
    format_ = options.format or detect_format(head, options)
    if format_ is None:
        even, odd = (bool(head[start:200:2].strip(b"\0")) for start in (0, 1))
        if even != odd and len(head) > 3:
            problem = "The file is UTF-16 or UTF-32 without a byte order mark."
            raise ImportProblem(problem, "encoding")
        format_ = "word2vec-text" if HEADER.match(as_utf8(head, options)) else "glove"
    return format_, READERS[format_](file, options, head)


def detect_format(head: bytes, options: ImportOptions) -> Format | None:
    """Detect a format by the first bytes of a file; return None for an unknown format."""
    if head.startswith(MAGIC) or _is_old_fasttext(head):
        return "fasttext"
    text = as_utf8(head, options)
    header = HEADER.match(text)
    lines = re.split(rb"[\r\n]+", text[header.end() if header else 0 :][: 1 << 20].strip())
    if any(Line.of(line, notation).count for line in lines[:2] for notation in (POINT, COMMA)):
        return "word2vec-text" if header else "glove"
    # A word of text may have control characters, but few files do.
    return "word2vec-binary" if header and _CONTROL.search(text) else None


def _is_old_fasttext(head: bytes) -> bool:
    """Return whether this is a .bin without a magic number (before 2017), by its first fields."""
    if len(head) < OLD_FIELDS.size:
        return False
    dim, ws, _, _, neg, _, loss, model, bucket, min_n, max_n, _ = OLD_FIELDS.unpack_from(head)
    sizes = 0 < dim <= 1 << 16 and 0 < ws < 1000 and 0 <= neg < 1000 and 0 <= bucket < 1 << 30
    kinds = 1 <= loss <= 4 and 1 <= model <= 3
    return bool(sizes and kinds and 0 <= min_n <= 100 and 0 <= max_n <= 100)
