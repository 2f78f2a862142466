"""Damaged files of vectors: each kind is rejected with its own message and position."""

import io
import pickle
import sqlite3
import tarfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from tests.importing.files import (
    BUCKETS,
    FASTTEXT,
    PACKINGS,
    VECTORS,
    WORDS,
    binary,
    fasttext,
    packed,
    row,
    rows,
    text,
)

SKIP = "; --skip-bad-rows skips such rows."
NOT_UTF8 = (
    "has a word that is not UTF-8; --encoding names another encoding, and --skip-bad-rows skips"
    " such rows."
)
END_OF_BINARY = len(binary())
FIVE_VECTORS = np.vstack([VECTORS, [[1, 2, 3]]])


def after(word, numbers=b"1 2 3"):
    """A GloVe file with one more line, which is the fifth."""
    return rows() + row(word, numbers)


def with_number(number):
    return after(b"gnu", b"1 2 " + number)


def one_more(build, word, vector=(1, 2, 3), **more):
    """A binary file with one more word."""
    return build([*WORDS, word], np.vstack([VECTORS, [vector]]).astype("f4"), **more)


def cut_off(declared, end, word):
    """The error for a binary file with fewer words than it declares."""
    return f"Line 1 declares {declared} words, but the file ends at byte {end} in word {word}."


MORE = ": the number is wrong, or a word has a space."


def place_of(content, word):
    """The offset of a word."""
    return content.index(word)


COLUMNS = {
    "one number less": (after("gnu", b"1 2"), "Line 5 has 2 values, but most lines have 3"),
    "a number more": (after("gnu", b"1 2 3 4"), "Line 5 has 4 values, but most lines have 3"),
    "a word alone": (after("gnu", b"")[:-2] + b"\n", "Line 5 has 0 values, but most lines have 3"),
    "the first line has less": (
        row("gnu", b"1 2") + rows(),
        "Line 1 has 2 values, but most lines have 3",
    ),
    "the first line has more": (
        row("gnu", b"1 2 3 4") + rows(),
        "Line 1 has 4 values, but most lines have 3",
    ),
    "a header of three numbers": (
        text(header=b"4 3 1"),
        "Line 1 has 2 values, but most lines have 3",
    ),
    "under a header": (
        text(header=b"5 3") + b"gnu 1 2\n",
        "Line 6 has 2 values, but line 1 declares 3",
    ),
}
DIMENSIONS = {
    f"a header that declares {width}": (
        text(header=b"4 %d" % width),
        f"Line 1 declares vectors of dimension {width}, but most lines have 3 values.",
    )
    for width in (2, 4)
}

END_OF_THIRD = place_of(binary(), b"1999") - 1
INVALID_NUMBERS = {
    "hexadecimal": b"0x1p3",
    "an underscore": b"1_0",
    "two signs": b"--1",
    "a comma": b"1,5",
    "a word": b"gnu",
    "a zero byte": b"3\0",
    "a digit of another script": "٣".encode(),
    "bytes that are not UTF-8": b"\xff",
    "a tab": b"3\t3",
}

NOT_FINITE = (b"nan", b"-NaN", b"inf", b"-inf", b"Infinity", b"1e39", b"-3.5e38", b"1e999")

ROWS = {
    "another number of columns": {
        name: (one, f"{why}{SKIP}") for name, (one, why) in COLUMNS.items()
    },
    "another dimension": DIMENSIONS,
    "a wrong count": {
        "too low": (text(header=b"3 3"), "Line 1 declares 3 words, but line 5 has one more."),
        "too high": (text(header=b"5 3"), "Line 1 declares 5 words, but the file ends after 4."),
        "huge": (
            text(header=b"1000000000000 3"),
            "Line 1 declares 1000000000000 words, but the file ends after 4.",
        ),
        "more digits than a number has": (
            text(header=b"99999999999999999999 3"),
            "Line 1 declares 99999999999999999999 words, but the file ends after 4.",
        ),
        "too low, binary": (
            binary(header=b"3 3"),
            f"Line 1 declares 3 words, but more data follows at byte {END_OF_THIRD}{MORE}",
        ),
        "too high, binary": (binary(header=b"5 3"), cut_off(5, END_OF_BINARY, 5)),
        "huge, binary": (
            binary(header=b"1000000000000 3"),
            cut_off(1000000000000, END_OF_BINARY + 12, 5),
        ),
        "a header alone": (b"4 3\n", "Line 1 declares 4 words, but the file ends after 0."),
        "a header alone without an end": (
            b"4 3",
            "Line 1 declares 4 words, but the file ends after 0.",
        ),
        "cut in a vector": (binary()[:-3], cut_off(4, END_OF_BINARY - 3, 4)),
        "cut in a word": (
            binary()[: place_of(binary(), b"1999") + 2],
            cut_off(4, place_of(binary(), b"1999") + 2, 4),
        ),
    },
    "no words": {
        f"{header.decode()} {build.__name__}": (
            build(header=header),
            f"Line 1 declares {int(header.split()[0])} words; there must be at least one.",
        )
        for header in (b"0 3", b"-4 3")
        for build in (text, binary)
    },
    "an impossible dimension": {
        f"{width} {build.__name__}": (
            build(header=b"4 %d" % width),
            f"Line 1 has vectors of dimension {width}; 1 to 65536 are supported.",
        )
        for width in (0, -3, 65_537, 99_999_999)
        for build in (text, binary)
    },
    "a word that is not UTF-8": {
        "in text": (after(b"gn\xff"), f"Line 5 {NOT_UTF8}"),
        "cut in a character": (after("gnü".encode()[:-1]), f"Line 5 {NOT_UTF8}"),
        "a lone surrogate": (after(b"\xed\xa0\x80"), f"Line 5 {NOT_UTF8}"),
        "overlong": (after(b"\xc0\xaf"), f"Line 5 {NOT_UTF8}"),
        "the first": (row(b"\xe9t\xe9") + rows(), f"Line 1 {NOT_UTF8}"),
        "in binary": (one_more(binary, b"gn\xff"), f"Byte {END_OF_BINARY} {NOT_UTF8}"),
    },
    "a word twice": {
        "at once": (rows() + rows(), f"Line 5 repeats the word of line 1{SKIP}"),
        "at the end": (after("Quagga"), f"Line 5 repeats the word of line 2{SKIP}"),
        "under a header": (
            text([*WORDS, "okapi"], FIVE_VECTORS),
            f"Line 6 repeats the word of line 4{SKIP}",
        ),
        "in binary": (
            one_more(binary, "okapi"),
            f"Byte {END_OF_BINARY} repeats the word of byte {place_of(binary(), b'okapi')}{SKIP}",
        ),
    },
    "something that is not a number": {
        name: (with_number(number), f"Line 5 has an invalid number{SKIP}")
        for name, number in INVALID_NUMBERS.items()
    },
    "a number that is not finite": {
        **{
            number.decode(): (
                with_number(number),
                f"Line 5 has a value that is not finite as float32{SKIP}",
            )
            for number in NOT_FINITE
        },
        **{
            f"{number} in binary": (
                one_more(binary, "gnu", (1, number, 3)),
                f"Byte {END_OF_BINARY} has a value that is not finite as float32{SKIP}",
            )
            for number in (np.nan, np.inf, -np.inf)
        },
    },
    "an empty line": {
        "in the middle": (rows() + b"\n" + row("gnu"), f"Line 5 is empty{SKIP}"),
        "of spaces": (rows() + b"  \t \r\n" + row("gnu"), f"Line 5 is empty{SKIP}"),
        "one of many": (rows() + b"\n\n\n" + row("gnu"), f"Line 5 is empty{SKIP}"),
        "after the header": (b"4 3\n\n" + rows(), f"Line 2 is empty{SKIP}"),
    },
    "a line that is too long": {
        "in the middle": (rows() + b"x" * (3 << 20), "Line 5 is longer than 2097152 bytes."),
    },
    "no word": {
        "in text": (rows() + b" 1 2 3\n", f"Line 5 has no word{SKIP}"),
        "in binary": (one_more(binary, b""), f"Byte {END_OF_BINARY} has no word{SKIP}"),
        "a tab for a word": (after(b"\t"), f"Line 5 has no word{SKIP}"),
    },
    "white space in a word": {
        "a tab": (after(b"gn\tu"), f"Line 5 has a tab in its word{SKIP}"),
        "a tab in binary": (
            one_more(binary, b"gn\tu"),
            f"Byte {END_OF_BINARY} has a tab in its word{SKIP}",
        ),
    },
    "white space of another kind in a word": {
        "a form feed": (after(b"gn\x0cu"), f"Line 5 has a form feed in its word{SKIP}"),
    },
    "an end of a line in a word": {
        "a carriage return": (after(b"gn\ru"), f"Line 5 has a carriage return in its word{SKIP}"),
    },
    "a long word": {
        "in text": (after(b"x" * 4097), f"Line 5 has a word of more than 4096 bytes{SKIP}")
    },
    "a word without an end": {
        "in binary": (
            one_more(binary, b"x" * 4097),
            f"The word at byte {END_OF_BINARY} is longer than 4096 bytes.",
        ),
        "up to the end of the file": (
            b"4 3\n" + bytes([1]) * 5000,
            "The word at byte 4 is longer than 4096 bytes.",
        ),
    },
}


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

FASTTEXTS = {
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
        )
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
        f"{field} {value}": (fasttext(**{field: value}), at(FIRST_WORD, "has an invalid header"))
        for field, values in INVALID_FIELDS.items()
        for value in values
    },
    "a wrong number of vectors": {
        str(shape): (
            fasttext(quantized_shape=shape),
            at(MATRIX_AT, f"has {shape[0]} vectors of dimension {shape[1]}, unlike its header"),
        )
        for shape in ((5, 3), (7, 3), (6, 4), (-6, 3), (2**62, 3), (0, 0))
    },
    "a second table of invalid size": {
        "negative": (
            fasttext(output_quantized_shape=(-1, 3)),
            at(MATRIX_AT + 72 + 17, "has a second table of invalid size"),
        )
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
        )
    },
    "a vector that is not finite": {
        f"{number} in {name}": (
            fasttext(*table),
            at(end, f"has a value that is not finite in vector {vector}"),
        )
        for number in (np.nan, -np.inf)
        for name, table, vector, end in (
            ("a word", (WORDS, changed(2, number)), 2, MATRIX_AT + 24),
            ("an n-gram", (WORDS, VECTORS, BUCKETS * [[1], [number]]), 5, MATRIX_AT + 60),
        )
    },
    "a count": {
        str(count): (
            fasttext(counts=[3, 2, 1, count]),
            at(place_of(fasttext(), b"1999"), f"has a word with the count {count}"),
        )
        for count in (0, -1)
    },
}

LAST_WORD = place_of(fasttext(), b"1999")
for kind, case, word, why in (
    ("no word", "empty in fastText", b"", f"has no word{SKIP}"),
    ("no word", "of spaces in fastText", b" \t", f"has no word{SKIP}"),
    ("a word that is not UTF-8", "in fastText", b"gn\xff", NOT_UTF8),
    ("a word that is not UTF-8", "a surrogate in fastText", b"\xed\xa0\x80", NOT_UTF8),
    ("white space in a word", "in fastText", b"gn\tu", f"has a tab in its word{SKIP}"),
    ("a word twice", "in fastText", b"zebra", f"repeats the word of an earlier row{SKIP}"),
):
    ROWS[kind][case] = fasttext([*WORDS[:3], word]), f"Byte {LAST_WORD} {why}"


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
AS_TEXT = "save words and vectors as text."
UNKNOWN = (
    "The format is unknown: line 1 is neither a word and its values nor a word2vec header,"
    " and the file is not a fastText .bin."
)

FOREIGN = {
    "empty": {"nothing": (b"", "The file is empty.")},
    "a pickle": {
        f"{name}, protocol {protocol}": (pickle.dumps(what, protocol), A_PICKLE)
        for name, what in PICKLED.items()
        for protocol in range(6)
    },
    "an array": {"one": (npy(), f"The file is {ARRAY}")},
    "a table": {
        name: (content, f"The file is a database, tensors or a table; {AS_TEXT}")
        for name, content in {
            "SQLite": database(),
            "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(88),
            "tensors": save({"vectors": VECTORS}),
            "Parquet": b"PAR1" + bytes(50),
        }.items()
    },
    "a web page": {
        "not found": (
            b"<!DOCTYPE html>\n<html>\n<body>Not found</body>\n</html>\n",
            "The file is a web page or XML, not vectors.",
        )
    },
    "JSON": {
        name: (content, "The file is JSON; save words and vectors as text.")
        for name, content in {
            "an object": b'{"zebra": [0.5, 1], "okapi": [1, 2]}',
            "lines": b'{"word": "zebra", "vector": [0.5, 1]}\n' * 3,
            "pairs": b'[["zebra", [0.5, 1]]]',
        }.items()
    },
    "a pointer": {
        "of Git LFS": (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "The file is a pointer of Git LFS; fetch its content with `git lfs pull`.",
        )
    },
    "an archive": {
        "tar": (tar(), "The file is an archive; unpack it first."),
        "Zstandard": (b"(\xb5/\xfd\x20" + bytes(9), "The file is an archive; unpack it first."),
    },
    "unknown": {
        "a line feed": (b"\n", UNKNOWN),
        "spaces": (b"   ", UNKNOWN),
        "zeros": (bytes(1000), UNKNOWN),
        "a long line": (b"x" * (3 << 20), UNKNOWN),
        "numbers without words": (b"0.5\n0.25\n", UNKNOWN),
    },
}


pytestmark = pytest.mark.slow

DAMAGED = {**ROWS, **FASTTEXTS, **FOREIGN}
CASES = [(kind, case) for kind, cases in DAMAGED.items() for case in cases]


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_a_damaged_file_is_rejected_with_its_position(importer, monkeypatch, kind, case):
    monkeypatch.chdir(importer.place)  # an unpickled file would create a file here
    content, message = DAMAGED[kind][case]
    assert importer.refusal(content) == message


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("kind", ["a wrong count", "quantized", "an array", "unknown"])
def test_a_compressed_damaged_file_has_the_same_error(importer, kind, packing):
    for content, message in DAMAGED[kind].values():
        assert importer.refusal(packed(content, packing)) == message


def test_the_rejected_pickles_run_code_if_they_are_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for protocol in range(6):
        pickle.loads(pickle.dumps(PICKLED["harmful"], protocol)).close()
        Path(MARK).unlink()


def test_words_that_are_equal_after_decoding_are_rejected(importer):
    same = [*WORDS[:3], "+AHo-ebra"]  # UTF-7 for zebra
    message = importer.refusal(rows(same), "--encoding", "utf-7")
    assert message == f"Line 4 repeats the word of line 1{SKIP}"
    message = importer.refusal(fasttext(same), "--encoding", "utf-7")
    assert message == f"Byte {LAST_WORD} repeats the word of an earlier row{SKIP}"


def test_a_word_that_decodes_to_a_lone_surrogate_is_rejected(importer):
    words = [*WORDS[:3], "+2AA-"]  # UTF-7 for a lone surrogate
    problem = NOT_UTF8.replace("UTF-8", "UTF-7")
    assert importer.refusal(rows(words), "--encoding", "utf-7") == f"Line 4 {problem}"
    message = importer.refusal(fasttext(words), "--encoding", "utf-7")
    assert message == f"Byte {LAST_WORD} {problem}"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (rows(), f"Line 3 has a value that is not finite as float16{SKIP}"),
        (
            binary(),
            f"Byte {place_of(binary(), b'okapi')} has a value that is not finite as float16{SKIP}",
        ),
        (fasttext(), "The file has a value that is not finite as float16."),
    ],
    ids=["text", "binary", "fastText"],
)
def test_a_number_too_large_for_float16_is_rejected(importer, content, sentence):
    assert importer.refusal(content, "--dtype", "float16") == sentence


@pytest.mark.parametrize("new", [True, False], ids=["new", "old"])
def test_every_beginning_of_a_fasttext_file_is_rejected(importer, new):
    whole = fasttext(new=new)
    path = importer.file(b"")
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        done = importer.run(path, "--format", "fasttext")
        assert (done.code, done.out) == (1, ""), end
        early = f"polyseme: The fastText file ends too early, at byte {end}."
        assert done.err.splitlines()[-1] == (early if end else "polyseme: The file is empty.")
    assert not any(importer.models.iterdir())


@pytest.mark.parametrize("field", FASTTEXT)
def test_any_number_in_a_fasttext_header_is_read_or_rejected(importer, field):
    """gensim, which trusts the header, never gets an invalid one."""
    for number in (-(2**31), -1, 0, 1, 7, 2**16, 2**31 - 1):
        for new in (True, False):
            done = importer.run(fasttext(new=new, **{field: number}), "--name", "m", "--replace")
            assert done.code == 0 or is_rejected(done)


def is_rejected(done):
    return done.code == 1 and done.err.splitlines()[-1].startswith("polyseme: ")
