"""Occurrences of a word: the vectors of what surrounds them, and the points that are clustered.

The points are a projection, which a model folder has in `senses.safetensors`. For the bundled
model, it is a linear discriminant (Fisher 1936): directions in which the surroundings of one word
vary count less, directions in which different words differ count more; see
`lab/factory/fit_senses.py`. An import computes a whitening of the contexts, estimated from random
sentences. For a folder without the file, the first request of a process computes it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from polyseme.engine import Floats, Integers, NonFiniteError, require_finite, unit
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import Layer, contextualize
from polyseme.models.model import Model
from polyseme.models.weights import ContextProjection
from polyseme.operations.compare import OccurrenceRequest, WordForms, locate_occurrences
from polyseme.operations.encode import (
    TokenCounts,
    record_token_counts,
    stack_indices,
    tokenize,
    word_indices,
)
from polyseme.operations.limits import Limits, current_budget
from polyseme.operations.schema import EncodeOptions
from polyseme.senses.clustering import DEFAULT_RULE
from polyseme.tokenizer import ResolvedToken, Text, Tokenized

GRAMMAR_HEADS = (0.5, 0.5)
"""Threshold and weight. A head whose `word_bias_scale` is below the threshold attends to adjacent
words for grammar, which blurs the clusters, so its columns are multiplied by the weight."""
REACH = 2
"""Distance in words at which another word has 1/e of its weight, in `surroundings`."""
SHRINKAGE = 1.0
"""The part of the mean variance that is added to each variance."""
RANDOM_SENTENCES, RANDOM_WORDS = 400, 20
"""The number of random sentences, and of the words in each."""
BIAS_RANGE = (-6.9, -1e-9)
"""The word biases of an import: log(1e-3/(1e-3 + p)) for frequencies p from 1 to 1e-12."""
SEED = 1
EQUAL = 1e-5
"""Contexts nearer than this to the mean differ from it by rounding errors only."""
_BLOCK_OCCURRENCES, _BLOCK_VALUES = 64, 1 << 22
"""Occurrences of a stack are computed together; these bounds limit memory."""
HIDDEN = ResolvedToken("", None, None, None, "oov", None)
"""A token that hides a word: it has no vector, and no other token is an occurrence of its word."""
_estimated: WeakKeyDictionary[Model, ContextProjection] = WeakKeyDictionary()


class Located(NamedTuple):
    """The m occurrences of a word, and the sentences that have any."""

    sentences: list[Tokenized]
    positions: list[list[int]]
    """the positions of the occurrences in each sentence"""
    texts: list[int]
    """[m], the index of each occurrence in `texts` or `occurrences` of the request"""
    indices: list[int | None]
    """[m], the index of each occurrence in a list of words; None in a string"""
    counts: TokenCounts
    """those of all sentences that were tokenized"""


def locate(
    model: Model,
    texts: Sequence[Text] | None,
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
        sentences, tokens = locate_occurrences(model, occurrences, options, limits)
        of_texts = [[*at] for at in tokens]
        positions = [[*at.values()] for at in tokens]
        texts = [occurrences[first].text for first, *_ in of_texts]
    else:
        texts = texts or []
        limits.check("max_sentences", len(texts))
        possible = []
        for index, text in enumerate(texts):
            current_budget().check()
            if word.may_occur(text):
                possible.append(index)
        texts = [texts[i] for i in possible]
        sentences = tokenize(model, texts, options, limits, lambda n: ("texts", possible[n]))
        positions = [word.indices(token.text for token in one.tokens) for one in sentences]
        limits.check("max_occurrences", sum(map(len, positions)))
        of_texts = [[i] * len(at) for i, at in zip(possible, positions, strict=True)]
    indices: list[int | None] = []
    for text, sentence, at in zip(texts, sentences, positions, strict=True):
        in_list = [] if isinstance(text, str) or not at else word_indices(text, sentence.tokens)
        indices += [in_list[i] if in_list else None for i in at]
    present = [sentence for sentence, at in zip(sentences, positions, strict=True) if at]
    counts = record_token_counts(sentences)
    return Located(present, [*filter(None, positions)], [*chain(*of_texts)], indices, counts)


class SentenceContexts(NamedTuple):
    """The contexts of p tokens of a sentence of n tokens."""

    sentence: int
    """index of the sentence"""
    vectors: Floats
    """[n, d], the static vectors"""
    static: Floats
    """[n, d], the same of norm 1"""
    informativeness: Floats
    """[n], exp(word bias), at most 1"""
    contexts: Floats
    """[p, d], of norm 1, or zero without a known word to attend to"""
    weights: Floats
    """[h, p, n], attention weights of the last layer; empty unless requested"""


def contextualize_at(
    model: Model,
    sentences: Sequence[Sequence[ResolvedToken]],
    positions: Sequence[Sequence[int]],
    *,
    weights: bool = False,
) -> Iterator[SentenceContexts]:
    """Yield the contexts of the tokens at `positions` of each sentence that has any.

    The context of a token is the output of the last layer's attention before the residual, or the
    contextual vector if the residual is not `unit`; it is scaled to norm 1. Without `weights`, the
    attention of the last layer is computed for these tokens only, and the last bits may differ.
    """
    *others, last = model.layers
    is_unit = last.residual.kind == "unit"
    chosen = [i for i, at in enumerate(positions) if at]
    for stack in stack_indices([len(sentences[i]) for i in chosen]):
        current_budget().check()
        indices = [chosen[i] for i in stack]
        inputs = model.stack([sentences[i] for i in indices])
        whole = weights or not is_unit
        record = ("weights",) if weights else ()
        result = contextualize(inputs, model.layers if whole else others, record, (len(others),))
        at = np.array([*chain.from_iterable(positions[i] for i in indices)])
        counts = [len(positions[i]) for i in indices]
        rows = np.repeat(np.arange(len(indices)), counts)
        with np.errstate(all="ignore"):  # `require_finite` detects an overflow
            if whole:
                contexts = (result.attended if is_unit else result.contextual)[rows, at]
            else:
                contexts = _attended_at(last, result.contextual, inputs, rows, at)
            contexts = require_finite(unit(contexts * _column_factors(model)))
        static = unit(inputs.vectors).astype(np.float64)
        informative = _informativeness(inputs)
        parts = np.split(contexts, np.cumsum(counts)[:-1])
        for row, (i, part) in enumerate(zip(indices, parts, strict=True)):
            shown = result.records[-1]["weights"][row][:, positions[i]] if weights else np.empty(0)
            yield SentenceContexts(
                i, inputs.vectors[row], static[row], informative[row], part, shown
            )


def _attended_at(
    layer: Layer, x: Floats, inputs: SentenceArrays, rows: Integers, at: Integers
) -> Floats:
    """Return the output of attention at p tokens of a stack, in blocks. [B, n, d] -> [p, d]"""
    # Each occurrence has a copy of the keys and of the values.
    size = min(max(_BLOCK_VALUES // x[0].size, 1), _BLOCK_OCCURRENCES)
    parts = []
    for start in range(0, len(at), size):
        current_budget().check()
        block = slice(start, start + size)
        parts.append(layer.attended_at(x, inputs, rows[block], at[block]))
    return np.concatenate(parts)


def _column_factors(model: Model) -> Floats | float:
    """Return the factors of a context's columns, 1 if there are none. -> [d]"""
    layer = model.layers[-1]
    scale = layer.scoring.word_bias_scale
    # Without an output projection, each head fills its own columns of a sum.
    if scale is None or layer.output.weight is not None or layer.residual.kind != "unit":
        return 1.0
    factors = np.where(scale < GRAMMAR_HEADS[0], np.float32(GRAMMAR_HEADS[1]), np.float32(1))
    return np.repeat(factors, model.manifest.dimension // len(factors))


@dataclass(frozen=True)
class WordOccurrence:
    """An occurrence of a word, with its static vector and what surrounds it."""

    sentence: int
    """index of the sentence"""
    position: int
    """index of the token in the sentence"""
    token: ResolvedToken
    static: Floats
    """[d]"""
    surroundings: Floats
    """[3d]: the context, and two means of the static vectors of the other words"""
    words: Sequence[str]
    """the w distinct words of the text that have a letter or digit, casefolded; the occurrences of
    a text share them"""
    attended: Floats
    """[w]: attention weight (mean of the heads) times informativeness of each of `words`; 0 for the
    word of the occurrence"""

    @property
    def context(self) -> Floats:
        """The context, of norm 1, or zero without a known word to attend to. [d]"""
        return self.surroundings[: len(self.static)]


def encode_occurrences(
    model: Model, sentences: Sequence[Sequence[ResolvedToken]], positions: Sequence[Sequence[int]]
) -> list[WordOccurrence]:
    """Return the tokens at `positions` of each sentence, in order."""
    occurrences: list[list[WordOccurrence]] = [[] for _ in sentences]
    for one in contextualize_at(model, sentences, positions, weights=True):
        tokens, at = sentences[one.sentence], positions[one.sentence]
        ids, spellings = _word_ids(tokens)
        surroundings = _surroundings(one, ids, at)
        # Function words get attention because they are adjacent, not because they indicate a sense.
        attention = one.weights.mean(axis=0) * one.informativeness
        statics = one.vectors[at]
        shown = [i for i, word in enumerate(spellings) if any(map(str.isalnum, word))]
        words = [spellings[i] for i in shown]
        for row, position in enumerate(at):
            attended = np.bincount(ids, attention[row], len(spellings)).astype(np.float64)
            attended[ids[position]] = 0
            occurrences[one.sentence].append(
                WordOccurrence(
                    one.sentence,
                    position,
                    tokens[position],
                    statics[row],
                    surroundings[row],
                    words,
                    attended[shown],
                )
            )
    return [occurrence for of_sentence in occurrences for occurrence in of_sentence]


def surround(
    model: Model, sentences: Sequence[Sequence[ResolvedToken]], positions: Sequence[Sequence[int]]
) -> Floats:
    """Return the surroundings of the tokens at `positions` of each sentence, in order. -> [m, 3d]

    They are those of `encode_occurrences`: the context, a mean of unit static vectors weighted by
    informativeness, and one also weighted by the distance; each is scaled to norm 1.
    """
    rows: list[Floats] = [np.empty((0, 3 * model.manifest.dimension))] * len(sentences)
    for one in contextualize_at(model, sentences, positions):
        ids, _ = _word_ids(sentences[one.sentence])
        rows[one.sentence] = _surroundings(one, ids, positions[one.sentence])
    return np.concatenate([part for part in rows if len(part)])


def _word_ids(tokens: Sequence[ResolvedToken]) -> tuple[Integers, list[str]]:
    """Return the same index for tokens that differ only in case, and the words. -> [n], [w]"""
    first: dict[str, int] = {}
    ids = [first.setdefault(token.text.casefold(), len(first)) for token in tokens]
    return np.array(ids, np.int64), list(first)


def _informativeness(inputs: SentenceArrays) -> Floats:
    """Return exp(word bias), at most 1, and 1 without word biases. -> [B, n]"""
    if inputs.word_bias is None:
        return np.ones(inputs.words.shape, np.float32)
    return np.exp(np.minimum(inputs.word_bias, 0))


def _surroundings(one: SentenceContexts, ids: Integers, positions: Sequence[int]) -> Floats:
    """Return the surroundings of p tokens; no mean has the words of their own id. -> [p, 3d]"""
    at = np.array(positions)[:, None]
    others = (ids != ids[at]).astype(np.float32)
    others *= one.informativeness
    near = others * np.exp(-np.abs(np.arange(len(ids)) - at) / REACH)
    # One product per occurrence, so that the bits of its means do not depend on the others.
    means: NDArray[np.float32] = (np.stack([others, near], axis=1) @ one.static).astype(np.float32)
    parts = np.concatenate([one.contexts[:, None], unit(means)], axis=1)
    return parts.reshape(len(parts), -1)


def explain(
    model: Model, tokens: Sequence[ResolvedToken], examples: Sequence[tuple[int, Floats]]
) -> Iterator[Floats]:
    """Yield what each token adds to the product of a direction and a context. -> [n] each

    `examples` are the positions of tokens, and directions [d]. A context is a sum over all tokens,
    so the sum of a result is the product ⟨context, direction⟩, but for the bias of an output
    projection. The last residual of the model must be `unit`.
    """
    inputs, factors = model.inputs(tokens), _column_factors(model)
    layer, last = model.layers[-1], len(model.layers) - 1
    result = contextualize(inputs, model.layers, ("weights", "values"), (last,))
    weights, values = result.records[last]["weights"], result.records[last]["values"]
    values = values.astype(np.float64)
    for position, direction in examples:
        current_budget().check()
        weighted = direction * factors
        if layer.output.weight is not None:
            weighted = layer.output.weight @ weighted
        products = (values @ weighted.reshape(layer.heads, -1, 1))[..., 0]
        length = np.linalg.norm(result.attended[position].astype(np.float64) * factors)
        yield (weights[:, position] * products).sum(axis=0) / (length or 1)


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
    bias, all words are equally frequent. The directions are at most as many as the sentences; those
    in which contexts vary more count less. -> [d], [d, r]
    """
    size, d = model.manifest.vocabulary_size, model.manifest.dimension
    bias = np.zeros(size, np.float32) if model.word_bias is None else model.word_bias
    frequencies = np.expm1(-np.clip(bias, *BIAS_RANGE))

    def token(row: int) -> ResolvedToken:
        word = model.vocabulary.word(row)
        return ResolvedToken(word, None, None, word, "exact", row)

    contexts = _random_surroundings(model, frequencies, token)[:, :d]
    mean = contexts.mean(axis=0)
    _, deviations, directions = np.linalg.svd(contexts - mean, full_matrices=False)
    variances = deviations**2 / len(contexts)
    shrunk = variances + SHRINKAGE * variances.sum() / len(mean)
    scales = 1 / np.sqrt(np.maximum(shrunk, EQUAL**2))
    return ContextProjection(mean, directions.T * scales, np.array(DEFAULT_RULE))


def recenter(
    model: Model, projection: ContextProjection, tokens: Sequence[ResolvedToken]
) -> ContextProjection:
    """Return a projection with the mean of texts, estimated from random sentences of their tokens.

    This mean is near that of the texts' own sentences (cosine 0.98), and needs less text.
    """
    tokens, width = sorted(tokens, key=attrgetter("text")), len(projection.mean)
    rows = _random_surroundings(model, np.ones(len(tokens)), tokens.__getitem__)
    return projection._replace(mean=unit(rows[:, :width]).mean(axis=0))


def _random_surroundings(
    model: Model, frequencies: Floats, token: Callable[[int], ResolvedToken]
) -> Floats:
    """Return the surroundings of a hidden word in random sentences of some tokens. -> [s, 3d]

    A sentence whose context is zero, or whose vectors are too large, is left out.
    """
    cumulative = np.cumsum(frequencies, dtype=np.float64)
    drawn = np.random.default_rng(SEED).random((RANDOM_SENTENCES, RANDOM_WORDS)) * cumulative[-1]
    d, middle = model.manifest.dimension, RANDOM_WORDS // 2
    hidden = []
    for indices in np.searchsorted(cumulative, drawn).tolist():
        tokens = [token(i) for i in indices]
        tokens.insert(middle, HIDDEN)
        with suppress(NonFiniteError):
            hidden.append(surround(model, [tokens], [[middle]])[0])
    hidden = [one for one in hidden if one[:d].any()] or [np.zeros(3 * d)] * RANDOM_SENTENCES
    return np.array(hidden, np.float64)
