"""`vocabulary.txt`: unique words of any characters except the line feed."""

import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polyseme.errors import ModelFolderError
from polyseme.models.reader import read_model
from polyseme.models.vocabulary import Index, Vocabulary, map_file
from tests.models.damage import (
    VOCABULARY,
    change_manifest,
    path,
    read_error,
    replace,
)

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\n")
WORD = st.text(CHARACTERS | st.sampled_from("ab\0\r\x85\u2028 "), min_size=1, max_size=6)

ATTACKS = {
    "bad UTF-8": (b"apple\nApple\n\xff\n", "vocabulary.txt is not UTF-8 in line 3."),
    "half a character": (b"a\n\xe2\x82\nb\n", "vocabulary.txt is not UTF-8 in line 2."),
    "an overlong slash": (b"\xc0\xaf\n", "vocabulary.txt is not UTF-8 in line 1."),
    "a surrogate": (b"a\nb\nc\n\xed\xa0\x80\n", "vocabulary.txt is not UTF-8 in line 4."),
    "an empty line": (b"a\n\nc\n", "vocabulary.txt has no word in line 2."),
    "an empty last line": (b"a\nb\n\n", "vocabulary.txt has no word in line 3."),
    "a line feed alone": (b"\n", "vocabulary.txt has no word in line 1."),
    "no final line feed": (b"a\nb", "vocabulary.txt is empty or does not end with a line feed."),
    "no line feed at all": (b"a", "vocabulary.txt is empty or does not end with a line feed."),
    "a long word": (
        b"a\nb\n" + b"x" * (1 << 16) + b"\n",
        "vocabulary.txt has a word of 64 KiB or more, in line 3.",
    ),
    "empty": (b"", "vocabulary.txt is empty."),
    "too few words": (b"a\nb\n", "vocabulary.txt: the number of words differs from manifest.json."),
    "too many words": (
        b"".join(b"%d\n" % n for n in range(13)),
        "vocabulary.txt: the number of words differs from manifest.json.",
    ),
}


@pytest.mark.parametrize("case", ATTACKS)
def test_an_invalid_vocabulary_is_rejected_with_its_line(model_folder, case):
    content, expected = ATTACKS[case]
    replace(model_folder, VOCABULARY, content)
    assert read_error(model_folder) == expected
    assert read_error(model_folder, verify=False) == "index.npy does not fit vocabulary.txt."


def test_a_word_that_is_not_utf_8_is_found_when_it_is_used(model_folder):
    content = path(model_folder, VOCABULARY).read_bytes()
    replace(model_folder, VOCABULARY, b"\xff" + content[1:])
    vocabulary = read_model(model_folder).vocabulary
    assert vocabulary.row("apple") is None
    with pytest.raises(ModelFolderError, match=r"vocabulary\.txt is damaged"):
        vocabulary.word(0)


def test_a_vocabulary_of_4_gib_is_rejected_before_it_is_read(model_folder):
    os.truncate(path(model_folder, VOCABULARY), 1 << 32)
    change_manifest(model_folder, lambda m: m["files"][VOCABULARY].update(bytes=1 << 32))
    assert read_error(model_folder, verify=False) == "index.npy does not fit vocabulary.txt."
    with path(model_folder, VOCABULARY).open("rb") as file, pytest.raises(ModelFolderError) as e:
        Index.of(map_file(file))
    assert e.value.detail == "vocabulary.txt has 4 GiB or more."


def vocabulary_of(words):
    return Vocabulary.of("".join(f"{word}\n" for word in words).encode())


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
