"""`index.npy`: a wrong one is rejected or misses words; it never returns a wrong row."""

from zlib import crc32

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polyseme.errors import ModelFolderError
from polyseme.models.reader import read_model
from polyseme.models.vocabulary import Index, Vocabulary, check_index, count_lines
from tests.models.damage import (
    INDEX,
    VOCABULARY,
    drop,
    index_by_definition,
    index_of,
    npy,
    read_error,
    replace,
    saved,
    with_and_without_verify,
)
from tests.tiny import WORDS, write_tiny

TEXT = "".join(f"{word}\n" for word in WORDS).encode()
LENGTH = "index.npy: the length does not fit vocabulary.txt."
BUCKETS = "index.npy has buckets that are not contiguous or exceed 64 rows."
ROWS = "index.npy does not have each row of vocabulary.txt exactly once."
UNMAPPED = "index.npy is not an array that can be memory-mapped."
DTYPE = "index.npy does not have the dtype uint32."
STARTS, FIRSTS, ROWS_OF = (np.array(part, "<u4") for part in index_by_definition(TEXT))


def write_index(folder, starts=STARTS, firsts=FIRSTS, rows=ROWS_OF):
    """Write another index to a folder and update the manifest's checksums."""
    replace(folder, INDEX, saved(np.concatenate([starts, firsts, rows]).astype("<u4")))


def changed(array, position, number):
    array = array.copy()
    array[position] = number
    return array


def test_the_index_of_three_words_is_the_one_computed_by_hand(tmp_path):
    folder = write_tiny(tmp_path / "tiny", words=["b", "é", "a"], vectors=np.ones((3, 1), "f4"))
    # CRC-32 of b, é (c3 a9) and a: 0x71beeff9, 0x0e048d3e, 0xe8b7be43; modulo 3 they are 2, 2, 0.
    assert [crc32(word.encode()) % 3 for word in ("b", "é", "a")] == [2, 2, 0]
    numbers = np.load(folder / INDEX)
    assert numbers.dtype == np.dtype("<u4")
    assert numbers.tolist() == [*(0, 2, 5, 7), *(0, 1, 1, 3), *(2, 0, 1)]


def test_the_written_index_follows_the_definition(model_folder, bundled):
    assert np.load(model_folder / INDEX).tolist() == index_of(TEXT).tolist()
    text = b"".join(bundled.vocabulary.word(row).encode() + b"\n" for row in range(70_000))
    assert np.array_equal(index_built_from(text), index_of(text))


def index_built_from(text):
    vocabulary = Vocabulary.of(text)
    assert len(vocabulary) == count_lines(text)
    parts = (vocabulary._starts, vocabulary._firsts, vocabulary._rows)
    return np.concatenate([np.asarray(part) for part in parts])


@with_and_without_verify
def test_the_same_index_is_built_for_a_folder_without_one(model_folder, verify):
    mapped = read_model(model_folder, verify=verify).vocabulary
    drop(model_folder, INDEX)
    built = read_model(model_folder, verify=verify).vocabulary
    for word in (*WORDS, "zebra", "", "\n", "a\nb", "\udcff", "appl", "\0"):
        assert mapped.row(word) == built.row(word)
    assert [built.word(row) for row in range(11)] == list(WORDS)
    assert np.array_equal(built._firsts, mapped._firsts)


MISSHAPEN = {
    "one number more": (saved(np.append(index_of(TEXT), np.uint32(0))), LENGTH),
    "one number less": (saved(index_of(TEXT)[:-1]), LENGTH),
    "the index of more words": (saved(index_of(TEXT + b"more\n")), LENGTH),
    "no numbers": (saved(np.empty(0, "<u4")), LENGTH),
    "a table": (saved(index_of(TEXT)[:, None]), UNMAPPED),
    "a number alone": (saved(np.uint32(3)), UNMAPPED),
    "signed": (saved(index_of(TEXT).astype("<i4")), DTYPE),
    "wider": (saved(index_of(TEXT).astype("<u8")), DTYPE),
    "big-endian": (saved(index_of(TEXT).astype(">u4")), DTYPE),
    "floats": (saved(index_of(TEXT).astype("<f4")), DTYPE),
    "objects": (saved(index_of(TEXT).astype(object), allow_pickle=True), DTYPE),
    "a dtype that is a call": (
        npy("{'descr': exit(), 'fortran_order': False, 'shape': (35,), }", bytes(140)),
        UNMAPPED,
    ),
    "more numbers than there are": (
        npy("{'descr': '<u4', 'fortran_order': False, 'shape': (999999999999,), }", bytes(140)),
        "index.npy has more or less data than its header declares.",
    ),
    "nothing": (b"", UNMAPPED),
    "text": (TEXT, UNMAPPED),
}


@with_and_without_verify
@pytest.mark.parametrize("case", MISSHAPEN)
def test_a_malformed_index_is_rejected(model_folder, case, verify):
    content, expected = MISSHAPEN[case]
    replace(model_folder, INDEX, content)
    assert read_error(model_folder, verify=verify) == expected


LAST = "index.npy: the end of line 11 differs from vocabulary.txt."
WRONG = {
    "a start in the middle of a word": (
        {"starts": changed(STARTS, 3, STARTS[3] + 1)},
        "index.npy: the end of line 3 differs from vocabulary.txt.",
    ),
    "a first line that starts later": (
        {"starts": changed(STARTS, 0, 1)},
        "index.npy: the start of line 1 differs from vocabulary.txt.",
    ),
    "an end beyond the end": ({"starts": changed(STARTS, 11, 2**32 - 1)}, LAST),
    "an end before the end": ({"starts": changed(STARTS, 11, STARTS[10])}, LAST),
    "starts backwards": (
        {"starts": STARTS[::-1]},
        "index.npy: the start of line 1 differs from vocabulary.txt.",
    ),
    "buckets that start later": ({"firsts": changed(FIRSTS, 0, 1)}, BUCKETS),
    "buckets that end earlier": ({"firsts": changed(FIRSTS, 11, 10)}, BUCKETS),
    "buckets that end later": ({"firsts": changed(FIRSTS, 11, 12)}, BUCKETS),
    "a bucket that ends before it starts": ({"firsts": changed(FIRSTS, 5, 11)}, BUCKETS),
    "a bucket beyond the end": ({"firsts": changed(FIRSTS, 5, 2**32 - 1)}, BUCKETS),
    "a row twice": ({"rows": changed(ROWS_OF, 4, ROWS_OF[5])}, ROWS),
    "a row beyond the last": ({"rows": changed(ROWS_OF, 4, 11)}, ROWS),
    "a row beyond the last for the last one": (
        {"rows": np.where(ROWS_OF == 10, 11, ROWS_OF).astype("<u4")},
        ROWS,
    ),
    "the largest row": ({"rows": changed(ROWS_OF, 0, 2**32 - 1)}, ROWS),
}


@with_and_without_verify
@pytest.mark.parametrize("case", WRONG)
def test_an_index_with_wrong_numbers_is_rejected(model_folder, case, verify):
    changes, expected = WRONG[case]
    write_index(model_folder, **changes)
    assert read_error(model_folder, verify=verify) == expected


def test_the_buckets_of_the_whole_index_are_checked(tmp_path):
    text = b"".join(b"%d\n" % number for number in range(33_001))
    words = text.decode().split("\n")[:-1]
    folder = write_tiny(tmp_path / "tall", words=words, vectors=np.ones((33_001, 1), np.float16))
    starts, firsts, rows = index_by_definition(text)
    for bucket in (16_383, 16_384, 16_385, 32_768):
        wrong = changed(np.array(firsts), bucket, firsts[bucket - 1] - 1)
        write_index(folder, starts, wrong, rows)
        assert read_error(folder, verify=False) == BUCKETS, bucket


def test_an_index_with_rows_in_wrong_buckets_only_misses_words(model_folder):
    write_index(model_folder, rows=np.roll(ROWS_OF, 1))
    vocabulary = read_model(model_folder, verify=False).vocabulary
    found = [vocabulary.row(word) for word in WORDS]
    assert None in found
    assert all(row in {None, expected} for expected, row in enumerate(found))
    assert [vocabulary.word(row) for row in range(11)] == list(WORDS)
    missed = found.index(None)
    assert read_error(model_folder) == (
        f"index.npy lacks the word of line {missed + 1} in its bucket."
    )


def test_the_rows_of_a_bucket_may_have_any_order(model_folder):
    rows = ROWS_OF.copy()
    largest = int(np.argmax(np.diff(FIRSTS)))
    bucket = slice(FIRSTS[largest], FIRSTS[largest + 1])
    assert len(rows[bucket]) > 1
    rows[bucket] = rows[bucket][::-1].copy()
    write_index(model_folder, rows=rows)
    vocabulary = read_model(model_folder).vocabulary
    assert [vocabulary.row(word) for word in WORDS] == list(range(11))


LENGTH_OF_STARTS, LENGTH_OF_INDEX = 12, 35
NUMBERS = st.integers(0, 2**32 - 1) | st.integers(0, 12)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.dictionaries(st.integers(0, LENGTH_OF_INDEX - 1), NUMBERS, min_size=1, max_size=3),
)
def test_any_change_of_the_numbers_is_rejected_or_only_misses_words(changes):
    numbers = index_of(TEXT)
    numbers[list(changes)] = list(changes.values())
    index = Index.of(numbers, 11)
    try:
        check_index(index, TEXT, verify=False)
    except ModelFolderError:
        return
    vocabulary = Vocabulary(TEXT, index)
    for row, word in enumerate(WORDS):
        assert vocabulary.row(word) in {None, row}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.dictionaries(
        st.integers(LENGTH_OF_STARTS, LENGTH_OF_INDEX - 1), NUMBERS, min_size=1, max_size=3
    )
)
@example({24: 11})
def test_without_checks_wrong_buckets_and_rows_never_return_a_wrong_row(changes):
    """A file may change after its check, while the model is served."""
    numbers = index_of(TEXT)
    numbers[list(changes)] = list(changes.values())
    vocabulary = Vocabulary(TEXT, Index.of(numbers, 11))
    for row, word in enumerate(WORDS):
        try:
            found = vocabulary.row(word)
        except IndexError:
            continue
        assert found in {None, row}


WITH_A_REPETITION = [*WORDS[:7], "bank", *WORDS[8:]]


@pytest.mark.parametrize("with_index", [True, False])
def test_a_repeated_word_is_rejected_by_its_second_line(model_folder, with_index):
    text = "".join(f"{word}\n" for word in WITH_A_REPETITION).encode()
    (model_folder / VOCABULARY).write_bytes(text)
    replace(model_folder, INDEX, saved(index_of(text)))
    if not with_index:
        drop(model_folder, INDEX)
    assert read_error(model_folder) == "vocabulary.txt has a word twice, in line 8."
