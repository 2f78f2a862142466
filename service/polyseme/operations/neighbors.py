"""The words whose static vectors are nearest to a word or a vector."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from polyseme.errors import FieldError, InvalidError, UnknownWordError
from polyseme.models.model import Model
from polyseme.operations.options import MAX_NEIGHBORS, Limits
from polyseme.operations.schema import ModelName, Request, Vector, response
from polyseme.operations.work import REQUEST, admit, search_work
from polyseme.stages import stage
from polyseme.tokenizer import (
    MAX_WORD_LENGTH,
    Case,
    Resolution,
    ResolvedToken,
    Tokenizer,
    resolve_all,
)


@dataclass(frozen=True)
class Neighbor:
    """A word and its cosine similarity."""

    __pydantic_config__ = response("NeighborResponse")
    word: str
    similarity: float

    def __iter__(self) -> Iterator[str | float]:
        """Yield the word and the similarity."""
        return iter((self.word, self.similarity))


@dataclass(frozen=True)
class Neighbors:
    """The nearest words, best first."""

    __pydantic_config__ = response("NeighborsResponse")
    neighbors: list[Neighbor]
    resolution: Resolution | None
    """how the word was found; `subword` if its vector is composed; null for a vector"""


class NeighborsRequest(Request[Neighbors]):
    """A word or a vector to find the neighbors of."""

    word: Annotated[str, Field(min_length=1)] | None = None
    vector: Vector | None = None
    k: int = Field(10, ge=1, le=MAX_NEIGHBORS)
    model: ModelName = None
    case: Case = "auto"

    @model_validator(mode="after")
    def check_source(self) -> Self:
        """Raise ValueError unless there is either a word or a vector."""
        if (self.word is None) == (self.vector is None):
            raise ValueError("give either `word` or `vector`")
        return self


def neighbors(model: Model, request: NeighborsRequest, _limits: Limits | None = None) -> Neighbors:
    """Return the k nearest words, without the word itself.

    Raises UnknownWordError if the word has no vector, InvalidError if the vector is zero or not
    [d], and the errors of `admit`.
    """
    with stage("neighbors"):
        admit(REQUEST + search_work(model, request.k))
        if request.vector is None:
            token = query_token(model, request.word or "", request.case)
            itself = [] if token.row is None else [token.row]
            nearest = model.neighbors(model.static([token])[0], request.k, itself)
            resolution: Resolution | None = token.resolution
        else:
            d, width = model.manifest.dimension, len(request.vector)
            if width != d:
                message = f"has {width} numbers instead of {d}"
                raise InvalidError([FieldError(("vector",), message)])
            vector = np.array(request.vector, np.float64)
            if not vector.any():
                raise InvalidError([FieldError(("vector",), "a zero vector has no direction")])
            nearest, resolution = model.neighbors(vector, request.k), None
    return Neighbors([Neighbor(*neighbor) for neighbor in nearest], resolution)


def query_token(model: Model, word: str, case: Case = "auto") -> ResolvedToken:
    """Return the word, or the phrase of several words, as a token.

    Raises UnknownWordError if it has no vector. The vector of a phrase is never composed.
    """
    words = word.split() or [word]
    if len(word) <= MAX_WORD_LENGTH and model.vocabulary.row(word) is not None:
        words = [word]  # an imported entry may contain a space
    # More words than those of a phrase are no phrase, and are not looked up.
    tokens = resolve_all(words[: Tokenizer.PHRASE_WORDS], model.vocabulary, case, model.composes)
    tokens = model.tokenizer.join(tokens, case)
    if len(tokens) > 1 or len(words) > Tokenizer.PHRASE_WORDS:
        hint = "Give one word, or a phrase of the vocabulary."
        error = FieldError(("word",), "is no phrase of the vocabulary")
        raise UnknownWordError([error], hint=hint)
    if tokens[0].resolution == "oov":
        hint = 'Try another spelling, or `case: "auto"`.'
        raise UnknownWordError([FieldError(("word",), "not in the vocabulary")], hint=hint)
    return tokens[0]
