"""Find the senses of a word in texts: cluster its occurrences and describe each cluster."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from polyseme.encoding.compare import NEIGHBOR_SHARE, Occurrence, find_token, word_places
from polyseme.encoding.encode import Timings, TokenCounts, Tokenized, tokenize
from polyseme.encoding.neighbors import Neighbor
from polyseme.encoding.options import EncodeOptions, Limits
from polyseme.engine.arrays import Floats, unit
from polyseme.engine.similarity import principal_components
from polyseme.errors import FieldError, InvalidError
from polyseme.models.model import Model
from polyseme.senses.clustering import MIN_OCCURRENCES, Clusters, cluster
from polyseme.senses.occurrences import FoundOccurrence, encode_occurrences
from polyseme.senses.projection import find_projection, project_occurrences
from polyseme.tokenizer import spellings

Matching: TypeAlias = Literal["any", "exact"]
"""Whether an occurrence may differ from the word in case."""
FEW_OCCURRENCES = 30
"""With fewer occurrences, a note says that the senses are uncertain."""
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
    timings: Timings | None = None,
) -> SenseInventory:
    """Find the senses of a word from all tokens that equal `word` or one of `forms`.

    Raises InvalidError if no token does or there are fewer than `options.senses`, and the errors
    of `tokenize`.
    """
    timings = timings or Timings()
    start = timings.now()
    encoding = EncodeOptions(phrases=phrases)
    sentences = tokenize(model, texts, encoding, limits or Limits(), "/texts/{}")
    timings.add("tokens", start)
    exact, spelled = matching == "exact", (word, *forms)
    places = [
        word_places([token.text for token in one.tokens], spelled, exact=exact) for one in sentences
    ]
    if not any(places):
        message = "does not occur in the texts as a token"
        hint = "Check the spelling, or give other forms of the word in `forms`."
        if not phrases and any(len(one.split()) > 1 for one in spelled):
            hint = "Several words are found only with `phrases`, as a phrase of the vocabulary."
        raise InvalidError([FieldError("/word", message)], hint)
    return _inventory(model, word, sentences, places, options or SenseOptions(), timings)


def senses_of_occurrences(
    model: Model,
    occurrences: Sequence[Occurrence],
    options: SenseOptions | None = None,
    *,
    phrases: bool = False,
    limits: Limits | None = None,
    timings: Timings | None = None,
) -> SenseInventory:
    """Find the senses of given occurrences.

    Raises InvalidError if one is not in its text or there are fewer than `options.senses`, and the
    errors of `tokenize`.
    """
    timings = timings or Timings()
    start = timings.now()
    texts = [one.text for one in occurrences]
    pointer = "/occurrences/{}/text"
    encoding = EncodeOptions(phrases=phrases)
    sentences = tokenize(model, texts, encoding, limits or Limits(), pointer)
    places = [
        [find_token(sentence.tokens, one, number)]
        for number, (sentence, one) in enumerate(zip(sentences, occurrences, strict=True))
    ]
    timings.add("tokens", start)
    word = sentences[0].tokens[places[0][0]].text
    return _inventory(model, word, sentences, places, options or SenseOptions(), timings)


def _inventory(
    model: Model,
    word: str,
    sentences: Sequence[Tokenized],
    places: Sequence[Sequence[int]],
    options: SenseOptions,
    timings: Timings,
) -> SenseInventory:
    start = timings.now()
    found = [
        one
        for number, (sentence, where) in enumerate(zip(sentences, places, strict=True))
        if where
        for one in encode_occurrences(model, sentence.tokens, where, number)
    ]
    start = timings.add("attention", start)
    if options.senses is not None and options.senses > len(found):
        message = f"must be at most {len(found)}, the number of occurrences"
        raise InvalidError([FieldError("/senses", message)])
    contexts = np.stack([one.context for one in found])
    projection = find_projection(model)
    points = project_occurrences(found, projection)
    clusters = cluster(points, options.senses, projection.rule)
    senses = describe(model, found, clusters, options)
    positions: list[list[float]] = []
    if options.with_map:
        positions = principal_components(contexts.astype(np.float64))[0].tolist()
    timings.add("senses", start)
    notes = _notes(found, clusters, options)
    return SenseInventory(word, senses, found, clusters, notes, TokenCounts(sentences), positions)


def describe(
    model: Model,
    found: Sequence[FoundOccurrence],
    clusters: Clusters,
    options: SenseOptions,
) -> list[Sense]:
    """Return the size, keywords, neighbors and examples of each cluster."""
    count = len(clusters.centroids)
    sizes = np.bincount(clusters.labels, minlength=count)
    rates: dict[str, Floats] = defaultdict(lambda: np.zeros(count))
    for one, label in zip(found, clusters.labels.tolist(), strict=True):
        for word, weight in one.attended.items():
            rates[word][label] += weight / sizes[label]
    static = unit(np.mean([unit(one.static[None])[0] for one in found], axis=0)[None])[0]
    contexts = np.stack([one.context for one in found])
    forms = {form for one in found if one.key for form, _ in spellings(one.key, "auto")}
    excluded = [row for form in forms if (row := model.vocabulary.row(form)) is not None]
    senses = []
    for label in range(count):
        # Score: mean attention to the word in this sense, times its share of the sum of these
        # means over all senses.
        scores = {word: float(r[label] * (r[label] / r.sum())) for word, r in rates.items()}
        best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[: options.keywords]
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
                [Keyword(word, weight) for word, weight in best if weight > 0],
                [Neighbor(*one) for one in near],
                order.tolist(),
            )
        )
    return senses


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
                "neighbors": [near._asdict() for near in one.neighbors],
                "examples": one.examples,
            }
            for number, one in enumerate(found.senses)
        ],
        "occurrences": occurrences,
        "separation": found.clusters.separation,
        "notes": found.notes,
    }
