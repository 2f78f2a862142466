"""Entries of several words, such as `C++`, stay whole; ordinary text keeps its tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.models.vocabulary import Vocabulary
from polyseme.words import word_spans
from tests.tokenizer.vocabularies import PROPERTY, shown, texts, tokenize

ENTRIES = """
<user> <url> c++ C# tcp/ip 24/7 <3 :) :-D .NET AT&T and/or rock'n'roll e-mail #hashtag @user w/o
U.S. u.s.-led Inc. f(x) [UNK] US$ A+ </s> &amp; Yahoo! ph.d. 😂😂 a=b
"""
PIECES = """
user url c net 3 24 7 D unk s amp hashtag tcp ip < > + # / : ) . & [ ] ( , ! " - 's the
"""
SPECIAL, PARTS = ENTRIES.split(), PIECES.split()
ELISIONS = ("l'", "qu'", "dell'", "d'", "homme", "il", "arte", "Artagnan", "avant-garde", "avant")


@pytest.mark.parametrize("entry", SPECIAL)
def test_an_entry_stays_whole_in_any_case_and_punctuation(entry):
    for word in (entry, entry.upper(), entry.capitalize()):
        assert shown(word, *SPECIAL, *PARTS) == [word]
        assert shown(f"({word}), the", *SPECIAL, *PARTS) == ["(", word, ")", ",", "the"]
        quoted = shown(f"the “{word}”?! the", *SPECIAL, *PARTS)
        assert quoted == ["the", "[“]", word, "[”]", "[?]", "!", "the"]
    assert shown(entry, *SPECIAL, *PARTS, case="exact") == [entry]
    assert shown(entry, entry.lower(), *PARTS, case="lower") == [entry]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I <3 you :).", ["[I]", "<3", "[you]", ":)", "."]),
        ("the C++'s <user>'s TCP/IP's", ["the", "C++", "'s", "<user>", "'s", "TCP/IP", "'s"]),
        (".NET's (.NET-the)", [".NET", "'s", "(", ".NET", "-", "the", ")"]),
        ("@user's @user:", ["@user", "'s", "@user", ":"]),
        ("C++/C# TCP/IP-the", ["C++", "/", "C#", "TCP/IP", "-", "the"]),
        ("c#,c++,C#", ["c#", ",", "c++", ",", "C#"]),
        ("<user><url> <C++>", ["<user>", "<url>", "<", "C++", ">"]),
        ("the<3 [C++] *C#*", ["the", "<3", "[", "C++", "]", "[*]", "C#", "[*]"]),
        ("the:) the. (the)", ["the", ":", ")", "the", ".", "(", "the", ")"]),
        ("c+ 24/8 net", ["c", "+", "24", "/", "[8]", "net"]),
        ("US$5 US$ A+5", ["[US]", "[$5]", "US$", "A+", "[5]"]),
        ("<us\u00ader> C\u200e++", ["<us\u00ader>", "C\u200e++"]),
    ],
)
def test_an_entry_stays_whole_between_other_words(text, expected):
    assert shown(text, *SPECIAL, *PARTS, "c++,") == expected


def test_a_chunk_of_many_words_is_looked_up_as_a_whole():
    shrug = "¯\\_(ツ)_/¯"
    assert shown(f"the {shrug} the", shrug, *PARTS) == ["the", shrug, "the"]


@pytest.mark.parametrize("entry", ["[UNK]", "{name}"])
def test_a_word_in_brackets_stays_whole_beside_the_word(entry):
    known = ("unk", "name", entry)
    assert shown(f"{entry} ({entry}),", *known) == [entry, "[(]", entry, "[)]", "[,]"]


def test_chunks_longer_than_a_word_are_not_searched_for_entries():
    assert shown("C++" + "/c" * 126, *SPECIAL, *PARTS) == ["C++", *["/", "c"] * 126]
    assert shown("C++" + "/c" * 127, *SPECIAL, *PARTS) == [*"C++", *["/", "c"] * 127]


ACCIDENTS = """ "the (the the) the. the, the." the?! ‘the the’ —the -the """


@pytest.mark.parametrize("entry", ACCIDENTS.split())
@pytest.mark.parametrize("known", ["the", "The"])
def test_an_entry_with_punctuation_replaces_no_more_frequent_word(entry, known):
    parts = [part for part in PARTS if part != "the"]
    tokens = shown(f"{entry} ({entry})", known, entry, *parts)
    assert tokens == shown(f"{entry} ({entry})", known, *parts)
    assert tokens.count("the") == 2
    assert shown(entry, entry, known, *parts) == [entry]
    assert shown(entry, entry, "bank") == [entry]
    assert shown(f"[{entry},", entry, "bank") == ["[[]", entry, "[,]"]


@pytest.mark.parametrize(
    "pieces",
    [
        *("l' homme", "L’ Homme", "lʼ homme", "qu' il", "dell´ arte", "d' Artagnan 's"),
        *("l' avant-garde", "l' avant - il", "l' [zebra]", "[m] ['] homme", "l' homme - [zebra]"),
    ],
)
def test_an_elision_is_split_if_the_vocabulary_has_it(pieces):
    word = pieces.replace(" ", "").replace("[", "").replace("]", "")
    assert shown(word, *ELISIONS, "'s", "-") == pieces.split()


def test_without_elisions_the_pieces_are_those_of_the_finest_split():
    assert shown("l'homme l’homme", "l", "'", "homme") == [*"l'", "homme", *"l’", "homme"]
    assert shown("don't", "don'", "t", "do", "n't") == ["do", "n't"]
    assert shown("aujourd'hui", "aujourd'", "hui", "aujourd'hui") == ["aujourd'hui"]


@PROPERTY
@given(texts, st.sampled_from(["auto", "exact", "lower"]))
def test_entries_of_one_word_do_not_join_words(text, case):
    vocabulary = Vocabulary(b"the\nbank\na\nn't\n3\n")
    tokens = tokenize(text, vocabulary, case)
    spans = list(word_spans(text))
    assert {start for start, _ in spans} <= {token.start for token in tokens}
    assert {end for _, end in spans} <= {token.end for token in tokens}
