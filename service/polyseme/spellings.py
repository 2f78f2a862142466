"""Spellings: the forms and the cases of a word in which it may be in the vocabulary."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import accumulate, chain, product
from typing import Final, Literal, TypeAlias

import regex

Case: TypeAlias = Literal["auto", "exact", "lower"]
Resolution: TypeAlias = Literal["exact", "lower", "capitalised", "upper", "subword", "oov"]
MAX_WORD_LENGTH = 256
"""Maximum length in code points of a word that is looked up. A longer one is one unknown token: it
is not normalized, split or composed, all of which may take more than linear time."""
APOSTROPHES = "'’ʼ‘ʻ‛`´＇′՚׳ꞌ᾽"
"""Code points that are typed as an apostrophe between letters."""
APOSTROPHE = f"[{APOSTROPHES}]"
HYPHENS = "‐‑֊־﹣－"
"""Code points that are typed as a hyphen."""
IGNORABLE = regex.compile(r"[[\p{DI}\p{Cc}]--[\s\x1c-\x1f]]", regex.V1)
"""The code points that Unicode calls default-ignorable, and control characters."""
_RAISED = regex.compile(r"[\p{dt=super}\p{dt=sub}\p{dt=fraction}]")  # 10³ is not 103
_STACKED_MARKS = r"\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff"
"""Marks that have no letter of their own in NFC, such as an underline."""
_STACKED = regex.compile(rf"(?<=[\p{{L}}\p{{N}}])[{_STACKED_MARKS}]+")
_OPTIONAL_MARKS = (
    r"\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
    r"\u08ca-\u08e1\u08e3-\u08ff\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7՛՜՞"
)
"""The vowel marks of Arabic and Hebrew, tatweel, and the marks of Armenian on a vowel."""
_SAME_LETTERS = str.maketrans("ёЁşŞţŢكيىأإآ٫٬", "еЕșȘțȚکییااا.,")
"""Letters and signs that are written for others of the same words."""
_GREEK = {
    c: plain
    for c in (*range(0x386, 0x3CF), *range(0x1F00, 0x1FFD))
    if (plain := unicodedata.normalize("NFD", chr(c))[0]) != chr(c) and plain.isalpha()
}
"""Greek letters without the accents that capitals lack, of those with accents."""
_OPTIONAL = regex.compile(rf"[{_OPTIONAL_MARKS}]+|(?<=\p{{Extended_Pictographic}})\p{{EMod}}")
_SIGNS = {ord("’"): "'", ord("״"): '"'} | dict.fromkeys(map(ord, HYPHENS), "-")
_SIGNS_IN_WORDS = _SIGNS | dict.fromkeys(map(ord, APOSTROPHES), "'")
_VARYING = regex.compile(
    rf"[\p{{NFKC_QC=No}}\p{{DI}}\p{{Cc}}{APOSTROPHES[1:]}{HYPHENS}״İ"
    rf"{''.join(map(chr, _SAME_LETTERS | _GREEK))}{_STACKED_MARKS}{_OPTIONAL_MARKS}\p{{EMod}}]",
    regex.V1,
)
"""What a word in NFC contains if it has other `forms`."""
_PIECE = regex.compile(rf"(?s).{{1,{MAX_WORD_LENGTH}}}(?<=\s)|.{{1,{MAX_WORD_LENGTH}}}")
"""A piece of a text that is normalized at once, between words if possible."""
_MAX_SHARP_S = 3
_TWO_DIGITS, _DIGIT = re.compile(r"\d\D*\d"), re.compile(r"\d")


def without_ignorable(text: str) -> str:
    """Return a text or a word without ignorable code points; a zero-width space becomes a space."""
    if text.isascii() and text.isprintable():
        return text
    return IGNORABLE.sub("", text.replace("\u200b", " "))


def _with_ascii_signs(word: str) -> str:
    has_letter = any(map(str.isalpha, word))
    return unicodedata.normalize("NFC", word).translate(_SIGNS_IN_WORDS if has_letter else _SIGNS)


def _compatible(word: str) -> str:
    """Return the form of a word in NFKC, without marks that have no letter of their own.

    `İ` becomes `I`. A word with superscripts, subscripts or fractions is returned unchanged, and so
    is one that would have a space or be too long.
    """
    form = word if _RAISED.search(word) else unicodedata.normalize("NFKC", word)
    form = _STACKED.sub("", form.replace("İ", "I"))
    return word if " " in form or len(form) > MAX_WORD_LENGTH else form


def _without_optional_marks(word: str) -> str:
    return _OPTIONAL.sub("", word).translate(_SAME_LETTERS)


def without_greek_accents(word: str) -> str:
    """Return a word as in Greek capitals, but for the case."""
    return word.translate(_GREEK)


FORMS: Final[dict[str, Callable[[str], str]]] = {
    "NFC, with `'`, `\"` and `-` for other apostrophes, gershayim and hyphens": _with_ascii_signs,
    "without ignorable code points": without_ignorable,
    "compatibility form (NFKC), without marks that have no letter of their own": _compatible,
    "without optional marks and skin tones of emoji, with other letters": _without_optional_marks,
    "without accents of Greek": without_greek_accents,
}
"""The forms of a word that are looked up in turn, each of the one before. Entries have them too."""
NUMBER_FORMS: Final[dict[str, Callable[[re.Match[str]], str]]] = {
    "ASCII digits for those of other scripts": lambda digit: str(int(digit[0])),
    "`#` for each digit": lambda _digit: "#",
    "`0` for each digit": lambda _digit: "0",
}
"""The last forms of a word with digits, which entries do not have; `#` and `0` need two digits."""


def forms(word: str) -> list[str]:
    """Return the word and its `FORMS`, without repetitions; only the word if it is too long."""
    if len(word) > MAX_WORD_LENGTH or (word.isascii() and word.isprintable() and "`" not in word):
        return [word]
    if not _VARYING.search(normal := unicodedata.normalize("NFC", word)):
        return [word] if normal == word else [word, normal]
    chain = accumulate(FORMS.values(), lambda form, change: change(form), initial=word)
    return [form for form in dict.fromkeys(chain) if form]


def number_forms(word: str, *, hides_digits: bool) -> list[str]:
    """Return the `NUMBER_FORMS` of a word with digits; only the first unless digits are hidden."""
    hides_digits = hides_digits and _TWO_DIGITS.search(word) is not None
    if not hides_digits and (word.isascii() or not _DIGIT.search(word)):
        return []
    form = forms(word)[-1]
    changes = list(NUMBER_FORMS.values())[: None if hides_digits else 1]
    return [_DIGIT.sub(change, form) for change in changes]


def spelling_key(word: str) -> str:
    """Return what all spellings of a word have in common."""
    form = forms(word)[-1]
    if form.isascii():
        return form.lower()
    return form.casefold().replace("ı", "i").replace("i\u0307", "i")


def fold(text: str, *, exact: bool = False) -> str:
    """Return a text in which all spellings of a word are equal.

    With `exact`, cases, optional marks and other letters differ. White space counts as one space.
    Each letter changes alone with its marks, so the result for a token is a part of that for its
    text.
    """
    if not (text.isascii() and text.isprintable()) or "`" in text:
        pieces = [text] if len(text) <= MAX_WORD_LENGTH else _PIECE.findall(text)
        text = "".join([_last_form(piece, exact=exact) for piece in pieces])
    return " ".join((text if exact else text.casefold()).split())


def _last_form(text: str, *, exact: bool) -> str:
    text = unicodedata.normalize("NFC", text)
    if _VARYING.search(text):
        text = unicodedata.normalize("NFKC", without_ignorable(text.translate(_SIGNS_IN_WORDS)))
        text = _STACKED.sub("", text.replace("İ", "I"))
        text = text if exact else _without_optional_marks(text)
    return text


def _turkic_lower(word: str) -> str:
    return word.replace("I", "ı").replace("İ", "i").lower()


def _turkic_upper(word: str) -> str:
    return word.replace("i", "İ").upper()


def _turkic_capitalized(word: str) -> str:
    return _turkic_upper(word[:1]) + _turkic_lower(word[1:])


_CASES: Final[dict[Resolution, tuple[Callable[[str], str], Callable[[str], str]]]] = {
    "lower": (_turkic_lower, str.lower),
    "capitalised": (_turkic_capitalized, str.capitalize),
    "upper": (_turkic_upper, str.upper),
}
"""The other cases of a form in the order of lookup, in Turkic languages and in all."""


def resolutions_of(form: str, case: Case, *, turkic: bool) -> dict[str, Resolution]:
    """Return the spellings of a form in the order of lookup, with their resolutions."""
    resolutions: dict[str, Resolution] = {} if case == "lower" else {form: "exact"}
    if case != "exact":
        for resolution, (turkic_change, change) in _CASES.items():
            if turkic:
                resolutions.setdefault(turkic_change(form), resolution)
            resolutions.setdefault(change(form), resolution)
            if case == "lower":
                break
        for lower, capitalized in _other_capitals(form):
            resolutions.setdefault(lower, "lower")
            if case == "auto":
                resolutions.setdefault(capitalized, "capitalised")
    if form in resolutions:
        resolutions[form] = "exact"
    return resolutions


def _other_capitals(form: str) -> list[tuple[str, str]]:
    """Return how capitals may be read in languages that the manifest need not name.

    These are pairs of a word in lower case and capitalized: with `ß` for one `SS` or more, up to
    _MAX_SHARP_S, of a word in capitals, and with `ı` for each `I`.
    """
    pairs = []
    if "SS" in form and form.isupper():
        parts = form.lower().split("ss")
        if len(parts) <= _MAX_SHARP_S + 1:
            *joints, _ = product(("ß", "ss"), repeat=len(parts) - 1)  # the last has no ß
            words = ("".join(chain(*zip(parts, (*joint, ""), strict=True))) for joint in joints)
            pairs = [(word, word.capitalize()) for word in words]
    if "I" in form:
        pairs.append((_turkic_lower(form), _turkic_capitalized(form)))
    return pairs


def spellings(word: str, case: Case, *, turkic: bool = False) -> Iterator[tuple[str, Resolution]]:
    """Yield (spelling, resolution) in the order of lookup, none for a word that is too long.

    `auto` tries each form of the word as written, in lower case, capitalized, and in upper case.
    """
    if len(word) <= MAX_WORD_LENGTH:
        for form in forms(word):
            yield from resolutions_of(form, case, turkic=turkic).items()
