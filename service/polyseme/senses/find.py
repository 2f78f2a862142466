"""Find the senses of a word in texts: cluster its occurrences and describe each cluster."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, Tag, ValidationInfo, model_validator

from polyseme.engine import Floats, Integers, unit
from polyseme.engine.similarity import principal_components
from polyseme.errors import FieldError, InvalidError, counted
from polyseme.models.model import Model
from polyseme.operations.compare import NEIGHBOR_SHARE, Occurrences, WordForms, spelled_rows
from polyseme.operations.encode import tokenize_text
from polyseme.operations.limits import Limits, current_budget, stage
from polyseme.operations.schema import (
    MAX_LISTED,
    ModelName,
    Neighbor,
    OneLine,
    Phrases,
    Request,
    SentenceList,
    one_of_kinds,
)
from polyseme.senses.clustering import (
    DEFAULT_RULE,
    MIN_OCCURRENCES,
    TEXTS_RULE,
    Clusterings,
    Clusters,
    divide,
)
from polyseme.senses.inventory import (
    MAX_FORMS,
    MAX_SENSES,
    Keyword,
    Matching,
    SenseInventory,
    inventory_of,
)
from polyseme.senses.occurrences import (
    WordOccurrence,
    encode_occurrences,
    explain,
    find_projection,
    locate,
    project,
    recenter,
)
from polyseme.tokenizer import ResolvedToken, Text, as_string

FEW_OCCURRENCES = 30
"""With fewer occurrences, a note says that the senses are uncertain."""
MIN_EVIDENCE = 0.02
"""The minimum share of the evidence in an example of a word that is listed."""
MAX_OTHERS, MAX_OTHER_TOKENS, MIN_OTHER_TOKENS = 400, 200, 1000
"""The maximum number of texts without the word that tell what all texts have in common, and of
tokens of each, and the minimum number of known tokens of all."""
_PROJECTED_ROWS = 1024
"""Occurrences that are projected together; this bound limits memory."""
CLOSE_SENSES = 0.05
"""With a smaller separation, a note says that the senses overlap."""


def _kind_of_senses(value: Any) -> str | None:
    if value == "auto":
        return "<name>"
    return "<number>" if type(value) is int and 1 <= value <= MAX_SENSES else None


@dataclass(frozen=True)
class WordEvidence:
    """One word's evidence for the sense of an example."""

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
    """of each example, the words with most evidence for this sense and against the nearest other
    one, or the other way round; the strongest first"""


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
    index: int | None = None
    """of the word in a list of words"""

    @property
    def offset(self) -> int | None:
        """The start in a string, or the index in a list of words."""
        return self.start if self.index is None else self.index


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


class SensesRequest(Request[Senses]):
    """A word and texts to find its senses in, or occurrences of the word."""

    word: Annotated[str, Field(min_length=1)] | None = None
    texts: SentenceList | None = None
    """strings or lists of words"""
    forms: Annotated[list[str], Field(max_length=MAX_FORMS, fail_fast=True)] = Field([])
    """other forms of the word, such as its plural"""
    case: Matching = "any"
    """match occurrences of the word in `any` case or in `exact` case"""
    occurrences: Occurrences | None = None
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
    phrases: Phrases = False
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


def find_senses(model: Model, request: SensesRequest, limits: Limits | None = None) -> Senses:
    """Find the senses of a word, without labels, in texts or in given occurrences.

    In texts, an occurrence is a token that equals the word or one of its forms. A text that has
    several of the given occurrences is tokenized and encoded once. Raises InvalidError if the word
    does not occur, an occurrence is not in its text or there are fewer than `senses`, TooLargeError
    if there are too many, and the errors of `tokenize`.
    """
    limits, word = limits or Limits(), request.word or ""
    forms = WordForms((word, *request.forms), request.case == "exact", request.phrases)
    with stage("tokens"):
        sentences, positions, of_texts, of_words, counts = locate(
            model, request.texts, request.occurrences, forms, limits
        )
        _check_count(request, forms, len(of_texts))
    with stage("attention"):
        projection = find_projection(model)
        tokens = [sentence.with_offsets() for sentence in sentences]
        encoded = encode_occurrences(model, tokens, positions)
        if request.occurrences is not None:
            word = encoded[0].token.text
            forms = replace(forms, forms=(word,))
        # The order of the texts would set that of the sums, and the centers that clustering starts
        # from: occurrences are clustered in the order of their words instead.
        spelled = ["\n".join(token.text for token in of_sentence) for of_sentence in tokens]
        keys = [(spelled[one.sentence], one.position) for one in encoded]
        clustering_order = sorted(range(len(keys)), key=keys.__getitem__)
        occurrences = [encoded[i] for i in clustering_order]
        response_order = np.argsort(np.array(of_texts)[clustering_order], kind="stable")
    with stage("senses"):
        parts = range(0, len(occurrences), _PROJECTED_ROWS)
        blocks = (occurrences[start : start + _PROJECTED_ROWS] for start in parts)
        # The mean of an estimated projection is that of random sentences.
        others: list[ResolvedToken] = []
        if np.allclose(projection.rule, DEFAULT_RULE):
            others = other_tokens(model, request.texts or [], {*of_texts})
        shifted = recenter(model, projection, others) if others else None
        points, evidence = [], []
        for block in blocks:
            rows = np.stack([one.surroundings for one in block])
            points.append(project(rows, projection))
            evidence.append(project(rows, shifted) if shifted else points[-1])
        rule = TEXTS_RULE if shifted else projection.rule
        divisions = divide(np.concatenate(points), request.count, rule, np.concatenate(evidence))
        clusters = divisions.chosen
        describer = SenseDescriber(model, occurrences, request, response_order)
        senses = describer.describe(clusters)
        alternatives = _alternatives(divisions, describer, request)
        describer.add_evidence(tokens)
        inventory = None
        if request.inventory:
            keywords = [sense.keywords for sense in senses]
            inventory = inventory_of(model, forms, divisions, keywords)
        results: list[Any] = [
            SenseOccurrence(of_texts[i], one.start, one.end, label, confidence, of_words[i])
            for i, one, label, confidence in zip(
                (clustering_order[i] for i in response_order),
                (occurrences[i].token for i in response_order),
                clusters.labels[response_order].tolist(),
                clusters.confidence[response_order].round(4).tolist(),
                strict=True,
            )
        ]
        if request.map:
            plane, *_ = principal_components(describer.contexts.astype(np.float64))
            pairs = zip(results, plane[response_order].tolist(), strict=True)
            results = [MappedSenseOccurrence(**vars(one), x=x, y=y) for one, (x, y) in pairs]
    # Fields that are present only on request are those of subclasses.
    return (MappedSenses if request.map or request.divisions else Senses)(
        model.manifest.name,
        word,
        senses,
        results,
        clusters.separation,
        round(divisions.several, 4),
        alternatives,
        _notes(occurrences, clusters, request) + counts.notes,
        inventory,
    )


def other_tokens(
    model: Model, texts: Sequence[Text], present: Collection[int]
) -> list[ResolvedToken]:
    """Return tokens of the texts whose indices are not in `present`; none if they are too few."""
    others = sorted((text for i, text in enumerate(texts) if i not in present), key=as_string)
    tokens: list[ResolvedToken] = []
    for text in others[:: len(others) // MAX_OTHERS + 1]:
        current_budget().check()
        tokens += tokenize_text(text, model.tokenizer, "auto", MAX_OTHER_TOKENS, 1).tokens
    enough = sum(token.key is not None for token in tokens) >= MIN_OTHER_TOKENS
    return tokens if enough else []


def _check_count(request: SensesRequest, forms: WordForms, count: int) -> None:
    """Raise InvalidError if there are no occurrences, or fewer than the senses of the request."""
    if not count:
        hint = "Check the spelling, or give other forms of the word in `forms`."
        if not request.phrases and any(len(form.split()) > 1 for form in forms.forms):
            hint = "Several words are found only with `phrases`, as a phrase of the vocabulary."
        raise InvalidError([FieldError(("word",), "does not occur in the texts as a token")], hint)
    if request.count is not None and request.count > count:
        message = f"must be at most {count}, the number of occurrences"
        raise InvalidError([FieldError(("senses",), message)])


def _alternatives(
    divisions: Clusterings, describer: "SenseDescriber", request: SensesRequest
) -> list[Any]:
    """Return the evidence for each number of senses, on request with the senses."""
    alternatives: list[Any] = []
    for count, clusters in enumerate(divisions.alternatives, 1):
        one = Alternative(count, clusters.separation, np.bincount(clusters.labels).tolist())
        if request.divisions:
            one = Division(
                **vars(one),
                described=describer.describe(clusters),
                labels=clusters.labels[describer.response_order].tolist(),
                confidence=clusters.confidence[describer.response_order].round(4).tolist(),
            )
        alternatives.append(one)
    return alternatives


class SenseDescriber:
    """Describes clusters of the same occurrences: size, keywords, neighbors and examples."""

    def __init__(
        self,
        model: Model,
        occurrences: Sequence[WordOccurrence],
        request: SensesRequest,
        response_order: Integers,
    ) -> None:
        self.model, self.occurrences, self.request = model, occurrences, request
        self.response_order = response_order
        """the index in `occurrences` of each occurrence of the response"""
        self.ranks = np.argsort(response_order)
        ids: dict[str, int] = {}
        self.ids: dict[int, Integers] = {}
        """the ids of the words of each sentence"""
        for one in occurrences:
            if one.sentence not in self.ids:
                words = [ids.setdefault(word, len(ids)) for word in one.words]
                self.ids[one.sentence] = np.array(words, np.int64)
        self.words = [*ids]
        static = np.stack([one.static for one in occurrences])
        self.direction = unit(unit(static).mean(axis=0)[None])[0]
        self.contexts = np.stack([one.context for one in occurrences])
        self.excluded = spelled_rows(model, [one.token for one in occurrences])
        self.examples: defaultdict[int, list[tuple[int, Floats, list[WordEvidence]]]]
        """of each sentence: the position of an example, the direction [d] from the nearest other
        sense to its own, and the list of its evidence"""
        self.examples = defaultdict(list)

    def describe(self, clusters: Clusters) -> list[WordSense]:
        """Return the senses, those of the clusters, without evidence."""
        labels, count = clusters.labels, len(clusters.centroids)
        sizes = np.bincount(labels, minlength=count)
        # The mean attention to each word in each cluster [W, k], times the share of the cluster.
        rates = np.zeros((len(self.words), count))
        for occurrence, label in zip(self.occurrences, labels.tolist(), strict=True):
            rates[self.ids[occurrence.sentence], label] += occurrence.attended / sizes[label]
        sums = rates.sum(axis=1, keepdims=True)
        scores = rates * (rates / np.where(sums > 0, sums, 1))
        members = (labels == np.arange(count)[:, None]).astype(np.float32)
        centers = unit(members @ self.contexts)
        senses = []
        for label, size in enumerate(sizes.tolist()):
            current_budget().check()
            center = centers[label]
            typical = self.contexts @ center
            typical[labels != label] = -np.inf
            order = np.argsort(-typical, kind="stable")
            indices = order[: min(self.request.examples, size)]
            query = (center + NEIGHBOR_SHARE * self.direction).astype(np.float32)
            near = self.model.neighbors(query, self.request.neighbors, self.excluded)
            others = np.delete(centers, label, axis=0)
            direction = center - others[(others @ center).argmax()] if len(others) else center
            direction = direction.astype(np.float64)
            evidence: list[list[WordEvidence]] = [[] for _ in indices]
            for i, of_example in zip(indices.tolist(), evidence, strict=True):
                one = self.occurrences[i]
                self.examples[one.sentence].append((one.position, direction, of_example))
            senses.append(
                WordSense(
                    label,
                    size,
                    size / len(self.occurrences),
                    best_keywords(self.words, scores[:, label], self.request.keywords),
                    [Neighbor(*neighbor) for neighbor in near],
                    self.ranks[indices].tolist(),
                    evidence,
                )
            )
        return senses

    def add_evidence(self, texts: Sequence[Sequence[ResolvedToken]]) -> None:
        """Add the evidence of all examples, of which each text is encoded once.

        There is none for a model whose last residual is not `unit`: its contexts are no sums.
        """
        if self.model.layers[-1].residual.kind != "unit":
            return
        for sentence, examples in self.examples.items():
            current_budget().check()
            tokens = texts[sentence]
            explained = explain(self.model, tokens, [example[:2] for example in examples])
            for (*_, evidence), weights in zip(examples, explained, strict=True):
                evidence.extend(_strongest_words(tokens, weights))


def _strongest_words(tokens: Sequence[ResolvedToken], weights: Floats) -> Iterator[WordEvidence]:
    """Yield the words with the largest part of the evidence, the strongest first. [n]"""
    threshold = MIN_EVIDENCE * np.abs(weights).sum()
    for index in np.argsort(-np.abs(weights), kind="stable").tolist():
        if abs(weights[index]) <= threshold:
            return
        token = tokens[index]
        if any(map(str.isalnum, token.text)):
            yield WordEvidence(token.text, token.start, token.end, round(weights[index].item(), 4))


def best_keywords(words: Sequence[str], scores: Floats, count: int) -> list[Keyword]:
    """Return the words with the largest positive scores, in alphabetical order if equal. [W]"""
    positive = np.flatnonzero(scores > 0)
    if not count or not len(positive):
        return []
    # Only words that reach the last score to return are sorted.
    threshold = np.sort(scores[positive])[-count:][0]
    best = [(-scores[i], words[i]) for i in np.flatnonzero(scores >= threshold).tolist()]
    return [Keyword(word, float(-score)) for score, word in sorted(best)[:count]]


def _notes(
    occurrences: Sequence[WordOccurrence], clusters: Clusters, request: SensesRequest
) -> list[str]:
    notes, count = [], counted(len(occurrences), "occurrence")
    if len(occurrences) < MIN_OCCURRENCES and request.count is None:
        notes.append(f"{count}: too few to tell senses apart, so one is returned.")
    elif len(occurrences) < FEW_OCCURRENCES:
        notes.append(f"{count}: the senses are uncertain.")
    if len(clusters.centroids) > 1 and clusters.separation < CLOSE_SENSES:
        notes.append("The senses overlap: their separation is low.")
    if unknown := sum(one.token.key is None for one in occurrences):
        notes.append(
            f"{counted(unknown, 'occurrence')} not in the vocabulary: clustered by context, too."
        )
    if any(not one.context.any() for one in occurrences):
        notes.append("Some occurrences have no context with a known word.")
    return notes
