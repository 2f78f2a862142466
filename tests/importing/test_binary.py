"""word2vec's binary files: rows that are out of step end the import, and types of values."""

import numpy as np
import pytest

from tests.importing.files import binary
from tests.importing.test_damaged_files import SKIP

WORDS = ["the", "bank", "river", "money", "lake", "shore"]
VECTORS = np.random.default_rng(1).standard_normal((6, 5)).astype(np.float32)
ENDS = {"line feeds": b"\n", "two line feeds": b"\n\n", "nothing": b""}
OUT_OF_STEP = (
    ", so the rows are out of step: line 1 declares a wrong dimension, or a word has a space;"
    " replace spaces in words by `_`, or save the vectors as text"
)


def named(index, word):
    """The words, of which one has another name."""
    return [word if i == index else one for i, one in enumerate(WORDS)]


def test_the_row_of_a_phrase_is_named(importer):
    words, vectors = ["the", "new york", "bank", "river"], np.eye(4, 3, dtype=np.float32)
    content = binary(words, vectors)
    begin = content.index(b"new york")
    what = "does not end with a line feed as the first does"
    assert importer.refusal(content) == f"The row at byte {begin} {what}{OUT_OF_STEP}."
    message = importer.refusal(binary(words, vectors, b""))
    assert message == f"The word at byte {begin - 1} has a space{OUT_OF_STEP}."
    # After three zero bytes, which are the end of its vector, the next word is not text.
    content = binary(["the", "new", b"\0\0\0bank", "river"], vectors, b"")
    begin = content.index(b"\0\0\0bank")
    assert importer.refusal(content, "--skip-bad-rows") == (
        f"The word at byte {begin} is not UTF-8 text{OUT_OF_STEP}; --encoding names another"
        " encoding."
    )


@pytest.mark.parametrize("phrase", ["a b", "x yz abc", "new  york", "où là"])
@pytest.mark.parametrize("index", [0, 1, 5])
@pytest.mark.parametrize("end", ENDS)
def test_a_phrase_is_rejected_and_never_skipped(importer, end, index, phrase):
    content = binary(named(index, phrase), VECTORS, ENDS[end])
    message = importer.refusal(content, "--skip-bad-rows")
    assert "a word has a space" in message
    assert "--skip-bad-rows" not in message


def test_values_that_begin_with_text_are_no_phrase(importer):
    """The numbers that the bytes `at ` and `a b ` begin are usual, and those after them are not."""
    vectors = np.full((6, 2), 0.25, np.float32)
    vectors[2, 0], vectors[3, 0] = np.frombuffer(b"at >a b>", "<f4")
    words, read = importer.read(binary(WORDS, vectors, b""))
    assert words == WORDS
    assert read.tobytes() == vectors.tobytes()


@pytest.mark.parametrize("end", ENDS)
def test_rows_with_certain_ends_are_skipped(importer, end):
    vectors = VECTORS.copy()
    vectors[1, 3], vectors[4] = np.nan, -np.inf
    content = binary(named(2, ""), vectors, ENDS[end])
    first = content.index(b"bank")
    assert importer.refusal(content) == (
        f"Byte {first} has a value that is not finite as float32{SKIP}"
    )
    words, read = importer.read(content, "--skip-bad-rows")
    assert words == ["the", "money", "shore"]
    assert read.tobytes() == VECTORS[[0, 3, 5]].tobytes()


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8", "<f2"])
@pytest.mark.parametrize("end", ENDS)
def test_values_of_other_types_are_read(importer, end, dtype):
    vectors = VECTORS.astype("f2").astype("f4")
    lines = [
        word.encode() + b" " + vector.astype(dtype).tobytes()
        for word, vector in zip(WORDS, vectors, strict=True)
    ]
    content = b"6 5\n" + b"".join(line + ENDS[end] for line in lines)
    words, read = importer.read(content)
    assert words == WORDS
    assert np.array_equal(read, vectors)


@pytest.mark.parametrize("end", ENDS)
def test_zeros_and_unusual_values_of_the_usual_type_are_read(importer, end):
    tables = [np.full((6, 5), value, np.float32) for value in (0.0, 1e-20, 3e38, 1e-45)]
    tables.append(VECTORS.copy())
    tables[-1][3] = 0
    tables.append(VECTORS.copy())
    tables[-1][0, 1] = np.frombuffer(b" 5.\n", "<f4")[0]  # as a line of text ends
    for vectors in tables:
        assert np.array_equal(importer.read(binary(WORDS, vectors, ENDS[end]))[1], vectors)


@pytest.mark.parametrize("declared", [4, 6])
@pytest.mark.parametrize("end", ENDS)
def test_a_wrong_dimension_is_rejected(importer, end, declared):
    content = binary(WORDS, VECTORS, ENDS[end], header=b"6 %d" % declared)
    message = importer.refusal(content, "--skip-bad-rows")
    assert "out of step" in message or message.startswith("Line 1 declares 6 words, but the file")
