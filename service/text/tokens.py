"""Tokens: words of a text, each with the vocabulary entry that stands for it."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from service.text.case import Case, Resolution, spellings
from service.text.pieces import Span, splits
from service.text.words import words


class Lookup(Protocol):
    """What tokenising needs of a vocabulary."""

    def row(self, word: str) -> int | None:
        """Return the row of a word as it is spelled, None where the vocabulary lacks it."""


class Token(NamedTuple):
    """A word of a text; `start` and `end` are code points, None for words that came already cut."""

    text: str
    start: int | None
    end: int | None
    key: str | None
    resolution: Resolution
    row: int | None


def resolve(word: str, vocabulary: Lookup, case: Case = "auto", start: int | None = None) -> Token:
    """Return the token of one word that is not taken apart."""
    end = None if start is None else start + len(word)
    for spelling, resolution in spellings(word, case):
        row = vocabulary.row(spelling)
        if row is not None:
            return Token(word, start, end, spelling, resolution, row)
    return Token(word, start, end, None, "oov", None)


def tokenise(text: str, vocabulary: Lookup, case: Case = "auto") -> list[Token]:
    """Cut a text into tokens; a word the vocabulary lacks is tried in its pieces."""
    return list(iterate(text, vocabulary, case))


def iterate(text: str, vocabulary: Lookup, case: Case = "auto") -> Iterator[Token]:
    """Yield the tokens of a text one by one, so that who has enough can stop."""
    for start, end in words(text):
        token = resolve(text[start:end], vocabulary, case, start)
        if token.row is not None:
            yield token
        else:
            yield from _pieces(token, vocabulary, case, start)


def resolve_all(texts: Iterable[str], vocabulary: Lookup, case: Case = "auto") -> list[Token]:
    """Return one token for each word of an already tokenised sentence; none is taken apart."""
    return [resolve(text, vocabulary, case) for text in texts]


def _pieces(whole: Token, vocabulary: Lookup, case: Case, start: int) -> list[Token]:
    """Return the first split whose pieces are all known, else the finest with a known word."""
    tokens = [whole]
    for split in splits(whole.text):
        tokens = [_piece(whole.text, span, vocabulary, case, start) for span in split]
        if all(token.row is not None for token in tokens):
            return tokens
    return tokens if any(t.row is not None and t.text[0].isalnum() for t in tokens) else [whole]


def _piece(word: str, span: Span, vocabulary: Lookup, case: Case, start: int) -> Token:
    return resolve(word[span[0] : span[1]], vocabulary, case, start + span[0])
