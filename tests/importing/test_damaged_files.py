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


ENDS_AFTER = "but the file ends after {}."
MORE = ": the number is wrong, or a word has a space."


def place_of(content, word):
    """The offset of a word."""
    return content.index(word)


END_OF_THIRD = place_of(binary(), b"1999") - 1
INVALID_NUMBERS = (b"0x1p3", b"1_0", b"--1", b"1,5", b"gnu", b"3\0", "٣".encode(), b"\xff", b"3\t3")
NOT_FINITE = (b"nan", b"-NaN", b"inf", b"-inf", b"Infinity", b"1e39", b"-3.5e38", b"1e999")

ROWS = {
    "another number of columns": [
        (after("gnu", b"1 2"), f"Line 5 has 2 values, but most lines have 3{SKIP}"),
        (after("gnu", b"1 2 3 4"), f"Line 5 has 4 values, but most lines have 3{SKIP}"),
        (after("gnu", b"")[:-2] + b"\n", f"Line 5 has 0 values, but most lines have 3{SKIP}"),
        (row("gnu", b"1 2") + rows(), f"Line 1 has 2 values, but most lines have 3{SKIP}"),
        (row("gnu", b"1 2 3 4") + rows(), f"Line 1 has 4 values, but most lines have 3{SKIP}"),
        (text(header=b"4 3 1"), f"Line 1 has 2 values, but most lines have 3{SKIP}"),
        (text(header=b"5 3") + b"gnu 1 2\n", f"Line 6 has 2 values, but line 1 declares 3{SKIP}"),
    ],
    "another dimension": [
        (
            text(header=b"4 %d" % width),
            f"Line 1 declares vectors of dimension {width}, but most lines have 3 values.",
        )
        for width in (2, 4)
    ],
    "a wrong count": [
        (text(header=b"3 3"), "Line 1 declares 3 words, but line 5 has one more."),
        *(
            (text(header=b"%d 3" % count), f"Line 1 declares {count} words, {ENDS_AFTER.format(4)}")
            for count in (5, 10**12, 10**20 - 1)
        ),
        (
            binary(header=b"3 3"),
            f"Line 1 declares 3 words, but more data follows at byte {END_OF_THIRD}{MORE}",
        ),
        (binary(header=b"5 3"), cut_off(5, END_OF_BINARY, 5)),
        (binary(header=b"%d 3" % 10**12), cut_off(10**12, END_OF_BINARY + 12, 5)),
        (b"4 3\n", f"Line 1 declares 4 words, {ENDS_AFTER.format(0)}"),
        (b"4 3", f"Line 1 declares 4 words, {ENDS_AFTER.format(0)}"),
        (binary()[:-3], cut_off(4, END_OF_BINARY - 3, 4)),
        (binary()[: END_OF_THIRD + 3], cut_off(4, END_OF_THIRD + 3, 4)),
    ],
    "no words": [
        (
            build(header=b"%d 3" % count),
            f"Line 1 declares {count} words; there must be at least one.",
        )
        for count in (0, -4)
        for build in (text, binary)
    ],
    "an impossible dimension": [
        (
            build(header=b"4 %d" % width),
            f"Line 1 has vectors of dimension {width}; 1 to 65536 are supported.",
        )
        for width in (0, -3, 65_537, 99_999_999)
        for build in (text, binary)
    ],
    "a word that is not UTF-8": [
        *(
            (after(word), f"Line 5 {NOT_UTF8}")
            for word in (b"gn\xff", "gnü".encode()[:-1], b"\xed\xa0\x80", b"\xc0\xaf")
        ),
        (row(b"\xe9t\xe9") + rows(), f"Line 1 {NOT_UTF8}"),
        (one_more(binary, b"gn\xff"), f"Byte {END_OF_BINARY} {NOT_UTF8}"),
    ],
    "a word twice": [
        (rows() + rows(), f"Line 5 repeats the word of line 1{SKIP}"),
        (after("Quagga"), f"Line 5 repeats the word of line 2{SKIP}"),
        (text([*WORDS, "okapi"], FIVE_VECTORS), f"Line 6 repeats the word of line 4{SKIP}"),
        (
            one_more(binary, "okapi"),
            f"Byte {END_OF_BINARY} repeats the word of byte {place_of(binary(), b'okapi')}{SKIP}",
        ),
    ],
    "something that is not a number": [
        (with_number(number), f"Line 5 has an invalid number{SKIP}") for number in INVALID_NUMBERS
    ],
    "a number that is not finite": [
        *(
            (with_number(number), f"Line 5 has a value that is not finite as float32{SKIP}")
            for number in NOT_FINITE
        ),
        *(
            (
                one_more(binary, "gnu", (1, number, 3)),
                f"Byte {END_OF_BINARY} has a value that is not finite as float32{SKIP}",
            )
            for number in (np.nan, np.inf, -np.inf)
        ),
    ],
    "an empty line": [
        *(
            (rows() + empty + row("gnu"), f"Line 5 is empty{SKIP}")
            for empty in (b"\n", b"  \t \r\n", b"\n\n\n")
        ),
        (b"4 3\n\n" + rows(), f"Line 2 is empty{SKIP}"),
    ],
    "a line that is too long": [
        (rows() + b"x" * (3 << 20), "Line 5 is longer than 2097152 bytes."),
    ],
    "no word": [
        (rows() + b" 1 2 3\n", f"Line 5 has no word{SKIP}"),
        (rows() + b"  1 2 3\n", f"Line 5 has no word{SKIP}"),
        (one_more(binary, b""), f"Byte {END_OF_BINARY} has no word{SKIP}"),
        (after(b"\t"), f"Line 5 has no word{SKIP}"),
    ],
    "white space in a word": [
        (after(b"gn\tu"), f"Line 5 has a tab in its word{SKIP}"),
        (one_more(binary, b"gn\tu"), f"Byte {END_OF_BINARY} has a tab in its word{SKIP}"),
        (after(b"gn\x0cu"), f"Line 5 has a form feed in its word{SKIP}"),
        (after(b"gn\ru"), f"Line 5 has a carriage return in its word{SKIP}"),
    ],
    "a long word": [
        (after(b"x" * 4097), f"Line 5 has a word of more than 4096 bytes{SKIP}"),
        (
            one_more(binary, b"x" * 4097),
            f"The word at byte {END_OF_BINARY} is longer than 4096 bytes.",
        ),
        (b"4 3\n" + bytes([1]) * 5000, "The word at byte 4 is longer than 4096 bytes."),
    ],
}


FIRST_WORD = 92
"""The offset of the words in a fastText file since 2017: after 17 fields of 4 and 3 of 8 bytes."""


def at(place, why):
    return f"At byte {place} the fastText file {why}."


def changed(row, number):
    vectors = VECTORS.copy()
    vectors[row, 1] = number
    return vectors


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

LAST_WORD = place_of(fasttext(), b"1999")
FASTTEXTS = {
    "a classifier": [
        (content, at(FIRST_WORD, "is a classifier, not a model of words"))
        for content in (fasttext(model=3, loss=3), fasttext(nlabels=2, size=6))
    ],
    "a label": [(fasttext(kinds=[0, 0, 0, 1]), at(LAST_WORD, "has a label among its words"))],
    "quantized": [
        (fasttext(**{field: 7}), at(place, "is quantized (.ftz); import the original .bin"))
        for field, place in (("quantized", QUANTIZED_AT), ("pruned", QUANTIZED_AT - 1))
    ],
    "a version": [
        (
            fasttext(version=version),
            at(4, f"has version {version}; only versions up to 12 are supported"),
        )
        for version in (13, 0, -1)
    ],
    "an invalid header": [
        (fasttext(**{field: value}), at(FIRST_WORD, "has an invalid header"))
        for field, values in INVALID_FIELDS.items()
        for value in values
    ],
    "a wrong number of vectors": [
        (
            fasttext(quantized_shape=shape),
            at(MATRIX_AT, f"has {shape[0]} vectors of dimension {shape[1]}, unlike its header"),
        )
        for shape in ((5, 3), (7, 3), (6, 4), (-6, 3), (2**62, 3), (0, 0))
    ],
    "a second table of invalid size": [
        (
            fasttext(output_quantized_shape=(-1, 3)),
            at(MATRIX_AT + 72 + 17, "has a second table of invalid size"),
        )
    ],
    "data after the end": [
        (fasttext() + b"x", at(len(fasttext()), "continues after its last table")),
        (
            fasttext(output_quantized_shape=(3, 3)),
            at(len(fasttext()) - 12, "continues after its last table"),
        ),
    ],
    "a vector that is not finite": [
        (
            fasttext(*table),
            at(end, f"has a value that is not finite in vector {vector}"),
        )
        for number in (np.nan, -np.inf)
        for table, vector, end in (
            ((WORDS, changed(2, number)), 2, MATRIX_AT + 24),
            ((WORDS, VECTORS, BUCKETS * [[1], [number]]), 5, MATRIX_AT + 60),
        )
    ],
    "a count": [
        (
            fasttext(counts=[3, 2, 1, count]),
            at(LAST_WORD, f"has a word with the count {count}"),
        )
        for count in (0, -1)
    ],
    "a word of fastText": [
        (
            fasttext([*WORDS[:3], b"x" * 4097]),
            at(LAST_WORD, "has a word longer than 4096 bytes"),
        ),
        *(
            (fasttext([*WORDS[:3], word]), f"Byte {LAST_WORD} {why}")
            for word, why in (
                (b"", f"has no word{SKIP}"),
                (b" \t", f"has no word{SKIP}"),
                (b"gn\xff", NOT_UTF8),
                (b"\xed\xa0\x80", NOT_UTF8),
                (b"gn\tu", f"has a tab in its word{SKIP}"),
                (b"zebra", f"repeats the word of an earlier row{SKIP}"),
            )
        ),
    ],
}


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
    "empty": [(b"", "The file is empty.")],
    "a pickle": [
        (pickle.dumps(what, protocol), A_PICKLE)
        for what in PICKLED.values()
        for protocol in range(6)
    ],
    "an array": [(npy(), f"The file is {ARRAY}")],
    "a table": [
        (content, f"The file is a database, tensors or a table; {AS_TEXT}")
        for content in (
            database(),
            b"\x89HDF\r\n\x1a\n" + bytes(88),
            save({"vectors": VECTORS}),
            b"PAR1" + bytes(50),
            b"MATLAB 5.0 MAT-file, Platform: GLNXA64",
            b"\xd0\xcf\x11\xe0" + bytes(50),
        )
    ],
    "a web page": [
        (
            b"<!DOCTYPE html>\n<html>\n<body>Not found</body>\n</html>\n",
            "The file is a web page or XML, not vectors.",
        )
    ],
    "JSON": [
        (content, "The file is JSON; save words and vectors as text.")
        for content in (
            b'{"zebra": [0.5, 1], "okapi": [1, 2]}',
            b'{"word": "zebra", "vector": [0.5, 1]}\n' * 3,
            b'[["zebra", [0.5, 1]]]',
        )
    ],
    "a pointer of Git LFS": [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "The file is a pointer of Git LFS; fetch its content with `git lfs pull`.",
        )
    ],
    "an archive": [
        (content, "The file is an archive; unpack it first.")
        for content in (
            tar(),
            *(start + bytes(9) for start in (b"(\xb5/\xfd\x20", b'\x04"M\x18', b"\x1f\x9d\x90")),
        )
    ],
    "unknown": [
        (content, UNKNOWN)
        for content in (b"\n", b"   ", bytes(1000), b"x" * (3 << 20), b"0.5\n0.25\n")
    ],
}


pytestmark = pytest.mark.slow

DAMAGED = {**ROWS, **FASTTEXTS, **FOREIGN}
CASES = [(kind, index) for kind, cases in DAMAGED.items() for index in range(len(cases))]


@pytest.mark.parametrize(("kind", "index"), CASES)
def test_a_damaged_file_is_rejected_with_its_position(importer, monkeypatch, kind, index):
    monkeypatch.chdir(importer.place)  # an unpickled file would create a file here
    content, message = DAMAGED[kind][index]
    assert importer.refusal(content) == message


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("kind", ["a wrong count", "quantized", "an array", "unknown"])
def test_a_compressed_damaged_file_has_the_same_error(importer, kind, packing):
    for content, message in DAMAGED[kind]:
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
