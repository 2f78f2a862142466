"""Damaged fastText files by kind and case, each with the message that rejects it."""

import numpy as np

from tests.importing.damaged_rows import SKIP, place_of
from tests.importing.files import BUCKETS, VECTORS, WORDS, fasttext

FIRST_WORD = 92
"""The offset of the words in a fastText file since 2017: after 17 fields of 4 and 3 of 8 bytes."""


def at(place, why):
    return f"At byte {place} the fastText file {why}."


def changed(row, number):
    vectors = VECTORS.copy()
    vectors[row, 1] = number
    return vectors


SUPERVISED = fasttext(model=3, loss=3)
QUANTIZED_AT = place_of(fasttext(), b"1999\0") + 14 + 1
MATRIX_AT = QUANTIZED_AT + 16
INVALID_FIELDS = {
    "dim": (0, -1, 65_537),
    "bucket": (-1, 2**31 - 1),
    "minn": (-1, 65),
    "maxn": (-1, 65, 2),
    "size": (0, 5, -1),
    "nwords": (0, 5, -1),
    "t": (-1.0, float("nan"), float("inf")),
}
TOO_EARLY = "The fastText file ends too early, at byte {}."

FASTTEXTS = {
    "cut off": {
        "in the fields": (fasttext()[:80], TOO_EARLY.format(80)),
        "in a word": (fasttext()[: FIRST_WORD + 3], TOO_EARLY.format(FIRST_WORD + 3)),
        "in the vectors": (fasttext()[: MATRIX_AT + 7], TOO_EARLY.format(MATRIX_AT + 7)),
        "in the second table": (fasttext()[:-1], TOO_EARLY.format(len(fasttext()) - 1)),
        "in the second table, before 2017": (
            fasttext(new=False)[:-5],
            TOO_EARLY.format(len(fasttext(new=False)) - 5),
        ),
    },
    "a classifier": {
        "by its model": (SUPERVISED, at(FIRST_WORD, "is a classifier, not a model of words")),
        "by its labels": (
            fasttext(nlabels=2, size=6),
            at(FIRST_WORD, "is a classifier, not a model of words"),
        ),
    },
    "a label": {
        "at the end": (
            fasttext(kinds=[0, 0, 0, 1]),
            at(place_of(fasttext(), b"1999"), "has a label among its words"),
        ),
    },
    "quantized": {
        "by its flag": (
            fasttext(quantized=1),
            at(QUANTIZED_AT, "is quantized (.ftz); import the original .bin"),
        ),
        "by its pruned words": (
            fasttext(pruned=7),
            at(QUANTIZED_AT - 1, "is quantized (.ftz); import the original .bin"),
        ),
    },
    "a version": {
        str(version): (
            fasttext(version=version),
            at(4, f"has version {version}; only versions up to 12 are supported"),
        )
        for version in (13, 0, -1)
    },
    "an invalid header": {
        f"{field} {value}": (
            fasttext(**{field: value}),
            at(FIRST_WORD, "has an invalid header"),
        )
        for field, values in INVALID_FIELDS.items()
        for value in values
    },
    "a wrong number of vectors": {
        str(shape): (
            fasttext(quantized_shape=shape),
            at(
                MATRIX_AT,
                f"has {shape[0]} vectors of dimension {shape[1]}, unlike its header",
            ),
        )
        for shape in ((5, 3), (7, 3), (6, 4), (-6, 3), (2**62, 3), (0, 0))
    },
    "a second table of invalid size": {
        "negative": (
            fasttext(output_quantized_shape=(-1, 3)),
            at(MATRIX_AT + 72 + 17, "has a second table of invalid size"),
        ),
    },
    "data after the end": {
        "a byte": (fasttext() + b"x", at(len(fasttext()), "continues after its last table")),
        "a table too small": (
            fasttext(output_quantized_shape=(3, 3)),
            at(len(fasttext()) - 12, "continues after its last table"),
        ),
    },
    "a fastText word without an end": {
        "too long": (
            fasttext([*WORDS[:3], b"x" * 4097]),
            at(place_of(fasttext(), b"1999"), "has a word longer than 4096 bytes"),
        ),
    },
    "a word twice in fastText": {
        "at the end": (
            fasttext([*WORDS[:3], "zebra"]),
            at(place_of(fasttext(), b"1999"), "has a word twice"),
        ),
    },
    "a vector that is not finite": {
        f"{number} in {name}": (
            fasttext(*table),
            at(end, f"has a value that is not finite in vector {vector}"),
        )
        for number in (np.nan, -np.inf)
        for name, table, vector, end in (
            ("a word", (WORDS, changed(2, number)), 2, MATRIX_AT + 36),
            ("an n-gram", (WORDS, VECTORS, BUCKETS * [[1], [number]]), 5, MATRIX_AT + 72),
        )
    },
    "a count": {
        str(count): (
            fasttext(counts=[3, 2, 1, count]),
            at(place_of(fasttext(), b"1999"), f"has a word with the count {count}"),
        )
        for count in (0, -1)
    },
    "an unusable word": {
        name: (
            fasttext([*WORDS[:3], word]),
            at(place_of(fasttext(), b"1999"), f"has a word that {why}{SKIP[:-1]}"),
        )
        for name, word, why in (
            ("empty", b"", "is empty"),
            ("of spaces", b" \t", "is empty"),
            ("not UTF-8", b"gn\xff", "is not UTF-8"),
            ("a lone surrogate", b"\xed\xa0\x80", "is not UTF-8"),
            ("of two lines", b"gn\nu", "has a line feed"),
        )
    },
}
