"""Damaged files of vectors: each kind is rejected with its own message and position."""

import io
import pickle
from fractions import Fraction
from itertools import count

import numpy as np
import pytest
from safetensors.numpy import save

from polyseme.importing import ImportOptions, ImportProblem
from polyseme.importing.files import VectorFile
from polyseme.importing.importer import open_reader
from polyseme.terminal import ProgressBar
from tests.importing.files import (
    BUCKETS,
    VECTORS,
    WORDS,
    binary,
    fasttext,
    row,
    rows,
    text,
)

SKIP = "; --skip-bad-rows skips such rows."
NOT_UTF8 = (
    "has a word that is not UTF-8; --encoding names another encoding, and --skip-bad-rows skips"
    " such rows."
)
NOT_FINITE = "has a value that is not finite as float32"
END_OF_BINARY = len(binary())
THIRD = binary().index(b"1999") - 1
"""The end of the third row, with its line feed."""


def after(word, numbers=b"1 2 3"):
    """A GloVe file with one more line, which is the fifth."""
    return rows() + row(word, numbers)


def one_more(word, vector=(1, 2, 3)):
    """A binary file with one more word, at `END_OF_BINARY`."""
    return binary([*WORDS, word], np.vstack([VECTORS, [vector]]).astype("f4"))


NUMBERS = {
    "has an invalid number": (b"0x1p3", b"1_0", b"1,5", b"3\0", "٣".encode(), b"\xff", b"3\t3"),
    NOT_FINITE: (b"nan", b"-inf", b"Infinity", b"1e39"),
}
UNUSABLE = [
    ("has 2 values, but most lines have 3", after("gnu", b"1 2")),
    ("has 4 values, but most lines have 3", after("gnu", b"1.5 2 3 4")),
    ("has 0 values, but most lines have 3", rows() + b"gnu\n"),
    *(
        (problem, after("gnu", b"1 2 " + number))
        for problem, numbers in NUMBERS.items()
        for number in numbers
    ),
    (NOT_FINITE, one_more("gnu", (1, np.nan, 3))),
    *((NOT_UTF8, after(b"gn" + end)) for end in (b"\xff", b"\xed\xa0\x80")),
    (NOT_UTF8, one_more(b"gn\xff")),
    ("repeats the word of line 2", after("Quagga")),
    (f"repeats the word of byte {binary().index(b'okapi')}", one_more("okapi")),
    ("has no word", rows() + b" 1 2 3\n"),
    ("has no word", rows() + b"  1 2 3\n"),
    ("has no word", after(b"\t")),
    ("has no word", one_more(b"")),
    ("has a tab in its word", after(b"gn\tu")),
    ("has a form feed in its word", after(b"gn\x0cu")),
    ("has a carriage return in its word", after(b"gn\ru")),
    ("has a word of more than 4096 bytes", after(b"x" * 4097)),
]
"""Files whose last row is unusable, each with the problem of that row."""


MORE = ": the number is wrong, or a word has a space."
FEW_VALUES = f"Line 1 has 2 values, but most lines have 3{SKIP}"
OTHER_WIDTH = "Line 1 declares vectors of dimension {}, but most lines have 3 values."
TOO_FEW = "Line 1 declares {} words, but the file ends after {}."
TOO_SHORT = "Line 1 declares {} words, but the file ends at byte {} in word {}."
EMPTY = f"Line 5 is empty{SKIP}"
FILES = [
    (row("gnu", b"1 2") + rows(), FEW_VALUES),
    (text(header=b"4 3 1"), FEW_VALUES),
    (text(header=b"5 3") + b"gnu 1 2\n", f"Line 6 has 2 values, but line 1 declares 3{SKIP}"),
    (text(header=b"4 2"), OTHER_WIDTH.format(2)),
    (text(header=b"4 4"), OTHER_WIDTH.format(4)),
    (text(header=b"3 3"), "Line 1 declares 3 words, but line 5 has one more."),
    (text(header=b"5 3"), TOO_FEW.format(5, 4)),
    (text(header=b"9" * 20 + b" 3"), TOO_FEW.format("9" * 20, 4)),
    (b"4 3", TOO_FEW.format(4, 0)),
    (
        binary(header=b"3 3"),
        f"Line 1 declares 3 words, but more data follows at byte {THIRD}{MORE}",
    ),
    (binary(header=b"5 3"), TOO_SHORT.format(5, END_OF_BINARY, 5)),
    (binary(header=b"%d 3" % 10**12), TOO_SHORT.format(10**12, END_OF_BINARY + 12, 5)),
    (binary()[:-3], TOO_SHORT.format(4, END_OF_BINARY - 3, 4)),
    (binary()[: THIRD + 3], TOO_SHORT.format(4, THIRD + 3, 4)),
    (row(b"\xe9t\xe9") + rows(), f"Line 1 {NOT_UTF8}"),
    (rows() + rows(), f"Line 5 repeats the word of line 1{SKIP}"),
    (rows() + b"  \t \r\n" + row("gnu"), EMPTY),
    (rows() + b"\n\n" + row("gnu"), EMPTY),
    (b"4 3\n\n" + rows(), f"Line 2 is empty{SKIP}"),
    (rows() + b"x" * (3 << 20), "Line 5 is longer than 2097152 bytes."),
    (one_more(b"x" * 4097), f"The word at byte {END_OF_BINARY} is longer than 4096 bytes."),
    (b"4 3\n" + bytes([1]) * 5000, "The word at byte 4 is longer than 4096 bytes."),
]
HEADERS = {
    b"0 3": "Line 1 declares 0 words; there must be at least one.",
    b"-4 3": "Line 1 declares -4 words; there must be at least one.",
    b"4 0": "Line 1 has vectors of dimension 0; 1 to 65536 are supported.",
    b"4 -3": "Line 1 has vectors of dimension -3; 1 to 65536 are supported.",
    b"4 65537": "Line 1 has vectors of dimension 65537; 1 to 65536 are supported.",
}


HEADER = 92
"""The length of the header of a fastText file since 2017: 17 fields of 4 and 3 of 8 bytes."""
LAST_WORD = fasttext().index(b"1999")
FLAG = LAST_WORD + 14
"""Where the flag for quantized vectors is."""
MATRIX = FLAG + 1 + 16
END = len(fasttext())
INVALID_FIELDS = {
    "dim": (0, 65_537),
    "bucket": (-1, 2**31 - 1),
    "minn": (-1, 65),
    "maxn": (-1, 65, 2),
    "size": (0, 5),
    "nwords": (0, 5),
    "t": (-1.0, float("nan"), float("inf")),
}


def with_nan(row):
    vectors = VECTORS.copy()
    vectors[row, 1] = np.nan
    return vectors


def last_word(word):
    return fasttext([*WORDS[:3], word])


CLASSIFIER = "is a classifier, not a model of words"
NOT_FINITE_ROW = "has a value that is not finite in vector"
FASTTEXTS = [
    (fasttext(model=3, loss=3), HEADER, CLASSIFIER),
    (fasttext(nlabels=2, size=6), HEADER, CLASSIFIER),
    (fasttext(kinds=[0, 0, 0, 1]), LAST_WORD, "has a label among its words"),
    (fasttext(quantized=7), FLAG + 1, "is quantized (.ftz); import the original .bin"),
    (fasttext(pruned=7), FLAG, "is quantized (.ftz); import the original .bin"),
    (fasttext(version=13), 4, "has version 13; only versions up to 12 are supported"),
    (fasttext(version=0), 4, "has version 0; only versions up to 12 are supported"),
    *(
        (fasttext(**{field: value}), HEADER, "has an invalid header")
        for field, values in INVALID_FIELDS.items()
        for value in values
    ),
    *(
        (
            fasttext(quantized_shape=shape),
            MATRIX,
            f"has {shape[0]} vectors of dimension {shape[1]}, unlike its header",
        )
        for shape in ((5, 3), (6, 4), (2**62, 3))
    ),
    (fasttext(output_quantized_shape=(-1, 3)), END - 48, "has a second table of invalid size"),
    (fasttext() + b"x", END, "continues after its last table"),
    (fasttext(output_quantized_shape=(3, 3)), END - 12, "continues after its last table"),
    (fasttext(WORDS, with_nan(2)), MATRIX + 24, f"{NOT_FINITE_ROW} 2"),
    (fasttext(WORDS, VECTORS, BUCKETS * [[1], [-np.inf]]), MATRIX + 60, f"{NOT_FINITE_ROW} 5"),
    (fasttext(counts=[3, 2, 1, 0]), LAST_WORD, "has a word with the count 0"),
    (last_word(b"x" * 4097), LAST_WORD, "has a word longer than 4096 bytes"),
]
"""Files, each with the byte and the problem at that byte."""
FASTTEXT_WORDS = {
    b"": f"has no word{SKIP}",
    b" \t": f"has no word{SKIP}",
    b"gn\xff": NOT_UTF8,
    b"\xed\xa0\x80": NOT_UTF8,
    b"gn\tu": f"has a tab in its word{SKIP}",
    b"zebra": f"repeats the word of an earlier row{SKIP}",
}


ARRAY = "a NumPy array; save words and vectors as word2vec, with gensim's KeyedVectors."
A_PICKLE = (
    "The file is a pickle, which can run code and is never read; save the vectors with"
    " gensim's save_word2vec_format."
)
A_TABLE = "The file is a database, tensors or a table; save words and vectors as text."
UNKNOWN = (
    "The format is unknown: line 1 is neither a word and its values nor a word2vec header,"
    " and the file is not a fastText .bin."
)
PICKLED = (dict(zip(WORDS, VECTORS, strict=True)), list(WORDS), WORDS, VECTORS, Fraction(1, 2))


def npy():
    out = io.BytesIO()
    np.save(out, VECTORS)
    return out.getvalue()


FOREIGN = {
    "The file is empty.": [b""],
    A_PICKLE: [pickle.dumps(what, protocol) for what in PICKLED for protocol in range(6)],
    f"The file is {ARRAY}": [npy()],
    A_TABLE: [
        b"SQLite format 3\0" + bytes(84),
        b"\x89HDF\r\n\x1a\n" + bytes(88),
        save({"vectors": VECTORS}),
        b"PAR1" + bytes(50),
        b"MATLAB 5.0 MAT-file, Platform: GLNXA64",
        b"\xd0\xcf\x11\xe0" + bytes(50),
    ],
    "The file is a web page or XML, not vectors.": [
        b"<!DOCTYPE html>\n<html>\n<body>Not found</body>\n</html>\n"
    ],
    "The file is JSON; save words and vectors as text.": [
        b'{"zebra": [0.5, 1], "okapi": [1, 2]}',
        b'{"word": "zebra", "vector": [0.5, 1]}\n' * 3,
        b'[["zebra", [0.5, 1]]]',
    ],
    "The file is a pointer of Git LFS; fetch its content with `git lfs pull`.": [
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    ],
    "The file is an archive; unpack it first.": [
        b"vectors".ljust(256, b"\0") + b"\0ustar",
        *(start + bytes(9) for start in (b"(\xb5/\xfd\x20", b'\x04"M\x18', b"\x1f\x9d\x90")),
    ],
    UNKNOWN: [b"\n", b"   ", bytes(1000), b"x" * (3 << 20), b"0.5\n0.25\n"],
}
DAMAGED = [
    *FILES,
    *((build(header=header), HEADERS[header]) for header in HEADERS for build in (text, binary)),
    *((file, f"At byte {byte} the fastText file {problem}.") for file, byte, problem in FASTTEXTS),
    *((last_word(word), f"Byte {LAST_WORD} {problem}") for word, problem in FASTTEXT_WORDS.items()),
    *((content, message) for message, contents in FOREIGN.items() for content in contents),
]


pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("content", "message"), DAMAGED, ids=count())
def test_a_damaged_file_is_rejected_with_its_position(importer, content, message):
    options = () if "--skip-bad-rows" in message else ("--skip-bad-rows",)
    assert importer.refusal(content, *options) == message


@pytest.mark.parametrize(("problem", "content"), UNUSABLE, ids=count())
def test_an_unusable_row_is_rejected_or_skipped(importer, problem, content):
    where = "Line 5" if content.startswith(rows()) else f"Byte {END_OF_BINARY}"
    end = "" if problem == NOT_UTF8 else SKIP
    assert importer.refusal(content) == f"{where} {problem}{end}"
    importer.check(content, WORDS, VECTORS, "--skip-bad-rows")


def test_words_are_compared_and_checked_after_decoding(importer):
    for last, problems in (
        ("+AHo-ebra", ("repeats the word of line 1", "repeats the word of an earlier row")),
        ("+2AA-", ("has a word that is not UTF-7",) * 2),  # a lone surrogate
    ):
        words = [*WORDS[:3], last]
        for content, where, problem in (
            (rows(words), "Line 4", problems[0]),
            (fasttext(words), f"Byte {LAST_WORD}", problems[1]),
        ):
            message = importer.refusal(content, "--encoding", "utf-7")
            assert message.startswith(f"{where} {problem}; --")


def test_a_number_too_large_for_float16_is_rejected(importer):
    okapi = binary().index(b"okapi")
    for content, where in (
        (rows(), "Line 3"),
        (binary(), f"Byte {okapi}"),
        (fasttext(), "The file"),
    ):
        message = importer.refusal(content, "--dtype", "float16")
        assert message.startswith(f"{where} has a value that is not finite as float16")


@pytest.mark.parametrize("new", [True, False], ids=["new", "old"])
def test_every_beginning_of_a_fasttext_file_is_rejected(tmp_path, new):
    whole, path = fasttext(new=new), tmp_path / "file"
    for end in range(1, len(whole)):
        path.write_bytes(whole[:end])
        _, reader = open_reader(VectorFile(path), ImportOptions(format="fasttext"))
        with pytest.raises(ImportProblem, match=f"file ends too early, at byte {end}[.]"):
            reader.read(ProgressBar())
