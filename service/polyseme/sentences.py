"""The sentences of running text, for every language.

sentencex knows the abbreviations of each language; the rules here join what it still separates
within a sentence.
"""

import re
from collections.abc import Iterator
from itertools import chain

import regex

from polyseme.tokenizer import Text

_HAN_KANA = r"[\u3005\u3041-\u30ff\u3400-\u9fff]"
_WIDE_END = re.compile(
    r"(?<=[。！？｡।॥។៕။።])(?![。！？｡।॥។៕။።」』”’）])|(?<=[。！？｡।॥][」』”’）])(?![とっ])"
    rf"|(?={_HAN_KANA})(?:(?<={_HAN_KANA}[!?．])|(?<=[!?．][!?．]))"
)
"""The end of a sentence that needs no space after it; と and って continue a Japanese quotation."""
_ELLIPSIS = re.compile(r"(?<=…\s)|(?<=…[\"”»’]\s)")
_OPENING = "\"'“”„«»‘’([{—–- `*"
_CONTINUING = "/,;:)%"
"""Marks with which no sentence begins."""
_LAST_WORD = regex.compile(r"([\w.]*)\.\s*$")
_LETTER = re.compile(r"\w")
_EXCLAMATION = re.compile(r"\S+(?:\s+\S+)?[!?]\s*")
"""An exclamation or a question of one or two words, which belongs to the next sentence."""
_MAX_ABBREVIATION = 6
_MAX_WORD = 64
"""Characters at the end of a sentence in which the last word is looked for."""


def split_sentences(text: Text, language: str = "en") -> Iterator[tuple[int, Text]]:
    """Yield the start and the text of each sentence; a line break also ends one.

    A list of words is one sentence. `language` is an ISO 639 code, as in a manifest.
    """
    from sentencex import segment

    if not isinstance(text, str):
        yield 0, text
        return
    start, sentence = 0, ""
    for line in text.splitlines(keepends=True):
        for part in _WIDE_END.split(line):
            pieces = map(_ELLIPSIS.split, segment(language, part) if part else ())
            for piece in chain.from_iterable(pieces):
                if sentence and _is_end(sentence, piece, language):
                    yield from _stripped(start, sentence)
                    start, sentence = start + len(sentence), ""
                sentence += piece
            yield from _stripped(start, sentence)
            start, sentence = start + len(sentence), ""


def _stripped(start: int, sentence: str) -> Iterator[tuple[int, str]]:
    """Yield a sentence without the white space around it, unless there is nothing else."""
    if text := sentence.strip():
        yield start + len(sentence) - len(sentence.lstrip()), text


def _is_end(before: str, following: str, language: str) -> bool:
    """Return whether a sentence ends between two parts of a text."""
    first = following.lstrip(_OPENING)[:1]
    # Georgian letters, which have no title case, begin sentences.
    if first != first.title() or first in _CONTINUING or not _LETTER.search(following):
        return False
    if not before[-1].isspace() or _EXCLAMATION.fullmatch(before):
        return False
    last = _LAST_WORD.search(before[-_MAX_WORD:])
    if not last:
        return True
    word = last[1]
    initial = word[:1].isalpha() and sum(map(str.isalnum, word)) == 1
    abbreviation = "." in word.strip(".") and not word.replace(".", "").isdigit()
    # English writes no period after an ordinal.
    ordinal = language != "en" and word.isdigit() and len(word) < 3
    is_number = first.isdigit() and len(word) <= _MAX_ABBREVIATION
    return not (is_number or initial or abbreviation or ordinal)
