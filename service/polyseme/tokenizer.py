"""Tokenization: the words of a text, and the vocabulary entry of each.

GloVe's corpus was tokenized as in the Penn Treebank (`did` + `n't`), the corpora of Word2Vec and
fastText were not, and no word pattern fits all of them. So each word is looked up first, and is
split only if it is not in the vocabulary.
"""

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice, pairwise, product
from math import inf, log
from operator import itemgetter
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, get_args

import regex

from polyseme.caches import Recent

Case: TypeAlias = Literal["auto", "exact", "lower"]
Resolution: TypeAlias = Literal["exact", "lower", "capitalised", "upper", "subword", "oov"]
Text: TypeAlias = str | Sequence[str]
"""A sentence: a string to tokenize, or a list of words."""
Span: TypeAlias = tuple[int, int]
CanCompose: TypeAlias = Callable[[str], bool]
"""A function that returns whether the subwords compose a vector for a spelling."""
_LONGEST = 16
"""Maximum characters of a chunk or a word that is cached; longer words are rare."""
_TOKEN_BYTES = 512
"""Maximum bytes of a token in a cache, with its three strings."""
MAX_WORD_LENGTH = 256
"""Maximum length in code points of a word that is looked up. A longer one is one unknown token: it
is not normalized, split or composed, all of which may take more than linear time."""


class ResolvedToken(NamedTuple):
    """A token and its vocabulary entry.

    `start` and `end` are offsets in code points, None for tokens of a pretokenized sentence, and
    where `Tokenized` has the text.
    """

    text: str
    start: int | None
    end: int | None
    key: str | None
    """the vocabulary entry"""
    resolution: Resolution
    row: int | None
    composed: str | None = None
    """the spelling whose subwords compose the vector of a word outside the vocabulary"""


class Tokenized(NamedTuple):
    """The tokens of one sentence."""

    words: list[ResolvedToken]
    """the tokens, without offsets if there is a `text`"""
    truncated: int = 0
    """the number of words removed by truncation, which are counted up to a limit"""
    text: str | None = None
    """the text, from which the offsets are computed when somebody reads them"""

    @property
    def starts(self) -> list[int]:
        """The offset of each token, of a sentence with a `text`; a new list each time."""
        find, end = (self.text or "").find, 0
        # A word starts at the end of the one before it, or after white space.
        words = map(itemgetter(0), self.words)
        return [(end := find(word, end) + len(word)) - len(word) for word in words]

    @property
    def tokens(self) -> list[ResolvedToken]:
        """The tokens with their offsets; a new list each time."""
        if self.text is None:
            return self.words
        new = tuple.__new__  # takes half the time of `ResolvedToken(…)`
        return [
            new(ResolvedToken, (word, start, start + len(word), key, resolution, row, composed))
            for start, (word, _, _, key, resolution, row, composed) in zip(
                self.starts, self.words, strict=True
            )
        ]


class RowLookup(Protocol):
    """The part of a vocabulary that tokenization needs."""

    @property
    def turkic(self) -> bool:
        """Whether `ı` is the lower case of `I`, and `İ` the upper case of `i`."""

    @property
    def hides_digits(self) -> bool:
        """Whether numbers may be written with `#` or `0` for each digit."""

    @property
    def has_compounds(self) -> bool:
        """Whether an entry may consist of several words, such as `C++`."""

    def row(self, word: str) -> int | None:
        """Return the row of a word exactly as spelled, None if it is not in the vocabulary."""

    def candidates(self, key: str) -> Sequence[tuple[str, int]]:
        """Return the entries with a `spelling_key`, and their rows.

        Entries that `has_spellings` excludes may be missing.
        """


_APOSTROPHES = "'’ʼ‘ʻ‛`´＇′՚׳ꞌ᾽"
"""Code points that are typed as an apostrophe between letters."""
_APOSTROPHE = f"[{_APOSTROPHES}]"
_HYPHENS = "‐‑֊־﹣－"
"""Code points that are typed as a hyphen."""
# Every repetition that could be retried from each character is bounded or possessive, so matching
# takes linear time even for hostile text, such as a megabyte of `a+a+a+…`. A repeated group takes
# about 140 bytes each time, possessive or not, so it is bounded.
_UNSPLIT = r"""
      (?P<address>
          (?: (?: https? | ftp ):// | www\. )                           # a web address
          [^\s\x1c-\x1f<>"]* [^\s\x1c-\x1f<>"'’”.,;:!?…)\]}]
        | [\w.+-]{1,64} @ [\w-]{1,63} (?: \. [\w-]{1,63} ){1,8}         # a mail address
      )
    | (?<! [\w&] ) [@\#]                                                # @handle  #hashtag
      (?P<name> (?= [\p{N}_]*+ \p{L} ) [\p{L}\p{N}\p{M}_\u200c\u200d]++ )
    | (?P<unit> \p{Sc} ) \p{Nd}{1,20}+ (?: [.,٫٬] \p{Nd}{1,20}+ ){0,8}+   # $5  €1.5bn
      (?: [kmbt] | [bmt]n )? (?! \w )
    | \p{Nd}{1,20}+ (?: [.,٫٬] \p{Nd}{1,20}+ ){0,8}+                      # 20%  5kg  3.5GHz
      (?P<unit>
          [%‰] | \p{Sc} | ° | [kcdmµμn]m | ft | yd | mi | [kmµμ]g | lbs? | oz | [cdm]l | gal
        | [mµμn]s | secs? | mins? | hrs? | yrs? | [ap]m | mph | kmh | kph | rpm | fps | bpm
        | [kmgt]?hz | bit | [kmgtp]i?b | [kmg]bps | [kmgt]?wh | [kmgt]w | [km]?j | k?cal | hp
        | [mk]v | m?ah | [kmgt]?ev | [khm]?pa | psi | db | px | dpi | ppi | [bmt]n
        | (?-i: [mglLVWhkKMB] )
      )
      (?: [²³] | / [hs] | (?<= ° ) [CF] )? (?! \w )
    | \p{Nd}{1,2} (?: : \p{Nd}{2} ){1,2} (?P<unit> [ap]m )? (?! [.,:]? \w )  # 10:30
"""
"""Words that are not split, although the vocabulary may lack them."""
_WORD = regex.compile(
    (
        _UNSPLIT
        + r"""
    | (?: \p{L}\p{M}* \. ){2,16}                                        # U.S.  e.g.
    | ['’＇] (?: s | re | ve | ll | d | m ) (?! [\w'’] )                # a separate 's
    | [\p{L}\p{N}] [\p{L}\p{N}\p{M}_\u200c\u200d]*                      # a word,
      (?: (?: ['’‘.·&_HYPHENS-] | (?<=\p{Nd}) [,:٫٬] (?= \p{Nd} )       #   joined to another
            | (?<= [\p{L}\p{M}] ) [APOSTROPHES՛՜՞] (?= \p{L} ) )
          [\p{L}\p{N}] [\p{L}\p{N}\p{M}_\u200c\u200d]* ){0,65535}
    | \p{RI}{2}                                                         # a flag
    | \p{Extended_Pictographic}
      (?: [\p{EMod}\ufe0f\u20e3\U000E0020-\U000E007F] | \u200d \p{Extended_Pictographic} ){0,65535}
    | (?P<run> [^\s\x1c-\x1f\p{DI}] ) (?P=run){0,65535} \p{M}*        # ... -- ! and the rest
    """
    )
    .replace("HYPHENS", _HYPHENS)
    .replace("APOSTROPHES", _APOSTROPHES),
    regex.VERBOSE | regex.IGNORECASE,
)
_UNSPLIT_WORD = regex.compile(_UNSPLIT, regex.VERBOSE | regex.IGNORECASE)
# Penn Treebank contractions: `n't` is split before the n, the others before the apostrophe.
_CONTRACTION = regex.compile(
    rf"(?<=\w)(?:n{_APOSTROPHE}t|{_APOSTROPHE}(?:s|re|ve|ll|d|m))$", regex.IGNORECASE
)
_ELISION = regex.compile(rf"(?<=[\p{{L}}\p{{M}}]){_APOSTROPHE}(?=[\p{{L}}\p{{N}}])")  # l'homme
_JOINT = regex.compile(
    rf"{_APOSTROPHE}|[.·&_{_HYPHENS},:٫٬-]|(?<=\p{{N}})(?=\p{{L}})|(?<=\p{{L}})(?=\p{{N}})"
)
_PLAIN_WORD = re.compile(r"[A-Za-z][0-9A-Za-z]*(?:['-][0-9A-Za-z]+)+")
"""A word that needs no `_WORD` to be recognized, like one of ASCII letters and digits."""
_PUNCTUATION = '.,;:!?()"'
"""Marks that do not belong to such a word that they surround."""
_BEFORE = {"", "(", "!", "?", ",", '"'}
"""Marks before a word; but `.NET` and `:D` may be entries."""
_OPENING = regex.compile(r"^(?:[[\p{P}`´]--[#%&*/@\\_.:;]]\p{M}*+|\.{2,}+)*+", regex.V1)
_CLOSING = regex.compile(r"(?:[[\p{P}`´]--[#%&*/@\\_]]\p{M}*+)*+$", regex.V1)
"""Punctuation around words. The signs of `C#`, `:D` and `.NET` do not match."""
_EDGE = regex.compile(r"(?<!\w|\p{Sc}(?=\p{Nd}))|(?!\w)")
"""Where an entry may end; but `$5` is one word."""
_MAX_ENDS = 6
"""Maximum number of ends of an entry that are tried from one start in a chunk."""
_SHORT_RUN = regex.compile(r"([^\s\p{RI}])\1{1,2}")  # not a flag
_IGNORABLE = regex.compile(r"[[\p{DI}\p{Cc}]--[\s\x1c-\x1f]]", regex.V1)
"""The code points that Unicode calls default-ignorable, and control characters."""
_INVISIBLE = regex.compile(
    r"""
      (?<= [\p{L}\p{M}] ) [\u200c\u200d] (?= \p{L} )                   # a joiner in a word
    | (?<= [\p{Han}\p{Mongolian}\p{Phags_Pa}] ) [\p{DI}&&\p{M}]       # a variant of a letter
    | [0-9\#*] \ufe0f \u20e3 | \p{Extended_Pictographic}              # an emoji
      (?: [\p{EMod}\ufe0f\u20e3\U000E0020-\U000E007F] | \u200d \p{Extended_Pictographic} ){0,65535}+
    | (?P<ignored> [[\p{DI}\p{Cc}]--[\s\x1c-\x1f]]++ )
    """,
    regex.VERBOSE | regex.V1,
)
"""What is ignored in a text, and ignorable code points that belong to a letter or an emoji."""
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
_SIGNS = {ord("’"): "'", ord("״"): '"'} | dict.fromkeys(map(ord, _HYPHENS), "-")
_SIGNS_IN_WORDS = _SIGNS | dict.fromkeys(map(ord, _APOSTROPHES), "'")
_VARYING = regex.compile(
    rf"[\p{{NFKC_QC=No}}\p{{DI}}\p{{Cc}}{_APOSTROPHES[1:]}{_HYPHENS}״İ"
    rf"{''.join(map(chr, _SAME_LETTERS | _GREEK))}{_STACKED_MARKS}{_OPTIONAL_MARKS}\p{{EMod}}]",
    regex.V1,
)
"""What a word in NFC contains if it has other `forms`."""
_UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\u30fc\uff70\uff9e\uff9f"
)
"""Letters of texts without spaces between words, with the signs of length and voice of kana."""
_UNSPACED_LETTER = regex.compile(rf"[{_UNSPACED}]")
_UNIT = regex.compile(rf"[{_UNSPACED}][\p{{M}}\uff9e\uff9f]*+|[^{_UNSPACED}]++")
"""A letter of such texts with its marks, or what is between two of them, such as a number."""
_PART = regex.compile(rf"[{_UNSPACED}\p{{M}}]{{1,64}}+|[^{_UNSPACED}]++")
"""A part of a word of such texts that is too long. Without entries, each part is a token, so that
the maximum number of tokens bounds the letters that are looked up."""
_PIECE = regex.compile(rf"(?s).{{1,{MAX_WORD_LENGTH}}}(?<=\s)|.{{1,{MAX_WORD_LENGTH}}}")
"""A piece of a text that is normalized at once, between words if possible."""
_KATAKANA = regex.compile(r"\p{Katakana}[\p{Katakana}\p{M}\u30fc\uff70\uff9e\uff9f]++")
_MAX_UNITS, _MAX_UNITS_CJK, _FIRST_CJK = 12, 8, "\u2e80"
"""Maximum number of units of an entry that is recognized in such texts, and that of one in Han and
kana, most of which have two; a run of katakana may be longer."""
_RANK_OFFSET, _LOG_HARMONIC, _UNKNOWN_COST, _PAIR_COST = 10, 2.3, 20.0, 18.0
"""Zipf's law: the probability of an entry is about 1 / (rank + offset), divided by the sum of these
numbers, which is about ten. The cost of a letter that is no entry is larger than any other. That of
two letters of Han, the length of most words, is less than that of two rare entries."""
_PAIR = regex.compile(r"\p{Han}{2}")
_SEVERAL_WORDS = regex.compile(
    r"[\p{Han}\p{Hiragana}]{5,}|[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{M}]{13,}"
)
"""Letters of such texts that are several words; a foreign name in katakana may be longer."""
_MAX_WORD_LETTERS = 4
"""Up to so many letters without a vector are not called a text, but a word."""
_MAX_SHARP_S = 3
_TWO_DIGITS, _DIGIT = re.compile(r"\d\D*\d"), re.compile(r"\d")


def without_ignorable(text: str) -> str:
    """Return a text or a word without ignorable code points; a zero-width space becomes a space."""
    if text.isascii() and text.isprintable():
        return text
    return _IGNORABLE.sub("", text.replace("\u200b", " "))


def visible(text: str) -> tuple[str, Sequence[int] | None]:
    """Return a text without invisible code points, and the offset of each one that remains.

    The offsets are None if they do not change. A zero-width space becomes a space.
    """
    if (text.isascii() and text.isprintable()) or not _IGNORABLE.search(text):
        return text, None
    text = text.replace("\u200b", " ")
    parts, offsets, end = [], array("I"), 0
    for match in _INVISIBLE.finditer(text):
        if match["ignored"]:
            parts.append(text[end : match.start()])
            offsets.extend(range(end, match.start()))
            end = match.end()
    parts.append(text[end:])
    offsets.extend(range(end, len(text)))
    return ("".join(parts), offsets) if end else (text, None)


def word_spans(text: str) -> Iterator[Span]:
    """Yield (start, end) of each word, in code points.

    Only white space and invisible code points are between words. Contractions, hyphenated words,
    numbers and abbreviations are one word each; `tokenize` may split those that are not in the
    vocabulary. Emoji with their modifiers, web and mail addresses, handles, hashtags, times, and
    numbers with a unit are one word each and are never split.
    """
    text, offsets = visible(text)
    for match in _WORD.finditer(text):
        start, end = match.span()
        yield (start, end) if offsets is None else (offsets[start], offsets[end - 1] + 1)


def words_of(text: Text) -> Sequence[str]:
    """Return the words of a string, or a list of words unchanged."""
    if isinstance(text, str):
        return [text[start:end] for start, end in word_spans(text)]
    return text


def joined(text: Text) -> str:
    """Return a text as a string; the words of a list are separated by spaces."""
    return text if isinstance(text, str) else " ".join(text)


def hashable(text: Text) -> Text:
    """Return a text as a string or a tuple of words."""
    return text if isinstance(text, str) else tuple(text)


def splits(
    word: str, is_elision: Callable[[str], bool] = lambda _piece: False
) -> Iterator[list[Span]]:
    """Yield the possible splits of a word, the coarsest first; each is a list of (start, end).

    The spans of one split are adjacent and cover the word. `is_elision` returns whether the
    vocabulary has a piece that ends with an apostrophe, such as the `l'` of `l'homme`.
    """
    if not word[:1].isalnum() and _SHORT_RUN.fullmatch(word):
        yield [(i, i + 1) for i in range(len(word))]
        return
    contraction = _CONTRACTION.search(word)
    stem = contraction.start() if contraction else len(word)
    tail = [(stem, len(word))] if contraction else []
    if contraction:
        yield [(0, stem), *tail]
    elision = _ELISION.search(word, 0, stem)
    start = elision.end() if elision and is_elision(word[: elision.end()]) else 0
    head = [(0, start)] if start else []
    if start:
        yield [*head, (start, stem), *tail]
    edges = {edge for joint in _JOINT.finditer(word, start, stem) for edge in joint.span()}
    fine = list(pairwise(sorted({start, stem} | edges)))
    if len(fine) > 1:
        yield [*head, *fine, *tail]


def is_unspaced(text: str) -> bool:
    """Return whether a text has letters of scripts without spaces between words."""
    return not text.isascii() and _UNSPACED_LETTER.search(text) is not None


def is_unsegmented(tokens: Sequence[ResolvedToken]) -> bool:
    """Return whether most letters of scripts without spaces, and several words, have no vector."""
    unknown = sum(len(t.text) for t in tokens if t.resolution == "oov" and is_unspaced(t.text))
    if unknown <= _MAX_WORD_LETTERS:
        return False
    return 2 * unknown > sum(len(token.text) for token in tokens if is_unspaced(token.text))


def segments(word: str, row: Callable[[str], int | None]) -> list[Span]:
    """Return the (start, end) of the words of a text without spaces, in linear time.

    `row` returns the row of an entry. The text is the most probable sequence of entries (Viterbi
    1967), whose frequencies follow from their ranks. Consecutive letters that no entry covers are
    one span, and so are a run of katakana and what is between letters, such as a number.
    """
    units = _UNIT.findall(word)
    edges = list(accumulate(map(len, units), initial=0))
    position = {edge: i for i, edge in enumerate(edges)}
    runs = {position[run.start()]: position[run.end()] for run in _KATAKANA.finditer(word)}
    if len(forms(word)) > 1:
        units = [forms(unit)[-1] for unit in units]
    # The cost of the best sequence up to each edge, and the start and kind of its last span.
    best = [(0.0, 0, True)] + [(inf, 0, True)] * len(units)
    for i, unit in enumerate(units):
        cost, run_end = best[i][0], runs.get(i, i + 1)
        last = min(i + (_MAX_UNITS if unit < _FIRST_CJK else _MAX_UNITS_CJK), len(units))
        for end in {run_end, *range(i + 1, last + 1)}:
            index = row("".join(units[i:end]))
            if index is not None:
                step = log(index + _RANK_OFFSET) + _LOG_HARMONIC
                best[end] = min(best[end], (cost + step, i, True))
            elif end in {i + 1, run_end}:
                is_word = not _UNSPACED_LETTER.match(unit)
                best[end] = min(best[end], (cost + _UNKNOWN_COST, i, is_word))
            elif _PAIR.fullmatch(word, edges[i], edges[end]):
                best[end] = min(best[end], (cost + _PAIR_COST, i, True))
    spans: list[Span] = []
    end, was_word = len(units), True
    while end:
        _, start, is_word = best[end]
        if is_word or was_word:
            spans.append((edges[start], edges[end]))
        else:
            spans[-1] = edges[start], spans[-1][1]
        end, was_word = start, is_word
    return spans[::-1]


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


def _number_forms(word: str, vocabulary: RowLookup) -> list[str]:
    hides_digits = vocabulary.hides_digits and _TWO_DIGITS.search(word)
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


def comparable(text: str, *, exact: bool = False) -> str:
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


def is_compound(entry: str) -> bool:
    """Return whether an entry consists of several words, such as `C++`."""
    return not entry.isalnum() and len(list(islice(word_spans(entry), 2))) > 1


def has_spellings(entry: str) -> bool:
    """Return whether an entry has other `forms` or is a compound, so that it has a key."""
    return len(forms(entry)) > 1 or is_compound(entry)


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


def _resolutions(form: str, case: Case, *, turkic: bool) -> dict[str, Resolution]:
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
            yield from _resolutions(form, case, turkic=turkic).items()


def no_subwords(_spelling: str) -> bool:
    """Return False: the `CanCompose` of models without subwords."""
    return False


def resolve(word: str, vocabulary: RowLookup, case: Case = "auto") -> ResolvedToken:
    """Return the token of one word, without splitting or composing it."""
    # Most words are in the vocabulary as written.
    if case != "lower" and len(word) <= MAX_WORD_LENGTH:
        row = vocabulary.row(word)
        if row is not None:
            return ResolvedToken(word, None, None, word, "exact", row)
    unknown = ResolvedToken(word, None, None, None, "oov", None)
    if len(word) > MAX_WORD_LENGTH:
        return unknown
    for form in (*forms(word), *_number_forms(word, vocabulary)):
        token = _resolve_form(word, form, vocabulary, case)
        if token:
            return token
    return unknown


def _resolve_form(word: str, form: str, vocabulary: RowLookup, case: Case) -> ResolvedToken | None:
    """Return the token of a word, one form of which is an entry or a form of an entry.

    Entries whose closer form it is are preferred, then the first, which are more frequent.
    """
    resolutions = _resolutions(form, case, turkic=vocabulary.turkic)
    for spelling, resolution in resolutions.items():
        # The word as written has been looked up already.
        row = None if spelling == word and case != "lower" else vocabulary.row(spelling)
        if row is not None:
            return ResolvedToken(word, None, None, spelling, resolution, row)
    candidates = vocabulary.candidates(spelling_key(form))
    entries = [(forms(entry), row) for entry, row in candidates]
    for spelling, resolution in resolutions.items():
        same = [(own.index(spelling), row, own[0]) for own, row in entries if spelling in own]
        if same:
            _, row, entry = min(same)
            return ResolvedToken(word, None, None, entry, resolution, row)
    return None


@dataclass(frozen=True)
class _Lexer:
    """Makes tokens without a cache and without offsets."""

    vocabulary: RowLookup
    case: Case
    composes: CanCompose

    def resolve(self, word: str) -> ResolvedToken:
        return resolve(word, self.vocabulary, self.case)

    def word_token(self, word: str) -> ResolvedToken:
        """Return the token of a word of a pretokenized sentence."""
        token = self.resolve(word)
        if token.row is not None or len(word) > MAX_WORD_LENGTH:
            return token
        return self._unsplit(token) or self._compose(token)

    def tokens(self, text: str) -> Iterator[ResolvedToken]:
        """Yield the tokens of a text.

        All pieces of one word are made at once; these are at most MAX_WORD_LENGTH tokens.
        """
        shown, offsets = visible(text)
        end = 0
        for chunk in shown.split():
            for word in self._words(chunk):
                tokens = [word]
                if word.row is None and len(word.text) <= MAX_WORD_LENGTH:
                    tokens = self.split_or_compose(word)
                if offsets is None:
                    yield from tokens
                    continue
                end = shown.index(word.text, end)
                for token in tokens:
                    start, end = end, end + len(token.text)
                    yield token._replace(text=text[offsets[start] : offsets[end - 1] + 1])

    def _words(self, chunk: str) -> Iterator[ResolvedToken]:
        """Yield the token of each word of a chunk between white space, without splitting.

        Adjacent words that are an entry, such as `C++`, are one word. They are not looked up in a
        chunk that is longer than a word may be.
        """
        if len(chunk) > MAX_WORD_LENGTH:
            for word in _WORD.finditer(chunk):
                yield from map(self.resolve, _parts(word[0]))
            return
        end = 0
        while match := _WORD.search(chunk, end):
            token = None
            if match.end() < len(chunk) and self.vocabulary.has_compounds:
                token = self._longer_entry(chunk, *match.span())
            token = token or self.resolve(match[0])
            yield token
            end = match.start() + len(token.text)

    def _longer_entry(self, chunk: str, start: int, end: int) -> ResolvedToken | None:
        """Return the token of the longest entry that begins with a word and continues it.

        A vocabulary of texts that were split at white space has entries such as `word.` and `"the`.
        So an entry with punctuation around it is used only if it is more frequent than the word
        without it, and punctuation alone only in a chunk of nothing else, such as `:)`.
        """
        ends = [edge.start() for edge in islice(_EDGE.finditer(chunk, end + 1), _MAX_ENDS)]
        if start == 0 and ends[-1] != len(chunk):
            ends.append(len(chunk))
        for text in (chunk[start:end] for end in reversed(ends)):
            if not self.may_be_entry(text):
                continue
            token, core = self.resolve(text), _core(text)
            if token.row is None or (not core and _core(chunk)):
                continue
            if core in ("", text) or text[0] + text[-1] in ("[]", "{}"):
                return token
            row = self.resolve(core).row
            if row is None or token.row < row:
                return token
        return None

    def may_be_entry(self, text: str) -> bool:
        """Return whether a text of several words may be in the vocabulary."""
        candidates = self.vocabulary.candidates
        if candidates(spelling_key(text)):
            return True
        return any(candidates(spelling_key(one)) for one in _number_forms(text, self.vocabulary))

    def split_or_compose(self, whole: ResolvedToken) -> list[ResolvedToken]:
        """Return the tokens of a word that is not in the vocabulary and not too long.

        The first possible result is returned: the token of a word that is never split; the coarsest
        split whose pieces are all known; a contraction of a known word; the unsplit word, composed
        from its subwords; the finest split, if a known piece begins with a letter or digit; the
        unsplit word as an unknown token.
        """
        word = whole.text
        if is_unspaced(word):
            return self._segment(whole)
        # Most unknown words have no joint and no unit. The modifier letter apostrophe is a letter.
        if word.isalpha() and (word.isascii() or not _ELISION.search(word)):
            return [self._compose(whole)]
        if not word.replace("-", "").replace("'", "").isalpha():
            unsplit = self._unsplit(whole)
            if unsplit:
                return [unsplit]
        split: list[Span] = []
        for split in splits(word, lambda piece: self.resolve(piece).row is not None):
            known: list[ResolvedToken] = []
            for start, end in split:
                piece = self.resolve(word[start:end])
                if piece.row is None:  # the rest of a split with an unknown piece is not looked up
                    break
                known.append(piece)
            else:
                return known
        contraction = _CONTRACTION.search(word)
        if contraction:  # German geht's, in a vocabulary without 's
            stem = self.resolve(word[: contraction.start()])
            if stem.row is not None:
                return [stem, self._compose(self.resolve(contraction[0]))]
        composed = self._compose(whole)
        if composed is whole:
            tokens = [self.resolve(word[start:end]) for start, end in split]
            if any(token.row is not None and token.text[0].isalnum() for token in tokens):
                return [self._compose(token) for token in tokens]
        return [composed]

    def _segment(self, whole: ResolvedToken) -> list[ResolvedToken]:
        """Return the tokens of an unknown word with letters of scripts without spaces.

        If nothing has a vector, the word stays whole. It and its pieces are composed, except those
        that may be several words.
        """
        unsplit = self._unsplit(whole)
        if unsplit:
            return [unsplit]
        tokens = []
        for start, end in segments(whole.text, self.vocabulary.row):
            token = self.resolve(whole.text[start:end])
            is_other = token.row is None and not is_unspaced(token.text)
            tokens += self.split_or_compose(token) if is_other else [self._compose_unspaced(token)]
        has_vector = any(token.resolution != "oov" for token in tokens)
        return tokens if has_vector else [self._compose_unspaced(whole)]

    def _compose_unspaced(self, token: ResolvedToken) -> ResolvedToken:
        return token if _SEVERAL_WORDS.search(token.text) else self._compose(token)

    def _unsplit(self, token: ResolvedToken) -> ResolvedToken | None:
        """Return the token of an unknown word that is never split, None for other words.

        A handle or hashtag has the entry of its name, and a number with a unit has the entry of the
        unit. An address stays unknown: addresses share n-grams whatever they refer to.
        """
        match = _UNSPLIT_WORD.fullmatch(token.text)
        if match is None or match["address"]:
            return match and token
        part = match["name"] or match["unit"]
        if part is None:
            return self._compose(token)
        return self._compose(self.resolve(part))._replace(text=token.text)

    def _compose(self, token: ResolvedToken) -> ResolvedToken:
        """Return the token; if it is unknown and has subwords, set the spelling to compose."""
        if token.row is None:
            for spelling, _ in spellings(token.text, "lower" if self.case == "lower" else "exact"):
                if self.composes(spelling):
                    return token._replace(resolution="subword", composed=spelling)
        return token


def _parts(word: str) -> list[str]:
    """Return the parts of a word that are looked up, several if it is too long and unspaced."""
    is_long = len(word) > MAX_WORD_LENGTH and is_unspaced(word)
    return _PART.findall(word) if is_long else [word]


def _core(text: str) -> str:
    """Return a text without punctuation around it."""
    return _OPENING.sub("", _CLOSING.sub("", text))


def _chunk_tokens(
    chunks: Recent[tuple[ResolvedToken, ...]], chunk: str, lexer: _Lexer
) -> tuple[ResolvedToken, ...]:
    """Return the tokens of a chunk; those of punctuation and of a word are shared by chunks."""
    word = chunk if chunk.isalnum() else chunk.strip(_PUNCTUATION)
    if word.isascii() and (word.isalnum() or _PLAIN_WORD.fullmatch(word)):
        if word == chunk:
            token = lexer.resolve(chunk)
            if token.row is not None or len(chunk) > MAX_WORD_LENGTH:
                return (token,)
            return tuple(lexer.split_or_compose(token))
        before, _, after = chunk.partition(word)
        # A mark that is repeated is one word, such as `...`.
        is_plain = not before or (before in _BEFORE and word.isalnum())
        if is_plain and (len(after) <= 1 or (len(after) == 2 and after[0] != after[1])):
            has_entry = lexer.vocabulary.has_compounds and any(
                lexer.may_be_entry(first + word + after[:count])
                for first in {"", before}
                for count in range(len(after) + 1)
                if first or count
            )
            if not has_entry:
                tokens = chunks[before] + chunks[word] if before else chunks[word]
                for mark in after:
                    tokens += chunks[mark]
                return tokens
    return tuple(lexer.tokens(chunk))


class Tokenizer:
    """A tokenizer with a cache.

    A word contains no white space and does not depend on text beyond adjacent white space. So a
    text is split at white space, and the tokens of each short chunk are cached. Threads may share a
    tokenizer.
    """

    PHRASE_WORDS = 4
    """Maximum words of a phrase."""

    def __init__(self, vocabulary: RowLookup, composes: CanCompose = no_subwords) -> None:
        self._lexers = {case: _Lexer(vocabulary, case, composes) for case in get_args(Case)}
        self._chunks: dict[Case, Recent[tuple[ResolvedToken, ...]]] = {
            case: Recent(
                _chunk_tokens,
                lexer,
                size=lambda tokens: len(tokens) * _TOKEN_BYTES,
                longest=_LONGEST,
            )
            for case, lexer in self._lexers.items()
        }
        self._words: dict[Case, Recent[ResolvedToken]] = {
            case: Recent(
                lambda _words, word, lexer: lexer.word_token(word),
                lexer,
                size=lambda _token: _TOKEN_BYTES,
                longest=_LONGEST,
            )
            for case, lexer in self._lexers.items()
        }

    def tokens(
        self, text: str, case: Case = "auto", max_tokens: int | None = None
    ) -> list[ResolvedToken]:
        """Return the tokens of a text; with `max_tokens`, stop once there are at least that many.

        At most `max_tokens` + MAX_WORD_LENGTH tokens are made, with the pieces of the last word.
        """
        return Tokenized(self.look_up(text, case, max_tokens), text=text).tokens

    def look_up(
        self, text: Text, case: Case = "auto", max_tokens: int | None = None
    ) -> list[ResolvedToken]:
        """Return the tokens of a text without offsets, or one for each word of a list.

        Occurrences of a word share a token. `max_tokens` is that of `tokens`.
        """
        if not isinstance(text, str):
            return list(map(self._words[case].__getitem__, text[:max_tokens]))
        chunks = self._chunks[case]
        if max_tokens is None or len(text) <= max_tokens:  # each token has a character
            return list(chain.from_iterable(map(chunks.__getitem__, text.split())))
        tokens: list[ResolvedToken] = []
        # Each chunk has at least one token, so `max_tokens` chunks suffice. The last of the chunks,
        # at most `max_tokens` + 2, is the unsplit rest of the text, which is not reached.
        for chunk in text.split(None, max_tokens + 1):
            if len(chunk) <= _LONGEST:
                tokens += chunks[chunk]
            else:  # a text without white space is one chunk
                tokens += islice(self._lexers[case].tokens(chunk), max_tokens - len(tokens))
            if len(tokens) >= max_tokens:
                break
        return tokens

    def join(
        self, tokens: list[ResolvedToken], case: Case = "auto", text: str | None = None
    ) -> list[ResolvedToken]:
        """Join consecutive words whose phrase is in the vocabulary, the longest first.

        A phrase has up to `PHRASE_WORDS` words, joined by `_`, or else by `-` or a space, such as
        `New_York`. `text` is the tokenized text, None for a pretokenized sentence.
        """
        joined: list[ResolvedToken] = []
        start = 0
        while start < len(tokens):
            for length in range(min(self.PHRASE_WORDS, len(tokens) - start), 1, -1):
                phrase = self._phrase(tokens[start : start + length], case, text)
                if phrase:
                    break
            else:
                phrase, length = tokens[start], 1
            joined.append(phrase)
            start += length
        return joined

    def _phrase(
        self, tokens: list[ResolvedToken], case: Case, text: str | None
    ) -> ResolvedToken | None:
        """Return the token of a phrase, None if it is not in the vocabulary."""
        words = [token.text for token in tokens]
        if all(word[:1].isalnum() and word[-1:].isalnum() for word in words):
            start, end = tokens[0].start, tokens[-1].end
            spaced = " ".join(words)
            whole = spaced if text is None else text[start:end]
            if len(visible(whole)[0].split()) != len(words) or len(spaced) > MAX_WORD_LENGTH:
                return None  # such as `v` and `12` of `v12`
            lexer = self._lexers[case]
            # An entry with a space is a compound, of which the vocabulary has the key.
            for joint in "_- " if lexer.vocabulary.candidates(spelling_key(spaced)) else "_-":
                phrase = lexer.resolve(joint.join(words))
                if phrase.row is not None:
                    return phrase._replace(text=whole, start=start, end=end)
        return None
