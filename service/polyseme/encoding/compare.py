"""Occurrences of words side by side: what context makes of each."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from polyseme.encoding.counts import Counts
from polyseme.encoding.cutting import cut_texts
from polyseme.encoding.flat_map import FlatMap, flat_map
from polyseme.encoding.limits import Limits
from polyseme.encoding.stages import Stages
from polyseme.engine.arrays import Floats
from polyseme.engine.norm import unit
from polyseme.engine.similarity import cosines
from polyseme.engine.stack import contextualise
from polyseme.errors import FieldError, InvalidError
from polyseme.models.model import Model
from polyseme.tokenizer import Case, Token, spellings

_UNLISTED = {"oov": "zero", "subword": "composed from its subwords"}
"""What the static vector of a word is that the vocabulary lacks."""
READING_SHARE = 0.4
"""How much of the static vector is added before words near a contextual one are named. With the
share that separates senses best, they would name the context alone and not the word in it."""
MOST_LOOKED_AT = 10
"""How many of the tokens that an occurrence attends to are named."""


@dataclass(frozen=True)
class Occurrence:
    """A word in a text: the nth time it is written there, or by its place in code points."""

    text: str
    word: str | None = None
    nth: int = 0
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Compared:
    """One occurrence, before and after context."""

    token: Token
    shift: float
    """1 − cosine of its static and its contextual vector"""
    static_neighbours: list[tuple[str, float]]
    contextual_neighbours: list[tuple[str, float]]
    attends_to: list[tuple[Token, float]]
    """the tokens it looks at most in the last layer, as a mean of the heads"""


@dataclass(frozen=True)
class Comparison:
    """Occurrences, and the cosines between them."""

    occurrences: list[Compared]
    static_similarity: Floats
    """[m, m]"""
    contextual_similarity: Floats
    """[m, m]"""
    notes: list[str]
    flat_map: FlatMap | None = None
    counts: Counts = field(default_factory=Counts)
    """the tokens of all texts"""


@dataclass(frozen=True)
class _Read:
    """A sentence run through the model, and the occurrence in it."""

    tokens: list[Token]
    place: int
    static: Floats
    contextual: Floats
    weights: Floats


def compare(
    model: Model,
    occurrences: Sequence[Occurrence],
    neighbours: int,
    case: Case,
    limits: Limits,
    stages: Stages,
    *,
    mapped: bool = False,
) -> Comparison:
    """Compare occurrences of words; raise InvalidError where one is not to be found.

    `mapped` adds a flat map of the occurrences and of their neighbours.
    """
    limits.sentences(len(occurrences))
    with stages("tokens"):
        texts = [occurrence.text for occurrence in occurrences]
        sentences = [tokens for tokens, _ in cut_texts(texts, model, case, limits)]
        counts = _counted(sentences)
        places = [
            _place(tokens, occurrence, number)
            for number, (tokens, occurrence) in enumerate(zip(sentences, occurrences, strict=True))
        ]
    with stages("attention"):
        read = [_read(model, t, place) for t, place in zip(sentences, places, strict=True)]
    with stages("neighbors"):
        compared = [_compared(model, one, neighbours) for one in read]
    static = np.stack([one.static for one in read]).astype(np.float64)
    contextual = np.stack([one.contextual for one in read]).astype(np.float64)
    return Comparison(
        compared,
        cosines(static, static),
        cosines(contextual, contextual),
        _notes(read),
        _map(model, read, compared) if mapped else None,
        counts,
    )


def _counted(sentences: Sequence[Sequence[Token]]) -> Counts:
    counts = Counts()
    for tokens in sentences:
        counts.add(tokens)
    return counts


def _map(model: Model, read: Sequence[_Read], compared: Sequence[Compared]) -> FlatMap:
    """Where the neighbours are those of the contextual vectors, those vectors are, too."""
    near = {w: None for one in compared for w, _ in one.static_neighbours}
    near |= {w: None for one in compared for w, _ in one.contextual_neighbours}
    static = np.stack([one.static for one in read])
    return flat_map(model, static, np.stack([_for_readers(one) for one in read]), list(near))


def _place(tokens: Sequence[Token], occurrence: Occurrence, number: int) -> int:
    """Which token an occurrence is."""
    if occurrence.word is not None:
        found = [i for i, t in enumerate(tokens) if t.text == occurrence.word]
        folded = occurrence.word.casefold()
        found = found or [i for i, t in enumerate(tokens) if t.text.casefold() == folded]
        if occurrence.nth < len(found):
            return found[occurrence.nth]
        field = "nth" if found else "word"
        message = f"the text has this word as a token {len(found)} times; `nth` counts from 0"
        raise InvalidError([FieldError(f"/occurrences/{number}/{field}", message)])
    start, end = occurrence.start or 0, occurrence.end or 0
    covered = [i for i, t in enumerate(tokens) if (t.start or 0) < end and (t.end or 0) > start]
    if len(covered) != 1:
        message = f"this span covers {len(covered)} tokens, it has to cover one"
        raise InvalidError([FieldError(f"/occurrences/{number}/start", message)])
    return covered[0]


def _read(model: Model, tokens: list[Token], place: int) -> _Read:
    sentence = model.sentence(tokens)
    last = len(model.layers) - 1
    result = contextualise(sentence, model.layers, ("weights",), (last,))
    weights = result.records[last]["weights"][:, place].mean(axis=0)  # a copy: the rest may go
    return _Read(tokens, place, sentence.vectors[place], result.contextual[place], weights)


def _compared(model: Model, one: _Read, k: int) -> Compared:
    """One occurrence before and after context.

    The neighbours of its static vector are named without the word itself, those of the contextual
    one, drawn a little towards the static one, without the sentence's own words, which attention
    has mixed into it.
    """
    token = one.tokens[one.place]
    itself, context = _rows(model, [token]), _rows(model, one.tokens)
    order = np.argsort(-one.weights, kind="stable")[:MOST_LOOKED_AT]
    return Compared(
        token,
        1 - float(cosines(one.static[None], one.contextual[None])[0, 0]),
        model.neighbors(one.static, k, itself),
        model.neighbors(_for_readers(one), k, context),
        [(one.tokens[i], float(one.weights[i])) for i in order if one.weights[i] > 0],
    )


def _for_readers(one: _Read) -> Floats:
    """unit(contextual) + 0.4·unit(static), zero where there is no contextual vector. -> [d]"""
    contextual, static = unit(np.stack([one.contextual, one.static]))
    both: Floats = contextual + READING_SHARE * static * bool(contextual.any())
    return both


def _rows(model: Model, tokens: Sequence[Token]) -> list[int]:
    """The vocabulary's rows of some tokens in every spelling of their case."""
    forms = {form for token in tokens for form, _ in spellings(token.key or token.text, "auto")}
    rows = (model.vocabulary.row(form) for form in forms)
    return [row for row in rows if row is not None]


def _notes(read: Sequence[_Read]) -> list[str]:
    tokens = [one.tokens[one.place] for one in read]
    notes = []
    for (i, a), (j, b) in combinations(enumerate(tokens), 2):
        if a.row is not None and a.row == b.row:
            share = "share one vocabulary key"
        elif a.composed is not None and a.composed == b.composed:
            share = "are composed from the subwords of one spelling"
        else:
            continue
        notes.append(
            f"Occurrences {i} and {j} {share}, so their static vectors are equal and only context"
            " tells them apart."
        )
    return notes + [
        f"Occurrence {i} is not in the vocabulary; its static vector is {_UNLISTED[t.resolution]}."
        for i, t in enumerate(tokens)
        if t.resolution in _UNLISTED
    ]
