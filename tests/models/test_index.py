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
from polyseme.models.vocabulary import MAX_BUCKET_SIZE, Index, Vocabulary
from polyseme.tokenizer import forms, has_spellings, spelling_key, spellings
from tests.models.damage import (
    INDEX,
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


def test_the_index_of_three_words_is_the_one_computed_by_hand(tmp_path):
    folder = write_tiny(tmp_path / "tiny", words=["b", "é", "a"], vectors=np.ones((3, 1), "f4"))
    # CRC-32 of b, é (c3 a9) and a: 0x71beeff9, 0x0e048d3e, 0xe8b7be43; modulo 3 they are 2, 2, 0.
    assert [crc32(word.encode()) % 3 for word in ("b", "é", "a")] == [2, 2, 0]
    numbers = np.load(path(folder, INDEX))
    assert numbers.dtype == np.dtype("<u4")
    assert numbers.tolist() == [*(0, 2, 5, 7), *(0, 1, 1, 3), *(2, 0, 1)]


def test_the_written_index_follows_the_definition(model_folder, bundled):
    assert np.load(path(model_folder, INDEX)).tolist() == index_of(TEXT).tolist()
    text = b"".join(bundled.vocabulary.word(row).encode() + b"\n" for row in range(5000))
    assert np.concatenate(Index.of(text)[:3]).tolist() == index_of(text).tolist()


NUMBERS = st.integers(0, 2**32 - 1) | st.integers(0, 12)
LENGTH = len(index_of(TEXT))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.dictionaries(st.integers(0, LENGTH - 1), NUMBERS, min_size=1, max_size=3))
@example({11: 0})
@example({24: 11})
@example({34: 0})
def test_a_changed_index_is_rejected_and_never_gives_a_wrong_row(changes):
    """Without checks, wrong starts (up to 11) may give another word."""
    numbers = index_of(TEXT)
    numbers[list(changes)] = list(changes.values())
    if numbers.tolist() == index_of(TEXT).tolist():
        Vocabulary.read(TEXT, numbers, 11, verify=True)
        return
    with pytest.raises(ModelFolderError, match=r"index\.npy is not the index of vocabulary\.txt"):
        Vocabulary.read(TEXT, numbers, 11, verify=True)
    vocabulary = Vocabulary(TEXT, Index.split(numbers, 11))
    for row, word in enumerate(WORDS if min(changes) >= 12 else ()):
        with suppress(ModelFolderError):
            assert vocabulary.row(word) in {None, row}


@pytest.mark.parametrize(("position", "number"), [(0, 1), (11, len(TEXT) + 1), (12, 1), (23, 10)])
def test_the_ends_of_an_index_are_always_compared(model_folder, position, number):
    numbers = index_of(TEXT)
    numbers[position] = number
    replace(model_folder, INDEX, saved(numbers))
    assert read_error(model_folder) == "index.npy is not the index of vocabulary.txt."
    assert read_error(model_folder, verify=False) == "index.npy does not fit vocabulary.txt."


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
    vocabulary = Vocabulary.read(text, index_of(text), 201, verify=True)
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
def test_loading_200_000_words_reads_a_few_pages(tmp_path):
    words = [f"word{n}" for n in range(200_000)]
    folder = write_tiny(tmp_path / "many", words=words, vectors=np.ones((200_000, 1), np.float16))
    model = read_model(folder)
    assert model.vocabulary.row("word199999") == 199_999
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


def test_a_repeated_word_is_rejected_before_its_large_bucket():
    with pytest.raises(ModelFolderError) as caught:
        Vocabulary.of(b"a\n" * 1000)
    assert caught.value.detail == "vocabulary.txt has a word twice, in line 2."


WORD = st.text(
    "aéÉe\u0301\u0323ёЁʼ'’-.+#ıİ1ﬁ가\u1100\u1161\u00ad\ufe0fمُّ👍🏽 ", min_size=1, max_size=6
).filter(lambda word: not unicodedata.combining(word[0]))


def vocabulary_of(known):
    return Vocabulary.of("".join(f"{word}\n" for word in known).encode())


def test_the_keys_of_four_words_are_those_computed_by_hand():
    words = ["bank", "C++", "don’t", "c++"]
    index = Index.of("".join(f"{word}\n" for word in words).encode())
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


def test_keys_of_a_large_vocabulary():
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
        return Vocabulary(TEXT, Index.split(np.append(index_of(TEXT), keys), 11))

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
