"""`vocabulary.txt` and `index.npy`: unique words, their rows, and the keys of spellings."""

import os
import random
import re
import unicodedata
from contextlib import suppress
from itertools import count, islice
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from polyseme.errors import ModelFolderError
from polyseme.models.reader import read_model
from polyseme.models.vocabulary import MAX_BUCKET_SIZE, Index, Vocabulary, map_file
from polyseme.spellings import forms, spelling_key, spellings
from polyseme.words import has_key
from tests.models.damage import change_manifest, index_of, path, read_error, replace
from tests.tiny import WORDS, tiny_model, write_tiny
from tests.tokenizer.vocabularies import Vocabulary as AllWords
from tests.tokenizer.vocabularies import tokenize

TEXT = "".join(f"{word}\n" for word in WORDS).encode()
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\n")
WORD = st.text(CHARACTERS | st.sampled_from("ab\0\r\x85\u2028 "), min_size=1, max_size=6)


def vocabulary_of(words):
    return Vocabulary("".join(f"{word}\n" for word in words).encode())


END = "vocabulary.txt is empty or does not end with a line feed."
COUNT = "vocabulary.txt: the number of words differs from manifest.json."
ATTACKS = {
    "bad UTF-8": (b"apple\nApple\n\xff\n", "vocabulary.txt is not UTF-8 in line 3."),
    "half a character": (b"a\n\xe2\x82\nb\n", "vocabulary.txt is not UTF-8 in line 2."),
    "an overlong slash": (b"\xc0\xaf\n", "vocabulary.txt is not UTF-8 in line 1."),
    "a surrogate": (b"a\nb\nc\n\xed\xa0\x80\n", "vocabulary.txt is not UTF-8 in line 4."),
    "an empty line": (b"a\n\nc\n", "vocabulary.txt has no word in line 2."),
    "an empty last line": (b"a\nb\n\n", "vocabulary.txt has no word in line 3."),
    "a line feed alone": (b"\n", "vocabulary.txt has no word in line 1."),
    "no final line feed": (b"a\nb", END),
    "no line feed at all": (b"a", END),
    "a long word": (
        b"a\nb\n" + b"x" * (1 << 16) + b"\n",
        "vocabulary.txt has a word of 64 KiB or more, in line 3.",
    ),
    "one word in all lines": (b"a\n" * len(WORDS), "vocabulary.txt has a word twice, in line 2."),
    "empty": (b"", "vocabulary.txt is empty."),
    "too few words": (b"a\nb\n", COUNT),
    "too many words": (b"".join(b"%d\n" % n for n in range(13)), COUNT),
}


@pytest.mark.parametrize("case", ATTACKS)
def test_an_invalid_vocabulary_is_rejected_with_its_line(model_folder, case):
    content, expected = ATTACKS[case]
    replace(model_folder, "vocabulary.txt", content)
    assert read_error(model_folder) == expected
    assert read_error(model_folder, verify=False) == "index.npy does not fit vocabulary.txt."


def test_a_word_that_is_not_utf_8_is_found_when_it_is_used(model_folder):
    content = path(model_folder, "vocabulary.txt").read_bytes()
    replace(model_folder, "vocabulary.txt", b"\xff" + content[1:])
    vocabulary = read_model(model_folder).vocabulary
    assert vocabulary.row("apple") is None
    with pytest.raises(ModelFolderError, match=r"vocabulary\.txt is damaged"):
        vocabulary.word(0)


def test_a_vocabulary_of_4_gib_is_rejected_before_it_is_read(model_folder):
    os.truncate(path(model_folder, "vocabulary.txt"), 1 << 32)
    change_manifest(model_folder, lambda m: m["files"]["vocabulary.txt"].update(bytes=1 << 32))
    assert read_error(model_folder, verify=False) == "index.npy does not fit vocabulary.txt."
    with (
        path(model_folder, "vocabulary.txt").open("rb") as file,
        pytest.raises(ModelFolderError) as e,
    ):
        Index.of(map_file(file))
    assert e.value.detail == "vocabulary.txt has 4 GiB or more."


@settings(derandomize=True)
@given(st.lists(WORD, min_size=1, max_size=30, unique=True), st.lists(WORD, max_size=5))
@example(["a", "a\0", "\0a", "a\x85b", "a\u2028b", " ", "\r", "\ufeff", "a" * 65_535], ["a\0b"])
@example(["a", "ab", "abc"], ["", "abcd", "b", "\n", "\udcff"])
def test_rows_and_words_are_inverse(words, others):
    vocabulary = vocabulary_of(words)
    assert len(vocabulary) == len(words)
    assert [vocabulary.row(word) for word in words] == list(range(len(words)))
    assert [vocabulary.word(row) for row in range(len(words))] == words
    for other in others:
        assert (vocabulary.row(other) is None) == (other not in words)


@settings(derandomize=True)
@given(st.lists(WORD, min_size=2, max_size=8, unique=True), st.data())
def test_a_repeated_word_is_rejected_with_its_second_line(words, data):
    first = data.draw(st.integers(0, len(words) - 1))
    second = data.draw(st.integers(first + 1, len(words)))
    repeated = [*words[:second], words[first], *words[second:]]
    with pytest.raises(ModelFolderError) as caught:
        vocabulary_of(repeated)
    assert caught.value.detail == f"vocabulary.txt has a word twice, in line {second + 1}."


def test_the_index_of_three_words_is_the_one_computed_by_hand(tmp_path):
    folder = write_tiny(tmp_path / "tiny", words=["b", "é", "a"], vectors=np.ones((3, 1), "f4"))
    # CRC-32 of b, é (c3 a9) and a: 0x71beeff9, 0x0e048d3e, 0xe8b7be43; modulo 3 they are 2, 2, 0.
    assert [crc32(word.encode()) % 3 for word in ("b", "é", "a")] == [2, 2, 0]
    numbers = np.load(path(folder, "index.npy"))
    assert numbers.dtype == np.dtype("<u4")
    assert numbers.tolist() == [*(0, 2, 5, 7), *(0, 1, 1, 3), *(2, 0, 1)]


def test_the_written_index_follows_the_definition(model_folder, bundled):
    assert np.load(path(model_folder, "index.npy")).tolist() == index_of(TEXT).tolist()
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
        Index.read(numbers, TEXT, 11, verify=True)
        return
    with pytest.raises(ModelFolderError, match=r"index\.npy is not the index of vocabulary\.txt"):
        Index.read(numbers, TEXT, 11, verify=True)
    vocabulary = Vocabulary(TEXT, Index.split(numbers, 11))
    for row, word in enumerate(WORDS if min(changes) >= 12 else ()):
        with suppress(ModelFolderError):
            assert vocabulary.row(word) in {None, row}


def test_the_ends_of_an_index_are_always_compared():
    for position, number in ((0, 1), (11, len(TEXT) + 1), (12, 1), (23, 10)):
        numbers = index_of(TEXT)
        numbers[position] = number
        with pytest.raises(ModelFolderError, match=r"index\.npy does not fit vocabulary\.txt\."):
            Index.read(numbers, TEXT, 11, verify=False)


def crowded_text(number):
    """A vocabulary of 201 words, of which `number` share a bucket and are named `word…`."""

    shared = (word for n in count() if crc32(word := b"word%d" % n) % 201 == 7)
    others = (word for n in count() if crc32(word := b"other%d" % n) % 201 != 7)
    words = [*islice(shared, number), *islice(others, 201 - number)]
    random.Random(1).shuffle(words)
    return b"".join(word + b"\n" for word in words)


def test_a_bucket_holds_at_most_64_words():
    assert MAX_BUCKET_SIZE == 64
    text = crowded_text(64)
    vocabulary = Vocabulary(text, Index.read(index_of(text), text, 201, verify=True))
    for row, word in enumerate(text.decode().split("\n")[:-1]):
        assert vocabulary.row(word) == row
    lines = crowded_text(65).split(b"\n")
    line = max(n for n, word in enumerate(lines, 1) if word.startswith(b"word"))
    with pytest.raises(ModelFolderError, match=f"more than 64 words .* in line {line}"):
        Vocabulary(crowded_text(65))


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs /proc/self/smaps")
def test_loading_200_000_words_reads_a_few_pages(tmp_path):
    words = [f"word{n}" for n in range(200_000)]
    folder = write_tiny(tmp_path / "many", words=words, vectors=np.ones((200_000, 1), np.float16))
    model = read_model(folder)
    assert model.vocabulary.row("word199999") == 199_999
    # The lines of a mapped file are its addresses and path, its size, …, and its KiB in memory.
    mapped = rf"{re.escape(str(folder))}/\S+\n(?:\w+:.*\n)*?Rss: +(\d+) kB"
    pages = re.findall(mapped, Path("/proc/self/smaps").read_text())
    assert len(pages) == 3
    assert sum(map(int, pages)) < 1024


SPELLED = st.text(
    "aéÉe\u0301\u0323ёЁʼ'’-.+#ıİ1ﬁ가\u1100\u1161\u00ad\ufe0fمُّ👍🏽 ", min_size=1, max_size=6
).filter(lambda word: not unicodedata.combining(word[0]))


def test_the_keys_of_four_words_are_those_computed_by_hand():
    words = ["bank", "C++", "don’t", "c++"]
    index = Index.of("".join(f"{word}\n" for word in words).encode())
    # The CRC-32 of don't is 0x063120af and that of c++ is 0x6f1ca842; bank has no key.
    assert [crc32(b"don't"), crc32(b"c++")] == [0x063120AF, 0x6F1CA842]
    assert index.keys.tolist() == [0x063120AF, 0x6F1CA842, 0x6F1CA842]
    assert index.key_rows.tolist() == [2, 1, 3]


@settings(derandomize=True, deadline=None)
@given(SPELLED, st.sampled_from([str, str.lower, str.upper, str.capitalize]))
def test_spellings_that_are_a_form_of_an_entry_have_its_key(entry, change):
    vocabulary, last = vocabulary_of([entry]), forms(entry)[-1]
    # Without its damma, `1\u064f\u0301` has a form more, and so another key.
    assume(forms(last) == [last])
    for word in (change(form) for form in forms(entry)):
        same = any(spelling in forms(entry) for spelling, _ in spellings(word, "auto"))
        if same and has_key(entry):
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


def test_invalid_keys_are_found_by_verification():
    """Half of the numbers are keys, and half are rows: not sorted, or a row of none of 11 words."""
    keys = ([0, 1], [2, 1, 0, 1], [1, 2, 0, 11])
    valid, *invalid = (np.append(index_of(TEXT), np.array(each, "<u4")) for each in keys)
    Index.read(valid, TEXT, 11, verify=True)
    for numbers in invalid:
        with pytest.raises(ModelFolderError, match="keys that are not sorted, or have a wrong row"):
            Index.read(numbers, TEXT, 11, verify=True)


def test_a_key_with_a_wrong_row_finds_nothing_or_an_error():
    def vocabulary(row):
        keys = np.array([crc32(b"don't"), row], "<u4")
        return Vocabulary(TEXT, Index.split(np.append(index_of(TEXT), keys), 11))

    assert tokenize("don't", vocabulary(3))[0].key != WORDS[3]
    with pytest.raises(ModelFolderError, match=r"index\.npy is damaged\."):
        vocabulary(11).candidates("don't")


def test_the_languages_of_the_manifest_decide_on_the_dotless_i(tmp_path):
    for languages, turkic in ((["tr"], True), (["en", "AZ-latn"], True), (["en"], False)):
        assert tiny_model(tmp_path, languages=languages).vocabulary.turkic is turkic


@settings(derandomize=True, deadline=None)
@given(st.lists(SPELLED, min_size=1, max_size=9, unique=True), st.lists(SPELLED, max_size=9))
def test_tokens_are_those_of_a_dict_of_keys(known, others):
    vocabulary, expected = vocabulary_of(known), AllWords(*known)
    for text in ["".join(known), " ".join(known + others), *others]:
        assert tokenize(text, vocabulary) == tokenize(text, expected)
