"""Files of vectors, built byte by byte from the formats, without the importer's code.

The table has distinctive words, so that tests notice a message that repeats a file's content.
"""

import bz2
import gzip
import io
import lzma
import struct
import zipfile
from functools import partial

import numpy as np

WORDS = ("zebra", "Quagga", "okapi", "1999")
VECTORS = np.array([[0.5, -1.25, 3], [7, 0, -0.0625], [1e-3, 2e6, -4], [0.1, 0.2, 0.3]], np.float32)
FORMATS = ("glove", "word2vec-text", "word2vec-binary", "fasttext")
ROW_FORMATS = FORMATS[:3]
PACKINGS = ("plain", "gz", "bz2", "xz", "zip")


def encoded(word):
    return word if isinstance(word, bytes) else word.encode()


def numbers(vector):
    """Numbers as text: nine digits distinguish every float32."""
    return [f"{number:.9g}".encode() for number in vector]


def row(word, vector=(1, 2, 3), end=b"\n"):
    """A line of GloVe or word2vec text."""
    fields = vector if isinstance(vector, bytes) else b" ".join(numbers(vector))
    return encoded(word) + b" " + fields + end


def rows(words=WORDS, vectors=VECTORS, end=b"\n"):
    """A GloVe file."""
    return b"".join(row(word, vector, end) for word, vector in zip(words, vectors, strict=True))


def text(words=WORDS, vectors=VECTORS, end=b"\n", header=None):
    """A word2vec text file; `header` replaces its first line."""
    return (header or b"%d %d" % np.shape(vectors)) + end + rows(words, vectors, end)


def binary(words=WORDS, vectors=VECTORS, end=b"\n", header=None):
    """A word2vec binary file. The original program, unlike gensim, ends rows with a line feed."""
    content = (header or b"%d %d" % np.shape(vectors)) + b"\n"
    for word, vector in zip(words, vectors, strict=True):
        content += encoded(word) + b" " + np.array(vector, "<f4").tobytes() + end
    return content


_FIELDS = (
    "magic version dim ws epoch min_count neg word_ngrams loss model bucket minn maxn lr_update t"
    " size nwords nlabels ntokens pruned"
)
_VALUES = (793712314, 12, 3, 5, 5, 1, 5, 1, 2, 2, 2, 3, 4, 100, 1e-4, 4, 4, 0, 100, -1)
FASTTEXT = dict(zip(_FIELDS.split(), _VALUES, strict=True))
"""The fields of the header in their order, and their values for the table."""
FIELD_TYPES = {"t": "d", "ntokens": "q", "pruned": "q"}
"""The types of the fields that are not 32-bit integers."""
NEW_FIELDS = ("magic", "version", "pruned")
"""The fields that fastText added to its files in 2017."""
BUCKETS = np.array([[1, -1, 0.5], [0.25, 8, -2]], np.float32)


def fasttext(words=WORDS, vectors=VECTORS, buckets=BUCKETS, *, new=True, **changes):
    """A fastText .bin. `changes` replace fields, or the parts that follow the header.

    These are the words, and for each of two tables a flag, the shape and the rows.
    """
    v, d = np.shape(vectors)
    fields = {**FASTTEXT, "dim": d, "bucket": len(buckets), "size": v, "nwords": v, **changes}
    names = [name for name in FASTTEXT if new or name not in NEW_FIELDS]
    layout = "".join(FIELD_TYPES.get(name, "i") for name in names)
    content = struct.pack(f"<{layout}", *map(fields.get, names))
    counts, kinds = changes.get("counts", range(v, 0, -1)), changes.get("kinds", [0] * v)
    for word, count, kind in zip(words, counts, kinds, strict=True):
        content += encoded(word) + b"\0" + struct.pack("<qb", count, kind)
    for matrix, flag in (([*vectors, *buckets], "quantized"), (vectors, "output_quantized")):
        shape = changes.get(f"{flag}_shape", np.shape(matrix))
        content += bytes([changes.get(flag, 0)]) * new
        content += struct.pack("<qq", *shape) + np.array(matrix, "<f4").tobytes()
    return content


BUILDERS = {"glove": rows, "word2vec-text": text, "word2vec-binary": binary}


def build(kind, words=WORDS, vectors=VECTORS):
    """A file in a format. Without n-grams, fastText leaves the vectors unchanged."""
    if kind == "fasttext":
        return fasttext(words, vectors, ())
    return BUILDERS[kind](words, vectors)


def packed(content, packing):
    """Compress a file."""
    pack = {
        "plain": bytes,
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": partial(lzma.compress, preset=0),
        "zip": lambda content: archive({"vectors": content}),
    }
    return pack[packing](content)


def archive(members):
    """A .zip of members by their names."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as written:
        for name, content in members.items():
            written.writestr(name, content)
    return out.getvalue()
