"""Occurrences of a word, and the vectors of what surrounds them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polyseme.engine.arrays import Floats, require_finite, unit
from polyseme.engine.layers import contextualize
from polyseme.models.model import Model
from polyseme.tokenizer import ResolvedToken

GRAMMAR_HEADS = (0.5, 0.5)
"""Threshold and weight. A head whose `word_bias_scale` is below the threshold attends to adjacent
words for grammar, which blurs the clusters, so its columns are multiplied by the weight."""
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
    attended: dict[str, float]
    """other words, casefolded: attention weight (mean of the heads) times informativeness"""


def encode_occurrences(
    model: Model, tokens: Sequence[ResolvedToken], places: Sequence[int], text: int
) -> list[FoundOccurrence]:
    """Return the tokens at `places` as occurrences in text number `text`.

    The context of a token is the output of the last layer's attention before the residual, or the
    contextual vector if the residual is not `unit`; it is scaled to norm 1. The other two parts of
    the surroundings are means of unit static vectors: weighted by informativeness, and also by the
    distance. They are scaled to norm 1 as well.
    """
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
    weights = result.records[last]["weights"].mean(axis=0)
    # Function words get attention because they are adjacent, not because they indicate a sense.
    informative = None if inputs.word_bias is None else np.exp(np.minimum(inputs.word_bias, 0))
    names = [token.text.casefold() for token in tokens]
    static = unit(inputs.vectors)
    means = np.empty((len(places), 2, static.shape[1]), np.float32)
    for number, place in enumerate(places):
        others = np.array([name != names[place] for name in names], np.float32)
        if informative is not None:
            others *= informative
        distances = np.abs(np.arange(len(tokens)) - place)
        means[number] = np.stack([others, others * np.exp(-distances / REACH)]) @ static
    parts = np.concatenate([contexts[:, None], unit(means)], axis=1)
    surroundings = parts.reshape(len(places), -1)
    found = []
    for number, place in enumerate(places):
        attended: dict[str, float] = defaultdict(float)
        scaled = weights[place] if informative is None else weights[place] * informative
        for name, weight in zip(names, scaled.tolist(), strict=True):
            if weight > 0 and name != names[place] and any(letter.isalnum() for letter in name):
                attended[name] += weight
        one = tokens[place]
        found.append(
            FoundOccurrence(
                *(text, one.start, one.end, one.key),
                *(inputs.vectors[place], contexts[number], surroundings[number], dict(attended)),
            )
        )
    return found
