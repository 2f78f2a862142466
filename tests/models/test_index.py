"""`index.npy`: words and the keys of spellings; a wrong one is rejected or misses words."""

import random
import unicodedata
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
from polyseme.models.vocabulary import (
    MAX_BUCKET_SIZE,
    Index,
    Vocabulary,
    build_index,
    check_index,
    count_lines,
)
from polyseme.spellings import forms, spelling_key, spellings
from polyseme.words import has_spellings
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
from tests.tiny import WORDS, tiny_model, write_tiny
from tests.tokenizer.vocabularies import Vocabulary as AllWords
from tests.tokenizer.vocabularies import tokenize

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
    check_index(Index.of(index_of(text), 201), text)
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


WORD = st.text(
    "aéÉe\u0301\u0323ёЁʼ'’-.+#ıİ1ﬁ가\u1100\u1161\u00ad\ufe0fمُّ👍🏽 ", min_size=1, max_size=6
).filter(lambda word: not unicodedata.combining(word[0]))
TEXT = "".join(f"{word}\n" for word in WORDS).encode()


def vocabulary_of(known):
    return Vocabulary.of("".join(f"{word}\n" for word in known).encode())


def test_the_keys_of_four_words_are_those_computed_by_hand():
    words = ["bank", "C++", "don’t", "c++"]
    index = Index.of(build_index("".join(f"{word}\n" for word in words).encode(), 4), 4)
    # The CRC-32 of don't is 0x063120af and that of c++ is 0x6f1ca842; bank has no key.
    assert [crc32(b"don't"), crc32(b"c++")] == [0x063120AF, 0x6F1CA842]
    assert index.keys.tolist() == [0x063120AF, 0x6F1CA842, 0x6F1CA842]
    assert index.key_rows.tolist() == [2, 1, 3]


@settings(derandomize=True, deadline=None)
@given(WORD, st.sampled_from([str, str.lower, str.upper, str.capitalize]))
def test_spellings_that_are_a_form_of_an_entry_have_its_key(entry, change):
    vocabulary = vocabulary_of([entry])
    for word in (change(form) for form in forms(entry)):
        same = any(spelling in forms(entry) for spelling, _ in spellings(word, "auto"))
        if same and has_spellings(entry):
            assert vocabulary.candidates(spelling_key(word)) == [(entry, 0)]


def test_keys_of_a_vocabulary_of_several_blocks():
    known = [f"{name}{i}" for i in range(5_000) for name in ("слово", "ёж", "l’", "c+")]
    vocabulary = vocabulary_of(known)
    tokens = tokenize("еж4999 Ёж7 l'1234 C+4321 слово5 слова", vocabulary)
    assert [t.key for t in tokens] == ["ёж4999", "ёж7", "l’1234", "c+4321", "слово5", None]


def test_many_words_with_one_key_are_compared_up_to_a_limit():
    apostrophes = "’ʼ‘ʻ‛`´＇′"
    known = [f"a{x}a{y}a{z}a" for x in apostrophes for y in apostrophes for z in apostrophes]
    candidates = vocabulary_of(known).candidates("a'a'a'a")
    assert candidates == [(word, row) for row, word in enumerate(known[:MAX_BUCKET_SIZE])]


@pytest.mark.parametrize("keys", [[0, 1], [2, 1, 0, 1], [1, 2, 0, 11]])
def test_invalid_keys_are_found_by_verification(model_folder, keys):
    """Half of the numbers are keys, and half are rows: not sorted, or a row of none of 11 words."""
    replace(model_folder, INDEX, saved(np.append(index_of(TEXT), np.array(keys, "<u4"))))
    if keys == [0, 1]:
        read_model(model_folder, verify=True)
    else:
        expected = "index.npy has keys that are not sorted, or have a wrong row."
        assert read_error(model_folder) == expected


def test_a_key_with_a_wrong_row_finds_nothing_or_an_error():
    def vocabulary(row):
        keys = np.array([crc32(b"don't"), row], "<u4")
        return Vocabulary(TEXT, Index.of(np.append(index_of(TEXT), keys), 11))

    assert tokenize("don't", vocabulary(3))[0].key != WORDS[3]
    with pytest.raises(ModelFolderError, match=r"index\.npy is damaged\."):
        vocabulary(11).candidates("don't")


@pytest.mark.parametrize("languages", [["tr"], ["en", "AZ-latn"], ["en"]])
def test_the_languages_of_the_manifest_decide_on_the_dotless_i(tmp_path, languages):
    vocabulary = tiny_model(tmp_path, languages=languages).vocabulary
    assert vocabulary.turkic is (languages != ["en"])


@settings(derandomize=True, deadline=None)
@given(st.lists(WORD, min_size=1, max_size=9, unique=True), st.lists(WORD, max_size=9))
def test_tokens_are_those_of_a_dict_of_keys(known, others):
    vocabulary, expected = vocabulary_of(known), AllWords(*known)
    for text in ["".join(known), " ".join(known + others), *others]:
        assert tokenize(text, vocabulary) == tokenize(text, expected)
