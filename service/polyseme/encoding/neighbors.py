"""The words whose static vectors are nearest to a word or a vector."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from polyseme.errors import FieldError, InvalidError, UnknownWordError
from polyseme.models.model import Model
from polyseme.tokenizer import Case, resolve_all


class Neighbor(NamedTuple):
    """A word and its cosine similarity."""

    word: str
    similarity: float


def neighbors_of_word(model: Model, word: str, k: int, case: Case = "auto") -> list[Neighbor]:
    """Return the k nearest other words; raise UnknownWordError if the word has no vector."""
    (token,) = resolve_all([word], model.vocabulary, case, model.composes)
    if token.resolution == "oov":
        hint = 'Try another spelling, or `case: "auto"`.'
        raise UnknownWordError([FieldError("/word", "not in the vocabulary")], hint=hint)
    itself = [] if token.row is None else [token.row]
    return [Neighbor(*one) for one in model.neighbors(model.static([token])[0], k, itself)]


def neighbors_of_vector(model: Model, vector: Sequence[float], k: int) -> list[Neighbor]:
    """Return the k words nearest to a vector [d]; raise InvalidError if it is zero or not [d]."""
    if len(vector) != model.manifest.dimension:
        message = f"has {len(vector)} numbers instead of {model.manifest.dimension}"
        raise InvalidError([FieldError("/vector", message)])
    array = np.array(vector, np.float64)
    if not array.any():
        raise InvalidError([FieldError("/vector", "a zero vector has no direction")])
    return [Neighbor(*one) for one in model.neighbors(array, k)]
