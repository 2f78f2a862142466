"""Find the senses of a word in texts: cluster its occurrences and describe each cluster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import AfterValidator, Field, Tag, ValidationInfo, model_validator

from polyseme.engine.arrays import Floats, Integers, unit
from polyseme.engine.similarity import principal_components
from polyseme.errors import FieldError, InvalidError
from polyseme.models.model import Model
from polyseme.operations.clustering import MIN_OCCURRENCES, Clusters, Divisions, divide
from polyseme.operations.compare import NEIGHBOR_SHARE, OccurrenceRequest
from polyseme.operations.encode import count_tokens
from polyseme.operations.inventory import Keyword, Matching, SenseInventory, inventory_of
from polyseme.operations.limits import Limits, check_budget
from polyseme.operations.neighbors import Neighbor
from polyseme.operations.occurrences import (
    ContextExplainer,
    FoundOccurrence,
    WordForms,
    encode_occurrences,
    find_projection,
    locate,
    project_occurrences,
)
from polyseme.operations.options import MAX_FORMS, MAX_LISTED, MAX_SENSES, SharedOptions
from polyseme.operations.schema import ModelName, OneLine, one_of_kinds
from polyseme.stages import stage
from polyseme.tokenizer import ResolvedToken, spellings

FEW_OCCURRENCES = 30
"""With fewer occurrences, a note says that the senses are uncertain."""
LEAST_EVIDENCE = 0.02
"""The least share of the evidence in an example of a word that is listed."""
CLOSE_SENSES = 0.05
"""With a smaller separation, a note says that the senses overlap."""


def _kind_of_senses(value: Any) -> str | None:
    if value == "auto":
        return "<name>"
    return "<number>" if type(value) is int and 1 <= value <= MAX_SENSES else None


@dataclass(frozen=True)
class WordEvidence:
    """What a word of an example says for its sense."""

    word: str
    start: int | None
    end: int | None
    weight: float
    """negative if it speaks against the sense"""


@dataclass(frozen=True, repr=False)
class WordSense(OneLine):
    """One sense."""

    id: int = field(repr=False)
    size: int
    """number of occurrences"""
    proportion: float
    keywords: list[Keyword]
    neighbors: list[Neighbor]
    examples: list[int]
    """indices of `occurrences`, the most typical first"""
    evidence: list[list[WordEvidence]]
    """of each example, the words that say most for this sense and against the nearest other one, or
    the other way round; the strongest first"""


@dataclass(frozen=True, repr=False)
class Alternative(OneLine):
    """The evidence for a number of senses."""

    senses: int
    separation: float
    """mean silhouette; 0 for one sense"""
    sizes: list[int]
    """number of occurrences of each sense; a number of senses may leave some without any"""


@dataclass(frozen=True, repr=False)
class Division(Alternative):
    """The evidence for a number of senses, and the senses themselves."""

    described: list[WordSense] | None = None
    """with `divisions`, the senses"""
    labels: list[int] | None = None
    """with `divisions`, the sense of each of `occurrences`"""
    confidence: list[float] | None = None
    """with `divisions`, the confidence of each of `occurrences`"""


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
    several: float
    """the probability of more than one sense, 0 to 1"""
    alternatives: list[Alternative]
    """the evidence for each number of senses from 1 to 6, or fewer for few occurrences"""
    notes: list[str]
    inventory: SenseInventory | None = field(default=None, repr=False)
    """with `inventory`, the senses as a document that /v1/senses/apply takes"""

    def save(self, path: str | Path) -> None:
        """Write the inventory to a file. Raises OSError if that is not possible."""
        require_inventory(self).save(path)


@dataclass(frozen=True, repr=False)
class MappedSenses(Senses):
    """The senses of a word, the largest first."""

    occurrences: list[MappedSenseOccurrence]  # type: ignore[assignment] # the same with positions
    alternatives: list[Division]  # type: ignore[assignment] # the same with senses


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
    divisions: bool = False
    """add the senses to each of the alternatives"""
    inventory: bool = False
    """add the inventory, which /v1/senses/apply applies to other texts"""
    model: ModelName = None

    @property
    def count(self) -> int | None:
        """The maximum number of senses, None if it is estimated."""
        return None if self.senses == "auto" else self.senses

    @model_validator(mode="after")
    def check_source(self) -> Self:
        """Raise ValueError unless there are texts and a word, or occurrences."""
        if (self.texts is None) == (self.occurrences is None):
            raise ValueError("give either `word` and `texts`, or `occurrences`")
        if self.texts is not None and self.word is None:
            raise ValueError("`texts` requires `word`, the word whose senses are found")
        unused = {"word", "forms", "case"} & self.model_fields_set
        if self.occurrences is not None and unused:
            raise ValueError(f"{', '.join(sorted(unused))}: not used with `occurrences`")
        return self


def require_inventory(senses: Senses | SenseInventory) -> SenseInventory:
    """Return an inventory, or that of a result. Raises InvalidError if the result has none."""
    if isinstance(senses, SenseInventory):
        return senses
    if senses.inventory is None:
        raise InvalidError([FieldError(("inventory",), "was not requested: find the senses again")])
    return senses.inventory


@dataclass(frozen=True)
class FoundSenses:
    """The senses of a word, the largest first, its occurrences, and their clusters."""

    word: str
    senses: list[WordSense]
    occurrences: list[FoundOccurrence]
    clusterings: Divisions
    divisions: list[list[WordSense]]
    """the senses of each alternative, if requested"""
    notes: list[str]
    positions: list[list[float]]
    """the first two principal components of the contexts, if requested"""

    @property
    def clusters(self) -> Clusters:
        """The clusters that are the senses."""
        return self.clusterings.chosen

    def inventory(self, model: Model, request: SensesRequest) -> SenseInventory:
        """Return the document of these senses."""
        return inventory_of(
            model,
            self.word,
            request.forms,
            request.case,
            self.clusterings,
            [sense.keywords for sense in self.senses],
            phrases=request.phrases,
        )


def senses(model: Model, request: SensesRequest, limits: Limits | None = None) -> Senses:
    """Find the senses of a word, without labels.

    Raises the errors of `find_senses`.
    """
    return senses_of(model, request, find_senses(model, request, limits))


def senses_of(model: Model, request: SensesRequest, found: FoundSenses) -> Senses:
    """Return the result of a request."""
    clusters = found.clusters
    # A part that is present only on request is a field of a subclass, which the document of
    # `MappedSenses` has: positions of occurrences, senses of alternatives.
    alternatives: list[Any] = []
    for number, each in enumerate(found.clusterings.alternatives):
        evidence = (number + 1, each.separation, np.bincount(each.labels).tolist())
        if found.divisions:
            assigned = (each.labels.tolist(), each.confidence.round(4).tolist())
            alternatives.append(Division(*evidence, found.divisions[number], *assigned))
        else:
            alternatives.append(Alternative(*evidence))
    occurrences: list[Any] = []
    labels, confidence = clusters.labels.tolist(), clusters.confidence.round(4).tolist()
    for number, (one, *sense) in enumerate(zip(found.occurrences, labels, confidence, strict=True)):
        place = (one.text, one.start, one.end)
        if found.positions:
            occurrences.append(MappedSenseOccurrence(*place, *sense, *found.positions[number]))
        else:
            occurrences.append(SenseOccurrence(*place, *sense))
    return (MappedSenses if found.positions or found.divisions else Senses)(
        model.manifest.name,
        found.word,
        found.senses,
        occurrences,
        clusters.separation,
        round(found.clusterings.several, 4),
        alternatives,
        found.notes,
        found.inventory(model, request) if request.inventory else None,
    )


def find_senses(model: Model, request: SensesRequest, limits: Limits | None = None) -> FoundSenses:
    """Find the senses of a word, from texts or from given occurrences.

    In texts, an occurrence is a token that equals the word or one of its forms. A text that has
    several of the given occurrences is tokenized and encoded once. Raises InvalidError if the word
    does not occur, an occurrence is not in its text or there are fewer than `senses`, TooLargeError
    if there are too many, and the errors of `tokenize`.
    """
    limits, word = limits or Limits(), request.word or ""
    forms = WordForms((word, *request.forms), request.case == "exact", request.phrases)
    with stage("tokens"):
        located = locate(model, request.texts, request.occurrences, forms, limits)
        sentences, places, numbers = located
        count_tokens(sentences)
        count = sum(map(len, places))
        if not count:
            hint = "Check the spelling, or give other forms of the word in `forms`."
            if not request.phrases and any(len(form.split()) > 1 for form in forms.forms):
                hint = "Several words are found only with `phrases`, as a phrase of the vocabulary."
            error = FieldError(("word",), "does not occur in the texts as a token")
            raise InvalidError([error], hint)
        if request.count is not None and request.count > count:
            message = f"must be at most {count}, the number of occurrences"
            raise InvalidError([FieldError(("senses",), message)])
        if request.occurrences is not None:
            text = next(text for text, of_text in enumerate(numbers) if 0 in of_text)
            word = sentences[text].words[places[text][numbers[text].index(0)]].text
    with stage("attention"):
        projection = find_projection(model)
        pairs = zip(sentences, places, strict=True)
        tokens = [sentence.tokens if where else [] for sentence, where in pairs]
        sources = [Source(text, place) for text, where in enumerate(places) for place in where]
        of_texts = chain.from_iterable(numbers)
        encoded = zip(encode_occurrences(model, tokens, places), of_texts, sources, strict=True)
        ordered = sorted(encoded, key=itemgetter(1))
        found = [replace(occurrence, text=number) for occurrence, number, _ in ordered]
        sources = [source for _, _, source in ordered]
    with stage("senses"):
        points = project_occurrences(found, projection)
        clusterings = divide(points, request.count, projection.rule)
        clusters = clusterings.chosen
        describe = SenseDescriber(model, found, sources, request)
        senses = describe(clusters)
        described = [*map(describe, clusterings.alternatives)] if request.divisions else []
        describe.add_evidence(tokens)
        positions: list[list[float]] = []
        if request.map:
            contexts = np.stack([occurrence.context for occurrence in found])
            positions = principal_components(contexts.astype(np.float64))[0].tolist()
    notes = _notes(found, clusters, request)
    return FoundSenses(word, senses, found, clusterings, described, notes, positions)


class Source(NamedTuple):
    """The index of a text, and the place of an occurrence among its tokens."""

    text: int
    place: int


class Example(NamedTuple):
    """An example of a sense whose evidence is to be added."""

    source: Source
    direction: Floats
    """[d], from the nearest other sense to this one"""
    evidence: list[WordEvidence]
    """the list to add to"""


class SenseDescriber:
    """Describes clusters of the same occurrences: size, keywords, neighbors and examples."""

    def __init__(
        self,
        model: Model,
        found: Sequence[FoundOccurrence],
        sources: Sequence[Source],
        request: SensesRequest,
    ) -> None:
        self.model, self.found, self.sources, self.request = model, found, sources, request
        numbers: dict[str, int] = {}
        self.rows: dict[int, Integers] = {}
        for occurrence in found:
            if id(occurrence.words) not in self.rows:  # the occurrences of a text share the list
                self.rows[id(occurrence.words)] = np.array(
                    [numbers.setdefault(word, len(numbers)) for word in occurrence.words], np.int64
                )
        self.words = [*numbers]
        static = np.stack([occurrence.static for occurrence in found])
        self.direction = unit(unit(static).mean(axis=0)[None])[0]
        self.contexts = np.stack([occurrence.context for occurrence in found])
        keys = {occurrence.key for occurrence in found if occurrence.key}
        forms = {form for key in keys for form, _ in spellings(key, "auto")}
        found_rows = map(model.vocabulary.row, forms)
        self.excluded = [row for row in found_rows if row is not None]
        self.examples: list[Example] = []

    def __call__(self, clusters: Clusters) -> list[WordSense]:
        """Return the senses, those of the clusters."""
        labels, count = clusters.labels, len(clusters.centroids)
        sizes = np.bincount(labels, minlength=count)
        # The mean attention to each word in each cluster [W, k], times the share of the cluster.
        rates = np.zeros((len(self.words), count))
        for occurrence, label in zip(self.found, labels.tolist(), strict=True):
            rates[self.rows[id(occurrence.words)], label] += occurrence.attended / sizes[label]
        sums = rates.sum(axis=1, keepdims=True)
        scores = rates * (rates / np.where(sums > 0, sums, 1))
        described = []
        members = (labels == np.arange(count)[:, None]).astype(np.float32)
        centers = unit(members @ self.contexts)
        for label, size in enumerate(sizes.tolist()):
            check_budget()
            center = centers[label]
            typical = self.contexts @ center
            typical[labels != label] = -np.inf
            order = np.argsort(-typical, kind="stable")
            examples = order[: min(self.request.examples, size)].tolist()
            query = (center + NEIGHBOR_SHARE * self.direction).astype(np.float32)
            near = self.model.neighbors(query, self.request.neighbors, self.excluded)
            others = np.delete(centers, label, axis=0)
            direction = center - others[(others @ center).argmax()] if len(others) else center
            direction = direction.astype(np.float64)
            added = [Example(self.sources[index], direction, []) for index in examples]
            self.examples += added
            described.append(
                WordSense(
                    label,
                    size,
                    size / len(self.found),
                    best_keywords(self.words, scores[:, label], self.request.keywords),
                    [Neighbor(*neighbor) for neighbor in near],
                    examples,
                    [example.evidence for example in added],
                )
            )
        return described

    def add_evidence(self, texts: Sequence[Sequence[ResolvedToken]]) -> None:
        """Add the evidence of all examples, of which each text is encoded once.

        There is none for a model whose last residual is not `unit`: its contexts are no sums.
        """
        if self.model.layers[-1].residual.kind != "unit":
            return
        for text, examples in groupby(
            sorted(self.examples, key=lambda example: example.source.text),
            key=lambda example: example.source.text,
        ):
            check_budget()
            explain = ContextExplainer(self.model, texts[text])
            products: dict[int, Floats] = {}
            for example in examples:
                check_budget()
                key = id(example.direction)  # the examples of a sense share it
                if key not in products:
                    products[key] = explain.project(example.direction)
                weights = explain(example.source.place, products[key])
                example.evidence.extend(_strongest_words(texts[text], weights))


def _strongest_words(tokens: Sequence[ResolvedToken], weights: Floats) -> Iterator[WordEvidence]:
    """Yield the words with the largest part of the evidence, the strongest first. [n]"""
    least = LEAST_EVIDENCE * np.abs(weights).sum()
    for index in np.argsort(-np.abs(weights), kind="stable").tolist():
        if abs(weights[index]) <= least:
            return
        token = tokens[index]
        if any(map(str.isalnum, token.text)):
            yield WordEvidence(token.text, token.start, token.end, round(weights[index].item(), 4))


def best_keywords(words: Sequence[str], scores: Floats, most: int) -> list[Keyword]:
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
