"""The words whose static vectors are nearest to a word, a vector, or a sum of several."""

from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeAlias

import numpy as np
from pydantic import Field, Tag, model_validator

from polyseme.engine import Floats, unit
from polyseme.errors import FieldError, FieldPath, InvalidError, UnknownWordError
from polyseme.models.model import Model
from polyseme.operations.limits import Limits, stage
from polyseme.operations.schema import ModelName, Neighbor, Request, Vector, one_of_kinds
from polyseme.spellings import MAX_WORD_LENGTH, Case, Resolution
from polyseme.tokenizer import ResolvedToken, Tokenizer

MAX_NEIGHBORS, MAX_TERMS = 1000, 32
"""Maximum `k`, and words or vectors of `positive`, and of `negative`."""
_ZERO = 1e-12
"""A shorter sum of a unit vector is a rounding error."""


@dataclass(frozen=True)
class Neighbors:
    """The nearest words, best first."""

    neighbors: list[Neighbor]
    resolution: Resolution | None
    """how the word was found, `subword` if its vector or that of a term of a sum is composed; null
    for a vector and for other sums"""
    key: str | None = None
    """the vocabulary entry of `word`, such as `New_York` for `New York`; null if it has none"""


def _kind_of_term(value: Any) -> str | None:
    if isinstance(value, str):
        return "<word>"
    return "<vector>" if isinstance(value, list) else None


QueryTerm: TypeAlias = Annotated[
    Annotated[str, Field(min_length=1), Tag("<word>")] | Annotated[Vector, Tag("<vector>")],
    one_of_kinds(_kind_of_term, "must be a word or a vector"),
]
Terms: TypeAlias = Annotated[list[QueryTerm], Field(max_length=MAX_TERMS, fail_fast=True)]


class NeighborsRequest(Request[Neighbors]):
    """A word, a vector or a sum of several to find the neighbors of."""

    word: Annotated[str, Field(min_length=1)] | None = None
    vector: Vector | None = None
    positive: Terms = ()  # type: ignore[assignment]  # pydantic would copy a list for each request
    """words or vectors whose unit vectors are added"""
    negative: Terms = ()  # type: ignore[assignment]
    """words or vectors whose unit vectors are subtracted"""
    k: int = Field(10, ge=1, le=MAX_NEIGHBORS)
    model: ModelName = None
    case: Case = "auto"

    @model_validator(mode="after")
    def check_source(self) -> Self:
        """Raise ValueError unless there is exactly one of a word, a vector and a sum."""
        sources = (self.word is not None, self.vector is not None, self.positive or self.negative)
        if sum(map(bool, sources)) != 1:
            raise ValueError("give one of `word`, `vector`, and `positive` with `negative`")
        return self

    def terms(self) -> dict[FieldPath, str | list[float]]:
        """Return each word or vector by its field."""
        if self.word is not None:
            return {("word",): self.word}
        if self.vector is not None:
            return {("vector",): self.vector}
        signed = {"positive": self.positive, "negative": self.negative}
        return {(sign, n): term for sign, terms in signed.items() for n, term in enumerate(terms)}


def neighbors(model: Model, request: NeighborsRequest, _limits: Limits | None = None) -> Neighbors:
    """Return the k words nearest to the sum of the unit vectors, without the words of the request.

    With `positive` and `negative`, this is the additive method for analogies (Mikolov et al. 2013,
    Linguistic Regularities; `most_similar` of gensim). Raises UnknownWordError if words have no
    vectors, InvalidError if a vector or the sum is zero or a vector is not [d].
    """
    with stage("neighbors"):
        terms, d = request.terms(), model.manifest.dimension
        vectors: list[Floats] = []
        known: list[ResolvedToken] = []
        unknown: list[FieldPath] = []
        for path, term in terms.items():
            if isinstance(term, list):
                vectors.append(_direction(term, d, path))
            elif token := query_token(model, term, request.case):
                vectors.append(model.static([token])[0])
                known.append(token)
            else:
                unknown.append(path)
        if unknown:
            hint = 'Try another spelling, `case: "auto"`, or a phrase of the vocabulary.'
            errors = [FieldError(path, "is not in the vocabulary") for path in unknown]
            raise UnknownWordError(errors, hint=hint)
        signs = np.array([-1.0 if path[0] == "negative" else 1.0 for path in terms])
        total = signs @ unit(np.array(vectors, np.float64))
        if len(terms) > 1 and np.linalg.norm(total) < _ZERO * len(terms):
            raise InvalidError([FieldError((), "the sum of the unit vectors is zero")])
        itself = [token.row for token in known if token.row is not None]
        nearest = model.neighbors(total, request.k, itself)
    composed = any(token.row is None for token in known)
    resolution: Resolution | None = "subword" if composed else None
    key = None
    if request.word:
        key, resolution = known[0].key, known[0].resolution
    return Neighbors([Neighbor(*neighbor) for neighbor in nearest], resolution, key)


def _direction(vector: list[float], d: int, path: FieldPath) -> Floats:
    """Return a vector as an array. Raises InvalidError if it is zero or not [d]."""
    if len(vector) != d:
        raise InvalidError([FieldError(path, f"has {len(vector)} numbers instead of {d}")])
    if not any(vector):
        raise InvalidError([FieldError(path, "a zero vector has no direction")])
    return np.array(vector, np.float64)


def query_token(model: Model, word: str, case: Case = "auto") -> ResolvedToken | None:
    """Return the word, or the phrase of several words, as a token; None if it has no vector.

    The vector of a phrase is never composed.
    """
    words = word.split() or [word]
    if len(word) <= MAX_WORD_LENGTH and model.vocabulary.row(word) is not None:
        words = [word]  # an imported entry may contain a space
    if len(words) > Tokenizer.PHRASE_WORDS:
        return None
    tokens = model.tokenizer.look_up(words, case)
    tokens = model.tokenizer.join_phrases(tokens, case)
    return None if len(tokens) > 1 or tokens[0].resolution == "oov" else tokens[0]
