"""Rows in the forms of published files, in chunks of any size, with skipped rows and limits.

Rows of word2vec's binary files that are out of step end the import.
"""

import os
import signal
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from polyseme.importing import importer as importing
from polyseme.importing import readers
from tests.conftest import handler_of
from tests.importing.conftest import refusal_in
from tests.importing.files import (
    FORMATS,
    PACKINGS,
    VECTORS,
    WORDS,
    binary,
    build,
    fasttext,
    packed,
    row,
    rows,
    text,
)
from tests.importing.test_damaged_files import SKIP


@pytest.mark.parametrize(
    "content",
    [
        rows(end=b"\t \r\n"),
        rows()[:-1],
        rows() + b"\r\n   \n",
        text(end=b"\r\n"),
        text() + b"\n \n",
        text(header=b" +4\t 03  "),
        binary()[:-1],
        binary() + b"\n",
        binary(end=b"", header=b"4 3\r"),
    ],
)
def test_line_ends_and_blanks_may_vary(importer, content):
    importer.check(content, WORDS, VECTORS)


def test_numbers_may_have_any_usual_notation(importer):
    content = row("gnu", b"+.5 5. 1E3") + row("emu", b"1e-400 -0 3.40282350e38")
    content += row("yak", b"0" * 30 + b"1 0 0")
    expected = [[0.5, 5, 1000], [0, -0.0, np.finfo(np.float32).max], [1, 0, 0]]
    importer.check(content, ["gnu", "emu", "yak"], np.array(expected, np.float32))


@pytest.mark.parametrize("kind", FORMATS)
def test_the_first_words_are_read_up_to_a_limit(importer, kind):
    for limit in (1, 3, 4, 1_000_000):
        importer.check(build(kind), WORDS[:limit], VECTORS[:limit], "--limit", limit)


def test_rows_after_the_limit_are_not_checked(importer):
    for content in (
        rows() + b"gnu\n\xff nan nan nan\n",
        text(header=b"9 3"),
        binary(header=b"9 3") + b"\xff",
    ):
        assert importer.read(content, "--limit", 4)[0] == list(WORDS)


def test_bad_rows_and_empty_lines_are_skipped_and_counted(importer):
    """`test_damaged_files.py` has all kinds of rows. Empty lines at the end are not counted."""
    content = text(end=b"\n \n\n")
    assert importer.read(content, "--skip-bad-rows", "--limit", 2)[0] == list(WORDS[:2])
    importer.model(content, "--skip-bad-rows")
    several = "polyseme: 8 unusable rows were skipped; the first is line 2."
    assert several in importer.progress
    importer.model(rows() + row("zebra"), "--skip-bad-rows")
    assert "polyseme: 1 unusable row was skipped: line 5." in importer.progress


@pytest.mark.parametrize("build", [rows, binary])
def test_a_file_whose_rows_are_mostly_unusable_is_rejected(importer, build):
    words = ["the", *(b"w%d\xff" % number for number in range(101))]
    vectors = np.ones((102, 3), np.float32)
    message = importer.refusal(build(words, vectors), "--skip-bad-rows")
    assert message.startswith("Most rows are unusable, 101 of 102: ")
    assert message.endswith(" has a word that is not UTF-8.")
    words[101] = "of"
    assert importer.read(build(words, vectors), "--skip-bad-rows")[0] == ["the", "of"]


def test_a_word_with_a_bad_row_gets_its_next_row(importer):
    content = rows() + row("gnu", b"1 nan 3") + row("gnu", b"4 5 6") + row("emu")
    # Skipped rows count toward the limit.
    vectors = np.vstack([VECTORS, np.array([[4, 5, 6]], "f4")])
    importer.check(content, [*WORDS, "gnu"], vectors, "--skip-bad-rows", "--limit", 6)
    # Any number of empty lines may be skipped.
    content = rows() + b"\n" * 101 + row("gnu")
    assert importer.read(content, "--skip-bad-rows")[0] == [*WORDS, "gnu"]


def test_a_file_of_only_bad_rows_is_rejected(importer):
    message = importer.refusal(row("gnu", b"nan nan nan"), "--skip-bad-rows")
    assert message == "The file has no usable vectors: all rows were skipped."
    message = importer.refusal(fasttext([b"\xff"], VECTORS[:1], ()), "--skip-bad-rows")
    assert message.endswith("has no usable word.")


EXAMPLES = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0\t\n\v\f\r \ufeff")
SOME_WORDS = st.lists(
    st.text(LETTERS, min_size=1, max_size=12).filter(lambda word: word.encode().strip()),
    min_size=1,
    max_size=12,
    unique=True,
)


@st.composite
def tables(draw):
    """Words and a vector for each."""
    words = draw(SOME_WORDS)
    shape = len(words), draw(st.integers(1, 5))
    return words, draw(arrays(np.float32, shape, elements=NUMBERS))


@pytest.fixture
def batches(monkeypatch):
    """Set the number of values that are parsed at once."""
    return partial(monkeypatch.setattr, readers, "BATCH_VALUES")


@pytest.mark.parametrize("kind", FORMATS)
@EXAMPLES
@given(table=tables(), packing=st.sampled_from(PACKINGS), size=st.integers(1, 40))
@example((["\x1c", "\x85", "\u2028", "a\xa0b", "é\u3000"], np.ones((5, 2), np.float32)), "plain", 1)
@example((["nan", "1e5", "-", "#", '"'], np.eye(5, dtype=np.float32)), "gz", 7)
@pytest.mark.slow
def test_words_and_numbers_round_trip(module_importer, batches, kind, table, packing, size):
    batches(size)
    words, vectors = table
    content = packed(build(kind, words, vectors), packing)
    module_importer.check(content, words, vectors, "--format", kind)


@pytest.mark.parametrize("kind", FORMATS)
@EXAMPLES
@given(packing=st.sampled_from(PACKINGS), data=st.data())
def test_a_changed_file_is_read_or_rejected_in_one_sentence(module_importer, kind, packing, data):
    content = bytearray(packed(build(kind), packing))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(start, min(start + 20, len(content))))
        content[start:end] = data.draw(st.binary(max_size=20))
    for options in ([], ["--skip-bad-rows"]):
        done = module_importer.run(bytes(content), "--name", "m", "--replace", *options)
        assert done.code == 0 or done.err.splitlines()[-1].startswith("polyseme: ")


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_table_grows_by_any_number_of_rows(importer, batches, dtype):
    vectors = np.arange(1, 121, dtype=np.float32).reshape(40, 3)
    content = rows([f"gnu{i}" for i in range(40)], vectors)
    batches(1)
    _, read = importer.read(content, "--dtype", dtype)
    assert np.allclose(read, vectors, rtol=0, atol=0.5)


def test_an_unusable_number_has_its_line_in_any_batch(importer, batches):
    words = [f"gnu{number}" for number in range(300)]
    vectors = np.random.default_rng(2).standard_normal((300, 7)).astype(np.float32)
    for index, size in ((0, 1), (150, 70), (299, 7_000_000)):
        batches(size)
        content = rows(words, vectors).splitlines(keepends=True)
        for number, problem in (
            (b"-inf", "a value that is not finite as float32"),
            (b"0x1p3", "an invalid number"),
        ):
            content[index] = content[index].rpartition(b" ")[0] + b" " + number + b"\n"
            message = importer.refusal(b"".join(content))
            assert message.startswith(f"Line {index + 1} has {problem};")


def test_a_file_that_changes_while_it_is_read_is_rejected(importer, monkeypatch):
    path = importer.file(rows())
    read = readers.RowReader.read

    def read_and_change(*arguments):
        table = read(*arguments)
        path.write_bytes(rows() + row("gnu"))
        return table

    monkeypatch.setattr(readers.RowReader, "read", read_and_change)
    done = importer.run(path)
    assert (done.code, done.out) == (1, "")
    problem = refusal_in(done.err)
    assert problem == "The file changed while it was read; import it again."
    assert not any(importer.models.iterdir())


@pytest.mark.parametrize("kind", FORMATS)
def test_an_import_shows_its_progress(importer, monkeypatch, kind):
    monkeypatch.setattr("polyseme.terminal.SECONDS", 0.0)
    done = importer.run(build(kind) + b"\n" * (kind != "fasttext"))
    assert "polyseme: reading, 0 of 0 MB, 4 rows\n" in done.err


def test_insufficient_memory_is_reported(importer, monkeypatch):
    def too_much(*_):
        raise MemoryError

    for place, name in ((readers, "empty_rows"), (readers.RowReader, "read")):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, too_much)
            assert importer.refusal(rows()) == (
                "There is not enough memory; --limit or --dtype int8 uses less."
            )


@pytest.mark.parametrize(
    ("number", "handler", "code"),
    [
        (signal.SIGTERM, signal.SIG_DFL, 143),
        (signal.SIGINT, signal.default_int_handler, 1),
        (signal.SIGHUP, signal.SIG_IGN, 0),  # as under nohup
    ],
)
def test_a_signal_ends_an_import_which_leaves_nothing(importer, monkeypatch, number, handler, code):
    """`tests/models/test_kills.py` stops imports at every step."""
    monkeypatch.setattr(importing, "find_language", lambda _: os.kill(os.getpid(), number))
    with handler_of(number, handler):
        done = importer.run(rows())
    assert (done.code, done.out[:4]) == (code, "" if code else "file")
    assert any(importer.models.iterdir()) == (code == 0)


SOME = ["the", "bank", "river", "money", "lake", "shore"]
TABLE = np.random.default_rng(1).standard_normal((6, 5)).astype(np.float32)
ENDS = {"line feeds": b"\n", "two line feeds": b"\n\n", "nothing": b""}
OUT_OF_STEP = (
    ", so the rows are out of step: line 1 declares a wrong dimension, or a word has a space;"
    " replace spaces in words by `_`, or save the vectors as text"
)


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
    words = [phrase if i == index else word for i, word in enumerate(SOME)]
    content = binary(words, TABLE, ENDS[end])
    message = importer.refusal(content, "--skip-bad-rows")
    assert "a word has a space" in message
    assert "--skip-bad-rows" not in message


def test_values_that_begin_with_text_are_no_phrase(importer):
    """The numbers that the bytes `at ` and `a b ` begin are usual, and those after them are not."""
    vectors = np.full((6, 2), 0.25, np.float32)
    vectors[2, 0], vectors[3, 0] = np.frombuffer(b"at >a b>", "<f4")
    importer.check(binary(SOME, vectors, b""), SOME, vectors)


@pytest.mark.parametrize("end", ENDS)
def test_rows_with_certain_ends_are_skipped(importer, end):
    vectors = TABLE.copy()
    vectors[1, 3], vectors[4] = np.nan, -np.inf
    content = binary([*SOME[:2], "", *SOME[3:]], vectors, ENDS[end])
    first = content.index(b"bank")
    assert importer.refusal(content) == (
        f"Byte {first} has a value that is not finite as float32{SKIP}"
    )
    importer.check(content, ["the", "money", "shore"], TABLE[[0, 3, 5]], "--skip-bad-rows")


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8", "<f2"])
@pytest.mark.parametrize("end", ENDS)
def test_values_of_other_types_are_read(importer, end, dtype):
    vectors = TABLE.astype("f2").astype("f4")
    content = b"6 5\n"
    for word, vector in zip(SOME, vectors, strict=True):
        content += word.encode() + b" " + vector.astype(dtype).tobytes() + ENDS[end]
    importer.check(content, SOME, vectors)


@pytest.mark.parametrize("end", ENDS)
def test_zeros_and_unusual_values_of_the_usual_type_are_read(importer, end):
    tables = [np.full((6, 5), value, np.float32) for value in (0.0, 1e-20, 3e38, 1e-45)]
    tables.append(TABLE.copy())
    tables[-1][3] = 0
    tables.append(TABLE.copy())
    tables[-1][0, 1] = np.frombuffer(b" 5.\n", "<f4")[0]  # as a line of text ends
    for vectors in tables:
        importer.check(binary(SOME, vectors, ENDS[end]), SOME, vectors)


@pytest.mark.parametrize("declared", [4, 6])
@pytest.mark.parametrize("end", ENDS)
def test_a_wrong_dimension_is_rejected(importer, end, declared):
    content = binary(SOME, TABLE, ENDS[end], header=b"6 %d" % declared)
    message = importer.refusal(content, "--skip-bad-rows")
    assert "out of step" in message or message.startswith("Line 1 declares 6 words, but the file")
