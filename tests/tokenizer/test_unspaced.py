"""Texts of scripts without spaces between words are split into entries of the vocabulary."""

import re
from itertools import combinations, pairwise
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.spellings import MAX_WORD_LENGTH
from polyseme.tokenizer import Tokenizer
from polyseme.words import segments
from tests.tokenizer.vocabularies import PROPERTY, Vocabulary, resolve_all, shown, tokenize

KNOWN = ("の", "は", "に", "私", "銀行", "行", "銀", "行った", "50", "周年", "kg", "did", "n't")


def split(text, *known):
    return shown(text, *known, composes=bool)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("私は銀行に行った", ["私", "は", "銀行", "に", "行った"]),
        ("銀行の50周年", ["銀行", "の", "50", "周年"]),
        ("私は鑄に", ["私", "は", "(鑄)", "に"]),  # no entry has this letter
        ("ヒッタイトの銀", ["(ヒッタイト)", "の", "銀"]),
        ("私はあいうえに", ["私", "は", "(あいうえ)", "に"]),
        ("私はあいうえおに", ["私", "は", "[あいうえお]", "に"]),  # these may be several words
        ("私は" + "กข" * 6, ["私", "は", f"({'กข' * 6})"]),
        ("私は" + "กข" * 7, ["私", "は", f"[{'กข' * 7}]"]),
        ("私はzebraに5kg", ["私", "は", "(zebra)", "に", "5kg"]),
        ("私didn't行った", ["私", "did", "n't", "行った"]),
        ("私は鑄12鑄に", ["私", "は", "(鑄)", "(12)", "(鑄)", "に"]),
        ("あいうえおか", ["[あいうえおか]"]),
        ("私は、銀行。", ["私", "は", "(、)", "銀行", "(。)"]),
        ("私\u200bは銀\u00ad行に", ["私", "は", "銀\u00ad行", "に"]),
        ("銀\ufe00行の", ["銀\ufe00行", "の"]),  # variants of letters
    ],
)
def test_a_text_is_split_into_entries_and_what_no_entry_covers(text, expected):
    assert split(text, *KNOWN) == expected


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("ไปธนาคาร", ["ไป", "ธนาคาร"]),
        ("ໄປທະນາຄານ", ["ໄປ", "ທະນາຄານ"]),
        ("ទៅធនាគារ", ["ទៅ", "ធនាគារ"]),
        ("ဘဏ်သွား", ["ဘဏ်", "သွား"]),
        ("ｶﾞｿﾘﾝの", ["ガソリン", "の"]),  # half-width letters
        ("か\u3099くに", ["がく", "に"]),
    ],
)
def test_texts_of_other_scripts_and_forms_have_their_entries(text, entries):
    assert [token.key for token in tokenize(text, Vocabulary(*entries))] == entries


def test_two_letters_of_han_are_a_word_rather_than_two_rare_entries():
    filler = [f"filler{i}" for i in range(20_000)]
    assert split("的鑄鐵", "的", *filler, "鑄", "鐵") == ["的", "(鑄鐵)"]
    assert split("的鑄鐵", "的", "鑄", "鐵") == ["的", "鑄", "鐵"]
    assert split("あいう", *filler, "あ", "い", "う") == ["あ", "い", "う"]


def test_a_text_of_which_nothing_has_a_vector_stays_whole():
    text = "鑄鐵鋼鋁銅ヒッタイト12zebra"
    assert [token[:3] for token in tokenize(text, Vocabulary("a"))] == [(text, 0, len(text))]


def test_the_more_frequent_entries_are_used():
    filler = [f"filler{i}" for i in range(2000)]
    assert split("研究生命", "研究", "生命", *filler, "研究生", "命") == ["研究", "生命"]
    assert split("研究生命", "研究生", "命", *filler, "研究", "生命") == ["研究生", "命"]
    assert split("研究生命", "研究", "生命", "研究生命") == ["研究生命"]


def test_words_of_other_scripts_and_of_lists_are_not_split():
    assert split("은행에서 банкеле", "은행", "에서", "банк") == ["(은행에서)", "(банкеле)"]
    (token,) = resolve_all(["銀行員"], Vocabulary("銀行", "員"), "auto", lambda _: True)
    assert token.resolution == "subword"


def test_a_longer_text_is_split_too_with_exact_offsets():
    text = "私は銀行に" * MAX_WORD_LENGTH
    tokens = Tokenizer(Vocabulary(*KNOWN)).tokens(text)
    assert "".join(token.text for token in tokens) == text
    assert [token.start for token in tokens[1:]] == [token.end for token in tokens[:-1]]
    unknown = sum(token.row is None for token in tokens)
    assert unknown == 0 and len(tokens) < 4.1 * MAX_WORD_LENGTH


PAIR = re.compile("[銀行員]{2}")


def letters(size):
    return st.text("銀行員に", min_size=1, max_size=size)


@PROPERTY
@given(letters(7), st.sets(letters(4)))
def test_no_other_split_is_more_probable(text, known):
    rows = {word: row for row, word in enumerate(sorted(known))}

    def cost(split):
        parts = [text[start:end] for start, end in split]
        if any(part not in rows and not PAIR.fullmatch(part) and len(part) > 1 for part in parts):
            return float("inf")
        return sum(
            log(rows[part] + 10) + 2.3 if part in rows else (20.3, 22.3)[len(part) == 1]
            for part in parts
        )

    inner = range(1, len(text))
    cuts = [cut for count in range(len(text)) for cut in combinations(inner, count)]
    splits = [list(pairwise((0, *cut, len(text)))) for cut in cuts]
    best = min(map(cost, splits))
    assert any(
        merged(split, text, rows) == segments(text, rows.get)
        for split in splits
        if cost(split) <= best + 1e-9
    )


def merged(split, text, rows):
    """A split in which consecutive unknown letters are one span."""
    spans = []
    was_unknown = False
    for start, end in split:
        is_unknown = text[start:end] not in rows and end == start + 1
        if is_unknown and was_unknown:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        was_unknown = is_unknown
    return spans
