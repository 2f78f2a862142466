"""Which spellings are looked up, in which order, and what each is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.tokenizer import resolve, tokenize
from tests.tokenizer.vocabularies import PROPERTY, Vocabulary

CASES = ["auto", "exact", "lower"]
cases = st.sampled_from(CASES)


def first_of(word, known, case):
    """The order of the contract once more, for words in one normal form without apostrophes."""
    ways = {
        "auto": [
            (word, "exact"),
            (word.lower(), "lower"),
            (word.capitalize(), "capitalised"),
            (word.upper(), "upper"),
        ],
        "exact": [(word, "exact")],
        "lower": [(word.lower(), "exact" if word == word.lower() else "lower")],
    }[case]
    return next(((s, r) for s, r in ways if s in known), (None, "oov"))


@PROPERTY
@given(st.from_regex(r"\A[a-cA-C]{1,3}\Z"), st.sets(st.from_regex(r"\A[a-cA-C]{1,3}\Z")), cases)
def test_spellings_are_looked_up_in_the_order_of_the_contract(word, other, case):
    for known in ({*other}, {word.lower(), word.upper()}, {word.capitalize(), word.upper()}):
        token = resolve(word, Vocabulary(*known), case)
        assert (token.key, token.resolution) == first_of(word, known, case)


@pytest.mark.parametrize(
    ("case", "word", "known", "key", "resolution"),
    [
        ("auto", "Apple", ["APPLE", "Apple", "apple"], "Apple", "exact"),
        ("auto", "Apple", ["APPLE", "apple"], "apple", "lower"),
        ("auto", "apple", ["APPLE", "Apple"], "Apple", "capitalised"),
        ("auto", "aPPLE", ["APPLE", "Apple", "apple"], "apple", "lower"),
        ("auto", "aPPLE", ["APPLE", "Apple"], "Apple", "capitalised"),
        ("auto", "nato", ["NATO"], "NATO", "upper"),
        ("auto", "Nato", ["NATO"], "NATO", "upper"),
        ("auto", "NATO", ["NATO", "nato"], "NATO", "exact"),
        ("auto", "mcdonald", ["McDonald"], None, "oov"),
        ("auto", "high-End", ["High-end"], "High-end", "capitalised"),
        ("auto", "STRASSE", ["straße"], None, "oov"),
        ("auto", "straße", ["STRASSE"], "STRASSE", "upper"),
        ("exact", "Apple", ["apple", "APPLE"], None, "oov"),
        ("exact", "Apple", ["Apple"], "Apple", "exact"),
        ("lower", "Apple", ["Apple", "apple"], "apple", "lower"),
        ("lower", "apple", ["Apple", "apple"], "apple", "exact"),
        ("lower", "Apple", ["Apple", "APPLE"], None, "oov"),
    ],
)
def test_case(case, word, known, key, resolution):
    token = resolve(word, Vocabulary(*known), case)
    assert (token.key, token.resolution) == (key, resolution)
    assert token.text == word


NFD, NFC = "cafe\u0301", "caf\u00e9"


@pytest.mark.parametrize(
    ("word", "known", "key", "resolution"),
    [
        (NFD, NFC, NFC, "exact"),
        (NFD, NFD, NFD, "exact"),
        (NFD.upper(), NFC, NFC, "lower"),
        (NFD, NFC.upper(), NFC.upper(), "upper"),
        ("\u1112\u1161\u11ab", "\ud55c", "\ud55c", "exact"),
        ("o’clock", "o'clock", "o'clock", "exact"),
        ("o’clock", "o’clock", "o’clock", "exact"),
        ("O’Clock", "o'clock", "o'clock", "lower"),
    ],
)
def test_normal_forms_and_apostrophes_count_as_written_the_same(word, known, key, resolution):
    for token in (tokenize(word, Vocabulary(known))[0], resolve(word, Vocabulary(known))):
        assert (token.text, token.key, token.resolution) == (word, key, resolution)
    assert tokenize(f"a {word}", Vocabulary(known))[1].start == 2
    assert tokenize(f"a {word}", Vocabulary(known))[1].end == 2 + len(word)


@pytest.mark.parametrize("case", CASES)
def test_as_written_wins_over_its_normal_form(case):
    token = resolve(NFD, Vocabulary(NFC, NFD), case)
    assert (token.key, token.resolution) == (NFD, "exact")
