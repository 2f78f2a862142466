"""Files of other formats by kind and case, each with the message that rejects it."""

import io
import pickle
import sqlite3
import struct
import tarfile

import numpy as np
from safetensors.numpy import save

from tests.importing.files import VECTORS, WORDS, rows, text

ARRAY = "a NumPy array; save words and vectors as word2vec, with gensim's KeyedVectors."
MARK = "was-unpickled"
"""The file that a harmful pickle creates in the working directory when it is read."""


class Harmful:
    """Creates a file when it is unpickled."""

    def __reduce__(self):
        return open, (MARK, "w")


class Vectors:
    """An object of another program."""

    words, vectors = list(WORDS), VECTORS


def tar():
    """A tar archive with a file of vectors."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("vectors")
        info.size = len(rows())
        archive.addfile(info, io.BytesIO(rows()))
    return out.getvalue()


def database():
    """An SQLite database with a table of vectors."""
    with sqlite3.connect(":memory:") as connection:
        connection.execute("create table vectors (word text, x real)")
        connection.executemany("insert into vectors values (?, 1)", [[word] for word in WORDS])
    content = connection.serialize()
    connection.close()
    return content


def npy():
    """A NumPy array."""
    out = io.BytesIO()
    np.save(out, VECTORS)
    return out.getvalue()


PICKLED = {
    "harmful": Harmful(),
    "a dict": dict(zip(WORDS, VECTORS, strict=True)),
    "a list": list(WORDS),
    "a tuple": WORDS,
    "an array": VECTORS,
    "an object": Vectors(),
}
A_PICKLE = (
    "The file is a pickle, which can run code and is never read; save the vectors with"
    " gensim's save_word2vec_format."
)
UNKNOWN = (
    "The format is unknown: line 1 is neither a word and its values nor a word2vec header,"
    " and the file is not a fastText .bin."
)
SEPARATED = "The columns are separated by {}; replace these by spaces."
BYTE_ORDER_MARK = "The file is text with a byte order mark; save it as UTF-8 without one."

FOREIGN = {
    "empty": {"nothing": (b"", "The file is empty.")},
    "a pickle": {
        f"{name}, protocol {protocol}": (pickle.dumps(what, protocol), A_PICKLE)
        for name, what in PICKLED.items()
        for protocol in range(6)
    },
    "an array": {"one": (npy(), f"The file is {ARRAY}")},
    "a database": {"one": (database(), "The file is an SQLite database, perhaps of Magnitude.")},
    "HDF5": {"its signature": (b"\x89HDF\r\n\x1a\n" + bytes(88), "The file is an HDF5 file.")},
    "tensors": {"some": (save({"vectors": VECTORS}), "The file is a safetensors file.")},
    "Zstandard": {
        "a raw block": (
            b"(\xb5/\xfd\x20" + struct.pack("<B", 7) + b"\x39\0\0" + b"x 1 2 3",
            "The file is compressed with Zstandard; decompress it first.",
        )
    },
    "an archive": {"one": (tar(), "The file is a .tar archive; unpack it first.")},
    "a byte order mark": {
        "of UTF-8": (b"\xef\xbb\xbf" + rows(), BYTE_ORDER_MARK),
        "of UTF-8 before a header": (b"\xef\xbb\xbf" + text(), BYTE_ORDER_MARK),
        "of little-endian UTF-16": (
            b"\xff\xfe" + rows().decode().encode("utf-16-le"),
            BYTE_ORDER_MARK,
        ),
        "of big-endian UTF-16": (
            b"\xfe\xff" + rows().decode().encode("utf-16-be"),
            BYTE_ORDER_MARK,
        ),
    },
    "other separators": {
        name: (content.replace(b" ", separator), SEPARATED.format(name))
        for name, content, separator in (
            ("tabs", rows(), b"\t"),
            ("commas", rows(), b","),
            ("semicolons", rows(end=b"\r\n"), b";"),
        )
    }
    | {
        "tabs after a header": (text().replace(b" ", b"\t"), SEPARATED.format("tabs")),
        "two spaces": (
            rows().replace(b" ", b"  "),
            "The columns are separated by several spaces; replace these by one.",
        ),
        "decimal commas": (
            rows().replace(b".", b","),
            "The numbers have decimal commas; replace these by points.",
        ),
        "column names": (
            b"word d1 d2 d3\n" + rows(),
            "Line 1 has the names of the columns; remove it.",
        ),
    },
    "unknown": {
        "UTF-16 without a byte order mark": (rows().decode().encode("utf-16-le"), UNKNOWN),
        "a web page": (b"<!DOCTYPE html>\n<html>\n<body>Not found</body>\n</html>\n", UNKNOWN),
        "a line feed": (b"\n", UNKNOWN),
        "spaces": (b"   ", UNKNOWN),
        "zeros": (bytes(1000), UNKNOWN),
        "a long line": (b"x" * (3 << 20), UNKNOWN),
        "numbers without words": (b"0.5\n0.25\n", UNKNOWN),
    },
}
