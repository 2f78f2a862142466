"""Comparison of occurrences of words: the effect of context on each."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from polyseme.engine.arrays import Flags, Floats, unit
from polyseme.engine.layers import contextualize
from polyseme.engine.similarity import cosines, principal_components
from polyseme.errors import FieldError, InvalidError
from polyseme.models.model import Model
from polyseme.operations.encode import TokenCounts, Tokenized, tokenize
from polyseme.operations.neighbors import Neighbor
from polyseme.operations.options import EncodeOptions, Limits
from polyseme.operations.serialize import token_documents
from polyseme.operations.work import TextCost, check_request, compare_cost
from polyseme.stages import stage
from polyseme.tokenizer import Case, ResolvedToken, spellings

NEIGHBOR_SHARE = 0.4
"""The share of the static vector that is added to a contextual vector before its neighbors are
searched. With the smaller shares of models, neighbors describe the context instead of the word."""
_SAME_DIRECTION = 1 - 1e-9
"""Vectors of a larger cosine are the same point of the map."""
MOST_ATTENDED = 10
"""Maximum number of tokens in `attends_to`."""
_SUBSTITUTE = {"oov": "zero", "subword": "composed from its subwords"}
"""A description of the static vector of an out-of-vocabulary word, by resolution."""


@dataclass(frozen=True)
class Occurrence:
    """A word in a text: its nth occurrence, counted from 0, or a span in code points."""

    text: str
    word: str | None = None
    nth: int = 0
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class AttendedToken:
    """A token that an occurrence attends to."""

    text: str
    start: int | None
    end: int | None
    weight: float


@dataclass(frozen=True)
class OccurrenceResult:
    """One occurrence before and after context."""

    token: ResolvedToken
    shift: float
    """1 − cosine of the static and the contextual vector"""
    static_neighbors: list[Neighbor]
    contextual_neighbors: list[Neighbor]
    attends_to: list[AttendedToken]
    """the tokens with the largest attention weights in the last layer, averaged over heads"""


@dataclass(frozen=True)
class OccurrenceMap:
    """Positions in the plane: the first two principal components of all unit vectors."""

    explained_variance_ratio: list[float]
    static: list[list[float] | None]
    """the position of each occurrence's static vector; None for a zero vector"""
    contextual: list[list[float] | None]
    """the position of each occurrence's vector in the neighbor search; None for a zero vector"""
    neighbors: dict[str, list[float]]


@dataclass(frozen=True)
class ComparisonResult:
    """The m occurrences and the cosines between them."""

    occurrences: list[OccurrenceResult]
    static_similarity: Floats
    """[m, m]"""
    contextual_similarity: Floats
    """[m, m]"""
    notes: list[str]
    counts: TokenCounts
    """token counts of all texts"""
    map: OccurrenceMap | None = None


class _Vectors(NamedTuple):
    """The vectors of one occurrence and its row of attention."""

    tokens: list[ResolvedToken]
    token: ResolvedToken
    static: Floats
    contextual: Floats
    query: Floats
    """the vector whose neighbors are searched"""
    weights: Floats


def compare(
    model: Model,
    occurrences: Sequence[Occurrence],
    neighbors: int = 5,
    case: Case = "auto",
    limits: Limits | None = None,
    *,
    share: float | None = None,
    phrases: bool = False,
    with_map: bool = False,
) -> ComparisonResult:
    """Compare occurrences of words; raise InvalidError if one is not found.

    `with_map` adds a map of the occurrences and their neighbors. `share` replaces the model's share
    of the static vector in contextual vectors, and NEIGHBOR_SHARE in the neighbor search.
    """
    with stage("tokens"):
        options = EncodeOptions(case=case, share=share, phrases=phrases)
        cost = compare_cost(model, options, len(occurrences), neighbors, with_map=with_map)
        limits = limits or Limits()
        sentences, texts = tokenize_occurrences(model, occurrences, options, limits, cost)
        places: list[dict[int, int]] = [{} for _ in sentences]
        for number, (text, occurrence) in enumerate(zip(texts, occurrences, strict=True)):
            places[text][number] = find_token(sentences[text].tokens, occurrence, number)
    with stage("attention"):
        encoded: dict[int, _Vectors] = {}
        for sentence, one in zip(sentences, places, strict=True):
            vectors = _encode(model, sentence, list(one.values()), share)
            encoded |= zip(one, vectors, strict=True)
        found = [encoded[number] for number in range(len(occurrences))]
    with stage("neighbors"):
        compared = [_compared(model, one, neighbors) for one in found]
    static = np.stack([one.static for one in found]).astype(np.float64)
    contextual = np.stack([one.contextual for one in found]).astype(np.float64)
    return ComparisonResult(
        compared,
        cosines(static, static),
        cosines(contextual, contextual),
        _notes([one.token for one in found]),
        TokenCounts(sentences),
        _occurrence_map(model, found, compared) if with_map else None,
    )


def tokenize_occurrences(
    model: Model,
    occurrences: Sequence[Occurrence],
    options: EncodeOptions,
    limits: Limits,
    cost: TextCost,
) -> tuple[list[Tokenized], list[int]]:
    """Tokenize each distinct text once; return the sentences, and the index of each occurrence's.

    Raises the errors of `tokenize`, which name the first occurrence of a text.
    """
    numbers: dict[str, int] = {}
    firsts: list[int] = []
    for place, one in enumerate(occurrences):
        if one.text not in numbers:
            numbers[one.text] = len(firsts)
            firsts.append(place)
    texts = list(numbers)
    sentences = tokenize(
        model, texts, options, limits, lambda n: ("occurrences", firsts[n], "text"), cost
    )
    return sentences, [numbers[one.text] for one in occurrences]


def find_token(tokens: Sequence[ResolvedToken], occurrence: Occurrence, number: int) -> int:
    """Return the index of an occurrence's token; raise InvalidError unless it is exactly one."""
    if occurrence.word is not None:
        texts, word = [token.text for token in tokens], [occurrence.word]
        found = word_places(texts, match_forms(word, exact=True), exact=True)
        found = found or word_places(texts, match_forms(word))
        if occurrence.nth < len(found):
            return found[occurrence.nth]
        field, message = "word", "the text does not contain this word as a token"
        if found:
            field, message = "nth", f"must be less than {len(found)}, the number of occurrences"
        raise InvalidError([FieldError(("occurrences", number, field), message)])
    start, end = occurrence.start or 0, occurrence.end or 0
    covered = [i for i, t in enumerate(tokens) if (t.start or 0) < end and (t.end or 0) > start]
    if len(covered) != 1:
        message = f"the span must cover exactly one token; it covers {len(covered)}"
        raise InvalidError([FieldError(("occurrences", number, "start"), message)])
    return covered[0]


def match_forms(forms: Iterable[str], *, exact: bool = False) -> frozenset[str]:
    """Return the forms of a word as `word_places` compares them."""
    return frozenset(" ".join((form if exact else form.casefold()).split()) for form in forms)


def word_places(texts: Iterable[str], wanted: Collection[str], *, exact: bool = False) -> list[int]:
    """Return the indices of the tokens that equal a form of a word, ignoring case unless `exact`.

    `texts` are those of the tokens, `wanted` the result of `match_forms` with the same `exact`.
    White space between the words of a phrase counts as one space.
    """
    spaced = (" ".join(text.split()) for text in texts)
    return [
        place for place, text in enumerate(spaced) if (text if exact else text.casefold()) in wanted
    ]


def _encode(
    model: Model, sentence: Tokenized, places: Sequence[int], share: float | None
) -> list[_Vectors]:
    """Return the vectors of the tokens at `places` of a sentence, which is encoded once."""
    check_request()
    inputs = model.sentence(sentence.tokens)
    last = len(model.layers) - 1
    result = contextualize(inputs, model.layers, ("weights",), (last,), share=share)
    tokens, found = sentence.tokens, []
    for place in places:
        weights = result.records[last]["weights"][:, place].mean(axis=0)
        # Copies, because a view would keep the vectors of all tokens in memory.
        static, contextual = inputs.vectors[place].copy(), result.contextual[place].copy()
        query = contextual if share is not None else _add_static(contextual, static)
        found.append(_Vectors(tokens, tokens[place], static, contextual, query, weights))
    return found


def _compared(model: Model, one: _Vectors, k: int) -> OccurrenceResult:
    """Return the result for one occurrence.

    Neighbors of the static vector exclude the word itself. The contextual vector is a mixture of
    the sentence's vectors, so its neighbors exclude all words of the sentence.
    """
    check_request()
    order = np.argsort(-one.weights, kind="stable")[:MOST_ATTENDED]
    attended = [(one.tokens[i], float(one.weights[i])) for i in order if one.weights[i] > 0]
    return OccurrenceResult(
        one.token,
        1 - float(cosines(one.static[None], one.contextual[None])[0, 0]),
        _neighbors(model, one.static, k, [one.token]),
        _neighbors(model, one.query, k, one.tokens),
        [AttendedToken(token.text, token.start, token.end, weight) for token, weight in attended],
    )


def _neighbors(
    model: Model, vector: Floats, k: int, without: Sequence[ResolvedToken]
) -> list[Neighbor]:
    """Return the nearest words, without the `spellings` of some tokens."""
    forms = {form for token in without for form, _ in spellings(token.key or token.text, "auto")}
    rows = [row for form in forms if (row := model.vocabulary.row(form)) is not None]
    return [Neighbor(*found) for found in model.neighbors(vector, k, rows)]


def _add_static(contextual: Floats, static: Floats) -> Floats:
    """Return unit(contextual) + 0.4·unit(static), or 0 if `contextual` is 0. [d], [d] -> [d]"""
    contextual, static = unit(np.stack([contextual, static]))
    total: Floats = contextual + NEIGHBOR_SHARE * static * bool(contextual.any())
    return total


def _occurrence_map(
    model: Model, found: Sequence[_Vectors], compared: Sequence[OccurrenceResult]
) -> OccurrenceMap:
    """Return the first two principal components of all occurrences and neighbors.

    Vectors are normalized, because similarities are cosines. Equal vectors count as one point.
    """
    near = {one.word: None for c in compared for one in c.static_neighbors}
    near |= {one.word: None for c in compared for one in c.contextual_neighbors}
    rows = [model.vocabulary.row(word) for word in near]
    words = model.rows[np.array([row or 0 for row in rows], np.int64)]
    static = np.stack([one.static for one in found])
    contextual = np.stack([one.query for one in found])
    directions = unit(np.concatenate([static, contextual, words]).astype(np.float64))
    m = len(found)
    # The contextual vector of a lone word may equal its static vector except for rounding.
    close = directions[: 2 * m] @ directions[: 2 * m].T > _SAME_DIRECTION
    np.fill_diagonal(close, val=True)
    directions[: 2 * m] = directions[close.argmax(axis=1)]
    nonzero: Flags = np.any(directions != 0, axis=1)
    positions, ratios = np.zeros((len(directions), 2)), [0.0, 0.0]
    if nonzero.any():
        points, inverse = np.unique(directions[nonzero], axis=0, return_inverse=True)
        flat, variance = principal_components(points)
        ratios = variance.tolist()
        positions[nonzero] = flat[inverse.reshape(-1)]
    pairs = zip(positions.tolist(), nonzero, strict=True)
    placed = [position if is_nonzero else None for position, is_nonzero in pairs]
    neighbors = dict(zip(near, positions[2 * m :].tolist(), strict=True))
    return OccurrenceMap(ratios, placed[:m], placed[m : 2 * m], neighbors)


def _notes(tokens: Sequence[ResolvedToken]) -> list[str]:
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
        f"Occurrence {i} is not in the vocabulary;"
        f" its static vector is {_SUBSTITUTE[t.resolution]}."
        for i, t in enumerate(tokens)
        if t.resolution in _SUBSTITUTE
    ]


def comparison_document(model: str, comparison: ComparisonResult) -> dict[str, Any]:
    """Return the response of /v1/compare, with arrays that orjson serializes."""
    document: dict[str, Any] = {
        "model": model,
        "occurrences": [
            {
                "token": token_documents([one.token])[0],
                "shift": one.shift,
                "static_neighbors": [vars(near) for near in one.static_neighbors],
                "contextual_neighbors": [vars(near) for near in one.contextual_neighbors],
                "attends_to": [vars(key) for key in one.attends_to],
            }
            for one in comparison.occurrences
        ],
        "static_similarity": np.ascontiguousarray(comparison.static_similarity),
        "contextual_similarity": np.ascontiguousarray(comparison.contextual_similarity),
        "notes": comparison.notes,
    }
    if comparison.map:
        near = comparison.map.neighbors.items()
        document["map"] = {
            "explained_variance_ratio": comparison.map.explained_variance_ratio,
            "static": comparison.map.static,
            "contextual": comparison.map.contextual,
            "neighbors": [{"word": word, "position": position} for word, position in near],
        }
    return document
