"""Invisible code points and other spellings, by the table in docs/tokenizer.md."""

import re

import numpy as np
import pytest

import polyseme
from polyseme.client import LocalModel
from polyseme.tokenizer import Tokenizer, resolve_all, tokenize
from tests.conftest import ROOT
from tests.tokenizer.vocabularies import Vocabulary

PAGE = (ROOT / "docs/tokenizer.md").read_text("utf-8")
SECTION = PAGE.split("## Invisible characters and other spellings")[1].split("\n## ")[0]


def unescaped(text: str) -> str:
    return re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), text)


ROWS = [
    [[unescaped(code) for code in re.findall(r"`([^`]+)`", cell)] for cell in row.split(" | ")[:2]]
    for row in re.findall(r"^\| (`.*) \|$", SECTION, re.MULTILINE)
]
KNOWN = Vocabulary(*sorted({entry for _, entries in ROWS for entry in entries}))


def test_the_table_has_each_kind():
    assert len(ROWS) >= 20


@pytest.mark.parametrize(("texts", "entries"), ROWS, ids=ascii)
def test_a_text_of_the_table_has_its_entries(texts, entries):
    (text,) = texts
    for changed in (text, f"bank {text} bank", f"({text})"):
        tokens = tokenize(changed, KNOWN)
        assert Tokenizer(KNOWN).tokens(changed) == tokens
        assert all(changed[token.start : token.end] == token.text for token in tokens)
    keys = [token.key for token in tokenize(text, KNOWN)]
    assert [key for key in keys if key is not None] == entries
    assert len(keys) <= 1 or None not in keys
    if len(keys) == 1 and keys[0]:
        assert [token.key for token in resolve_all([text], KNOWN)] == keys


INVISIBLE = [
    *("\u00ad", "\u034f", "\u061c", "\u180e", "\u200c", "\u200d", "\u200e", "\u200f", "\u202c"),
    *("\u2060", "\u2063", "\u2069", "\u206f", "\ufe00", "\ufe0f", "\ufeff", "\U000e0041", "\x00"),
    *("\x08", "\x7f", "\x9f", "\u115f", "\u3164", "\ufff0", "\U000e0100"),
]
SENTENCE = "The bank of the river did not flood, didn't it?"


@pytest.fixture(scope="module")
def model() -> LocalModel:
    return polyseme.load("wiki-en")


@pytest.mark.parametrize("character", INVISIBLE, ids=ascii)
def test_an_invisible_code_point_changes_no_bit_of_a_vector(model, character):
    c = character
    texts = [
        SENTENCE,
        f"{c}The ba{c}nk of the river did not fl{c}ood{c}, did{c}n't it?{c}",
        f"The b{c}{c}ank{c} {c} of {c} the ri{c}ver did not flood, didn'{c}t it? {c}",
    ]
    plain, *others = model.encode(texts)
    for text, other in zip(texts[1:], others, strict=True):
        assert np.array_equal(other.contextual, plain.contextual)
        assert [text[t.start : t.end].replace(c, "") for t in other.tokens] == plain.words
    assert np.array_equal(*model.embed(texts[:2]))


def test_a_zero_width_space_is_white_space(model):
    plain, other = model.encode([SENTENCE, SENTENCE.replace(" ", "\u200b")])
    assert np.array_equal(other.contextual, plain.contextual)
    assert [(t.start, t.end) for t in other.tokens] == [(t.start, t.end) for t in plain.tokens]


def test_a_word_with_invisible_code_points_is_found_by_its_plain_form(model):
    pairs = [("The ba\u00adnk of the river", "bank"), ("A bank loan", "ba\u200enk")]
    first, second = model.compare(pairs).occurrences
    assert (first.token.key, second.token.key) == ("bank", "bank")
    assert (first.token.start, first.token.end) == (4, 9)
