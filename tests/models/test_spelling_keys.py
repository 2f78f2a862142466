"""The keys of `index.npy` find entries by their other spellings, and entries of several words."""

import unicodedata
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme.errors import ModelFolderError
from polyseme.models.reader import read_model
from polyseme.models.vocabulary import MAX_BUCKET_SIZE, Index, Vocabulary, build_index
from polyseme.tokenizer import forms, has_spellings, spelling_key, spellings, tokenize
from tests.models.damage import INDEX, index_of, read_error, replace, saved
from tests.tiny import WORDS, tiny_model
from tests.tokenizer.vocabularies import Vocabulary as AllWords

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
    known = [f"{name}{i}" for i in range(20_000) for name in ("слово", "ёж", "l’", "c+")]
    vocabulary = vocabulary_of(known)
    tokens = tokenize("еж19999 Ёж7 l'12345 C+4321 слово5 слова", vocabulary)
    assert [t.key for t in tokens] == ["ёж19999", "ёж7", "l’12345", "c+4321", "слово5", None]


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
