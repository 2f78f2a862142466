"""Find the senses of a word in texts: cluster its occurrences and describe each cluster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self, TypeAlias

import numpy as np
from pydantic import AfterValidator, Field, Tag, ValidationInfo, model_validator

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
from polyseme.operations.encode import Tokenized, count_tokens, tokenize
from polyseme.operations.neighbors import Neighbor
from polyseme.operations.options import (
    MAX_FORMS,
    MAX_LISTED,
    MAX_SENSES,
    EncodeOptions,
    Limits,
    SharedOptions,
)
from polyseme.operations.schema import (
    ModelName,
    OneLine,
    one_of_kinds,
    response,
)
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


def _kind_of_senses(value: Any) -> str | None:
    if value == "auto":
        return "<name>"
    return "<number>" if type(value) is int and 1 <= value <= MAX_SENSES else None


@dataclass(frozen=True)
class Keyword:
    """A context word that is typical of a sense."""

    __pydantic_config__ = response("KeywordResponse")
    word: str
    weight: float
    """attention times informativeness, times this sense's share of the total"""

    def __iter__(self) -> Iterator[str | float]:
        """Yield the word and the weight."""
        return iter((self.word, self.weight))


@dataclass(frozen=True, repr=False)
class WordSense(OneLine):
    """One sense."""

    __pydantic_config__ = response("SenseResponse")
    id: int = field(repr=False)
    size: int
    """number of occurrences"""
    proportion: float
    keywords: list[Keyword]
    neighbors: list[Neighbor]
    examples: list[int]
    """indices of `occurrences`, the most typical first"""


@dataclass(frozen=True)
class SenseOccurrence:
    """An occurrence and its sense."""

    text: int
    """index in `texts`, or in `occurrences`, of the request"""
    start: int | None
    end: int | None
    sense: int
    confidence: float
    """0 to 1"""


@dataclass(frozen=True)
class MappedSenseOccurrence(SenseOccurrence):
    """An occurrence and its sense."""

    __pydantic_config__ = response("SenseOccurrenceResponse")
    x: float | None = None
    """position in the plane, with `map`"""
    y: float | None = None


def _of_known_senses(
    occurrences: list[SenseOccurrence], info: ValidationInfo
) -> list[SenseOccurrence]:
    """Raise ValueError if an occurrence has a sense that is not listed."""
    if not all(0 <= one.sense < len(info.data["senses"]) for one in occurrences):
        raise ValueError("an occurrence has an unknown sense")
    return occurrences


@dataclass(frozen=True, repr=False)
class Senses(OneLine):
    """The senses of a word, the largest first."""

    model: str
    word: str
    senses: list[WordSense]
    occurrences: Annotated[list[SenseOccurrence], AfterValidator(_of_known_senses)]
    separation: float
    """mean silhouette; 0 for one sense"""
    notes: list[str]


@dataclass(frozen=True, repr=False)
class MappedSenses(Senses):
    """The senses of a word, the largest first."""

    __pydantic_config__ = response("SensesResponse")
    occurrences: list[MappedSenseOccurrence]  # type: ignore[assignment] # the same with positions


class SensesRequest(SharedOptions[Senses]):
    """A word and texts to find its senses in, or occurrences of the word."""

    word: Annotated[str, Field(min_length=1)] | None = None
    texts: Annotated[list[str], Field(min_length=1, fail_fast=True)] | None = None
    forms: Annotated[list[str], Field(max_length=MAX_FORMS, fail_fast=True)] = Field([])
    """other forms of the word, such as its plural"""
    case: Matching = "any"
    """match occurrences of the word in `any` case or in `exact` case"""
    occurrences: Annotated[list[OccurrenceRequest], Field(min_length=1, fail_fast=True)] | None = (
        None
    )
    senses: Annotated[
        Annotated[Literal["auto"], Tag("<name>")]
        | Annotated[int, Field(ge=1, le=MAX_SENSES), Tag("<number>")],
        one_of_kinds(_kind_of_senses, f'must be "auto" or an integer from 1 to {MAX_SENSES}'),
    ] = "auto"
    """the maximum number of senses; `auto` estimates the number"""
    keywords: int = Field(8, ge=0, le=MAX_LISTED)
    """number of keywords of each sense"""
    neighbors: int = Field(5, ge=0, le=MAX_LISTED)
    """number of neighbors of each sense"""
    examples: int = Field(3, ge=0, le=MAX_LISTED)
    """number of examples of each sense"""
    map: bool = False
    """add a position in the plane to each occurrence"""
    model: ModelName = None

    @property
    def count(self) -> int | None:
        """The maximum number of senses, None if it is estimated."""
        return None if self.senses == "auto" else self.senses

    @model_validator(mode="after")
    def _texts_or_occurrences(self) -> Self:
        if (self.texts is None) == (self.occurrences is None):
            raise ValueError("give either `word` and `texts`, or `occurrences`")
        if self.texts is not None and self.word is None:
            raise ValueError("`texts` requires `word`, the word whose senses are found")
        unused = {"word", "forms", "case"} & self.model_fields_set
        if self.occurrences is not None and unused:
            raise ValueError(f"{', '.join(sorted(unused))}: not used with `occurrences`")
        return self


@dataclass(frozen=True)
class SenseInventory:
    """The senses of a word, the largest first, its occurrences, and their clusters."""

    word: str
    senses: list[WordSense]
    occurrences: list[FoundOccurrence]
    clusters: Clusters
    notes: list[str]
    positions: list[list[float]]
    """the first two principal components of the contexts, if requested"""


def senses(model: Model, request: SensesRequest, limits: Limits | None = None) -> Senses:
    """Find the senses of a word, without labels.

    Raises the errors of `find_senses`.
    """
    return senses_of(model.manifest.name, find_senses(model, request, limits))


def senses_of(model: str, found: SenseInventory) -> Senses:
    """Return the result for an inventory; `model` is the name of the model."""
    clusters = found.clusters
    occurrences = [
        SenseOccurrence(one.text, one.start, one.end, label, round(sure, 4))
        for one, label, sure in zip(
            found.occurrences, clusters.labels.tolist(), clusters.confidence.tolist(), strict=True
        )
    ]
    result = Senses(model, found.word, found.senses, occurrences, clusters.separation, found.notes)
    if not found.positions:
        return result
    mapped = [
        MappedSenseOccurrence(**vars(one), x=x, y=y)
        for one, (x, y) in zip(occurrences, found.positions, strict=True)
    ]
    return MappedSenses(**{**vars(result), "occurrences": mapped})


def find_senses(
    model: Model, request: SensesRequest, limits: Limits | None = None
) -> SenseInventory:
    """Find the senses of a word, from texts or from given occurrences.

    In texts, an occurrence is a token that equals the word or one of its forms. A text that has
    several of the given occurrences is tokenized and encoded once. Raises InvalidError if the word
    does not occur, an occurrence is not in its text or there are fewer than `senses`, TooLargeError
    if there are too many, and the errors of `tokenize`.
    """
    limits = limits or Limits()
    encoding = EncodeOptions(**request.shared())
    if request.occurrences is None:
        return _in_texts(model, request, encoding, limits)
    occurrences = request.occurrences
    limits.check_occurrences(len(occurrences))
    with stage("tokens"):
        sentences, texts = tokenize_occurrences(model, occurrences, encoding, limits, TextCost())
        count_tokens(sentences)
        places: list[list[int]] = [[] for _ in sentences]
        order: list[list[int]] = [[] for _ in sentences]
        tokens = [sentence.tokens for sentence in sentences]
        for number, (text, one) in enumerate(zip(texts, occurrences, strict=True)):
            places[text].append(find_token(tokens[text], one, number))
            order[text].append(number)
    word = sentences[texts[0]].words[places[texts[0]][0]].text
    return _inventory(model, word, sentences, places, request, order)


def _in_texts(
    model: Model, request: SensesRequest, encoding: EncodeOptions, limits: Limits
) -> SenseInventory:
    texts, word = request.texts or [], request.word or ""
    with stage("tokens"):
        sentences = tokenize(model, texts, encoding, limits, lambda n: ("texts", n), TextCost())
        count_tokens(sentences)
    exact, spelled = request.case == "exact", (word, *request.forms)
    wanted = match_forms(spelled, exact=exact)
    places = [
        word_places([token.text for token in one.words], wanted, exact=exact) for one in sentences
    ]
    if not any(places):
        message = "does not occur in the texts as a token"
        hint = "Check the spelling, or give other forms of the word in `forms`."
        if not request.phrases and any(len(one.split()) > 1 for one in spelled):
            hint = "Several words are found only with `phrases`, as a phrase of the vocabulary."
        raise InvalidError([FieldError(("word",), message)], hint)
    limits.check_occurrences(sum(map(len, places)))
    return _inventory(model, word, sentences, places, request)


def _inventory(
    model: Model,
    word: str,
    sentences: Sequence[Tokenized],
    places: Sequence[Sequence[int]],
    request: SensesRequest,
    order: Sequence[Sequence[int]] | None = None,
) -> SenseInventory:
    """Encode and cluster the tokens at `places` of each sentence.

    `order` has the index of each of them in the inventory, which is also the number of its text. By
    default they are in the order of the sentences, whose numbers are those of the texts.
    """
    with stage("attention"):
        projection = find_projection(model)
        admit(_work(model, sentences, places, request, projection.directions.shape[1]))
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
        if request.count is not None and request.count > len(found):
            message = f"must be at most {len(found)}, the number of occurrences"
            raise InvalidError([FieldError(("senses",), message)])
        contexts = np.stack([one.context for one in found])
        points = project_occurrences(found, projection)
        clusters = cluster(points, request.count, projection.rule)
        described = describe(model, found, clusters, request)
        positions: list[list[float]] = []
        if request.map:
            positions = principal_components(contexts.astype(np.float64))[0].tolist()
    notes = _notes(found, clusters, request)
    return SenseInventory(word, described, found, clusters, notes, positions)


def _work(
    model: Model,
    sentences: Sequence[Tokenized],
    places: Sequence[Sequence[int]],
    request: SensesRequest,
    width: int,
) -> float:
    """Return the estimated work of encoding and clustering occurrences to points of a width."""
    d = model.manifest.dimension
    cost = encode_cost(model, EncodeOptions())
    work = 0.0
    for sentence, where in zip(sentences, places, strict=True):
        if where:
            n = len(sentence.words)
            work += cost.of_sentence(sentence)
            work += len(where) * (OCCURRENCE + n * (MEAN_TOKEN + 2 * d * MULTIPLICATION))
    count = sum(map(len, places))
    work += count * 3 * d * width * MULTIPLICATION + cluster_work(count, width, request.count)
    if request.map:
        work += decomposition_work(count, d)
    return work + (request.count or MAX_FOUND) * search_work(model, request.neighbors)


def describe(
    model: Model,
    found: Sequence[FoundOccurrence],
    clusters: Clusters,
    request: SensesRequest,
) -> list[WordSense]:
    """Return the size, keywords, neighbors and examples of each cluster."""
    count = len(clusters.centroids)
    sizes = np.bincount(clusters.labels, minlength=count)
    words, rates = _attention_rates(found, clusters)
    sums = rates.sum(axis=1)
    static = unit(unit(np.stack([one.static for one in found])).mean(axis=0)[None])[0]
    contexts = np.stack([one.context for one in found])
    forms = {form for one in found if one.key for form, _ in spellings(one.key, "auto")}
    excluded = [row for form in forms if (row := model.vocabulary.row(form)) is not None]
    described = []
    for label in range(count):
        # Score: mean attention to the word in this sense, times its share of the sum of these
        # means over all senses.
        scores = rates[:, label] * (rates[:, label] / sums)
        center = unit(contexts[clusters.labels == label].mean(axis=0)[None])[0]
        typical = contexts @ center
        typical[clusters.labels != label] = -np.inf
        order = np.argsort(-typical, kind="stable")[: min(request.examples, int(sizes[label]))]
        query = (center + NEIGHBOR_SHARE * static).astype(np.float32)
        near = model.neighbors(query, request.neighbors, excluded)
        described.append(
            WordSense(
                label,
                int(sizes[label]),
                float(sizes[label] / len(found)),
                _best_words(words, scores, request.keywords),
                [Neighbor(*one) for one in near],
                order.tolist(),
            )
        )
    return described


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
    found: Sequence[FoundOccurrence], clusters: Clusters, request: SensesRequest
) -> list[str]:
    notes = []
    if len(found) < MIN_OCCURRENCES and request.count is None:
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
