"""Words outside the vocabulary, with subwords that compose vectors."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from polyseme.words import is_unspaced, word_spans
from tests.tokenizer.vocabularies import (
    PROPERTY,
    Vocabulary,
    resolve_all,
    shown,
    spans_of_words,
    texts_with_vocabularies,
    tokenize,
)

cases = st.sampled_from(["auto", "exact", "lower"])
KNOWN = ("did", "n't", "high", "-", "end", "!")


ADDRESS = re.compile(r"://|www\.|@", re.IGNORECASE)
"""A part of addresses, which are never composed."""


def any_word(_):
    return True


def short(word):
    return len(word) <= 6


PIECES = """
did
DID
(zebra)
did n't
high - end
(high-zebra)
(zebran't)
high -
! ! !
(...)
(high-end's)
did ('s)
"""
PIECES_OF_SHORT = """
high - (zebra)
high - [hippopotamus]
high - (zebra) ('s)
[zebra-gnu]
[hippopotamus]
"""
"""Only words of at most six letters can be composed."""


@pytest.mark.parametrize("pieces", PIECES.strip().splitlines())
def test_a_word_is_split_if_every_piece_is_known_and_composed_otherwise(pieces):
    assert shown(word_of(pieces), *KNOWN, composes=any_word) == pieces.split()


@pytest.mark.parametrize("pieces", PIECES_OF_SHORT.strip().splitlines())
def test_a_word_that_cannot_be_composed_is_split_at_a_known_word(pieces):
    assert shown(word_of(pieces), "high", "-", composes=short) == pieces.split()


def word_of(pieces):
    return re.sub(r"[ ()\[\]]", "", pieces)


@PROPERTY
@given(texts_with_vocabularies(), cases)
def test_subwords_do_not_change_the_tokens_of_known_words(both, case):
    text, vocabulary = both
    assume(not ADDRESS.search(text) and not is_unspaced(text))
    without = tokenize(text, vocabulary, case)
    composed = tokenize(text, vocabulary, case, any_word)
    for token in composed:
        assert token.resolution != "oov"
        assert (
            (token.composed is not None) == (token.resolution == "subword") == (token.key is None)
        )
    for start, end in spans_of_words(text, without):
        before, after = ([t for t in ts if start <= t.start < end] for ts in (without, composed))
        if all(token.row is not None for token in before):
            assert after == before
        elif (start, end) in word_spans(text):
            assert [(t.start, t.end, t.resolution) for t in after] == [(start, end, "subword")]


@pytest.mark.parametrize(
    ("word", "case", "composed"),
    [
        ("Zebra", "auto", "Zebra"),
        ("Zebra", "exact", "Zebra"),
        ("Zebra", "lower", "zebra"),
        ("ZEBRA’s", "auto", "ZEBRA’s"),
        ("ZEBRA’s", "lower", "zebra’s"),
        ("cafe\u0301", "auto", "cafe\u0301"),
    ],
)
def test_the_composed_spelling_is_as_written_or_in_lower_case(word, case, composed):
    (token,) = resolve_all([word], Vocabulary(), case, any_word)
    assert (token.text, token.composed) == (word, composed)
    assert (token.key, token.row) == (None, None)


def test_another_form_is_composed_if_the_written_form_cannot_be():
    (token,) = resolve_all(["cafe\u0301’s’"], Vocabulary(), "auto", short)
    assert token.composed is None
    (token,) = resolve_all(["cafe\u0301’s"], Vocabulary(), "auto", short)
    assert token.composed == "caf\u00e9's"
    for case, composed in (("auto", None), ("exact", None), ("lower", "zebra")):
        (token,) = resolve_all(["Zebra"], Vocabulary(), case, str.islower)
        assert token.composed == composed


@pytest.mark.parametrize(
    ("word", "composed"),
    [
        ("https://a.b/zebra", None),
        ("me@zebra.example", None),
        ("#zebra", "zebra"),
        ("@zebra", "zebra"),
        ("5kg", "kg"),
        ("10:47", "10:47"),
    ],
)
def test_hashtags_and_quantities_are_composed_from_a_part(word, composed):
    for token in (
        *tokenize(word, Vocabulary("5"), "auto", any_word),
        *resolve_all([word], Vocabulary("5"), "auto", any_word),
    ):
        assert (token.text, token.key, token.composed) == (word, None, composed)
        assert token.resolution == ("subword" if composed else "oov")
