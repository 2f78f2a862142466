"""`index.npy`: a wrong one is rejected or misses words; it never returns a wrong row."""

import random
from contextlib import suppress
from itertools import count, islice
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polyseme.errors import ModelFolderError
from polyseme.models.reader import read_model
from polyseme.models.vocabulary import MAX_BUCKET_SIZE, Index, Vocabulary, check_index, count_lines
from tests.models.damage import (
    INDEX,
    VOCABULARY,
    index_by_definition,
    index_of,
    path,
    read_error,
    replace,
    saved,
)
from tests.tiny import WORDS, write_tiny

TEXT = "".join(f"{word}\n" for word in WORDS).encode()
BUCKETS = "index.npy has buckets that are not contiguous or exceed 64 rows."
ROWS = "index.npy does not have each row of vocabulary.txt exactly once."
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
    numbers = np.load(path(folder, INDEX))
    assert numbers.dtype == np.dtype("<u4")
    assert numbers.tolist() == [*(0, 2, 5, 7), *(0, 1, 1, 3), *(2, 0, 1)]


def test_the_written_index_follows_the_definition(model_folder, bundled):
    assert np.load(path(model_folder, INDEX)).tolist() == index_of(TEXT).tolist()
    text = b"".join(bundled.vocabulary.word(row).encode() + b"\n" for row in range(70_000))
    assert np.array_equal(index_built_from(text), index_of(text))


def index_built_from(text):
    vocabulary = Vocabulary.of(text)
    assert len(vocabulary) == count_lines(text)
    parts = (vocabulary._starts, vocabulary._firsts, vocabulary._rows)
    return np.concatenate([np.asarray(part) for part in parts])


LAST = "index.npy: the end of line 11 differs from vocabulary.txt."
WRONG = [
    (
        {"starts": changed(STARTS, 3, STARTS[3] + 1)},
        "index.npy: the end of line 3 differs from vocabulary.txt.",
    ),
    (
        {"starts": changed(STARTS, 0, 1)},
        "index.npy: the start of line 1 differs from vocabulary.txt.",
    ),
    ({"starts": changed(STARTS, 11, 2**32 - 1)}, LAST),
    ({"starts": changed(STARTS, 11, STARTS[10])}, LAST),
    ({"starts": STARTS[::-1]}, "index.npy: the start of line 1 differs from vocabulary.txt."),
    ({"firsts": changed(FIRSTS, 0, 1)}, BUCKETS),
    ({"firsts": changed(FIRSTS, 11, 10)}, BUCKETS),
    ({"firsts": changed(FIRSTS, 11, 12)}, BUCKETS),
    ({"firsts": changed(FIRSTS, 5, 11)}, BUCKETS),
    ({"firsts": changed(FIRSTS, 5, 2**32 - 1)}, BUCKETS),
    ({"rows": changed(ROWS_OF, 4, ROWS_OF[5])}, ROWS),
    ({"rows": changed(ROWS_OF, 4, 11)}, ROWS),
    ({"rows": np.where(ROWS_OF == 10, 11, ROWS_OF).astype("<u4")}, ROWS),
    ({"rows": changed(ROWS_OF, 0, 2**32 - 1)}, ROWS),
    ({"rows": np.roll(ROWS_OF, 1)}, "index.npy lacks the word of line 1 in its bucket."),
]


@pytest.mark.parametrize(("changes", "expected"), WRONG)
def test_an_index_with_wrong_numbers_is_rejected(model_folder, changes, expected):
    write_index(model_folder, **changes)
    assert read_error(model_folder) == expected


ENDS = [
    {"starts": changed(STARTS, 0, 1)},
    {"starts": changed(STARTS, 11, STARTS[11] + 1)},
    {"firsts": changed(FIRSTS, 0, 1)},
    {"firsts": changed(FIRSTS, 11, 10)},
]


@pytest.mark.parametrize("changes", ENDS)
def test_the_ends_of_an_index_are_always_compared(model_folder, changes):
    write_index(model_folder, **changes)
    assert read_error(model_folder, verify=False) == "index.npy does not fit vocabulary.txt."


def test_the_buckets_of_the_whole_index_are_checked(tmp_path):
    text = b"".join(b"%d\n" % number for number in range(33_001))
    words = text.decode().split("\n")[:-1]
    folder = write_tiny(tmp_path / "tall", words=words, vectors=np.ones((33_001, 1), np.float16))
    starts, firsts, rows = index_by_definition(text)
    for bucket in (16_383, 16_384, 16_385, 32_768):
        wrong = changed(np.array(firsts), bucket, firsts[bucket - 1] - 1)
        write_index(folder, starts, wrong, rows)
        assert read_error(folder) == BUCKETS, bucket


NUMBERS = st.integers(0, 2**32 - 1) | st.integers(0, 12)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.dictionaries(st.integers(0, 34), NUMBERS, min_size=1, max_size=3))
@example({24: 11})
def test_any_change_of_the_numbers_is_rejected_or_harmless(changes):
    """Without checks, wrong buckets and rows (from 12 on) never return a wrong row."""
    numbers = index_of(TEXT)
    numbers[list(changes)] = list(changes.values())
    index = Index.of(numbers, 11)
    vocabulary = Vocabulary(TEXT, index)
    try:
        check_index(index, TEXT)
    except ModelFolderError:
        if min(changes) >= 12:
            for row, word in enumerate(WORDS):
                with suppress(ModelFolderError):
                    assert vocabulary.row(word) in {None, row}
    else:
        assert [vocabulary.row(word) for word in WORDS] == list(range(11))


def crowded_text(number):
    """A vocabulary of 201 words, of which `number` share a bucket and are named `word…`."""

    def crowded(word):
        return crc32(word.encode()) % 201 == 7

    words = list(islice(filter(crowded, (f"word{n}" for n in count())), number))
    words += islice((other for n in count() if not crowded(other := f"other{n}")), 201 - number)
    random.Random(1).shuffle(words)
    return "".join(f"{word}\n" for word in words).encode()


def test_a_bucket_holds_at_most_64_words():
    assert MAX_BUCKET_SIZE == 64
    text = crowded_text(64)
    vocabulary = Vocabulary.of(text)
    for row, word in enumerate(text.decode().split("\n")[:-1]):
        assert vocabulary.row(word) == row
    with pytest.raises(ModelFolderError) as caught:
        Vocabulary.of(crowded_text(65))
    lines = crowded_text(65).split(b"\n")
    line = max(n for n, word in enumerate(lines, 1) if word.startswith(b"word"))
    expected = (
        f"vocabulary.txt has more than 64 words with the same hash, among them that in line {line}."
    )
    assert caught.value.detail == expected


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs /proc/self/smaps")
def test_loading_400_000_words_reads_a_few_pages(tmp_path):
    words = [f"word{n}" for n in range(400_000)]
    folder = write_tiny(tmp_path / "many", words=words, vectors=np.ones((400_000, 1), np.float16))
    model = read_model(folder)
    assert model.vocabulary.row("word399999") == 399_999
    pages = resident(folder)
    assert len(pages) == 3
    assert sum(pages.values()) < 1024


def resident(folder):
    """The memory in KiB of each mapped file of a folder that is in this process."""
    pages, name = {}, None
    for line in Path("/proc/self/smaps").read_text().splitlines():
        key, *values = line.split()
        if "-" in key:
            name = values[-1] if values and values[-1].startswith(str(folder)) else None
        elif name and key == "Rss:":
            pages[name] = int(values[0])
    return pages


def test_a_repeated_word_is_rejected_by_its_second_line(model_folder):
    text = TEXT.replace(b"n't\n", b"bank\n")
    replace(model_folder, VOCABULARY, text)
    replace(model_folder, INDEX, saved(index_of(text)))
    assert read_error(model_folder) == "vocabulary.txt has a word twice, in line 8."
    # The word is alone in a bucket of more rows than one may have.
    with pytest.raises(ModelFolderError) as caught:
        Vocabulary.of(b"a\n" * 100_000)
    assert caught.value.detail == "vocabulary.txt has a word twice, in line 2."
