"""Occurrences of a word: the vectors of what surrounds them, and the points that are clustered.

The points are a projection, which a model folder has in `senses.safetensors`. For the bundled
model, it is a linear discriminant (Fisher 1936): directions in which the surroundings of one word
vary count less, directions in which different words differ count more; see
`lab/factory/fit_senses.py`. An import computes a whitening of the contexts, estimated from random
sentences. For a folder without the file, the first request of a process computes it.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats, Integers, NonFiniteError, require_finite, unit
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import Contextualized, contextualize
from polyseme.models.model import Model
from polyseme.models.weights import ContextProjection
from polyseme.operations.compare import (
    OccurrenceRequest,
    locate_occurrences,
    match_forms,
    may_occur,
    word_places,
)
from polyseme.operations.encode import contextualize_each, stacks, tokenize
from polyseme.operations.limits import Limits, check_budget
from polyseme.operations.options import EncodeOptions
from polyseme.senses.clustering import DEFAULT_RULE
from polyseme.tokenizer import ResolvedToken, Tokenized

GRAMMAR_HEADS = (0.5, 0.5)
"""Threshold and weight. A head whose `word_bias_scale` is below the threshold attends to adjacent
words for grammar, which blurs the clusters, so its columns are multiplied by the weight."""
_OCCURRENCES_AT_ONCE, _NUMBERS_AT_ONCE = 64, 1 << 22
"""Occurrences of a text are computed together; these bounds limit memory."""
REACH = 2
"""Distance in words at which another word has 1/e of its weight, in `surroundings`."""
SHRINKAGE = 1.0
"""The part of the mean variance that is added to each variance."""
RANDOM_SENTENCES, RANDOM_WORDS = 400, 20
"""The number of random sentences, and of the words in each."""
BIAS_RANGE = (-6.9, -1e-9)
"""The word biases of an import: log(1e-3/(1e-3 + p)) for frequencies p from 1 to 1e-12."""
SEED = 1
_ROWS_AT_ONCE = 1024
"""Occurrences that are projected together; this bound limits memory."""
EQUAL = 1e-5
"""Contexts nearer than this to the mean differ from it by rounding errors only."""
HIDDEN = ResolvedToken("", None, None, None, "oov", None)
"""A token that hides a word: it has no vector, and no other token is an occurrence of its word."""
_estimated: WeakKeyDictionary[Model, ContextProjection] = WeakKeyDictionary()


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


class WordForms(NamedTuple):
    """How the occurrences of a word are found in texts."""

    forms: Sequence[str]
    """the word and its other forms"""
    exact: bool
    """whether an occurrence must have the case of a form"""
    phrases: bool
    """whether consecutive words become one token if the vocabulary has their phrase"""


class Located(NamedTuple):
    """Sentences, the places of the occurrences in each, and the numbers of their texts."""

    sentences: list[Tokenized]
    places: list[list[int]]
    numbers: list[list[int]]
    """indices of `texts` or `occurrences` in the request"""


def locate(
    model: Model,
    texts: Sequence[str] | None,
    occurrences: Sequence[OccurrenceRequest] | None,
    word: WordForms,
    limits: Limits,
) -> Located:
    """Tokenize the texts or the occurrences of a request, and find the occurrences of a word.

    In texts, an occurrence is a token that equals a form of the word. A text in which no form
    occurs, not even as a part of a token, is not tokenized, and no limit on tokens counts it. A
    text that has several of the given occurrences is tokenized once. Raises InvalidError if a given
    occurrence is not in its text, TooLargeError if there are too many, and the errors of
    `tokenize`.
    """
    options = EncodeOptions(phrases=word.phrases)
    if occurrences is not None:
        limits.check("max_occurrences", len(occurrences))
        sentences, found = locate_occurrences(model, occurrences, options, limits)
        return Located(sentences, [[*at.values()] for at in found], [[*at] for at in found])
    texts = texts or []
    limits.check("max_sentences", len(texts))
    wanted = match_forms(word.forms, exact=word.exact)
    having = []
    for index, text in enumerate(texts):
        check_budget()
        if may_occur(text, wanted, exact=word.exact):
            having.append(index)
    sentences = tokenize(
        model, [texts[index] for index in having], options, limits, lambda n: ("texts", having[n])
    )
    spelled = ([token.text for token in sentence.words] for sentence in sentences)
    places = [word_places(words, wanted, exact=word.exact) for words in spelled]
    limits.check("max_occurrences", sum(map(len, places)))
    numbers = [[index] * len(at) for index, at in zip(having, places, strict=True)]
    return Located(sentences, places, numbers)


def encode_occurrences(
    model: Model, sentences: Sequence[Sequence[ResolvedToken]], places: Sequence[Sequence[int]]
) -> list[FoundOccurrence]:
    """Return the tokens at `places` of each sentence as occurrences, in the order of the sentences.

    The context of a token is the output of the last layer's attention before the residual, or the
    contextual vector if the residual is not `unit`; it is scaled to norm 1. The other two parts of
    the surroundings are means of unit static vectors: weighted by informativeness, and also by the
    distance. They are scaled to norm 1 as well.
    """
    texts = [text for text, where in enumerate(places) if where]
    encoded: dict[int, list[FoundOccurrence]] = {}
    for number, inputs, result in contextualize_each(model, [sentences[text] for text in texts]):
        text = texts[number]
        tokens, where = sentences[text], places[text]
        encoded[text] = _occurrences_of(model, tokens, where, text, inputs, result)
    return list(chain.from_iterable(encoded[text] for text in texts))


def _occurrences_of(
    model: Model,
    tokens: Sequence[ResolvedToken],
    places: Sequence[int],
    text: int,
    inputs: SentenceArrays,
    result: Contextualized,
) -> list[FoundOccurrence]:
    """Return the tokens at `places` as occurrences in text number `text`."""
    numbers: dict[str, int] = {}
    names = np.array(
        [numbers.setdefault(token.text.casefold(), len(numbers)) for token in tokens], np.int64
    )
    surroundings = _surroundings(model, inputs, result, names, places)
    contexts = surroundings[:, : inputs.vectors.shape[1]].copy()
    # Function words get attention because they are adjacent, not because they indicate a sense.
    informative = _informativeness(inputs)
    weights, statics = result.records[-1]["weights"], inputs.vectors[places]
    words = [name for name in numbers if any(letter.isalnum() for letter in name)]
    shown = [numbers[name] for name in words]
    found = []
    for number, place in enumerate(places):
        attention = weights[:, place].mean(axis=0) * informative
        attended = np.bincount(names, attention, len(numbers)).astype(np.float64, copy=False)
        attended[names[place]] = 0
        token = tokens[place]
        found.append(
            FoundOccurrence(
                text,
                token.start,
                token.end,
                token.key,
                statics[number],
                contexts[number],
                surroundings[number],
                words,
                attended[shown],
            )
        )
    return found


def surround(
    model: Model, sentences: Sequence[Sequence[ResolvedToken]], places: Sequence[Sequence[int]]
) -> Floats:
    """Return the surroundings of the tokens at `places` of each sentence, in order. -> [m, 3d]

    They are those of `encode_occurrences`; the last bits may differ if the model has one layer,
    whose attention is then computed for these tokens only. Sentences of equal length are computed
    together, with the bits of each alone.
    """
    single = len(model.layers) == 1 and model.layers[0].residual.kind == "unit"
    rows: list[Floats] = [np.empty(0)] * len(sentences)
    if not single:
        for number, inputs, result in contextualize_each(model, sentences):
            names = _names(sentences[number])
            rows[number] = _surroundings(model, inputs, result, names, places[number])
        return np.concatenate(rows)
    for stack in stacks([len(tokens) for tokens in sentences]):
        inputs = model.stack([sentences[number] for number in stack])
        informative = _informativeness(inputs)
        static = unit(inputs.vectors).astype(np.float64)
        counts = [len(places[number]) for number in stack]
        at = np.fromiter(chain.from_iterable(places[number] for number in stack), np.int64)
        found: list[Floats] = []
        of_sentences = np.repeat(np.arange(len(stack)), counts)
        # Each occurrence has a copy of the keys and of the values.
        step = min(max(_NUMBERS_AT_ONCE // inputs.vectors[0].size, 1), _OCCURRENCES_AT_ONCE)
        for first in range(0, len(at), step):
            check_budget()
            part = slice(first, first + step)
            with np.errstate(all="ignore"):  # `_scaled` tests whether the result is finite
                attended = model.layers[0].attended_at(
                    inputs.vectors, inputs, of_sentences[part], at[part]
                )
            found.append(_scaled(model, attended))
        contexts = np.split(np.concatenate(found), np.cumsum(counts)[:-1])
        for place, number in enumerate(stack):
            here = places[number]
            means = _means(_names(sentences[number]), informative[place], static[place], here)
            parts = np.concatenate([contexts[place][:, None], unit(means)], axis=1)
            rows[number] = parts.reshape(len(here), -1)
    return np.concatenate(rows)


def _names(tokens: Sequence[ResolvedToken]) -> Integers:
    """Return the same number for tokens that differ only in case. -> [n]"""
    first: dict[str, int] = {}
    texts = (token.text.casefold() for token in tokens)
    return np.array([first.setdefault(text, len(first)) for text in texts], np.int64)


def _surroundings(
    model: Model,
    inputs: SentenceArrays,
    result: Contextualized,
    names: Integers,
    places: Sequence[int],
) -> Floats:
    """Return the surroundings of p tokens; those of one word have the same name. -> [p, 3d]"""
    static = unit(inputs.vectors).astype(np.float64)
    means = _means(names, _informativeness(inputs), static, places)
    parts = np.concatenate([_contexts(model, result, places)[:, None], unit(means)], axis=1)
    return parts.reshape(len(places), -1)


def _contexts(model: Model, result: Contextualized, places: Sequence[int]) -> Floats:
    """Return the contexts of the tokens at p places, of norm 1. -> [p, d]"""
    if model.layers[-1].residual.kind != "unit":
        return require_finite(unit(result.contextual[places]))
    return _scaled(model, result.attended[places])


def _scaled(model: Model, rows: Floats) -> Floats:
    """Weight the columns of outputs of attention, and scale them to norm 1. [p, d] -> [p, d]"""
    factors = _column_factors(model)
    return require_finite(unit(rows if factors is None else rows * factors))


def _column_factors(model: Model) -> Floats | None:
    """Return the factors of a context's columns, None if all are 1. -> [d]"""
    layer = model.layers[-1]
    scale = layer.scoring.word_bias_scale
    # Without an output projection, each head fills its own columns.
    if scale is None or layer.output.weight is not None:
        return None
    factors = np.where(scale < GRAMMAR_HEADS[0], np.float32(GRAMMAR_HEADS[1]), np.float32(1))
    return np.repeat(factors, model.manifest.dimension // len(factors))


class ContextExplainer:
    """Explains the contexts of occurrences in one text, which is encoded once."""

    def __init__(self, model: Model, tokens: Sequence[ResolvedToken]) -> None:
        """Encode the tokens with a model whose last residual is `unit`."""
        last = len(model.layers) - 1
        inputs = model.sentence(tokens)
        result = contextualize(inputs, model.layers, ("weights", "values"), (last,))
        self._layer, self._factors = model.layers[last], _column_factors(model)
        self._weights, values = result.records[last]["weights"], result.records[last]["values"]
        self._values = values.astype(np.float64)
        self._attended = result.attended

    def project(self, direction: Floats) -> Floats:
        """Return the product of a direction and each token's values. [d] -> [h, n]"""
        if self._factors is not None:
            direction = direction * self._factors
        if self._layer.output.weight is not None:
            direction = self._layer.output.weight @ direction
        by_head = direction.reshape(self._layer.heads, -1, 1)
        products: Floats = (self._values @ by_head)[..., 0]
        return products

    def __call__(self, place: int, products: Floats) -> Floats:
        """Return what each token adds to the product of a direction and a context. [h, n] -> [n]

        `products` are those of `project`. The context of the token at `place` is a sum over all
        tokens, so the sum of the result is the product ⟨context, direction⟩, but for the bias of an
        output projection.
        """
        row = self._attended[place].astype(np.float64)
        if self._factors is not None:
            row *= self._factors
        added: Floats = (self._weights[:, place] * products).sum(axis=0)
        return added / (np.linalg.norm(row) or 1)


def _informativeness(inputs: SentenceArrays) -> Floats:
    """Return exp(word bias), at most 1, and 1 without word biases. -> [..., n]"""
    if inputs.word_bias is None:
        return np.ones(inputs.words.shape, np.float32)
    return np.exp(np.minimum(inputs.word_bias, 0))


def _means(
    names: Integers, informative: Floats, static: Floats, places: Sequence[int]
) -> NDArray[np.float32]:
    """Return both means of the static vectors around p places. [n], [n], [n, d] -> [p, 2, d]

    Tokens with the same number in `names` are the same word, which no mean has.
    """
    means = np.empty((len(places), 2, static.shape[1]), np.float32)
    for first in range(0, len(places), _OCCURRENCES_AT_ONCE):
        check_budget()
        block = np.array(places[first : first + _OCCURRENCES_AT_ONCE])[:, None]
        others = (names != names[block]).astype(np.float32)
        others *= informative
        near = others * np.exp(-np.abs(np.arange(len(names)) - block) / REACH)
        # One product per occurrence, so that the bits of its means do not depend on the others.
        means[first : first + len(block)] = np.stack([others, near], axis=1) @ static
    return means


def project_occurrences(found: Sequence[FoundOccurrence], projection: ContextProjection) -> Floats:
    """Return the points to cluster. -> [m, r]"""
    parts = (found[at : at + _ROWS_AT_ONCE] for at in range(0, len(found), _ROWS_AT_ONCE))
    return np.concatenate(
        [project(np.stack([one.surroundings for one in part]), projection) for part in parts]
    )


def project(surroundings: Floats, projection: ContextProjection) -> Floats:
    """Project the first c columns of surroundings, where c is the length of the mean.

    The points have norm 1. A row that is zero or equal to the mean becomes zero. [m, 3d] -> [m, r]
    """
    rows = unit(surroundings[:, : len(projection.mean)].astype(np.float64))
    centered = rows - projection.mean
    distinct = rows.any(axis=1) & (np.linalg.norm(centered, axis=1) > EQUAL)
    return unit(np.where(distinct[:, None], centered @ projection.directions, 0))


def find_projection(model: Model) -> ContextProjection:
    """Return the projection in the folder of a model, or an estimated one."""
    if model.senses is not None:
        return model.senses
    if model not in _estimated:
        # Several threads may estimate it at the same time, with equal results.
        _estimated[model] = estimate_projection(model)
    return _estimated[model]


def estimate_projection(model: Model) -> ContextProjection:
    """Estimate the mean and the whitening of a model's contexts from random sentences.

    The words are drawn by their frequency, which follows from the word bias of an import
    (`importing.closed_form.informativeness`), and approximately from a trained one. Without a word
    bias, all words are equally frequent. Each sentence has a hidden word, whose context is used
    unless it is zero or the vectors are too large. The directions are at most as many as the
    sentences; those in which contexts vary more count less. -> [d], [d, r]
    """
    size, d = model.manifest.vocabulary_size, model.manifest.dimension
    bias = np.zeros(size, np.float32) if model.word_bias is None else model.word_bias
    cumulative = np.cumsum(np.expm1(-np.clip(bias, *BIAS_RANGE)), dtype=np.float64)
    drawn = np.random.default_rng(SEED).random((RANDOM_SENTENCES, RANDOM_WORDS)) * cumulative[-1]
    place = RANDOM_WORDS // 2
    found = []
    for rows in np.searchsorted(cumulative, drawn).tolist():
        words = [(model.vocabulary.word(row), row) for row in rows]
        tokens = [ResolvedToken(word, None, None, word, "exact", row) for word, row in words]
        tokens.insert(place, HIDDEN)
        with suppress(NonFiniteError):
            found.append(surround(model, [tokens], [[place]])[0, :d])
    found = [context for context in found if context.any()] or [np.zeros(d)] * RANDOM_SENTENCES
    contexts = np.array(found, np.float64)
    mean = contexts.mean(axis=0)
    _, deviations, directions = np.linalg.svd(contexts - mean, full_matrices=False)
    variances = deviations**2 / len(contexts)
    shrunk = variances + SHRINKAGE * variances.sum() / len(mean)
    scales = 1 / np.sqrt(np.maximum(shrunk, EQUAL**2))
    return ContextProjection(mean, directions.T * scales, np.array(DEFAULT_RULE))
