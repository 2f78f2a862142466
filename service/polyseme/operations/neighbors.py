"""The words whose static vectors are nearest to a word or a vector."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from polyseme.errors import FieldError, InvalidError, UnknownWordError
from polyseme.models.model import Model
from polyseme.tokenizer import MAX_WORD_LENGTH, Case, ResolvedToken, Tokenizer, resolve_all


class Neighbor(NamedTuple):
    """A word and its cosine similarity."""

    word: str
    similarity: float


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
        raise UnknownWordError([FieldError("/word", "is no phrase of the vocabulary")], hint=hint)
    if tokens[0].resolution == "oov":
        hint = 'Try another spelling, or `case: "auto"`.'
        raise UnknownWordError([FieldError("/word", "not in the vocabulary")], hint=hint)
    return tokens[0]


def neighbors_of_word(model: Model, word: str, k: int, case: Case = "auto") -> list[Neighbor]:
    """Return the k nearest other words; raise UnknownWordError if the word has no vector."""
    return neighbors_of_token(model, query_token(model, word, case), k)


def neighbors_of_token(model: Model, token: ResolvedToken, k: int) -> list[Neighbor]:
    """Return the k words nearest to a token with a vector, without the token's own entry."""
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
