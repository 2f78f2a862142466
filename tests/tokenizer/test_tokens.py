"""Tokens: words with their vocabulary entries, whole or split."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.tokenizer import Tokenizer, resolve
from polyseme.words import word_spans
from tests.tokenizer.vocabularies import (
    AWKWARD,
    GAP,
    PROPERTY,
    Vocabulary,
    resolve_all,
    shown,
    spans_of_words,
    texts,
    texts_with_vocabularies,
    tokenize,
    unbroken,
)

cases = st.sampled_from(["auto", "exact", "lower"])


@PROPERTY
@given(texts_with_vocabularies(), cases)
def test_tokens_slice_back_from_the_text_and_have_an_entry_or_none(both, case):
    text, vocabulary = both
    reached = 0
    for token in tokenize(text, vocabulary, case):
        assert reached <= token.start < token.end <= len(text)
        assert text[token.start : token.end] == token.text
        assert GAP.fullmatch(text, reached, token.start)
        reached = token.end
        if token.resolution == "oov":
            assert (token.key, token.row) == (None, None)
        else:
            assert vocabulary.rows[token.key] == token.row
    assert GAP.fullmatch(text, reached)


@PROPERTY
@given(texts_with_vocabularies(), cases)
def test_a_known_word_is_not_split(both, case):
    text, vocabulary = both
    tokens = tokenize(text, vocabulary, case)
    for start, end in spans_of_words(text, tokens):
        inside = [t for t in tokens if start <= t.start < end]
        if (start, end) not in word_spans(text):
            assert any(t.row is not None and len(list(word_spans(t.text))) > 1 for t in inside)
            continue
        whole = resolve(text[start:end], vocabulary, case)._replace(start=start, end=end)
        if whole.row is not None:
            assert inside == [whole]
        elif len(inside) > 1:
            assert any(t.row is not None for t in inside)


@PROPERTY
@given(texts, cases)
def test_without_a_vocabulary_words_stay_whole_and_unknown(text, case):
    tokens = tokenize(text, Vocabulary(), case)
    assert [(t.start, t.end) for t in tokens] == list(word_spans(text))
    assert {t.resolution for t in tokens} <= {"oov"}


@PROPERTY
@given(st.lists(st.one_of(unbroken, st.sampled_from(AWKWARD), st.just("two words"))), cases)
def test_pretokenized_words_are_never_split(given_words, case):
    vocabulary = Vocabulary("did", "n't", "two", "words", "a", "-")
    tokens = resolve_all(given_words, vocabulary, case)
    assert [t.text for t in tokens] == given_words
    assert {(t.start, t.end) for t in tokens} <= {(None, None)}


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("didn't", ["did", "n't", "didn't"], ["didn't"]),
        ("didn't", ["did", "n't", "didn", "t", "'"], ["did", "n't"]),
        ("didn’t", ["did", "n't"], ["did", "n’t"]),
        ("John's", ["John", "'s"], ["John", "'s"]),
        ("they're", ["they", "'re"], ["they", "'re"]),
        ("I've", ["I", "'ve"], ["I", "'ve"]),
        ("I'm", ["I", "'m"], ["I", "'m"]),
        ("she'd've", ["she", "'", "d", "'ve"], ["she", "'", "d", "'ve"]),
        ("Qzx's", ["'s", "hat"], ["[Qzx's]"]),
        ("qzxn't", ["n't"], ["[qzx]", "n't"]),
        ("high-end's", ["high", "-", "end", "'s"], ["high", "-", "end", "'s"]),
        ("high-end's", ["high-end", "'s", "high", "end"], ["high-end", "'s"]),
        ("o'clock", ["o", "'", "clock"], ["o", "'", "clock"]),
        ("high-end", ["high-end", "high", "-", "end"], ["high-end"]),
        ("high-end", ["high", "-", "end"], ["high", "-", "end"]),
        ("high-end", ["high", "end"], ["high", "[-]", "end"]),
        ("high-qzx", ["high", "-"], ["high", "-", "[qzx]"]),
        ("qzx-xzq", ["-"], ["[qzx-xzq]"]),
        ("out-of-date", ["out", "of", "date", "-"], ["out", "-", "of", "-", "date"]),
        ("3.14", ["3.14", "3", ".", "14"], ["3.14"]),
        ("3.14", ["3", ".", "14"], ["3", ".", "14"]),
        ("1:30", ["1", ":", "30"], ["[1:30]"]),
        ("1:3", ["1", ":", "3"], ["1", ":", "3"]),
        ("1990s", ["1990", "s"], ["1990", "s"]),
        ("1990s", ["1990s", "1990", "s"], ["1990s"]),
        ("B2B", ["B", "2"], ["B", "2", "B"]),
        ("AT&T", ["AT", "&", "T"], ["AT", "&", "T"]),
        ("end.Start", ["end", ".", "start"], ["end", ".", "Start"]),
        ("u.s.", ["U.S."], ["u.s."]),
        ("U.S.", ["U", "S", "."], ["U", ".", "S", "."]),
        ("e.g.", ["e.g"], ["[e.g.]"]),
        ("🇹🇹", ["🇹"], ["[🇹🇹]"]),
        ("...", ["...", "."], ["..."]),
        ("...", ["."], [".", ".", "."]),
        ("!!!", ["?"], ["[!!!]"]),
        ("…", ["..."], ["…"]),
        ("aaa", ["a"], ["[aaa]"]),
        ("https://a.example/b", ["qzx"], ["[https://a.example/b]"]),
        ("me@mail.example", ["qzx"], ["[me@mail.example]"]),
        ("👩🏽\u200d🚒", ["👩", "🚒"], ["[👩🏽\u200d🚒]"]),
        ("👍🏽", ["👍🏽"], ["👍🏽"]),
    ],
)
def test_an_unknown_word_is_split_if_its_pieces_are_known(word, known, expected):
    assert shown(word, *known) == expected


@pytest.mark.parametrize(
    ("word", "known", "key", "resolution"),
    [
        ("@bbc", ["BBC", "@"], "BBC", "upper"),
        ("#Apple", ["Apple", "apple"], "Apple", "exact"),
        ("#Apple", ["#apple", "Apple"], "#apple", "lower"),
        ("#qzx", ["#"], None, "oov"),
        ("#銀行", ["銀", "行", "銀行"], "銀行", "exact"),
        ("5km", ["5", "km"], "km", "exact"),
        ("5km", ["5km", "km"], "5km", "exact"),
        ("5KM", ["km"], "km", "lower"),
        ("3.5GHz", ["GHz", "3.5"], "GHz", "exact"),
        ("100km/h", ["km", "/", "h"], "km", "exact"),
        ("20%", ["20", "%"], "%", "exact"),
        ("20°C", ["°", "C"], "°", "exact"),
        ("$1,234.50", ["$", "1"], "$", "exact"),
        ("€1.5bn", ["€", "bn"], "€", "exact"),
        ("10:30pm", ["PM", "10"], "PM", "upper"),
        ("10:30", ["10", ":", "30"], None, "oov"),
        ("10:30", ["10:30"], "10:30", "exact"),
        ("www.example.org", ["www", ".", "example", "org"], None, "oov"),
        ("www.example.org", ["www.example.org"], "www.example.org", "exact"),
        ("me@mail.example", ["me", "@", "mail", ".", "example"], None, "oov"),
    ],
)
def test_addresses_tags_and_quantities_are_one_token(word, known, key, resolution):
    (token,) = tokenize(f" {word}", Vocabulary(*known))
    assert token[:5] == (word, 1, 1 + len(word), key, resolution)
    (token,) = resolve_all([word], Vocabulary(*known))
    assert token[:5] == (word, None, None, key, resolution)


def with_phrases(text, *known, case="auto"):
    """The tokens of a text, and of the same text pretokenized, with joined phrases."""
    tokenizer = Tokenizer(Vocabulary(*known))
    whole = tokenizer.join_phrases(tokenizer.tokens(text, case), case, text)
    words = tokenizer.join_phrases(tokenizer.look_up(text.split(), case), case)
    assert [(t.key, t.resolution) for t in words] == [(t.key, t.resolution) for t in whole]
    assert {(t.start, t.end) for t in words} == {(None, None)}
    assert [t.text for t in words] == [" ".join(t.text.split()) for t in whole]
    return [(t.text, t.start, t.end, t.key, t.resolution) for t in whole]


def test_the_longest_phrase_of_the_vocabulary_is_one_token():
    known = ("New_York", "New_York_City", "new", "york", "city", "well-known", "a_b_c_d_e")
    assert with_phrases("a well known New  York City new york", *known) == [
        ("a", 0, 1, None, "oov"),
        ("well known", 2, 12, "well-known", "exact"),
        ("New  York City", 13, 27, "New_York_City", "exact"),
        ("new", 28, 31, "new", "exact"),
        ("york", 32, 36, "york", "exact"),
    ]
    assert len(with_phrases("a b c d e", *known)) == 5


@pytest.mark.parametrize(
    ("text", "case", "key", "resolution"),
    [
        ("NEW YORK", "auto", "new_york", "lower"),
        ("new york", "auto", "new_york", "exact"),
        ("South east", "auto", "South_east", "exact"),
        ("south East", "auto", "South_east", "capitalised"),
        ("New York", "lower", "new_york", "lower"),
        ("a b", "auto", "A_b", "capitalised"),  # an underscore is tried before a hyphen
        ("Route  66", "auto", "route 66", "lower"),
        ("NEW zealand", "auto", "new zealand", "lower"),
        ("New York", "exact", None, None),
        ("- -", "auto", None, None),
    ],
)
def test_phrases_follow_the_case_policy(text, case, key, resolution):
    known = ("new_york", "South_east", "a-b", "A_b", "route 66", "new zealand", "---", "-")
    tokens = with_phrases(text, *known, case=case)
    assert len(tokens) == (1 if key else 2)
    assert not key or tokens == [(text, 0, len(text), key, resolution)]


def first_spelling(word, known, case):
    """The first known spelling in the documented order."""
    spellings = {
        "auto": [
            (word, "exact"),
            (word.lower(), "lower"),
            (word.capitalize(), "capitalised"),
            (word.upper(), "upper"),
        ],
        "exact": [(word, "exact")],
        "lower": [(word.lower(), "exact" if word == word.lower() else "lower")],
    }[case]
    return next(((s, r) for s, r in spellings if s in known), (None, "oov"))


@pytest.mark.parametrize("case", ["auto", "exact", "lower"])
@pytest.mark.parametrize("word", ["ab", "Ab", "AB", "aB"])
def test_spellings_are_looked_up_in_the_documented_order(word, case):
    for count in range(5):
        for known in combinations(("ab", "Ab", "AB", "aB"), count):
            token = resolve(word, Vocabulary(*known), case)
            assert (token.key, token.resolution) == first_spelling(word, known, case)


@pytest.mark.parametrize(
    ("case", "word", "known", "key", "resolution"),
    [
        ("auto", "mcdonald", ["McDonald"], None, "oov"),
        ("auto", "high-End", ["High-end"], "High-end", "capitalised"),
        ("auto", "STRASSE", ["straße"], "straße", "lower"),
        ("auto", "STRASSE", ["Straße", "strasse"], "strasse", "lower"),
        ("auto", "STRASSE", ["Straße"], "Straße", "capitalised"),
        ("auto", "MASSSTAB", ["maßstab"], "maßstab", "lower"),
        ("auto", "FUSSBALLSCHLOSS", ["fußballschloss"], "fußballschloss", "lower"),
        ("auto", "ASS" * 3, ["aß" * 3, "aß" * 4], "aß" * 3, "lower"),
        ("auto", "ASS" * 4, ["aß" * 4], None, "oov"),
        ("auto", "Strasse", ["straße"], None, "oov"),
        ("lower", "STRASSE", ["Straße"], None, "oov"),
        ("lower", "STRASSE", ["straße"], "straße", "lower"),
        ("exact", "STRASSE", ["straße"], None, "oov"),
        ("auto", "straße", ["STRASSE"], "STRASSE", "upper"),
        ("auto", "CAFE\u0301", ["caf\u00e9"], "caf\u00e9", "lower"),
        ("auto", "cafe\u0301", ["CAF\u00c9"], "CAF\u00c9", "upper"),
        ("auto", "cafe\u0301", ["caf\u00e9", "cafe\u0301"], "cafe\u0301", "exact"),
        ("auto", "O’Clock", ["o'clock"], "o'clock", "lower"),
        ("auto", "o’clock", ["o'clock", "o’clock"], "o’clock", "exact"),
    ],
)
def test_the_case_policy_selects_the_entry(case, word, known, key, resolution):
    token = resolve(word, Vocabulary(*known), case)
    assert (token.key, token.resolution) == (key, resolution)
    assert token.text == word
