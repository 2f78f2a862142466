"""The pieces of a word that a vocabulary lacks.

GloVe was tokenised as in the Penn Treebank (`did` + `n't`), Word2Vec and fastText were not; no
tokenizer suits every file, so a word is first looked up whole and only then taken apart.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

import regex

Span: TypeAlias = tuple[int, int]

# Penn Treebank contractions: `n't` is split before the n, the others before the apostrophe.
_CLITIC = regex.compile(r"(?<=\w)(?:n['’]t|['’](?:s|re|ve|ll|d|m))$", regex.IGNORECASE)
_JOINT = regex.compile(r"['’‘.·&_‐‑,:-]|(?<=\p{N})(?=\p{L})|(?<=\p{L})(?=\p{N})")
_RUN = regex.compile(r"(\S)\1{1,2}")


def splits(word: str) -> Iterator[list[Span]]:
    """Yield ways to take a word apart, the coarsest first; each is a list of (start, end).

    The spans of one way touch each other and cover the word, so nothing is lost.
    """
    if _RUN.fullmatch(word) and not word[0].isalnum():
        yield [(i, i + 1) for i in range(len(word))]
        return
    clitic = _CLITIC.search(word)
    stem = clitic.start() if clitic else len(word)
    tail = [(stem, len(word))] if clitic else []
    if clitic:
        yield [(0, stem), *tail]
    cuts = {0, stem} | {edge for joint in _JOINT.finditer(word, 0, stem) for edge in joint.span()}
    fine = list(pairwise(sorted(cuts)))
    if len(fine) > 1:
        yield [*fine, *tail]
