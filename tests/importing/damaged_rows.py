"""Damaged GloVe and word2vec files by kind and case, each with the message that rejects it."""

import numpy as np

from tests.importing.files import VECTORS, WORDS, binary, row, rows, text

SKIP = "; --skip-bad-rows skips such rows."
NOT_UTF8 = f"has a word that is not UTF-8 (--encoding names another encoding){SKIP}"
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


def place_of(content, word):
    """The offset of a word."""
    return content.index(word)


COLUMNS = {
    "one number less": (after("gnu", b"1 2"), "Line 5 has 2 values, but line 1 has 3"),
    "a number more": (after("gnu", b"1 2 3 4"), "Line 5 has 4 values, but line 1 has 3"),
    "a word alone": (after("gnu", b"")[:-2] + b"\n", "Line 5 has 0 values, but line 1 has 3"),
    "the first line has less": (
        row("gnu", b"1 2") + rows(),
        "Line 2 has 3 values, but line 1 has 2",
    ),
    "the first line has more": (
        row("gnu", b"1 2 3 4") + rows(),
        "Line 2 has 3 values, but line 1 has 4",
    ),
    "two spaces": (after("gnu", b"1  2 3"), "Line 5 has 4 values, but line 1 has 3"),
    "a header of three numbers": (text(header=b"4 3 1"), "Line 2 has 3 values, but line 1 has 2"),
    "a header that declares less": (
        text(header=b"4 2"),
        "Line 2 has 3 values, but line 1 declares 2",
    ),
    "a header that declares more": (
        text(header=b"4 4"),
        "Line 2 has 3 values, but line 1 declares 4",
    ),
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
            f"Line 1 declares 3 words, but more data follows at byte {END_OF_THIRD}.",
        ),
        "too high, binary": (
            binary(header=b"5 3"),
            cut_off(5, END_OF_BINARY, 5),
        ),
        "huge, binary": (
            binary(header=b"1000000000000 3"),
            cut_off(1000000000000, END_OF_BINARY + 12, 5),
        ),
        "a header alone": (
            b"4 3\n",
            cut_off(4, 4, 1),
        ),
        "a header alone without an end": (
            b"4 3",
            cut_off(4, 3, 1),
        ),
        "cut in a vector": (
            binary()[:-3],
            cut_off(4, END_OF_BINARY - 3, 4),
        ),
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
        "cut in a character": (
            after("gnü".encode()[:-1]),
            f"Line 5 {NOT_UTF8}",
        ),
        "a lone surrogate": (after(b"\xed\xa0\x80"), f"Line 5 {NOT_UTF8}"),
        "overlong": (after(b"\xc0\xaf"), f"Line 5 {NOT_UTF8}"),
        "the first": (row(b"\xe9t\xe9") + rows(), f"Line 1 {NOT_UTF8}"),
        "in binary": (
            one_more(binary, b"gn\xff"),
            f"Byte {END_OF_BINARY} {NOT_UTF8}",
        ),
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
        "of numbers": (row("gnu", b"1 " * (2 << 20)), "Line 1 is longer than 2097152 bytes."),
    },
    "no word": {
        "in text": (rows() + b" 1 2 3\n", f"Line 5 has no word{SKIP}"),
        "in binary": (one_more(binary, b""), f"Byte {END_OF_BINARY} has no word{SKIP}"),
        "a tab for a word": (after(b"\t"), f"Line 5 has no word{SKIP}"),
    },
    "a line feed in a word": {
        "in binary": (
            one_more(binary, b"gn\nu"),
            f"Byte {END_OF_BINARY} has a line feed in its word{SKIP}",
        ),
    },
    "a long word": {
        "in text": (
            after(b"x" * 4097),
            f"Line 5 has a word of more than 4096 bytes{SKIP}",
        ),
    },
    "a word without an end": {
        "in binary": (
            one_more(binary, b"x" * 4097),
            f"The word at byte {END_OF_BINARY - 1} is longer than 4096 bytes.",
        ),
        "up to the end of the file": (
            b"4 3\n" + bytes([0x80]) * 5000,
            "The word at byte 4 is longer than 4096 bytes.",
        ),
    },
}
