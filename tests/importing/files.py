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


def numbers(vector):
    """Numbers as text: nine digits distinguish every float32."""
    return [f"{number:.9g}".encode() for number in vector]


def row(word, vector=(1, 2, 3), end=b"\n"):
    """A line of GloVe or word2vec text."""
    word = word if isinstance(word, bytes) else word.encode()
    fields = vector if isinstance(vector, bytes) else b" ".join(numbers(vector))
    return word + b" " + fields + end


def rows(words=WORDS, vectors=VECTORS, end=b"\n"):
    """A GloVe file."""
    return b"".join(row(word, vector, end) for word, vector in zip(words, vectors, strict=True))


def text(words=WORDS, vectors=VECTORS, end=b"\n", header=None):
    """A word2vec text file; `header` replaces its first line."""
    return _header(vectors, header) + end + rows(words, vectors, end)


def binary(words=WORDS, vectors=VECTORS, end=b"\n", header=None):
    """A word2vec binary file. The original program, unlike gensim, ends rows with a line feed."""
    lines = [
        (word if isinstance(word, bytes) else word.encode())
        + b" "
        + struct.pack(f"<{len(vector)}f", *vector)
        + end
        for word, vector in zip(words, vectors, strict=True)
    ]
    return b"".join([_header(vectors, header), b"\n", *lines])


def _header(vectors, header):
    return b"%d %d" % np.shape(vectors) if header is None else header


FASTTEXT = {
    "magic": 793712314,
    "version": 12,
    "dim": 3,
    "ws": 5,
    "epoch": 5,
    "min_count": 1,
    "neg": 5,
    "word_ngrams": 1,
    "loss": 2,
    "model": 2,
    "bucket": 2,
    "minn": 3,
    "maxn": 4,
    "lr_update": 100,
    "t": 1e-4,
    "size": 4,
    "nwords": 4,
    "nlabels": 0,
    "ntokens": 100,
    "pruned": -1,
}
"""The fields of the header in their order, and their values for the table."""
FIELD_TYPES = {"t": "d", "ntokens": "q", "pruned": "q"}
"""The types of the fields that are not 32-bit integers."""
NEW_FIELDS = ("magic", "version", "pruned")
"""The fields that fastText added to its files in 2017."""
BUCKETS = np.array([[1, -1, 0.5], [0.25, 8, -2]], np.float32)


def fasttext(words=WORDS, vectors=VECTORS, buckets=BUCKETS, *, new=True, **changes):
    """A fastText .bin. `changes` replace fields, or the bytes of later parts."""
    v, d = np.shape(vectors)
    sizes = {"dim": d, "bucket": len(buckets), "size": v, "nwords": v}
    return b"".join(fasttext_parts(words, vectors, buckets, new=new, **{**sizes, **changes}))


def fasttext_parts(words, vectors, buckets, *, new, **changes):
    """Its parts: the header, the words, and for each of two tables a flag, the shape and rows."""
    fields = {**FASTTEXT, **changes}
    parts = [
        struct.pack(f"<{FIELD_TYPES.get(name, 'i')}", fields[name])
        for name in FASTTEXT
        if new or name not in NEW_FIELDS
    ]
    counts = changes.get("counts", range(len(words), 0, -1))
    kinds = changes.get("kinds", [0] * len(words))
    parts.append(b"".join(map(entry, words, counts, kinds)))
    table = [*vectors, *buckets]
    for matrix, quantized in ((table, "quantized"), (vectors, "output_quantized")):
        if new:
            parts.append(bytes([changes.get(quantized, 0)]))
        parts.append(struct.pack("<qq", *changes.get(f"{quantized}_shape", np.shape(matrix))))
        parts.append(np.array(matrix, "<f4").tobytes())
    return parts


def entry(word, count=1, kind=0):
    """A word of a fastText .bin."""
    word = word if isinstance(word, bytes) else word.encode()
    return word + b"\0" + struct.pack("<qb", count, kind)


BUILDERS = {"glove": rows, "word2vec-text": text, "word2vec-binary": binary}


def build(kind, words=WORDS, vectors=VECTORS):
    """A file in a format. Without n-grams, fastText leaves the vectors unchanged."""
    if kind == "fasttext":
        return fasttext(words, vectors, ())
    return BUILDERS[kind](words, vectors)


def packed(content, packing):
    """Compress a file."""
    if packing == "zip":
        return archive({"vectors": content})
    pack = {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": partial(lzma.compress, preset=0),
        "plain": bytes,
    }
    return pack[packing](content)


def archive(members, method=zipfile.ZIP_DEFLATED):
    """A .zip of members by their names."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as written:
        for name, content in members.items():
            written.writestr(name, content)
    return out.getvalue()
