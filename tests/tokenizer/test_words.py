"""The words of a text, before the vocabulary is looked up."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from polyseme.tokenizer import splits, words
from tests.tokenizer.vocabularies import AWKWARD, GAP, PROPERTY, texts, unbroken

LONG = 200_000


def word_texts(text):
    return [text[start:end] for start, end in words(text)]


@PROPERTY
@given(texts)
@example("".join(AWKWARD))
@example(" ".join(AWKWARD))
def test_words_are_in_order_and_omit_only_what_is_invisible(text):
    reached = 0
    for start, end in words(text):
        assert reached <= start < end <= len(text)
        assert GAP.fullmatch(text, reached, start)
        reached = end
    assert GAP.fullmatch(text, reached)


@PROPERTY
@given(texts)
@example("\x1c")
@example("a\x1db")
@example("https://a.b\x1ec")
def test_white_space_is_part_of_no_word(text):
    for word in word_texts(text):
        assert not any(character.isspace() for character in word)


@PROPERTY
@given(texts, texts, st.sampled_from([" ", "\n", "\u3000"]))
def test_words_do_not_depend_on_text_beyond_white_space(left, right, gap):
    moved = [(start + len(left) + 1, end + len(left) + 1) for start, end in words(right)]
    assert list(words(left + gap + right)) == [*words(left), *moved]


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


@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000\xa0\u2028\x85"])
def test_white_space_has_no_words(text):
    assert word_texts(text) == []


@pytest.mark.parametrize(
    "word",
    [
        *(
            "word",
            "Word",
            "didn't",
            "didn’t",
            "can't",
            "John's",
            "John’s",
            "rock'n'roll",
            "O’Neill",
        ),
        *("high-end", "state-of-the-art", "non‑breaking", "AT&T", "snake_case", "l·l", "Ph.D"),
        *("3.14", "1,000", "1,000,000.5", "10:30", "1990s", "5km", "2nd", "B2B", "COVID-19"),
        *("U.S.", "e.g.", "i.e.", "a.m.", "U.S.S.R.", "É.U."),
        *("https://example.com", "http://a.b/c-d_e?f=g&h=1#i", "www.example.org/x", "HTTPS://A.B"),
        *("https://en.wikipedia.org/wiki/Bank?a=b#c", "ftp://a.b/c"),
        *("@user", "@é_x1", "#tag", "#2020election", "#naïve", "#ИИ"),
        *("5kg", "3.5GHz", "100km/h", "12m²", "20%", "2.5‰", "5€", "20°C", "5°", "7MB", "9am"),
        *("$5", "$1,234.50", "€1.5bn", "£3m", "10:30:45", "10:30pm"),
        *("me@example.com", "first.last+tag@mail.example.co.uk", "x_y-z@a-b.example"),
        *("naïve", unicodedata.normalize("NFD", "naïve"), "Straße", "İstanbul", "ﬁne", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢"),
        *(
            "שלום",
            "ש\u05b8לו\u05b9ם",
            "سلام",
            "مُحَمَّد",
            "हिन्दी",
            "한국어",
            "日本語",
            "𠮷野家",
            "٣",
        ),
        *("می\u200cخواهم", "क्\u200dष", "दे\u0301"),
        *(
            "😀",
            "👍🏽",
            "👩🏽\u200d🚒",
            "🏳\ufe0f\u200d🌈",
            "👨\u200d👩\u200d👧\u200d👦",
            "❤\ufe0f",
            "🤷🏽\u200d♂\ufe0f",
        ),
        *("🇩🇪", "1\ufe0f\u20e3", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"),
        *(
            "...",
            "…",
            "....",
            "--",
            "—",
            "!!!",
            "``",
            "''",
            "!\u0301",
            "…\u0301\u0300",
            "\ud800",
            "€",
        ),
    ],
)
def test_a_word_is_not_split(word):
    assert word_texts(word) == [word]
    assert word_texts(f"({word} )")[1:-1] == [word]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Apple unveiled its phone.", ["Apple", "unveiled", "its", "phone", "."]),
        ("Hello, world!", ["Hello", ",", "world", "!"]),
        ("“Well,” he said", ["“", "Well", ",", "”", "he", "said"]),
        ("'quoted'", ["'", "quoted", "'"]),
        ("the dogs' bowl", ["the", "dogs", "'", "bowl"]),
        ("did n't", ["did", "n't"]),
        ("John 's hat", ["John", "'s", "hat"]),
        ("they 're", ["they", "'re"]),
        ("'savvy'", ["'", "savvy", "'"]),
        ("(1990-1995)", ["(", "1990-1995", ")"]),
        ("1, 2,3 a,b 4:x", ["1", ",", "2,3", "a", ",", "b", "4", ":", "x"]),
        ("$5.99 or 50% off", ["$5.99", "or", "50%", "off"]),
        ("US$5, -3% ($10-$20).", ["US", "$5", ",", "-", "3%", "(", "$10", "-", "$20", ")", "."]),
        ("5 kg at 10:30-11:00", ["5", "kg", "at", "10:30", "-", "11:00"]),
        ("50°N 5x 16:9 1.5.2", ["50", "°", "N", "5x", "16:9", "1.5.2"]),
        ("and/or", ["and", "/", "or"]),
        ("He left the U.S. today.", ["He", "left", "the", "U.S.", "today", "."]),
        ("e.g. this", ["e.g.", "this"]),
        ("See https://example.com/a.b, now", ["See", "https://example.com/a.b", ",", "now"]),
        ("(www.example.org).", ["(", "www.example.org", ")", "."]),
        ("https://a.b/c<br>x", ["https://a.b/c", "<", "br", ">", "x"]),
        ("<https://a.b>", ["<", "https://a.b", ">"]),
        ("mail me@example.com.", ["mail", "me@example.com", "."]),
        ("@user's #tag, #1 @1", ["@user", "'s", "#tag", ",", "#", "1", "@", "1"]),
        ("C# a#b a@b &#x27;", ["C", "#", "a", "#", "b", "a", "@", "b", "&", "#", "x27", ";"]),
        ("Wait...", ["Wait", "..."]),
        ("Wait… what?!", ["Wait", "…", "what", "?", "!"]),
        ("one--two", ["one", "--", "two"]),
        ("well-", ["well", "-"]),
        ("🇩🇪🇫🇷", ["🇩🇪", "🇫🇷"]),
        ("😀😀", ["😀", "😀"]),
        ("hi👋🏽there", ["hi", "👋🏽", "there"]),
        ("\u0301a", ["\u0301", "a"]),
        ("a\u200bb", ["a", "b"]),
        ("\ufeffa\xadb\x00 \u200e \u200dc.", ["a\xadb", "c", "."]),
        ("می\u200cرود \u200cرود\u200c", ["می\u200cرود", "رود"]),
        ("שלום, עולם", ["שלום", ",", "עולם"]),
    ],
)
def test_a_text_is_split_into_words(text, expected):
    assert word_texts(text) == expected


def repeated(unit):
    return (unit * (LONG // len(unit) + 1))[:LONG]


HOSTILE = {
    "one letter": repeated("a"),
    "marks": "a" + repeated("\u0301"),
    "marks and dots": repeated("a\u0301."),
    "long marks": repeated("a" + "\u0301" * 999),
    "apostrophes": repeated("a'"),
    "hyphens": repeated("-"),
    "pluses": repeated("a+"),
    "at signs": repeated("a@"),
    "almost mail": repeated("x" * 64 + "@" + "y" * 63 + " "),
    "almost addresses": repeated("http://......... "),
    "address with dots": "http://" + repeated("."),
    "addresses": repeated("www."),
    "joiners": repeated("👩\u200d"),
    "flags": repeated("🇩"),
    "commas": repeated("1,"),
    "handles": repeated("@a"),
    "hashes": repeated("#"),
    "hashtags of digits": repeated("#1"),
    "schemes": repeated("http://"),
    "prices": repeated("$1"),
    "times": repeated("10:30"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_long_hostile_text_is_split_in_linear_time(name):
    # A pattern that takes quadratic time would not finish.
    assert sum(end - start for start, end in words(HOSTILE[name])) > LONG / 2
