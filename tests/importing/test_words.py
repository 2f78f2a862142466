"""What the words of a file tell: their order, case and language, and tags to strip."""

import gzip
import json
import lzma
import re
from collections import Counter
from string import ascii_lowercase

import numpy as np
import pytest

from polyseme.importing.words import (
    MIN_ORDERED,
    MIN_WORDS,
    find_language,
    find_tag,
    is_cased,
    sorted_by_frequency,
    strip_tags,
)
from tests.importing.conftest import SHARED, assert_same, assert_word_bias
from tests.importing.files import binary, fasttext, rows, text


def lines_of(source):
    """The lines of a compressed file of the shared data."""
    if not (SHARED / source).exists():
        pytest.skip("needs the shared data (POLYSEME_TEST_DATA)")
    with (lzma if source.endswith(".xz") else gzip).open(SHARED / source, "rt") as file:
        return [line.rstrip("\n") for line in file]


def shuffled(words, seed=1):
    return [str(word) for word in np.random.default_rng(seed).permutation(words)]


def abbreviated(count=2000, seed=1):
    """Words whose length grows with the logarithm of their rank, with noise, as in a corpus."""
    rng = np.random.default_rng(seed)
    lengths = 1 + np.log2(1 + np.arange(count)) / 2 + rng.normal(0, 1, count)
    return [f"{'x' * max(round(length), 1)}" for length in lengths]


WORD_LISTS = (
    "languages/words/ru_words_by_frequency.txt.xz",
    "languages/words/zh_words_by_frequency.txt.xz",
    "vectors/glove.6B.50d.9k.txt.gz",
    "vectors/glove.twitter.27B.25d.12k.txt.gz",
)


@pytest.mark.parametrize("source", ["bundled", *WORD_LISTS])
def test_order_of_real_files(source, bundled):
    if source == "bundled":
        words = [bundled.vocabulary.word(row) for row in range(20_000)]
    else:
        words = [line.split(" ")[0].strip() for line in lines_of(source)]
    for count in (1000, 10_000, len(words)):
        part = words[:count]
        assert sorted_by_frequency(part) is True
        for other in (
            sorted(part, key=str.casefold, reverse=True),
            sorted(part, key=lambda word: word[::-1]),
            sorted(part, key=len),
            part[::-1],
            shuffled(part, 1),
        ):
            assert sorted_by_frequency(other) is False


def test_words_that_grow_longer_are_sorted():
    assert not any(sorted_by_frequency(shuffled(abbreviated(), seed)) for seed in range(50))
    long = abbreviated(100_000)
    # The second half is shorter than the first one's end by a twentieth of a letter.
    shorter = [w[:-1] or w if i > 50_000 and i % 9 < 5 else w for i, w in enumerate(long)]
    assert sorted_by_frequency(shorter) is True
    assert sorted_by_frequency(long[::2] + long[1::2]) is False


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], None),
        (abbreviated(MIN_ORDERED - 1), None),
        (abbreviated(MIN_ORDERED), True),
        # Numbers and punctuation are short wherever they are.
        ([*abbreviated(), *(str(n) for n in range(1000))], True),
        (["!"] * MIN_ORDERED, None),
        (["same"] * 1000, False),
        ([f"word{n:04}" for n in range(1000)], False),
    ],
)
def test_the_order_of_few_words_and_of_words_of_one_length(words, expected):
    assert sorted_by_frequency(words) is expected


def test_a_file_with_a_few_capitals_among_many_words_is_in_lower_case():
    lower = [f"w{n}" for n in range(99)]
    assert is_cased(["Apple", *lower]) and is_cased(["Apple"]) and is_cased(["a", "ÉTÉ"])
    assert not is_cased(["Apple", *lower, "x"])
    assert not is_cased(["a", "1", "—", "été", "ß"])


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
    lines = lines_of(f"languages/{SOURCES[language]}")
    if SOURCES[language].startswith("words"):
        return lines
    if SOURCES[language].startswith("ud"):
        words = [line.split("\t")[1] for line in lines if line[:1].isdigit()]
    else:
        pairs = json.loads("\n".join(lines))
        words = re.findall(r"\w+", " ".join(pair["sentence1"] for pair in pairs))
    return [word for word, _ in Counter(words).most_common()]


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
    content = text(words, np.eye(len(words), 5).tolist())
    model = importer.model(content, "--sorted")
    assert any("of the language tr;" in line for line in importer.progress)
    assert model.manifest.languages == ["tr"] and model.vocabulary.turkic
    other = importer.model(content, "--sorted", "--language", "az")
    assert other.manifest.languages == ["az"]


TAGGED = {
    "ConceptNet": ("/c/en/tea /c/en/bank /c/de/ufer", "^/c/[a-z_-]+/", "tea bank ufer"),
    "parts of speech": ("банк_NOUN река_NOUN течь_VERB", "_[A-Z]+$", "банк река течь"),
    "sense2vec": ("duck|NOUN bank|VERB", r"\|[A-Z]+$", "duck bank"),
    "kinds of names": (
        *("New_York|GPE duck|NOUN Mona_Lisa|WORK_OF_ART", r"\|[A-Z][A-Z0-9_$]*$"),
        "New_York duck Mona_Lisa",
    ),
    "CLAWS": ("bank_NN1 walk_VVB the_AT0", "_[A-Z][A-Z0-9$]*$", "bank walk the"),
    "Penn Treebank": ("my_PRP$ go_VB bank_NN", "_[A-Z][A-Z0-9$]*$", "my go bank"),
    "two colons": ("bank::noun walk::verb", "::[a-z]+$", "bank walk"),
    "hyphens": ("bank-n go-v", r"\-[a-z]+$", "bank go"),
    "entities": ("ENTITY/Bank ENTITY/New_York", "^[A-Z]+/", "Bank New_York"),
    "quotation marks": ('"bank" "tea"', '^"|"$', "bank tea"),
    "other quotation marks": ("„bank“ „tea“", "^„|“$", "bank tea"),
    "a mark before the word": ("▁bank ▁tea", "^▁", "bank tea"),
    "ends of subwords": ("bank</w> tea</w>", "</w>$", "bank tea"),
    "one language": ("bank_en tea_en go_en", "_en$", "bank tea go"),
    "bytes": ("b'bank' b'tea'", "^b'|'$", "bank tea"),
    "angle brackets": ("<bank> <tea>", "^<|>$", "bank tea"),
    "synsets": ("kangaroo.n.01 horse.n.02 go.v.01", r"\.[a-z]\.[0-9]+$", "kangaroo horse go"),
    "numbers of senses": ("bank#1 bank#2 tea#1", "#[0-9][0-9:]*$", "bank tea"),
    "languages": ("bank@en ufer@de", "@[a-z]{2,3}$", "bank ufer"),
    "languages before": ("en:bank de:ufer", "^[a-z]{2,3}:", "bank ufer"),
    "parts of speech before": ("NOUN_bank VERB_go", "^[A-Z]+_", "bank go"),
    "capitals": ("BANK_NOUN GO_VERB", "_[A-Z]+$", "BANK GO"),
    "addresses": ("http://x.org/a/Bank http://x.org/a/Tea", "^[a-z]+://(?:[^/]*/)+", "Bank Tea"),
    "colons": ("bank: tea:", ":$", "bank tea"),
    "brackets": ("bank(n) go(v)", r"\([^()]+\)$", "bank go"),
    "one beginning": ("word/bank word/tea word/go", "^word/", "bank tea go"),
    "many unknown tags": (
        " ".join(f"{a}{b}_{'de' if b < 'm' else 'nl'}" for a in "bcdfg" for b in "abcnop"),
        *("_[^_]+$", " ".join(a + b for a in "bcdfg" for b in "abcnop")),
    ),
}


@pytest.mark.parametrize(("words", "pattern", "stripped"), TAGGED.values(), ids=TAGGED)
def test_a_pattern_that_strips_the_tag_is_proposed(words, pattern, stripped):
    assert find_tag(words.split()) == pattern
    assert list(strip_tags(words.split(), [pattern], None)) == stripped.split()


def test_a_tag_may_follow_a_space():
    words = ["bank NOUN", "go VERB", "the DET"]
    assert find_tag(words) == r"\ [A-Z]+$"
    for pattern in (r"\ [A-Z]+$", "[A-Z]+$"):
        assert list(strip_tags(words, [pattern], None)) == ["bank", "go", "the"]


ORDINARY = {
    "words": "the bank of a river 1999 C++ e-mail don't",
    "hashtags": "#bank #tea #go",
    "handles": "@bank @tea @go",
    "phrases": "new_york ice_cream river_bank vitamin_a",
    "phrases in capitals": "NEW_YORK ICE_CREAM RIVER_BANK",
    "capitalized phrases": "New_York San_Francisco Los_Angeles",
    "hyphens": "x-ray e-mail t-shirt",
    "numbers": "covid-19 f-16 b-52 1.5 10:30",
    "users": " ".join(f"user_{i}" for i in range(50)),
    "documents": " ".join(f"doc_{i}" for i in range(5)),
    "identifiers": " ".join(f"wn:{i:08}n" for i in range(5)),
    "special tokens": "<unk> <s> the of and",
    "abbreviations": "u.s e.g i.e U.S",
    "one word": "bank_NOUN",
    "few tags": "bank_NOUN " + " ".join(f"w{i}" for i in range(19)),
}


@pytest.mark.parametrize("case", ORDINARY)
def test_ordinary_vocabularies_have_no_tag(case):
    assert find_tag(ORDINARY[case].split()) is None


def vectors(count):
    return np.arange(2 * count, dtype=np.float32).reshape(count, 2) + 0.5


def test_the_import_proposes_a_pattern_that_it_accepts(importer):
    content = binary(["duck|NOUN", "duck|VERB", "bank|NOUN"], vectors(3))
    importer.model(content)
    pattern = r"\|[A-Z]+$"
    warning = "Warning: nearly all words have a tag, so words of texts will not be found; --strip"
    assert f"polyseme: {warning} '{pattern}' removes it." in importer.progress
    fields = importer.model(content, "--strip", pattern).manifest.training["file"]
    assert "polyseme: --strip left out 1 word that became equal to others." in importer.progress
    assert "Warning: nearly" not in str(importer.progress)
    assert (fields["strip"], fields["merged"], fields["left_out"]) == ([pattern], 1, 0)


STRIPPED = {
    "the first of equal words remains": (  # nothing would remain of |X
        rows(["duck|NOUN", "bank|NOUN", "duck|VERB", "|X", "go"], vectors(5)),
        [r"\|[A-Z]+$"],
        {"duck": 0, "bank": 1, "|X": 3, "go": 4},
    ),
    "the most frequent of equal words remains": (
        fasttext(["duck|NOUN", "bank|NOUN", "duck|VERB"], vectors(3), (), counts=[5, 9, 70]),
        [r"\|[A-Z]+$"],
        {"bank": 1, "duck": 2},
    ),
    "patterns are removed in turn, and rows are skipped": (
        rows(["/c/en/tea/n", b"/c/en/\xff/n", "/c/en/tea/v", "/c/en/bank/n"], vectors(4)),
        ["^/c/[a-z]+/", "/[nv]$"],
        {"tea": 0, "bank": 3},
    ),
}


@pytest.mark.parametrize("case", STRIPPED)
def test_equal_words_are_merged(importer, case):
    content, patterns, expected = STRIPPED[case]
    options = [option for pattern in patterns for option in ("--strip", pattern)]
    model = importer.model(content, "--skip-bad-rows", *options)
    assert_same(model, expected, vectors(5)[list(expected.values())])
    if "frequent" in case:  # words keep their counts
        assert_word_bias(model, [9, 70])


def test_vectors_of_fasttext_are_those_of_the_words_in_the_file(importer):
    words, ngrams = ["duck|NOUN", "bank|NOUN"], np.arange(40, dtype=np.float32).reshape(20, 2)
    content = fasttext(words, vectors(2), ngrams)
    before = importer.read(content)[1]
    options = ("--strip", r"\|[A-Z]+$", "--limit", "2")
    importer.check(content, ["duck", "bank"], before, *options)


def test_a_pattern_that_matches_no_word_is_rejected(importer):
    message = importer.refusal(rows(["bank", "tea"], vectors(2)), "--strip", "_[A-Z]+$")
    assert message == "The pattern matches no word; --strip sets the pattern."
