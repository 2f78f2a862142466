"""Tokens: words of a text, each with the vocabulary entry that stands for it."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, TypeAlias

from polyseme.text.case import Case, Resolution, spellings
from polyseme.text.pieces import Span, splits
from polyseme.text.words import words


class Lookup(Protocol):
    """What tokenising needs of a vocabulary."""

    def row(self, word: str) -> int | None:
        """Return the row of a word as it is spelled, None where the vocabulary lacks it."""


Composes: TypeAlias = Callable[[str], bool]
"""Whether a spelling that the vocabulary lacks has a vector all the same, from its subwords."""


class Token(NamedTuple):
    """A word of a text; `start` and `end` are code points, None for words that came already cut."""

    text: str
    start: int | None
    end: int | None
    key: str | None
    resolution: Resolution
    row: int | None
    composed: str | None = None
    """the spelling whose subwords make its vector, where the vocabulary has no entry"""


def never(_: str) -> bool:
    """Compose nothing: a word that the vocabulary lacks stays unknown."""
    return False


def resolve(word: str, vocabulary: Lookup, case: Case = "auto", start: int | None = None) -> Token:
    """Return the token of one word that is not taken apart."""
    end = None if start is None else start + len(word)
    # Most words are there as they are written, and need no other spelling to be thought of.
    if case != "lower" and (row := vocabulary.row(word)) is not None:
        return Token(word, start, end, word, "exact", row)
    for spelling, resolution in spellings(word, case):
        row = vocabulary.row(spelling)
        if row is not None:
            return Token(word, start, end, spelling, resolution, row)
    return Token(word, start, end, None, "oov", None)


def tokenise(
    text: str, vocabulary: Lookup, case: Case = "auto", composes: Composes = never
) -> list[Token]:
    """Cut a text into tokens; a word the vocabulary lacks is tried in its pieces, then composed."""
    return list(iterate(text, vocabulary, case, composes))


def iterate(
    text: str, vocabulary: Lookup, case: Case = "auto", composes: Composes = never
) -> Iterator[Token]:
    """Yield the tokens of a text one by one, so that who has enough can stop."""
    for start, end in words(text):
        token = resolve(text[start:end], vocabulary, case, start)
        if token.row is not None:
            yield token
        else:
            yield from _unknown(token, vocabulary, case, composes)


def resolve_all(
    texts: Iterable[str], vocabulary: Lookup, case: Case = "auto", composes: Composes = never
) -> list[Token]:
    """Return one token for each word of an already tokenised sentence; none is taken apart."""
    return [compose(resolve(text, vocabulary, case), case, composes) for text in texts]


def compose(token: Token, case: Case, composes: Composes) -> Token:
    """Return the token with the spelling that its vector is composed of, where it needs one."""
    if token.row is None:
        for spelling, _ in spellings(token.text, "lower" if case == "lower" else "exact"):
            if composes(spelling):
                return token._replace(resolution="subword", composed=spelling)
    return token


def _unknown(whole: Token, vocabulary: Lookup, case: Case, composes: Composes) -> list[Token]:
    """Return the tokens of a word that the vocabulary lacks.

    The first split whose pieces are all known, else the whole word composed, else the finest split
    with a known word, else the word as it is.
    """
    tokens, start = [whole], whole.start or 0
    for split in splits(whole.text):
        tokens = [_piece(whole.text, span, vocabulary, case, start) for span in split]
        if all(token.row is not None for token in tokens):
            return tokens
    composed = compose(whole, case, composes)
    if composed is whole and any(t.row is not None and t.text[0].isalnum() for t in tokens):
        return [compose(token, case, composes) for token in tokens]
    return [composed]


def _piece(word: str, span: Span, vocabulary: Lookup, case: Case, start: int) -> Token:
    return resolve(word[span[0] : span[1]], vocabulary, case, start + span[0])
