"""The words whose static vectors are nearest to a word's or to a brought vector."""

from collections.abc import Sequence

import numpy as np

from polyseme.errors import FieldError, InvalidError, UnknownWordError
from polyseme.models.model import Model
from polyseme.tokenizer import Case, resolve_all


def neighbours_of_word(model: Model, word: str, k: int, case: Case) -> list[tuple[str, float]]:
    """The nearest words without the word itself; raise UnknownWordError where it is lacking."""
    (token,) = resolve_all([word], model.vocabulary, case, model.composes)
    if token.resolution == "oov":
        hint = 'Try another spelling, or `case: "auto"`.'
        raise UnknownWordError([FieldError("/word", "not in the vocabulary")], hint=hint)
    itself = [] if token.row is None else [token.row]
    return model.neighbors(model.static([token])[0], k, itself)


def neighbours_of_vector(model: Model, vector: Sequence[float], k: int) -> list[tuple[str, float]]:
    """The words nearest to a vector [d]; raise InvalidError for another width or a zero vector."""
    if len(vector) != model.manifest.dimension:
        message = f"has {len(vector)} numbers, the model's vectors {model.manifest.dimension}"
        raise InvalidError([FieldError("/vector", message)])
    array = np.array(vector, np.float64)
    if not array.any():
        raise InvalidError([FieldError("/vector", "a zero vector has no direction")])
    return model.neighbors(array, k)
