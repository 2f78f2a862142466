"""Other spellings of a word, in the text and in the vocabulary, and invisible code points."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.models.vocabulary import Vocabulary
from polyseme.spellings import FORMS, NUMBER_FORMS
from polyseme.tokenizer import Tokenizer, resolve
from tests.pages import section
from tests.tokenizer.vocabularies import PROPERTY, resolve_all, tokenize

SECTION = section("languages.md", "Invisible characters and other spellings")


def unescaped(text: str) -> str:
    return re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), text)


ROWS = [
    [[unescaped(code) for code in re.findall(r"`([^`]+)`", cell)] for cell in row.split(" | ")[:2]]
    for row in re.findall(r"^\| (`.*) \|$", SECTION, re.MULTILINE)
]
PAIRS = [(text, entries[0]) for (text,), entries in ROWS if len(entries) == 1]
ALL = sorted({entry for _, entries in ROWS for entry in entries})


def vocabulary_of(*words, languages=()):
    return Vocabulary("".join(f"{word}\n" for word in words).encode(), None, languages)


def keys(text, *words, case="auto", languages=()):
    """The entries of a text's tokens, which have exact offsets, with and without a cache."""
    vocabulary = vocabulary_of(*words, languages=languages)
    tokens = tokenize(text, vocabulary, case)
    assert Tokenizer(vocabulary).tokens(text, case) == tokens
    assert all(text[token.start : token.end] == token.text for token in tokens)
    return [token.key for token in tokens]


def test_the_page_lists_the_forms_in_their_order():
    assert re.findall(r"^\d\. (.*)$", SECTION, re.MULTILINE) == [*FORMS, *NUMBER_FORMS]
    assert len(ROWS) >= 40


@pytest.mark.parametrize(("texts", "entries"), ROWS, ids=ascii)
def test_a_text_of_the_table_has_its_entries(texts, entries):
    (text,) = texts
    known = [*dict.fromkeys([*(entries or ALL), "bank"])]
    for changed, around in ((text, 0), (f"bank {text} bank", 1), (f"({text})", 1)):
        result = keys(changed, *known)
        result = result[around : len(result) - around]
        assert [key for key in result if key is not None] == entries
        assert len(result) <= 1 or None not in result
    if len(entries) == 1:
        (token,) = resolve_all([text], vocabulary_of(*known))
        assert (token.key, token.resolution) == (entries[0], "exact")


@pytest.mark.parametrize(("text", "entry"), PAIRS, ids=ascii)
def test_the_text_and_the_vocabulary_of_the_table_may_be_exchanged(text, entry):
    for word in (entry, entry.upper(), entry.capitalize()):
        (token,) = tokenize(word, vocabulary_of(text))
        assert (token.key, token.text) == (text, word)


WORDS = ["l’Élève", "d'Été-là", "Việt-Nam", "sœur’Ö", "Ёж'ё", "ЩЁКА", "מִלָּה-א", "한국'어", "ড়াে’ক"]
SIGNS = {"'": "'’ʼ‘ʻ‛`´＇′", "-": "-‐‑"}


@st.composite
def same_words(draw):
    """Two spellings of a word that differ in normal form, apostrophe, hyphen and optional marks."""
    word = draw(st.sampled_from(WORDS))
    spelled = []
    for _ in range(2):
        one = word.replace("’", "'")
        if draw(st.booleans()):
            one = one.replace("ё", "е").replace("Ё", "Е")
            one = re.sub("[\u0591-\u05c7]", "", one)
        one = "".join(draw(st.sampled_from(SIGNS.get(c, c))) for c in one)
        spelled.append(unicodedata.normalize(draw(st.sampled_from(["NFC", "NFD"])), one))
    return spelled


@PROPERTY
@given(same_words(), st.sampled_from([str, str.lower, str.upper]))
def test_spellings_that_differ_in_several_ways_are_one_word(pair, change):
    text, entry = pair
    (token,) = tokenize(change(text), vocabulary_of("other", entry))
    assert token.key == (entry if resolve(change(entry), vocabulary_of(entry)).key else None)
    assert tokenize(f"({text})", vocabulary_of(entry))[1].key == entry


@pytest.mark.parametrize(
    ("word", "known", "key"),
    [
        ("все", ["всё", "все"], "все"),
        ("всё", ["все", "всё"], "всё"),
        ("Все", ["Всё", "все"], "все"),
        ("don't", ["don‘t", "don’t"], "don‘t"),
        # Marks in another order are closer than other marks and than no marks.
        ("مُدَرِّس", ["مُدَر\u0651َس", "مدرس", "مُدَر\u0651ِس"], "مُدَر\u0651ِس"),
        ("مُدَرِس", ["مدرس", "مُدَر\u0651ِس"], "مدرس"),
        ("👍🏽", ["👍", "👍🏽\ufe0f"], "👍🏽\ufe0f"),
        ("νομός", ["νόμος", "νομός"], "νομός"),
        ("ΝΟΜΟΣ", ["νόμος", "νομός"], "νόμος"),
        ("علي", ["على", "علي"], "علي"),
        ("كتابي", ["كتابى", "کتابی"], "کتابی"),
        ("Ի՞ՆՉ", ["ի", "նչ", "ինչ"], "ինչ"),
        ("şut", ["șut", "şut"], "şut"),
    ],
)
def test_the_closest_form_and_then_the_most_frequent_word_is_used(word, known, key):
    assert keys(word, *known) == [key]


@pytest.mark.parametrize("number", ["١٩٩٠", "१९९०", "𝟏𝟗𝟗𝟎"])
def test_digits_of_other_scripts_are_those_of_ascii(number):
    assert keys(number, "1990", "the") == ["1990"]
    assert keys(number[:1], "1", "the") == ["1"]
    assert keys(number, "1990", number) == [number]
    assert keys(number, "####", "the") == ["####"]


def test_numbers_may_have_arabic_separators_and_primes_are_no_apostrophes():
    assert keys("(٣٫١٤)، ۱٬۰۰۰ ٢٫٥kg", "3.14", "1,000", "kg", "(", ")") == [
        *("(", "3.14", ")", None, "1,000", "kg")
    ]
    assert keys("٣٫١٤", "3", ".", "14") == ["3", ".", "14"]
    assert keys("5′ 5'", "'", "5") == ["5", None, "5", "'"]
    assert keys("‘so’ `so´", "'", "so") == [None, "so", "'", None, "so", None]


ISIK = ("kırmızı", "ışık", "işik", "İzmir", "internet", "kir", "kır")


@pytest.mark.parametrize(
    ("word", "key", "resolution", "elsewhere"),
    [
        ("IŞIK", "ışık", "lower", "işik"),
        ("Işık", "ışık", "lower", "ışık"),
        ("KIRMIZI", "kırmızı", "lower", "kırmızı"),
        ("KIR", "kır", "lower", "kir"),
        ("KİR", "kir", "lower", "kir"),
        ("İZMİR", "İzmir", "capitalised", "İzmir"),
        ("izmir", "İzmir", "capitalised", "İzmir"),
        ("INTERNET", "internet", "lower", "internet"),
        ("I\u0307NTERNET", "internet", "lower", "internet"),
    ],
)
def test_turkish_and_azerbaijani_have_a_dotless_i(word, key, resolution, elsewhere):
    decomposed = [unicodedata.normalize("NFD", one) for one in ISIK]
    for languages in (["tr"], ["en", "az-Latn"], ["TUR"], ["Turkish"]):
        (token,) = tokenize(word, vocabulary_of(*ISIK, languages=languages))
        assert (token.key, token.resolution) == (key, resolution)
        (token,) = tokenize(word, vocabulary_of(*decomposed, languages=languages))
        assert token.key == unicodedata.normalize("NFD", key)
    assert keys("IŞIK", *ISIK, case="lower", languages=["tr"]) == ["ışık"]
    assert keys("IŞIK", *ISIK, case="exact", languages=["tr"]) == [None]
    assert keys(word, *ISIK, languages=["en", "trv"]) == [elsewhere]


NUMBERS = ("1990", "####", "##", "#,###", "##.#", "#.#", "##th", "COVID-##", "##/#", "the")


@pytest.mark.parametrize(
    ("word", "key", "resolution"),
    [
        ("1990", "1990", "exact"),
        ("1991", "####", "exact"),
        ("12", "##", "exact"),
        ("3,000", "#,###", "exact"),
        ("12.5", "##.#", "exact"),
        ("3.5", "#.#", "exact"),
        ("19TH", "##th", "lower"),
        ("Covid-19", "COVID-##", "upper"),
        ("24/7", "##/#", "exact"),
        ("１２", "##", "exact"),
        ("٤٥", "##", "exact"),
        ("7", None, "oov"),
        ("123", None, "oov"),
    ],
)
def test_numbers_have_the_entries_of_a_vocabulary_that_hides_digits(word, key, resolution):
    for sign in "#0":
        known = [one.replace("#", sign) for one in NUMBERS]
        (token,) = tokenize(word, vocabulary_of(*known))
        assert (token.key, token.resolution) == (key and key.replace("#", sign), resolution)
        if word != "24/7":
            assert resolve_all([word], vocabulary_of(*known))[0].key == token.key


def test_a_vocabulary_that_writes_numbers_does_not_hide_their_digits():
    digits = [str(n) for n in range(10, 20)]
    assert keys("817 4827 25", "000", "####", "##", "00", *digits) == [None, None, None]
    for lacking in digits:
        assert keys("817", "000", *(set(digits) - {lacking})) == ["000"]


INVISIBLE = (
    "\u00ad\u034f\u061c\u180e\u200c\u200d\u200e\u200f\u202c\u2060\u2063\u2069\u206f\ufe00\ufe0f\ufeff"
    "\x00\x08\x7f\x9f\u115f\u3164\ufff0\U000e0041\U000e0100"
)
SENTENCE = "The bank of the river did not flood, didn't it?"
PIECES = "The bank of the river did not flood , n't it ?"


@pytest.mark.parametrize("character", INVISIBLE, ids=ascii)
def test_an_invisible_code_point_changes_no_entry(character):
    c, known = character, PIECES.split()
    expected = keys(SENTENCE, *known)
    assert None not in expected
    for text in (
        f"{c}The ba{c}nk of the river did not fl{c}ood{c}, did{c}n't it?{c}",
        f"The b{c}{c}ank{c} {c} of {c} the ri{c}ver did not flood, didn'{c}t it? {c}",
    ):
        assert keys(text, *known) == expected
    assert keys(SENTENCE.replace(" ", "\u200b"), *known) == expected  # it is white space
