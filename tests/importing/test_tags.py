"""Vocabularies whose words have tags: the import says so, and strips them on request."""

import json

import numpy as np
import pytest

from polyseme.importing.readers import VectorTable
from polyseme.importing.words import find_tag, strip_tags
from tests.importing.files import binary, fasttext, rows

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
    done = importer.run(content, "--name", "tagged")
    pattern = r"\|[A-Z]+$"
    warning = "Warning: nearly all words have a tag, so words of texts will not be found; --strip"
    assert f"{warning} '{pattern}' removes it." in done.err
    done = importer.run(content, "--name", "tagged", "--strip", pattern, "--replace")
    assert "polyseme: --strip left out 1 word that became equal to others.\n" in done.err
    assert "Warning: nearly" not in done.err
    manifest = json.loads((importer.models / "tagged" / "manifest.json").read_text("utf-8"))
    fields = manifest["training"]["file"]
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
    read, table = importer.read(content, "--skip-bad-rows", *options)
    assert read == list(expected)
    assert np.array_equal(table, vectors(5)[list(expected.values())])


def test_words_keep_their_counts():
    table = VectorTable(["a|N", "b|N", "c|N"], vectors(3), np.array([5, 9, 70]))
    table = table.select(np.array([0, 2]), ["a", "c"])
    assert table.counts.tolist() == [5, 70]
    assert np.array_equal(table.vectors, vectors(3)[[0, 2]])


def test_vectors_of_fasttext_are_those_of_the_words_in_the_file(importer):
    words, ngrams = ["duck|NOUN", "bank|NOUN"], np.arange(40, dtype=np.float32).reshape(20, 2)
    content = fasttext(words, vectors(2), ngrams)
    before = importer.read(content)[1]
    read, table = importer.read(content, "--strip", r"\|[A-Z]+$", "--limit", "2")
    assert read == ["duck", "bank"]
    assert np.array_equal(table, before)


def test_a_pattern_that_matches_no_word_is_rejected(importer):
    message = importer.refusal(rows(["bank", "tea"], vectors(2)), "--strip", "_[A-Z]+$")
    assert message == "The pattern matches no word; --strip sets the pattern."
