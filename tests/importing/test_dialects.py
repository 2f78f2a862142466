"""Text of other programs: it is read if it can be for certain, else rejected with its form."""

import numpy as np
import pytest

from tests.importing.files import numbers, row, rows, text
from tests.importing.test_damaged_files import SKIP

WORDS = ["the", "bank", "river", "money"]
VECTORS = np.array(
    [[0.346, 0.822, -1.303], [0.905, -0.537, 0.581], [0.365, 0.294, 1e-3], [-0.736, -12.25, 0.5]],
    np.float32,
)
LINES = [(word.encode(), numbers(vector)) for word, vector in zip(WORDS, VECTORS, strict=True)]
PLAIN = rows(WORDS, VECTORS)
HEADER = b"4 3\n"


def lines(start=b"%s", joint=b" ", separator=b" ", end=b"\n", before=b""):
    """A file whose lines are divided otherwise; `%d` in the start is the number of the row."""
    return before + b"".join(
        (start % ((i, word) if b"%d" in start else word)) + joint + separator.join(values) + end
        for i, (word, values) in enumerate(LINES)
    )


def commas(content):
    return content.replace(b".", b",")


READ = {
    "tabs": lines(b"%s", b"\t", b"\t"),
    "a tab after the word": lines(b"%s", b"\t"),
    "a tab after the word, under a header": lines(b"%s", b"\t", before=HEADER),
    "a tab and commas": lines(b"%s", b"\t", b","),
    "commas": lines(b"%s", b",", b","),
    "semicolons": lines(b"%s", b";", b";"),
    "vertical bars": lines(b"%s", b"|", b"|"),
    "a space and commas": lines(b"%s", b" ", b","),
    "indented columns": lines(b"%8s", b"  ", b"   "),
    "a tab before the word": lines(b"\t%s"),
    "a colon": lines(b"%s", b": "),
    "a colon without a space": lines(b"%s", b":"),
    "a colon under a header": lines(b"%s", b": ", before=HEADER),
    "an equals sign": lines(b"%s", b" = "),
    "no-break spaces": lines(b"%s", "\u00a0".encode(), "\u00a0".encode()),
    "ideographic spaces": lines(b"%s", "\u3000".encode(), "\u3000".encode()),
    "quotation marks of R": lines(b'"%s"', before=b'"V1" "V2" "V3"\n'),
    "quotation marks and an index of R": lines(b'"%d" "%s"', before=b'"word" "V1" "V2" "V3"\n'),
    "CSV of R": lines(b'"%s"', b",", b",", before=b'"","V1","V2","V3"\n'),
    "CSV of R with decimal commas": commas(
        lines(b'"%s"', b";", b";", before=b'"";"V1";"V2";"V3"\n')
    ),
    "CSV of pandas": lines(b"%s", b",", b",", before=b",0,1,2\n"),
    "CSV of pandas with an index": lines(b"%d,%s", b",", b",", before=b",word,0,1,2\n"),
    "CSV of pandas with quotation marks": lines(b'"%s"', b',"', b'","', b'"\n'),
    "quotation marks and decimal commas": commas(lines(b'"%s"', b',"', b'","', b'"\n')),
    "quotation marks around all values": lines(b"%s", b',"', b" ", b'"\n'),
    "names of two columns": lines(b"%s", b"\t", before=b"word\tvector\n"),
    "an index": lines(b"%d %s"),
    "a numbered list": lines(b"%d. %s"),
    "names of the columns": lines(before=b"word d1 d2 d3\n"),
    "numbers of the columns": lines(before=b"word 1 2 3\n"),
    "names of the columns and tabs": lines(b"%s", b"\t", b"\t", before=b"Word\tA\tB\tC\n"),
    "carriage returns": lines(end=b"\r"),
    "carriage returns under a header": lines(end=b"\r", before=b"4 3\r"),
    "decimal commas": commas(lines()),
    "decimal commas and tabs": commas(lines(b"%s", b"\t", b"\t")),
    "tabs at the ends": lines(b"%s", b"\t", b"\t", b"\t\n"),
    "commas at the ends": lines(b"%s", b",", b",", b",\n"),
    "a byte order mark": b"\xef\xbb\xbf" + PLAIN,
    "a byte order mark before a header": b"\xef\xbb\xbf" + HEADER + PLAIN,
    "UTF-16": ("\ufeff" + PLAIN.decode()).encode("utf-16-le"),
    "UTF-16 of the other order": ("\ufeff" + (HEADER + PLAIN).decode()).encode("utf-16-be"),
    "UTF-32": ("\ufeff" + PLAIN.decode()).encode("utf-32-le"),
    "a header with a comma": lines(b"%s", b",", b",", before=b"4,3\n"),
    "a header with a tab": lines(b"%s", b"\t", b"\t", before=b"4\t3\n"),
}


@pytest.mark.parametrize("case", READ)
def test_text_that_is_divided_otherwise_has_the_same_vectors(importer, case):
    importer.check(READ[case], WORDS, VECTORS)


COLUMN = "A column of whole numbers, such as frequencies or ranks, is {}; remove it."
FREQUENCIES = COLUMN.format("between the word and its values")
OTHERS = (
    "Most lines have other numbers between the word and its values, perhaps values in another"
    " notation; remove or rewrite them."
)
PAIRS = (
    "The values are index:value pairs, as in sparse vectors, which are not supported; write all"
    " values of each vector."
)
NO_WORDS = "The lines have numbers only; each has to begin with a word."
ENCODING = "--encoding names another encoding."
BRACKETS = "The values are in brackets; remove these."


def counted(counts, joint=b" ", before=b""):
    """A file with a whole number after each word."""
    return before + b"".join(
        joint.join([word, b"%d" % count, *values]) + b"\n"
        for count, (word, values) in zip(counts, LINES, strict=True)
    )


MANY = b"".join(b"w%d %d 0.5 0.25\n" % (i, i * 7 % 10) for i in range(10))
REJECTED = {
    "frequencies": (counted([22038615, 77004, 6, 3]), FREQUENCIES),
    "frequencies in another order": (counted([17, 88000, 3, 901]), FREQUENCIES),
    "small frequencies": (counted([9, 5, 5, 1]), FREQUENCIES),
    "frequencies under a header": (counted([9, 50, 5, 1], before=HEADER), FREQUENCIES),
    "ranks": (counted([1, 2, 3, 4]), FREQUENCIES),
    "frequencies with a point": (counted([9000, 50, 5, 1]).replace(b"00 ", b"00.0 "), FREQUENCIES),
    "many small frequencies": (MANY, FREQUENCIES),
    "frequencies with commas": (lines(b"%s 22,038,615"), OTHERS),
    "frequencies after the values": (
        b"the 0.5 .25 9000\nbank 1.5 .25 8\nriver 1.5 .5 3\n",
        COLUMN.format("after the values"),
    ),
    "frequencies before the words": (
        b"90 the 0.5\n8 bank 1.5\n3 river 2.5\n",
        COLUMN.format("before the word"),
    ),
    "frequencies alone": (
        b"the 120\nbank 35\nriver 12\n",
        "The lines have one whole number each, as in a list of frequencies, not vectors.",
    ),
    "pairs": (b"3 50\nbank 0:0.12 7:0.5\nriver 1:0.3 8:0.7\nmoney 2:0.1 7:0.3\n", PAIRS),
    "pairs and tabs": (b"bank\t0:0.12\t7:0.5\nriver\t1:0.3\n", PAIRS),
    "pairs and spaces": (b"bank 0: 0.12 7: 0.5\nriver 1: 3.5\n", PAIRS),
    "pairs and semicolons": (b"bank;0:0.12;7:0.5\nriver;1:3.5\n", PAIRS),
    "pairs and decimal commas": (b"bank 0:0,12 7:0,5\nriver 1:3,5\n", PAIRS),
    "pairs of words": (b"bank river:0.12 lake:0.5\nriver bank:2\n", PAIRS),
    "pairs with equals signs": (b"bank 0=0.12 7=0.5\nriver 1=3.5\n", PAIRS),
    "a dict": (b"bank {0: 0.12, 7: 0.5}\nriver {1: 3.5}\n", PAIRS),
    "SVMlight": (b"1 3:0.5 9:1\n0 4:0.25\n", PAIRS),
    "brackets": (lines(b"%s", b" [", b", ", b"]\n"), BRACKETS),
    "tuples": (lines(b"('%s'", b", (", b", ", b"))\n"), BRACKETS),
    "lists in CSV": (lines(b"%s", b',"[', b", ", b']"\n'), BRACKETS),
    "minus signs": (lines(b"%s \xe2\x88\x920.5 ."), OTHERS),
    "an index without words": (b'"V1" "V2"\n"1" 0.5 1.5\n"2" 1.5 2.5\n', NO_WORDS),
    "a matrix and tabs": (b"1\t0.25\t0.5\n0\t0.5\t0.25\n0\t0.5\t0.5\n", NO_WORDS),
    "a matrix": (b"0.5 0.25 1\n0.25 0.5 1\n", NO_WORDS),
    "UTF-16 without a mark": (
        PLAIN.decode().encode("utf-16-le"),
        f"The file is UTF-16 or UTF-32 without a byte order mark; {ENCODING}",
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_text_with_another_content_is_rejected_with_its_form(importer, case):
    content, message = REJECTED[case]
    assert importer.refusal(content, "--skip-bad-rows") == message


def test_an_encoding_may_be_named_for_text_without_a_mark(importer):
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le"):
        content = PLAIN.decode().encode(encoding)
        assert importer.read(content, "--encoding", encoding)[0] == WORDS
    message = importer.refusal(PLAIN + b"x", "--encoding", "utf-16-le")
    assert message.startswith("The format is unknown")
    for options in ((), ("--format", "glove")):
        message = importer.refusal(content, "--encoding", "utf-16", *options)
        assert message == f"The file has no byte order mark of UTF-16; {ENCODING}"
    half = ("\ufeff" + PLAIN.decode()).encode("utf-16-le")[:-1]
    assert importer.refusal(half).startswith("The file is not valid UTF-16;")


OTHERWISE = "separates the word from its values in another way than other lines"
OF_FOUR = "has 4 values, but most lines have 3"


def indexed(separator, word, values=b"0.5 1 2.5"):
    """Numbered lines, of which the last has this word and these values."""
    last = separator.join([b"4", word, *values.split()])
    return lines(b"%d" + separator + b"%s", separator, separator) + last


BAD_ROWS = [
    *(
        (PLAIN + row(b"gnu" + number, b"1.5 2 3"), 5, OF_FOUR, WORDS)
        for number in (b" 0.5", b" -.25", b" 3.", b" -1E-2", "\u00a01e5".encode())
    ),
    (b"5 3\n" + PLAIN + b"gnu 0.5 1.5 2 3", 6, "has 4 values, but line 1 declares 3", WORDS),
    # An integer before integers is a value by default.
    (rows(WORDS[:3], VECTORS[:3]) + b"gnu 1 2 3 4\n", 4, OF_FOUR, WORDS[:3]),
    (lines(b"%s,NOUN", b",", b","), 1, "has more than one column before its values", None),
    (b"the,0.5,1.5\nof,,2\nto,1,\na,2,.5\n", 2, "has ", ["the", "a"]),
    (READ["an index"] + b"gnu 0.5 0.5 0.5\n", 5, "has no word", WORDS),
    (READ["a colon"] + b"gnu 0.5 0.5 0.5\n", 5, OTHERWISE, WORDS),
    (READ["commas"] + b"gnu\t0.5\t0.5\t0.5\n", 5, OTHERWISE, WORDS),
    *((indexed(mark, b"gnu", b"0.5 0.5 1 2.5"), 5, OF_FOUR, WORDS) for mark in (b" ", b"\t", b",")),
    # A first row of missing values is not one of names.
    (b"gnu NA NA NA\n" + PLAIN, 1, "has an invalid number", WORDS),
]


@pytest.mark.parametrize(("content", "line", "problem", "words"), BAD_ROWS)
def test_a_row_that_is_divided_otherwise_is_unusable(importer, content, line, problem, words):
    message = importer.refusal(content)
    assert message.startswith(f"Line {line} {problem}")
    assert message.endswith(SKIP)
    if words:
        assert importer.read(content, "--skip-bad-rows")[0] == words


def test_the_import_says_what_it_leaves_out(importer):
    left_out = {
        "quotation marks and an index of R": "the names of the columns in line 1, the index before"
        " each word, the quotation marks around each word",
        "a colon": "the colon after each word",
        "CSV of pandas": "the names of the columns in line 1",
    }
    for case, parts in left_out.items():
        importer.model(READ[case])
        assert f"polyseme: The import leaves out {parts}." in importer.progress
    importer.model(READ["commas"])
    assert "leaves out" not in str(importer.progress)


QUOTED = b'",",0.5,1.5\nthe,0.25,2.5\n"""",1.5,2\n"1,000.5",1,2.5\n"say ""no""",1,0.5\na b,1,.5\n'
BACKSLASH = b'"the",0.5,1.5\n"\\""",0.25,2.5\n"""",1.5,2\n"a\\"b",1,2\n'
PHRASES = ["the", "route 66", "new york", "to infinity", "7 9 11", "nan bread"]
NUMBERS = np.arange(24, dtype=np.float32).reshape(6, 4) + 0.5
UNUSUAL = ["new\u00a0york", "\u2028", "a  b", "e.g.:", ",", '"', '"quoted"', "1,000.50", "10:30"]
ORDINARY = PLAIN + b"".join(row(word, b"0.5 1 2.5") for word in UNUSUAL)
NAMED = [
    (rows(PHRASES, NUMBERS), PHRASES),
    (text(PHRASES, NUMBERS), PHRASES),
    (ORDINARY, WORDS + UNUSUAL),
    (b"13 3\n" + ORDINARY, WORDS + UNUSUAL),
    (QUOTED, [",", "the", '"', "1,000.5", 'say "no"', "a b"]),
    (BACKSLASH, ["the", '\\"', '"', 'a"b']),
    # A word after an index may be a number.
    *(
        (indexed(mark, word.encode()), [*WORDS, word])
        for mark in (b" ", b"\t", b",")
        for word in ("3.5", "1e5", "1990")
    ),
    (HEADER + rows(WORDS[:3], VECTORS[:3]) + b"gnu 1 2 3 4\n", [*WORDS[:3], "gnu 1"]),
    # The numbers of columns before other values belong to a word.
    (b"gnu 1 2 3\n" + PLAIN, ["gnu", *WORDS]),
]


@pytest.mark.parametrize(("content", "words"), NAMED)
def test_marks_and_numbers_are_parts_of_words(importer, content, words):
    assert importer.read(content)[0] == words


VALUED = [
    # A row with the numbers of the columns is a word.
    (b"gnu 1 2 3\nzebra 2 3 4\n", ["gnu", "zebra"], [[1, 2, 3], [2, 3, 4]]),
    # Embeddings of graphs have the number of a node as its word.
    (b"3 2\n1 .5 .25\n7 .25 .5\n3 1 2\n", ["1", "7", "3"], [[0.5, 0.25], [0.25, 0.5], [1, 2]]),
    # A tab ends a phrase of two words.
    (b"a b\t.5 1.5 2\nc d\t1 2 .5\n", ["a b", "c d"], [[0.5, 1.5, 2], [1, 2, 0.5]]),
    # Whole numbers of few rows are values.
    (b"a 5 1.5\nb 3 2.5\nc 8 1.5\n", ["a", "b", "c"], [[5, 1.5], [3, 2.5], [8, 1.5]]),
    # A single word may end with a mark.
    (b"1 2\nthe: .5 1\n", ["the:"], [[0.5, 1]]),
    (b"1 2\n; .5 1\n", [";"], [[0.5, 1]]),
    (b"1 2\n, .5 1\n", [","], [[0.5, 1]]),
    (b"the,0.5,1.5\n", ["the"], [[0.5, 1.5]]),
]


@pytest.mark.parametrize(("content", "words", "vectors"), VALUED)
def test_numbers_and_marks_are_parts_of_words_or_values(importer, content, words, vectors):
    importer.check(content, words, np.array(vectors, np.float32))
