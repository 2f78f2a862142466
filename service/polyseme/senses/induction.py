"""Find the senses of a word in texts: cluster its occurrences and describe each cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from polyseme.engine.arrays import Flags, Floats, Integers, unit
from polyseme.engine.similarity import principal_components
from polyseme.errors import FieldError, InvalidError
from polyseme.models.model import Model
from polyseme.operations.compare import (
    NEIGHBOR_SHARE,
    OccurrenceRequest,
    find_token,
    match_forms,
    tokenize_occurrences,
    word_places,
)
from polyseme.operations.encode import TokenCounts, Tokenized, tokenize
from polyseme.operations.neighbors import Neighbor
from polyseme.operations.options import EncodeOptions, Limits
from polyseme.operations.work import (
    MULTIPLICATION,
    TextCost,
    admit,
    decomposition_work,
    encode_cost,
    search_work,
)
from polyseme.senses.clustering import (
    MAX_FOUND,
    MIN_OCCURRENCES,
    Clusters,
    cluster,
    cluster_work,
)
from polyseme.senses.occurrences import FoundOccurrence, encode_occurrences
from polyseme.senses.projection import find_projection, project_occurrences
from polyseme.stages import stage
from polyseme.tokenizer import spellings

Matching: TypeAlias = Literal["any", "exact"]
"""Whether an occurrence may differ from the word in case."""
FEW_OCCURRENCES = 30
"""With fewer occurrences, a note says that the senses are uncertain."""
OCCURRENCE, MEAN_TOKEN = 0.1, 1e-5
"""The work of an occurrence, and of each token of its text (`operations.work`)."""
CLOSE_SENSES = 0.05
"""With a smaller separation, a note says that the senses overlap."""


@dataclass(frozen=True)
class SenseOptions:
    """The number of senses to find, and what to return."""

    senses: int | None = None
    """maximum number of senses (empty clusters are dropped); None estimates the number"""
    keywords: int = 8
    neighbors: int = 5
    examples: int = 3
    with_map: bool = False


class Keyword(NamedTuple):
    """A context word of a sense and its weight."""

    word: str
    weight: float


@dataclass(frozen=True)
class Sense:
    """A cluster of occurrences."""

    size: int
    proportion: float
    keywords: list[Keyword]
    neighbors: list[Neighbor]
    examples: list[int]
    """indices of occurrences, the most typical first"""


@dataclass(frozen=True)
class SenseInventory:
    """The senses of a word, the largest first, and its occurrences."""

    word: str
    senses: list[Sense]
    occurrences: list[FoundOccurrence]
    clusters: Clusters
    notes: list[str]
    counts: TokenCounts
    positions: list[list[float]] = field(default_factory=list)
    """the first two principal components of the contexts, if requested"""


def find_senses(
    model: Model,
    word: str,
    texts: Sequence[str],
    options: SenseOptions | None = None,
    *,
    forms: Sequence[str] = (),
    matching: Matching = "any",
    phrases: bool = False,
    limits: Limits | None = None,
) -> SenseInventory:
    """Find the senses of a word from all tokens that equal `word` or one of `forms`.

    Raises InvalidError if no token does or there are fewer than `options.senses`, TooLargeError if
    there are too many, and the errors of `tokenize`.
    """
    limits = limits or Limits()
    with stage("tokens"):
        encoding = EncodeOptions(phrases=phrases)
        sentences = tokenize(model, texts, encoding, limits, lambda n: ("texts", n), TextCost())
    exact, spelled = matching == "exact", (word, *forms)
    wanted = match_forms(spelled, exact=exact)
    places = [
        word_places([token.text for token in one.tokens], wanted, exact=exact) for one in sentences
    ]
    if not any(places):
        message = "does not occur in the texts as a token"
        hint = "Check the spelling, or give other forms of the word in `forms`."
        if not phrases and any(len(one.split()) > 1 for one in spelled):
            hint = "Several words are found only with `phrases`, as a phrase of the vocabulary."
        raise InvalidError([FieldError(("word",), message)], hint)
    limits.check_occurrences(sum(map(len, places)))
    return _inventory(model, word, sentences, places, options or SenseOptions())


def senses_of_occurrences(
    model: Model,
    occurrences: Sequence[OccurrenceRequest],
    options: SenseOptions | None = None,
    *,
    phrases: bool = False,
    limits: Limits | None = None,
) -> SenseInventory:
    """Find the senses of given occurrences.

    A text that has several occurrences is tokenized and encoded once. Raises InvalidError if an
    occurrence is not in its text or there are fewer than `options.senses`, TooLargeError if there
    are too many, and the errors of `tokenize`.
    """
    limits = limits or Limits()
    limits.check_occurrences(len(occurrences))
    with stage("tokens"):
        encoding = EncodeOptions(phrases=phrases)
        sentences, texts = tokenize_occurrences(model, occurrences, encoding, limits, TextCost())
        places: list[list[int]] = [[] for _ in sentences]
        order: list[list[int]] = [[] for _ in sentences]
        for number, (text, one) in enumerate(zip(texts, occurrences, strict=True)):
            places[text].append(find_token(sentences[text].tokens, one, number))
            order[text].append(number)
    word = sentences[texts[0]].tokens[places[texts[0]][0]].text
    return _inventory(model, word, sentences, places, options or SenseOptions(), order)


def _inventory(
    model: Model,
    word: str,
    sentences: Sequence[Tokenized],
    places: Sequence[Sequence[int]],
    options: SenseOptions,
    order: Sequence[Sequence[int]] | None = None,
) -> SenseInventory:
    """Encode and cluster the tokens at `places` of each sentence.

    `order` has the index of each of them in the inventory, which is also the number of its text. By
    default they are in the order of the sentences, whose numbers are those of the texts.
    """
    with stage("attention"):
        projection = find_projection(model)
        admit(_work(model, sentences, places, options, projection.directions.shape[1]))
        found = [
            one
            for number, (sentence, where) in enumerate(zip(sentences, places, strict=True))
            if where
            for one in encode_occurrences(model, sentence.tokens, where, number)
        ]
        if order is not None:
            given = [number for numbers in order for number in numbers]
            found = [replace(found[at], text=n) for n, at in enumerate(np.argsort(given).tolist())]
    with stage("senses"):
        if options.senses is not None and options.senses > len(found):
            message = f"must be at most {len(found)}, the number of occurrences"
            raise InvalidError([FieldError(("senses",), message)])
        contexts = np.stack([one.context for one in found])
        points = project_occurrences(found, projection)
        clusters = cluster(points, options.senses, projection.rule)
        senses = describe(model, found, clusters, options)
        positions: list[list[float]] = []
        if options.with_map:
            positions = principal_components(contexts.astype(np.float64))[0].tolist()
    notes = _notes(found, clusters, options)
    return SenseInventory(word, senses, found, clusters, notes, TokenCounts(sentences), positions)


def _work(
    model: Model,
    sentences: Sequence[Tokenized],
    places: Sequence[Sequence[int]],
    options: SenseOptions,
    width: int,
) -> float:
    """Return the estimated work of encoding and clustering occurrences to points of a width."""
    d = model.manifest.dimension
    cost = encode_cost(model, EncodeOptions())
    work = 0.0
    for sentence, where in zip(sentences, places, strict=True):
        if where:
            n = len(sentence.tokens)
            work += cost.of_sentence(sentence.tokens)
            work += len(where) * (OCCURRENCE + n * (MEAN_TOKEN + 2 * d * MULTIPLICATION))
    count = sum(map(len, places))
    work += count * 3 * d * width * MULTIPLICATION + cluster_work(count, width, options.senses)
    if options.with_map:
        work += decomposition_work(count, d)
    senses = options.senses or MAX_FOUND
    return work + senses * search_work(model, options.neighbors)


def describe(
    model: Model,
    found: Sequence[FoundOccurrence],
    clusters: Clusters,
    options: SenseOptions,
) -> list[Sense]:
    """Return the size, keywords, neighbors and examples of each cluster."""
    count = len(clusters.centroids)
    sizes = np.bincount(clusters.labels, minlength=count)
    words, rates = _attention_rates(found, clusters)
    sums = rates.sum(axis=1)
    static = unit(unit(np.stack([one.static for one in found])).mean(axis=0)[None])[0]
    contexts = np.stack([one.context for one in found])
    forms = {form for one in found if one.key for form, _ in spellings(one.key, "auto")}
    excluded = [row for form in forms if (row := model.vocabulary.row(form)) is not None]
    senses = []
    for label in range(count):
        # Score: mean attention to the word in this sense, times its share of the sum of these
        # means over all senses.
        scores = rates[:, label] * (rates[:, label] / sums)
        center = unit(contexts[clusters.labels == label].mean(axis=0)[None])[0]
        typical = contexts @ center
        typical[clusters.labels != label] = -np.inf
        order = np.argsort(-typical, kind="stable")[: min(options.examples, int(sizes[label]))]
        query = (center + NEIGHBOR_SHARE * static).astype(np.float32)
        near = model.neighbors(query, options.neighbors, excluded)
        senses.append(
            Sense(
                int(sizes[label]),
                float(sizes[label] / len(found)),
                _best_words(words, scores, options.keywords),
                [Neighbor(*one) for one in near],
                order.tolist(),
            )
        )
    return senses


def _attention_rates(
    found: Sequence[FoundOccurrence], clusters: Clusters
) -> tuple[list[str], Floats]:
    """Return the words that are attended to, and the mean attention in each cluster. -> [W, k]"""
    numbers: dict[str, int] = {}
    rows: dict[int, Integers] = {}
    for one in found:
        if id(one.words) not in rows:  # the occurrences of a text share the list
            rows[id(one.words)] = np.array(
                [numbers.setdefault(word, len(numbers)) for word in one.words], np.int64
            )
    count = len(clusters.centroids)
    sizes = np.bincount(clusters.labels, minlength=count)
    rates = np.zeros((len(numbers), count))
    for one, label in zip(found, clusters.labels.tolist(), strict=True):
        rates[rows[id(one.words)], label] += one.attended / sizes[label]
    attended: Flags = np.any(rates != 0, axis=1)
    words = [word for word, kept in zip(numbers, attended.tolist(), strict=True) if kept]
    return words, rates[attended]


def _best_words(words: Sequence[str], scores: Floats, most: int) -> list[Keyword]:
    """Return the words with the largest positive scores, in alphabetical order if equal. [W]"""
    positive = np.flatnonzero(scores > 0)
    if not most or not len(positive):
        return []
    # Only words that reach the last score to return are sorted.
    least = np.sort(scores[positive])[-most:][0]
    best = [(-scores[at], words[at]) for at in np.flatnonzero(scores >= least).tolist()]
    return [Keyword(word, float(-score)) for score, word in sorted(best)[:most]]


def _notes(
    found: Sequence[FoundOccurrence], clusters: Clusters, options: SenseOptions
) -> list[str]:
    notes = []
    if len(found) < MIN_OCCURRENCES and options.senses is None:
        notes.append(f"{_counted(len(found))}: too few to tell senses apart, so one is returned.")
    elif len(found) < FEW_OCCURRENCES:
        notes.append(f"{_counted(len(found))}: the senses are uncertain.")
    if len(clusters.centroids) > 1 and clusters.separation < CLOSE_SENSES:
        notes.append("The senses overlap: their separation is low.")
    if unknown := sum(one.key is None for one in found):
        notes.append(f"{_counted(unknown)} not in the vocabulary: clustered by context, too.")
    if any(not one.context.any() for one in found):
        notes.append("Some occurrences have no context with a known word.")
    return notes


def _counted(occurrences: int) -> str:
    return "1 occurrence" if occurrences == 1 else f"{occurrences:,} occurrences"


def inventory_document(model: str, found: SenseInventory) -> dict[str, Any]:
    """Return the JSON document of a response of `/v1/senses`."""
    occurrences: list[dict[str, Any]] = [
        {
            "text": one.text,
            "start": one.start,
            "end": one.end,
            "sense": int(label),
            "confidence": round(float(confidence), 4),
        }
        for one, label, confidence in zip(
            found.occurrences, found.clusters.labels, found.clusters.confidence, strict=True
        )
    ]
    for one, position in zip(occurrences, found.positions, strict=False):
        one["x"], one["y"] = position
    return {
        "model": model,
        "word": found.word,
        "senses": [
            {
                "id": number,
                "size": one.size,
                "proportion": one.proportion,
                "keywords": [keyword._asdict() for keyword in one.keywords],
                "neighbors": [vars(near) for near in one.neighbors],
                "examples": one.examples,
            }
            for number, one in enumerate(found.senses)
        ],
        "occurrences": occurrences,
        "separation": found.clusters.separation,
        "notes": found.notes,
    }
