"""Words: the spans of the words of a text and of their pieces, before any lookup."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice, pairwise
from math import inf, log
from typing import TypeAlias

import regex

from polyseme.spellings import (
    APOSTROPHE,
    APOSTROPHES,
    HYPHENS,
    IGNORABLE,
    MAX_WORD_LENGTH,
    forms,
)

Span: TypeAlias = tuple[int, int]
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
WORD = regex.compile(
    (
        _UNSPLIT
        + r"""
    | (?: \p{L}\p{M}* \. ){2,16}                                        # U.S.  e.g.
    | ['’＇] (?: s | re | ve | ll | d | m ) (?! [\w'’] )                # a separate 's
    | [\p{L}\p{N}] [\p{L}\p{N}\p{M}_\u200c\u200d]*                      # a word,
      (?: (?: ['’‘.·&HYPHENS-] | (?<=\p{Nd}) [,:٫٬] (?= \p{Nd} )       #   joined to another
            | (?<= [\p{L}\p{M}] ) [APOSTROPHES՛՜՞] (?= \p{L} ) )
          [\p{L}\p{N}] [\p{L}\p{N}\p{M}_\u200c\u200d]* ){0,65535}
    | \p{RI}{2}                                                         # a flag
    | \p{Extended_Pictographic}
      (?: [\p{EMod}\ufe0f\u20e3\U000E0020-\U000E007F] | \u200d \p{Extended_Pictographic} ){0,65535}
    | (?P<run> [^\s\x1c-\x1f\p{DI}] ) (?P=run){0,65535} \p{M}*        # ... -- ! and the rest
    """
    )
    .replace("HYPHENS", HYPHENS)
    .replace("APOSTROPHES", APOSTROPHES),
    regex.VERBOSE | regex.IGNORECASE,
)
UNSPLIT = regex.compile(_UNSPLIT, regex.VERBOSE | regex.IGNORECASE)
# Penn Treebank contractions: `n't` is split before the n, the others before the apostrophe.
CONTRACTION = regex.compile(
    rf"(?<=\w)(?:n{APOSTROPHE}t|{APOSTROPHE}(?:s|re|ve|ll|d|m))$", regex.IGNORECASE
)
ELISION = regex.compile(rf"(?<=[\p{{L}}\p{{M}}]){APOSTROPHE}(?=[\p{{L}}\p{{N}}])")  # l'homme
_JOINT = regex.compile(
    rf"{APOSTROPHE}|[.·&_{HYPHENS},:٫٬-]|(?<=\p{{N}})(?=\p{{L}})|(?<=\p{{L}})(?=\p{{N}})"
)
_OPENING = regex.compile(r"^(?:[[\p{P}`´]--[#%&*/@\\_.:;]]\p{M}*+|\.{2,}+)*+", regex.V1)
_CLOSING = regex.compile(r"(?:[[\p{P}`´]--[#%&*/@\\_]]\p{M}*+)*+$", regex.V1)
"""Punctuation around words. The signs of `C#`, `:D` and `.NET` do not match."""
_SHORT_RUN = regex.compile(r"([^\s\p{RI}])\1{1,2}")  # not a flag
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
_KATAKANA = regex.compile(r"\p{Katakana}[\p{Katakana}\p{M}\u30fc\uff70\uff9e\uff9f]++")
_MAX_UNITS, _MAX_UNITS_CJK, _FIRST_CJK = 12, 8, "\u2e80"
"""Maximum number of units of an entry that is recognized in such texts, and that of one in Han and
kana, most of which have two; a run of katakana may be longer."""
_RANK_OFFSET, _LOG_HARMONIC, _UNKNOWN_COST, _PAIR_COST = 10, 2.3, 20.0, 18.0
"""Zipf's law: the probability of an entry is about 1 / (rank + offset), divided by the sum of these
numbers, which is about ten. The cost of a letter that is no entry is larger than any other. That of
two letters of Han, the length of most words, is less than that of two rare entries."""
_PAIR = regex.compile(r"\p{Han}{2}")


def visible(text: str) -> tuple[str, Sequence[int] | None]:
    """Return a text without invisible code points, and the offset of each one that remains.

    The offsets are None if they do not change. A zero-width space becomes a space.
    """
    if (text.isascii() and text.isprintable()) or not IGNORABLE.search(text):
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
    for match in WORD.finditer(text):
        start, end = match.span()
        yield (start, end) if offsets is None else (offsets[start], offsets[end - 1] + 1)


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
    contraction = CONTRACTION.search(word)
    stem = contraction.start() if contraction else len(word)
    tail = [(stem, len(word))] if contraction else []
    if contraction:
        yield [(0, stem), *tail]
    elision = ELISION.search(word, 0, stem)
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


def is_compound(entry: str) -> bool:
    """Return whether an entry consists of several words, such as `C++`."""
    return not entry.isalnum() and len(list(islice(word_spans(entry), 2))) > 1


def has_key(entry: str) -> bool:
    """Return whether an entry has other `forms` or is a compound, so that it has a key."""
    return len(forms(entry)) > 1 or is_compound(entry)


def parts_of(word: str) -> list[str]:
    """Return the parts of a word that are looked up, several if it is too long and unspaced."""
    is_long = len(word) > MAX_WORD_LENGTH and is_unspaced(word)
    return _PART.findall(word) if is_long else [word]


def core_of(text: str) -> str:
    """Return a text without punctuation around it."""
    return _OPENING.sub("", _CLOSING.sub("", text))
