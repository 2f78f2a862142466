"""From a wish to results: which systems are measured, where their vectors come from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Protocol

import numpy as np

from polyseme.engine.arrays import Flags, Floats
from polyseme.evaluation import transformer
from polyseme.evaluation.occurrences import Occurrence, Words
from polyseme.evaluation.readings import LocalSource, Reading
from polyseme.evaluation.refusal import EvaluationError
from polyseme.evaluation.remote import Service
from polyseme.evaluation.results import Results, document, table
from polyseme.evaluation.similarity import Lookup
from polyseme.evaluation.systems import (
    SERVED_NAMES,
    System,
    served_systems,
    systems,
    tabulate,
)
from polyseme.evaluation.tasks import (
    Measured,
    measure_coarsewsd,
    measure_similarity,
    measure_wic,
)
from polyseme.evaluation.wish import MINILM, MOST_FREQUENT, Wish
from polyseme.models.model import Model

__all__ = ["Service", "document", "measure_model", "measure_service", "table"]

PACKAGES = ("numpy", "scikit-learn", "scipy")


class Source(Protocol):
    """What reads sentences, and says which words it has vectors of."""

    def __call__(self, sentences: Sequence[Words]) -> Iterator[Reading]:
        """Read sentences, in their order."""

    def knows(self, words: Sequence[str]) -> list[bool]:
        """Whether words have a vector."""


def measure_model(model: Model, wish: Wish) -> Results:
    """Measure a model that is in memory."""
    found = systems(model, wish.names)
    return _measured(wish, model.manifest.name, LocalSource(model), found)


def measure_service(service: Service, wish: Wish) -> Results:
    """Measure a model behind a running service; raise EvaluationError at what it cannot give."""
    beside = {*SERVED_NAMES, MOST_FREQUENT, MINILM}
    if kept_there := [name for name in wish.names if name not in beside]:
        raise EvaluationError(
            f"A service keeps its weights to itself, so {', '.join(kept_there)} cannot be measured"
            " through it; measure the model's folder, without --url."
        )
    return _measured(wish, service.model, service, served_systems(wish.names))


def _measured(wish: Wish, name: str, source: Source, found: Mapping[str, System]) -> Results:
    if wish.task == "similarity":
        results = measure_similarity(wish.directory, lookup(source), f"static vector ({name})")
    else:
        vectors = Vectors(found, source, name, wish)
        if wish.task == "wic":
            results = measure_wic(wish.directory, source.knows, vectors, wish.split)
        else:
            often = MOST_FREQUENT in wish.names
            results = measure_coarsewsd(wish.directory, source.knows, vectors, most_frequent=often)
    return replace(results, facts={"model": name, **results.facts, "versions": versions()})


class Vectors:
    """Gives occurrences the vectors of every system that is wished for."""

    def __init__(self, found: Mapping[str, System], source: Source, model: str, wish: Wish) -> None:
        self._systems, self._source, self._model, self._wish = found, source, model, wish

    def __call__(self, occurrences: Sequence[Occurrence]) -> Iterator[Measured]:
        """Yield the systems, the model's own last but for the transformer."""
        readers = {
            f"{name} {number}": reader
            for name, one in self._systems.items()
            for number, reader in enumerate(one.readers)
        }
        course = self._wish.course
        tables = tabulate(self._source, readers, occurrences, course) if readers else {}
        for name, one in self._systems.items():
            mine = [tables[f"{name} {number}"] for number in range(len(one.readers))]
            title = f"{one.title} ({self._model})" if one.kind == "model" else one.title
            yield Measured(name, title, one.kind, mine)
        if MINILM in self._wish.names:
            table = transformer.tabulate(occurrences, course)
            yield Measured(MINILM, transformer.TITLE, "compared", [table])


def lookup(source: Source) -> Lookup:
    """What gives words their static vectors. -> [m, d], [m]"""

    def look_up(words: Sequence[str]) -> tuple[Floats, Flags]:
        sentences = [reading.sentence for reading in source([(word,) for word in words])]
        vectors = np.concatenate([sentence.vectors for sentence in sentences])
        return vectors, np.concatenate([sentence.known for sentence in sentences])

    return look_up


def versions() -> dict[str, str]:
    """Of what the figures depend on."""
    return {package: version(package) for package in PACKAGES}
