"""The words of a text, before the vocabulary is looked up."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from polyseme.tokenizer import words_of
from polyseme.words import splits, word_spans
from tests.tokenizer.vocabularies import AWKWARD, GAP, PROPERTY, texts, unbroken

LONG = 200_000


@PROPERTY
@given(texts)
@example("".join(AWKWARD))
@example(" ".join(AWKWARD))
@example("\x1ca\x1db https://a.b\x1ec")
def test_words_are_in_order_and_omit_only_what_is_invisible(text):
    reached = 0
    for start, end in word_spans(text):
        assert reached <= start < end <= len(text)
        assert GAP.fullmatch(text, reached, start)
        assert not any(map(str.isspace, text[start:end]))
        reached = end
    assert GAP.fullmatch(text, reached)


@PROPERTY
@given(texts, texts, st.sampled_from([" ", "\n", "\u3000"]))
def test_words_do_not_depend_on_text_beyond_white_space(left, right, gap):
    moved = [(start + len(left) + 1, end + len(left) + 1) for start, end in word_spans(right)]
    assert list(word_spans(left + gap + right)) == [*word_spans(left), *moved]


@PROPERTY
@given(unbroken)
@example("didn't")
@example("...")
@example("a-" * 20 + "'s")
def test_every_split_of_a_word_covers_it(word):
    for spans in splits(word):
        assert len(spans) > 1
        assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])]
        assert spans[-1][1] == len(word)
        assert all(start < end for start, end in spans)


WHOLE = """
word Word didn't didn’t can't John's John’s rock'n'roll O’Neill
high-end state-of-the-art non‑breaking AT&T snake_case l·l Ph.D
3.14 1,000 1,000,000.5 10:30 1990s 5km 2nd B2B COVID-19
U.S. e.g. i.e. a.m. U.S.S.R. É.U.
https://example.com http://a.b/c-d_e?f=g&h=1#i www.example.org/x HTTPS://A.B
https://en.wikipedia.org/wiki/Bank?a=b#c ftp://a.b/c
@user @é_x1 #tag #2020election #naïve #ИИ
5kg 3.5GHz 100km/h 12m² 20% 2.5‰ 5€ 20°C 5° 7MB 9am
$5 $1,234.50 €1.5bn £3m 10:30:45 10:30pm
me@example.com first.last+tag@mail.example.co.uk x_y-z@a-b.example
naïve nai\u0308ve Straße İstanbul ﬁne 𝔘𝔫𝔦𝔠𝔬𝔡𝔢
שלום ש\u05b8לו\u05b9ם سلام مُحَمَّد हिन्दी 한국어 日本語 𠮷野家 ٣
می\u200cخواهم क्\u200dष दे\u0301
😀 👍🏽 👩🏽\u200d🚒 🏳\ufe0f\u200d🌈 👨\u200d👩\u200d👧\u200d👦 ❤\ufe0f 🤷🏽\u200d♂\ufe0f
🇩🇪 1\ufe0f\u20e3 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f
... … .... -- — !!! `` '' !\u0301 …\u0301\u0300 \ud800 €
"""


@pytest.mark.parametrize("word", WHOLE.split())
def test_a_word_is_not_split(word):
    assert words_of(word) == [word]
    assert words_of(f"({word} )")[1:-1] == [word]


SPLIT = """
Apple unveiled its phone | .
Hello | , world | !
“ | Well | , | ” he said
' | quoted | '
the dogs | ' bowl
did n't
John 's hat
they 're
' | savvy | '
( | 1990-1995 | )
1 | , 2,3 a | , | b 4 | : | x
$5.99 or 50% off
US | $5 | , - | 3% ( | $10 | - | $20 | ) | .
5 kg at 10:30 | - | 11:00
50 | ° | N 5x 16:9 1.5.2
and | / | or
He left the U.S. today | .
e.g. this
See https://example.com/a.b | , now
( | www.example.org | ) | .
https://a.b/c | < | br | > | x
< | https://a.b | >
mail me@example.com | .
@user | 's #tag | , # | 1 @ | 1
C | # a | # | b a | @ | b & | # | x27 | ;
Wait | ...
Wait | … what | ? | !
one | -- | two
well | -
🇩🇪 | 🇫🇷
😀 | 😀
hi | 👋🏽 | there
\u0301 | a
שלום | , עולם
"""
"""Texts with a bar wherever a word begins that no space precedes."""


@pytest.mark.parametrize("line", SPLIT.strip().splitlines())
def test_a_text_is_split_into_words(line):
    assert words_of(line.replace(" | ", "")) == line.replace("|", " ").split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, []) for text in ("", " ", "\n\t \u3000\xa0\u2028\x85")),
        ([" a b"], [" a b"]),  # the words of a list
        ("a\u200bb", ["a", "b"]),
        ("\ufeffa\xadb\x00 \u200e \u200dc.", ["a\xadb", "c", "."]),
        ("می\u200cرود \u200cرود\u200c", ["می\u200cرود", "رود"]),
    ],
)
def test_white_space_and_invisible_code_points_are_not_words(text, expected):
    assert words_of(text) == expected


HOSTILE = {
    "marks": "a" + "\u0301" * LONG,
    "long marks": ("a" + "\u0301" * 999) * (LONG // 1000),
    "almost mail": ("x" * 64 + "@" + "y" * 63 + " ") * (LONG // 129),
    "address with dots": "http://" + "." * LONG,
}
UNITS = """
a a\u0301. a' - a+ a@ http://......... www. 👩\u200d 🇩 1, @a # #1 http:// $1 10:30
"""
HOSTILE |= {unit: unit * (LONG // len(unit)) for unit in UNITS.split()}


@pytest.mark.parametrize("name", HOSTILE)
def test_long_hostile_text_is_split_in_linear_time(name):
    # A pattern that takes quadratic time would not finish.
    assert sum(end - start for start, end in word_spans(HOSTILE[name])) > LONG / 2
