"""What an encoder answers besides sentences, read from the documents that a service writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from polyseme.encoding.compare import Occurrence
from polyseme.errors import FieldError, InvalidError
from polyseme.tokenizer import Resolution

Doubles: TypeAlias = NDArray[np.float64]
_RESOLUTIONS = frozenset(get_args(Resolution))
_FEWEST = 2
"""Occurrences that can be compared."""


@dataclass(frozen=True)
class Token:
    """A token and the vocabulary entry that stands for it."""

    text: str
    start: int | None
    """in code points; None for words that came already cut"""
    end: int | None
    key: str | None
    """the vocabulary entry; None where there is none"""
    resolution: Resolution


@dataclass(frozen=True)
class Neighbour:
    """A word and its cosine."""

    word: str
    similarity: float


@dataclass(frozen=True)
class Look:
    """A token that is looked at."""

    text: str
    start: int | None
    end: int | None
    weight: float


@dataclass(frozen=True)
class Compared:
    """One occurrence, before and after context."""

    token: Token
    shift: float
    """1 − cosine of its static and its contextual vector"""
    static_neighbors: list[Neighbour]
    contextual_neighbors: list[Neighbour]
    attends_to: list[Look]


@dataclass(frozen=True)
class Comparison:
    """Occurrences side by side, and the cosines between them."""

    model: str
    occurrences: list[Compared]
    static_similarity: Doubles
    """[m, m]"""
    contextual_similarity: Doubles
    """[m, m]"""
    notes: list[str]


@dataclass(frozen=True)
class Step:
    """One step of the arithmetic."""

    name: str
    formula: str
    values: Doubles


@dataclass(frozen=True)
class Trace:
    """Every step of one layer, in their order."""

    tokens: list[str]
    steps: list[Step]

    def __getitem__(self, name: str) -> Doubles:
        """Return the numbers of a step by its name."""
        return next(step.values for step in self.steps if step.name == name)


@dataclass(frozen=True)
class ModelFacts:
    """A model: what is asked for most, and all that is said of it."""

    name: str
    default: bool
    dimension: int | None
    """None, as the next ones, where the model is broken"""
    vocabulary_size: int | None
    layers: int | None
    heads: int | None
    document: Mapping[str, Any] = field(repr=False)
    """the whole entry of /v1/models"""


def given_occurrences(given: Sequence[Occurrence | tuple[str, str]]) -> list[Occurrence]:
    """Occurrences, of which a pair is a text and a word of it; raise InvalidError for none."""
    made = [one if isinstance(one, Occurrence) else Occurrence(*one) for one in given]
    if len(made) < _FEWEST:
        raise InvalidError([FieldError("/occurrences", "takes two at least")])
    for number, one in enumerate(made):
        _check(one, f"/occurrences/{number}")
    return made


def _check(one: Occurrence, pointer: str) -> None:
    if (one.start is None) != (one.end is None) or (one.word is None) == (one.start is None):
        raise InvalidError([FieldError(pointer, "give either `word` or both `start` and `end`")])
    if one.nth < 0 or one.word == "":
        raise InvalidError([FieldError(pointer, "`word` has letters, and `nth` counts from 0")])
    if one.start is not None and not 0 <= one.start < (one.end or 0) <= len(one.text):
        message = "`start` and `end` are a span of the text, which is not empty"
        raise InvalidError([FieldError(pointer, message)])


def token_of(document: Mapping[str, Any]) -> Token:
    """Read a token; raise ValueError, TypeError or KeyError for what is none."""
    text, start, end, key, resolution = (document[name] for name in _TOKEN)
    _require(isinstance(text, str) and (key is None or isinstance(key, str)))
    _require(type(start) is type(end) and isinstance(start, int | None))
    _require(resolution in _RESOLUTIONS)
    return Token(text, start, end, key, resolution)


_TOKEN = ("text", "start", "end", "key", "resolution")


def neighbours_of(document: Any) -> list[Neighbour]:
    """Read neighbours, best first."""
    return [Neighbour(str(one["word"]), float(one["similarity"])) for one in document]


def comparison_of(document: Mapping[str, Any]) -> Comparison:
    """Read the answer of /v1/compare."""
    occurrences = [_compared(one) for one in document["occurrences"]]
    m = len(occurrences)
    static, contextual = (
        np.array(document[name], np.float64).reshape(m, m)
        for name in ("static_similarity", "contextual_similarity")
    )
    notes = [str(note) for note in document["notes"]]
    return Comparison(str(document["model"]), occurrences, static, contextual, notes)


def _compared(one: Mapping[str, Any]) -> Compared:
    return Compared(
        token_of(one["token"]),
        float(one["shift"]),
        neighbours_of(one["static_neighbors"]),
        neighbours_of(one["contextual_neighbors"]),
        [
            Look(str(look["text"]), look["start"], look["end"], float(look["weight"]))
            for look in one["attends_to"]
        ],
    )


def trace_of(document: Mapping[str, Any]) -> Trace:
    """Read the answer of /v1/trace."""
    steps = [
        Step(
            str(step["name"]),
            str(step["formula"]),
            np.array(step["values"], np.float64).reshape(step["shape"]),
        )
        for step in document["steps"]
    ]
    return Trace([str(token) for token in document["tokens"]], steps)


def models_of(document: Mapping[str, Any]) -> list[ModelFacts]:
    """Read the answer of /v1/models."""
    return [model_of(one) for one in document["data"]]


def model_of(one: Mapping[str, Any]) -> ModelFacts:
    """Read an entry of it."""
    names = ("dimension", "vocabulary_size", "layers", "heads")
    numbers: dict[str, Any] = {name: one.get(name) for name in names}
    _require(all(number is None or isinstance(number, int) for number in numbers.values()))
    return ModelFacts(str(one["id"]), one.get("default") is True, document=one, **numbers)


def _require(so: object) -> None:
    if not so:
        raise ValueError
