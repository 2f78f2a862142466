"""The tokenizer of a model, which remembers what it has cut.

No word has white space in it and none is cut otherwise for what stands beyond it, so a text is cut
chunk by chunk, and a chunk is looked up once: most of a text is a few thousand chunks.
"""

import re
from collections.abc import Iterable
from functools import lru_cache, partial
from itertools import islice

from polyseme.text.case import Case
from polyseme.text.tokens import (
    Composes,
    Lookup,
    Token,
    iterate,
    never,
    resolve,
    resolve_all,
    tokenise,
)

_CHUNK = re.compile(r"\S+")
"""What white space surrounds, by the white space of `str.split`."""
_REMEMBERED = 8192
"""Chunks: some three megabytes, 25 where each character is a token."""
_LONGEST = 16
"""Characters of a chunk that is remembered: long ones hardly come twice, and take room."""


class Tokenizer:
    """Gives the tokens that `tokenise` and `resolve_all` give. Threads may share it."""

    def __init__(self, vocabulary: Lookup, composes: Composes = never) -> None:
        # Not methods: they would hold the tokenizer, and with it a vocabulary that is let go.
        self._vocabulary, self._composes = vocabulary, composes
        self._resolve = partial(_resolve, vocabulary, composes)
        self._chunk = lru_cache(_REMEMBERED)(partial(_cut, vocabulary, composes))
        self._word = lru_cache(_REMEMBERED)(self._resolve)

    def tokens(self, text: str, case: Case = "auto", most: int | None = None) -> list[Token]:
        """The tokens of a text; with `most`, few more than so many of them."""
        found: list[Token] = []
        for match in _CHUNK.finditer(text):
            chunk, place = match[0], match.start()
            if len(chunk) <= _LONGEST:
                cut: Iterable[Token] = self._chunk(chunk, case)
            else:  # one by one: a text without white space is one chunk
                left = None if most is None else most - len(found)
                cut = islice(iterate(chunk, self._vocabulary, case, self._composes), left)
            for word, start, end, key, resolution, row, composed in cut:
                found.append(
                    Token(word, place + start, place + end, key, resolution, row, composed)  # type: ignore[operator]
                )
            if most is not None and len(found) >= most:
                break
        return found

    def words(self, words: Iterable[str], case: Case = "auto") -> list[Token]:
        """One token for each word of a sentence that came already cut."""
        return [
            (self._word if len(word) <= _LONGEST else self._resolve)(word, case) for word in words
        ]


def _cut(vocabulary: Lookup, composes: Composes, chunk: str, case: Case) -> tuple[Token, ...]:
    # Letters of ASCII are one word, as most chunks are: no pattern has to find that out.
    if chunk.isascii() and chunk.isalpha():
        token = resolve(chunk, vocabulary, case, 0)
        if token.row is not None:
            return (token,)
    return tuple(tokenise(chunk, vocabulary, case, composes))


def _resolve(vocabulary: Lookup, composes: Composes, word: str, case: Case) -> Token:
    return resolve_all([word], vocabulary, case, composes)[0]
