"""Comparison of occurrences of words: the effect of context on each."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, NamedTuple, Self, TypeAlias

import numpy as np
from pydantic import Field, PlainValidator, model_validator

from polyseme.engine import Flags, Floats, unit
from polyseme.engine.similarity import cosines, principal_components
from polyseme.errors import FieldError, InvalidError
from polyseme.models.model import Model
from polyseme.operations.encode import (
    Token,
    encode_stacks,
    record_token_counts,
    tokenize,
    word_indices,
)
from polyseme.operations.limits import Limits, current_budget, stage
from polyseme.operations.schema import (
    MAX_LISTED,
    EncodeOptions,
    ModelName,
    Neighbor,
    OneLine,
    Phrases,
    Request,
    Share,
    TextOrWords,
)
from polyseme.spellings import Case, fold, spellings, without_greek_accents
from polyseme.tokenizer import ResolvedToken, Text, Tokenized, as_string, hashable

MAX_COMPARED = 64
"""Maximum number of occurrences."""
NEIGHBOR_SHARE = 0.4
"""The share of the static vector that is added to a contextual vector before its neighbors are
searched. With the smaller shares of models, neighbors describe the context instead of the word."""
_SAME_DIRECTION = 1 - 1e-9
"""Vectors of a larger cosine are the same point of the map."""
MOST_ATTENDED = 10
"""Maximum number of tokens in `attends_to`."""
SEARCHED_PREFIX = 8
"""The code points of a form that are searched before a text is tokenized."""
_SUBSTITUTE = {"oov": "zero", "subword": "composed from its subwords"}
"""A description of the static vector of an out-of-vocabulary word, by resolution."""


@dataclass(frozen=True)
class Occurrence:
    """A word in a text: its nth occurrence, counted from 0, or a span in code points.

    In a list of words, it is the nth occurrence or an index.
    """

    text: Text
    word: str | None = None
    nth: int = 0
    start: int | None = None
    end: int | None = None
    index: int | None = None


class OccurrenceRequest(Request[None]):
    """An occurrence of a word in a text, given by the word, its span, or its index in a list."""

    text: TextOrWords
    word: Annotated[str, Field(min_length=1)] | None = None
    nth: int = Field(0, ge=0)
    """which occurrence of `word`, counted from 0"""
    start: Annotated[int, Field(ge=0)] | None = None
    """in Unicode code points, of a string"""
    end: Annotated[int, Field(ge=0)] | None = None
    index: Annotated[int, Field(ge=0)] | None = None
    """of the word in a list of words, counted from 0"""

    @model_validator(mode="after")
    def check_position(self) -> Self:
        """Raise ValueError unless the word, its span or its index is given, within the text."""
        placed = [one is not None for one in (self.word, self.start, self.index)]
        if sum(placed) != 1 or (self.start is None) != (self.end is None):
            raise ValueError(
                "give either `word` or both `start` and `end`, or `index` in a list of words"
            )
        if self.word is None and "nth" in self.model_fields_set:
            raise ValueError("`nth` requires `word`")
        if self.index is not None and isinstance(self.text, str):
            raise ValueError("`index` requires a list of words in `text`")
        if self.start is not None:
            if not isinstance(self.text, str):
                raise ValueError("`start` and `end` require a string in `text`")
            if not self.start < (self.end or 0) <= len(self.text):
                raise ValueError("`start` and `end` must be a non-empty span of the text")
        return self


Occurrences: TypeAlias = Annotated[list[OccurrenceRequest], Field(min_length=1, fail_fast=True)]


@dataclass(frozen=True)
class AttendedToken:
    """A token that the occurrence attends to."""

    text: str
    start: int | None
    end: int | None
    weight: float


@dataclass(frozen=True, repr=False)
class ComparedOccurrence(OneLine):
    """One occurrence, before and after context."""

    token: Token
    shift: float
    """1 − cosine(static, contextual)"""
    static_neighbors: list[Neighbor]
    contextual_neighbors: list[Neighbor]
    attends_to: list[AttendedToken]


Similarities: TypeAlias = Annotated[
    Floats,
    PlainValidator(
        lambda rows, info: np.array(rows, np.float64).reshape((len(info.data["occurrences"]),) * 2),
        json_schema_input_type=list[list[float]],
    ),
]
"""The cosines between m occurrences. [m, m]"""


@dataclass(frozen=True, repr=False)
class Comparison(OneLine):
    """Compared occurrences."""

    model: str
    occurrences: list[ComparedOccurrence]
    static_similarity: Similarities
    contextual_similarity: Similarities
    notes: list[str]


Position: TypeAlias = Annotated[list[float], Field(min_length=2, max_length=2)]


@dataclass(frozen=True)
class MappedWord:
    """A neighbor's position on the map."""

    word: str
    position: Position


@dataclass(frozen=True)
class OccurrenceMap:
    """Occurrences and neighbors in the plane: the first two principal components."""

    explained_variance_ratio: Position
    """of each axis"""
    static: list[Position | None]
    """of each occurrence; null for a zero vector"""
    contextual: list[Position | None]
    """of each occurrence's vector in the neighbor search; null for a zero vector"""
    neighbors: list[MappedWord]


@dataclass(frozen=True, repr=False)
class MappedComparison(Comparison):
    """Compared occurrences."""

    map: OccurrenceMap | None = None
    """if requested"""


class CompareRequest(Request[Comparison]):
    """Occurrences to compare."""

    occurrences: list[OccurrenceRequest] = Field(min_length=2, max_length=MAX_COMPARED)
    neighbors: int = Field(5, ge=0, le=MAX_LISTED)
    """number of neighbors of each vector"""
    map: bool = False
    """add a 2D map of the occurrences and their neighbors"""
    share: Share = None
    phrases: Phrases = False
    model: ModelName = None
    case: Case = "auto"


class _Vectors(NamedTuple):
    """The vectors of one occurrence and its row of attention."""

    text: int
    """index of the sentence"""
    token: ResolvedToken
    static: Floats
    contextual: Floats
    query: Floats
    """the vector whose neighbors are searched"""
    weights: Floats


def compare(model: Model, request: CompareRequest, limits: Limits | None = None) -> Comparison:
    """Compare occurrences of words; raise InvalidError if one is not found.

    `share` replaces the model's share of the static vector in contextual vectors, and
    NEIGHBOR_SHARE in the neighbor search. Neighbors of a static vector exclude the word itself. A
    contextual vector is a mixture of its sentence, so its neighbors exclude all words of the
    sentence.
    """
    share, k = request.share, request.neighbors
    with stage("tokens"):
        options = EncodeOptions(
            layers="last", case=request.case, share=share, phrases=request.phrases
        )
        sentences, positions = locate_occurrences(
            model, request.occurrences, options, limits or Limits()
        )
        counts = record_token_counts(sentences)
    tokens_of = [sentence.with_offsets() for sentence in sentences]
    encoded: dict[int, _Vectors] = {}
    for indices, arrays in encode_stacks(model, sentences, options):
        for row, text in enumerate(indices):
            for index, position in positions[text].items():
                # Copies, because a view would keep the vectors of all tokens in memory.
                static = arrays["static"][row, position].copy()
                contextual = arrays["contextual"][row, position].copy()
                query = contextual
                if share is None:
                    query, direction = unit(np.stack([contextual, static]))
                    query = query + NEIGHBOR_SHARE * direction * bool(query.any())
                weights = arrays["attention"][row, 0, :, position].mean(axis=0)
                token = tokens_of[text][position]
                encoded[index] = _Vectors(text, token, static, contextual, query, weights)
    vectors = [encoded[index] for index in range(len(encoded))]
    compared = []
    with stage("neighbors"):
        rows = [spelled_rows(model, tokens) for tokens in tokens_of]
        for text, token, static, contextual, query, weights in vectors:
            current_budget().check()
            order = np.argsort(-weights, kind="stable")[:MOST_ATTENDED].tolist()
            attended = [(tokens_of[text][i], float(weights[i])) for i in order if weights[i] > 0]
            static_near = model.neighbors(static, k, spelled_rows(model, [token]))
            contextual_near = model.neighbors(query, k, rows[text])
            compared.append(
                ComparedOccurrence(
                    Token.of(token),
                    1 - float(cosines(static[None], contextual[None])[0, 0]),
                    [Neighbor(*near) for near in static_near],
                    [Neighbor(*near) for near in contextual_near],
                    [AttendedToken(t.text, t.start, t.end, weight) for t, weight in attended],
                )
            )
    static = np.stack([one.static for one in vectors]).astype(np.float64)
    contextual = np.stack([one.contextual for one in vectors]).astype(np.float64)
    comparison = Comparison(
        model.manifest.name,
        compared,
        np.ascontiguousarray(cosines(static, static)),
        np.ascontiguousarray(cosines(contextual, contextual)),
        _notes([one.token for one in vectors]) + counts.notes,
    )
    if not request.map:
        return comparison
    return MappedComparison(**vars(comparison), map=map_occurrences(model, vectors, compared))


def locate_occurrences(
    model: Model,
    occurrences: Sequence[OccurrenceRequest],
    options: EncodeOptions,
    limits: Limits,
) -> tuple[list[Tokenized], list[dict[int, int]]]:
    """Tokenize each distinct text once, and find the token of each occurrence.

    Returns the sentences and, for each, the indices of its tokens by those of the occurrences.
    Raises InvalidError if an occurrence is not one token, and the errors of `tokenize`, which name
    the first occurrence of a text.
    """
    indices: dict[Text, list[int]] = {}
    for index, occurrence in enumerate(occurrences):
        indices.setdefault(hashable(occurrence.text), []).append(index)
    of_texts = list(indices.values())
    sentences = tokenize(
        model, list(indices), options, limits, lambda n: ("occurrences", of_texts[n][0], "text")
    )
    positions = []
    for text, sentence, of_text in zip(indices, sentences, of_texts, strict=True):
        current_budget().check()
        finder = TokenFinder(text, sentence.with_offsets())
        positions.append({index: finder.find(occurrences[index], index) for index in of_text})
    return sentences, positions


class TokenFinder:
    """Finds tokens of a text, each without a look at all of them."""

    def __init__(self, text: Text, tokens: Sequence[ResolvedToken]) -> None:
        self._text, self._tokens = text, tokens
        self._starts = [token.start or 0 for token in tokens]
        self._ends = [token.end or 0 for token in tokens]

    def find(self, occurrence: OccurrenceRequest, index: int) -> int:
        """Return the index of an occurrence's token; raise InvalidError unless it is one.

        `index` is that of the occurrence in the request.
        """
        if occurrence.word is not None:
            indices = self._exact.get(fold(occurrence.word, exact=True), [])
            folded = fold(occurrence.word)
            for form in (folded, without_greek_accents(folded)):
                indices = indices or self._in_any_case.get(form, [])
            if occurrence.nth < len(indices):
                return indices[occurrence.nth]
            field, message = "word", "the text does not contain this word as a token"
            if indices:
                field = "nth"
                message = f"must be less than {len(indices)}, the number of occurrences"
            raise InvalidError([FieldError(("occurrences", index, field), message)])
        if occurrence.index is not None:
            count = len(self._text)
            if occurrence.index < count:
                return bisect_right(self._word_indices, occurrence.index) - 1
            message = f"must be less than {count}, the number of words"
            raise InvalidError([FieldError(("occurrences", index, "index"), message)])
        first = bisect_right(self._ends, occurrence.start or 0)
        count = bisect_left(self._starts, occurrence.end or 0) - first
        if count != 1:
            message = f"the span must cover exactly one token; it covers {max(count, 0)}"
            raise InvalidError([FieldError(("occurrences", index, "start"), message)])
        return first

    @cached_property
    def _word_indices(self) -> Sequence[int]:
        return word_indices(self._text, self._tokens)

    @cached_property
    def _exact(self) -> dict[str, list[int]]:
        return self._indices(exact=True)

    @cached_property
    def _in_any_case(self) -> dict[str, list[int]]:
        return self._indices(exact=False)

    def _indices(self, *, exact: bool) -> dict[str, list[int]]:
        """Return the indices of the tokens of each text."""
        indices: dict[str, list[int]] = {}
        for index, token in enumerate(self._tokens):
            indices.setdefault(fold(token.text, exact=exact), []).append(index)
        return indices


@dataclass(frozen=True)
class WordForms:
    """A word and its other forms, whose occurrences are found in texts."""

    forms: Sequence[str]
    """the word and its other forms"""
    exact: bool = False
    """whether an occurrence must have the case of a form"""
    phrases: bool = False
    """whether consecutive words become one token if the vocabulary has their phrase"""

    @cached_property
    def folded(self) -> frozenset[str]:
        """The forms as tokens are compared with them, without empty ones."""
        folded = {fold(form, exact=self.exact) for form in self.forms} - {""}
        return frozenset(folded if self.exact else folded.union(map(without_greek_accents, folded)))

    def indices(self, tokens: Iterable[str]) -> list[int]:
        """Return the indices of the tokens that equal a form or another spelling of it."""
        return [i for i, text in enumerate(tokens) if fold(text, exact=self.exact) in self.folded]

    def may_occur(self, text: Text) -> bool:
        """Return whether a token of a text could equal a form.

        Only the beginning of a form is searched, which bounds the time of hostile forms.
        """
        text = fold(as_string(text), exact=self.exact)
        return any(form[:SEARCHED_PREFIX] in text for form in self.folded)


def spelled_rows(model: Model, tokens: Sequence[ResolvedToken]) -> list[int]:
    """Return the rows of the `spellings` of tokens, which are not their neighbors."""
    words = {token.key or token.text for token in tokens}
    forms = {form for word in words for form, _ in spellings(word, "auto")}
    return [row for form in forms if (row := model.vocabulary.row(form)) is not None]


def map_occurrences(
    model: Model, vectors: Sequence[_Vectors], compared: Sequence[ComparedOccurrence]
) -> OccurrenceMap:
    """Return the first two principal components of all occurrences and neighbors.

    Vectors are normalized, because similarities are cosines. Equal vectors count as one point.
    """
    near = {neighbor.word: None for one in compared for neighbor in one.static_neighbors}
    near |= {neighbor.word: None for one in compared for neighbor in one.contextual_neighbors}
    rows = [model.vocabulary.row(word) or 0 for word in near]
    static = np.stack([one.static for one in vectors])
    contextual = np.stack([one.query for one in vectors])
    words = model.rows[np.array(rows, np.int64)]
    directions = unit(np.concatenate([static, contextual, words]).astype(np.float64))
    m = len(vectors)
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
    neighbors = [*map(MappedWord, near, positions[2 * m :].tolist())]
    return OccurrenceMap(ratios, placed[:m], placed[m : 2 * m], neighbors)


def _notes(tokens: Sequence[ResolvedToken]) -> list[str]:
    same: dict[tuple[str, int | str], list[int]] = {}
    for index, token in enumerate(tokens):
        if token.row is not None:
            same.setdefault(("share one vocabulary key", token.row), []).append(index)
        elif token.composed is not None:
            share = "are composed from the subwords of one spelling"
            same.setdefault((share, token.composed), []).append(index)
    notes = []
    for (share, _), (*others, last) in same.items():
        if others:
            indices = ", ".join(map(str, others))
            notes.append(
                f"Occurrences {indices} and {last} {share}, so their static vectors are equal and"
                " only context tells them apart."
            )
    return notes + [
        f"Occurrence {i} is not in the vocabulary;"
        f" its static vector is {_SUBSTITUTE[t.resolution]}."
        for i, t in enumerate(tokens)
        if t.resolution in _SUBSTITUTE
    ]
