"""The language of an import is found where it is clear."""

import json
import lzma
import os
import re
from collections import Counter
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest

from polyseme.importing.words import MIN_WORDS, find_language
from polyseme.models.reader import read_model
from tests.importing import files

SHARED = Path(__file__).parents[3] / "shared" / "data"
DATA = Path(os.environ.get("POLYSEME_TEST_DATA", SHARED)) / "languages"
SOURCES = {
    "ru": "words/ru_words_by_frequency.txt.xz",
    "zh": "words/zh_words_by_frequency.txt.xz",
    "de": "ud/de_gsd-ud-dev.conllu.xz",
    "tr": "ud/tr_imst-ud-train.conllu.xz",
    "ja": "ud/ja_gsd-ud-dev.conllu.xz",
    "ar": "mclwic/dev.ar-ar.data.xz",
    "fr": "mclwic/dev.fr-fr.data.xz",
    "en": "mclwic/dev.en-en.data.xz",
}


def words_of(language):
    """The words of a language, the most frequent ones first."""
    if not (DATA / SOURCES[language]).exists():
        pytest.skip("needs the shared data (POLYSEME_TEST_DATA)")
    with lzma.open(DATA / SOURCES[language], "rt") as file:
        if SOURCES[language].endswith(".txt.xz"):
            return file.read().splitlines()
        if SOURCES[language].endswith(".conllu.xz"):
            words = [line.split("\t")[1] for line in file if line[:1].isdigit()]
        else:
            text = " ".join(pair["sentence1"] for pair in json.load(file))
            words = re.findall(r"\w+", text)
    return [word for word, _ in Counter(words).most_common()]


def shuffled(words):
    return [str(word) for word in np.random.default_rng(1).permutation(words)]


@pytest.mark.parametrize("language", SOURCES)
def test_no_order_and_size_of_real_words_gives_another_language(language):
    words = words_of(language)
    for size in (1000, 5000, len(words)):
        part = words[:size]
        assert find_language(part) == language
        assert {find_language(shuffled(part)), find_language(sorted(part))} <= {language, None}


@pytest.mark.parametrize(
    "languages", [("ru", "en"), ("tr", "en"), ("de", "tr"), ("zh", "en"), ("de", "fr", "en")]
)
def test_words_of_several_languages_have_no_language(languages):
    mixture = [w for ws in zip(*map(words_of, languages), strict=False) for w in ws]
    for size in (1000, 5000):
        for words in (mixture[:size], shuffled(mixture[:size]), sorted(mixture[:size])):
            assert find_language(words) is None


def test_few_words_numbers_and_random_letters_have_no_language():
    assert find_language([]) is find_language(["the", "of"] * 100) is None
    assert find_language([str(n) for n in range(1000)]) is None
    for length in (3, 6, 9):
        letters = np.random.default_rng(length).choice([*ascii_lowercase], (3000, length))
        words = ["".join(word) for word in letters]
        assert find_language(words) is None
        assert find_language([f"{word.upper()}{i}" for i, word in enumerate(words)]) is None


def test_the_language_of_an_import_is_told_and_can_be_given(importer):
    words = [word.encode() for word in words_of("tr")[: MIN_WORDS + 100]]
    content = files.text(words, np.eye(len(words), 5).tolist())
    done = importer.run(content, "--name", "made", "--sorted")
    assert "of the language tr;" in done.err
    model = read_model(importer.models / "made")
    assert model.manifest.languages == ["tr"] and model.vocabulary.turkic
    importer.run(content, "--name", "other", "--sorted", "--language", "az")
    assert read_model(importer.models / "other").manifest.languages == ["az"]
