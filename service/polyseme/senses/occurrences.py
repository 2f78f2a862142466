"""Occurrences of a word, and the vectors of what surrounds them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polyseme.engine.arrays import Floats, Integers, require_finite, unit
from polyseme.engine.layers import contextualize
from polyseme.models.model import Model
from polyseme.operations.work import check_request
from polyseme.tokenizer import ResolvedToken

GRAMMAR_HEADS = (0.5, 0.5)
"""Threshold and weight. A head whose `word_bias_scale` is below the threshold attends to adjacent
words for grammar, which blurs the clusters, so its columns are multiplied by the weight."""
_OCCURRENCES_AT_ONCE = 64
"""Occurrences of a text are computed together; this bound limits memory."""
REACH = 2
"""Distance in words at which another word has 1/e of its weight, in `surroundings`."""


@dataclass(frozen=True)
class FoundOccurrence:
    """An occurrence of the word, with its static vector and its context."""

    text: int
    """index of the text"""
    start: int | None
    end: int | None
    key: str | None
    static: Floats
    """[d]"""
    context: Floats
    """[d], of norm 1, or zero without a known word to attend to"""
    surroundings: Floats
    """[3d]: the context, and two means of the static vectors of the other words"""
    words: Sequence[str]
    """the w distinct words of the text that have a letter or digit, casefolded; the occurrences of
    a text share them"""
    attended: Floats
    """[w]: attention weight (mean of the heads) times informativeness of each of `words`; 0 for the
    word of the occurrence"""


def encode_occurrences(
    model: Model, tokens: Sequence[ResolvedToken], places: Sequence[int], text: int
) -> list[FoundOccurrence]:
    """Return the tokens at `places` as occurrences in text number `text`.

    The context of a token is the output of the last layer's attention before the residual, or the
    contextual vector if the residual is not `unit`; it is scaled to norm 1. The other two parts of
    the surroundings are means of unit static vectors: weighted by informativeness, and also by the
    distance. They are scaled to norm 1 as well.
    """
    check_request()
    inputs = model.sentence(tokens)
    last = len(model.layers) - 1
    result = contextualize(inputs, model.layers, ("weights",), (last,))
    separate = model.layers[last].residual.kind == "unit"
    rows = (result.attended if separate else result.contextual)[places]
    scale = model.layers[last].scoring.word_bias_scale
    if separate and scale is not None and model.layers[last].output.weight is None:
        # Without an output projection, each head fills its own columns.
        factors = np.where(scale < GRAMMAR_HEADS[0], np.float32(GRAMMAR_HEADS[1]), np.float32(1))
        rows = rows * np.repeat(factors, rows.shape[1] // len(factors))
    contexts = require_finite(unit(rows))
    # Function words get attention because they are adjacent, not because they indicate a sense.
    informative = None if inputs.word_bias is None else np.exp(np.minimum(inputs.word_bias, 0))
    numbers: dict[str, int] = {}
    names = np.array(
        [numbers.setdefault(token.text.casefold(), len(numbers)) for token in tokens], np.int64
    )
    means = _means_of_others(unit(inputs.vectors), names, places, informative)
    parts = np.concatenate([contexts[:, None], unit(means)], axis=1)
    surroundings = parts.reshape(len(places), -1)
    weights = result.records[last]["weights"]
    attended = _attended(weights, names, len(numbers), places, informative)
    words = [name for name in numbers if any(letter.isalnum() for letter in name)]
    attended = attended[:, [numbers[name] for name in words]]
    statics = inputs.vectors[places]
    found = []
    for number, place in enumerate(places):
        one = tokens[place]
        arrays = (statics[number], contexts[number], surroundings[number])
        found.append(
            FoundOccurrence(*(text, one.start, one.end, one.key), *arrays, words, attended[number])
        )
    return found


def _means_of_others(
    static: Floats, names: Integers, places: Sequence[int], informative: Floats | None
) -> Floats:
    """Return two weighted sums of the static vectors of other words. [n, d], [n], … -> [m, 2, d]

    `places` are the indices of m tokens, `names` the numbers of the words of n tokens.
    """
    static = static.astype(np.float64)
    means = np.empty((len(places), 2, static.shape[1]), np.float32)
    for first in range(0, len(places), _OCCURRENCES_AT_ONCE):
        some = np.array(places[first : first + _OCCURRENCES_AT_ONCE])[:, None]
        others = (names != names[some]).astype(np.float32)
        if informative is not None:
            others *= informative
        near = others * np.exp(-np.abs(np.arange(len(names)) - some) / REACH)
        # One product per occurrence, so that the bits of its means do not depend on the others.
        means[first : first + len(some)] = np.stack([others, near], axis=1) @ static
    return means


def _attended(
    weights: Floats,
    names: Integers,
    count: int,
    places: Sequence[int],
    informative: Floats | None,
) -> Floats:
    """Return the attention of m tokens to each of `count` words. [h, n, n], [n], … -> [m, count]

    The weights are means of the heads, times informativeness. The own word of a token has 0.
    """
    attended = np.empty((len(places), count))
    for number, place in enumerate(places):
        row = weights[:, place].mean(axis=0)
        scaled = row if informative is None else row * informative
        attended[number] = np.bincount(names, scaled, count)
        attended[number, names[place]] = 0
    return attended
