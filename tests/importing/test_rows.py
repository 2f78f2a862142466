"""Rows in the forms of published files, skipped rows, and the limit of rows."""

import numpy as np
import pytest

from tests.importing.files import VECTORS, WORDS, binary, build, fasttext, row, rows, text


@pytest.mark.parametrize(
    "content",
    [
        rows(end=b"\t \r\n"),
        rows()[:-1],
        rows() + b"\n\n",
        rows() + b"\r\n   \n",
        text(end=b"\r\n"),
        text(end=b" \n"),
        text()[:-1],
        text() + b"\n \n",
        text(header=b" 4\t 3  "),
        text(header=b"+4 +3"),
        text(header=b"0004 03"),
        binary(end=b""),
        binary(end=b"\n\n"),
        binary()[:-1],
        binary() + b"\n",
        binary(end=b"", header=b"4 3\r"),
    ],
)
def test_line_ends_and_blanks_may_vary(importer, content):
    words, vectors = importer.read(content)
    assert words == list(WORDS)
    assert vectors.tobytes() == VECTORS.tobytes()


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("+.5", 0.5),
        ("5.", 5),
        ("1E3", 1000),
        ("1e-400", 0),
        ("-0", -0.0),
        ("3.40282350e38", np.finfo(np.float32).max),
        ("0" * 30 + "1", 1),
    ],
)
def test_numbers_may_have_any_usual_notation(importer, number, value):
    content = rows() + row("gnu", b"1 2 " + number.encode())
    for options in ([], ["--skip-bad-rows"]):
        _, vectors = importer.read(content, *options)
        assert vectors.shape == (5, 3)
        assert vectors[4, 2].tobytes() == np.float32(value).tobytes()


@pytest.mark.parametrize("kind", ["glove", "word2vec-text", "word2vec-binary", "fasttext"])
@pytest.mark.parametrize("limit", [1, 3, 4, 5, 1_000_000])
def test_the_first_words_are_read_up_to_a_limit(importer, kind, limit):
    words, vectors = importer.read(build(kind), "--limit", limit)
    assert words == list(WORDS[:limit])
    assert np.array_equal(vectors, VECTORS[:limit])


def test_rows_after_the_limit_are_not_checked(importer):
    for content in (
        rows() + b"gnu\n\xff nan nan nan\n",
        text(header=b"9 3"),
        binary(header=b"9 3") + b"\xff",
    ):
        assert importer.read(content, "--limit", 4)[0] == list(WORDS)


@pytest.mark.parametrize("build", [rows, text])
def test_bad_rows_and_empty_lines_are_skipped_and_counted(importer, build):
    """`test_damaged_files.py` has all kinds of rows."""
    content = build(end=b"\n \n\n")
    assert importer.refusal(content).endswith(" is empty; --skip-bad-rows skips such rows.")
    words, vectors = importer.read(content, "--skip-bad-rows")
    assert words == list(WORDS)
    assert vectors.tobytes() == VECTORS.tobytes()
    assert importer.read(content, "--skip-bad-rows", "--limit", 2)[0] == list(WORDS[:2])
    # Empty lines at the end are not counted.
    done = importer.run(content, "--skip-bad-rows", "--name", "m")
    first = "8 unusable rows were skipped; the first is line 2."
    assert (first if build is text else first.replace("8", "6")) in done.err
    done = importer.run(rows() + row("zebra"), "--skip-bad-rows", "--name", "one")
    assert "1 unusable row was skipped: line 5." in done.err


@pytest.mark.parametrize("build", [rows, text, binary])
def test_a_file_whose_rows_are_mostly_unusable_is_rejected(importer, build):
    words = ["the", *(b"w%d\xff" % number for number in range(101))]
    vectors = np.ones((102, 3), np.float32)
    message = importer.refusal(build(words, vectors), "--skip-bad-rows")
    assert message.startswith("Most rows are unusable, 101 of 102: ")
    assert message.endswith(" has a word that is not UTF-8.")
    words[101] = "of"
    assert importer.read(build(words, vectors), "--skip-bad-rows")[0] == ["the", "of"]


def test_a_word_with_a_bad_row_gets_its_next_row(importer):
    content = rows() + row("gnu", b"1 nan 3") + row("gnu", b"4 5 6")
    words, vectors = importer.read(content, "--skip-bad-rows")
    assert words == [*WORDS, "gnu"]
    assert vectors[4].tolist() == [4, 5, 6]


def test_skipped_rows_count_toward_the_limit(importer):
    content = rows(["zebra", "zebra", "okapi", "gnu"])
    assert importer.read(content, "--skip-bad-rows", "--limit", 3)[0] == ["zebra", "okapi"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (row("gnu", b"nan nan nan"), "The file has no usable vectors: all rows were skipped."),
        (binary(["gnu"], [[np.nan] * 3]), "The file has no usable vectors: all rows were skipped."),
        (fasttext([b"\xff"], VECTORS[:1], ()), "has no usable word."),
    ],
    ids=["text", "binary", "fastText"],
)
def test_a_file_of_only_bad_rows_is_rejected(importer, content, sentence):
    assert importer.refusal(content, "--skip-bad-rows").endswith(sentence)
