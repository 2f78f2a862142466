"""Measure the quality of sentence vectors by token vectors, pooling and number of dimensions.

    python lab/studies/sentence_vectors.py PASSAGES COARSEWSD

There are two tasks. The first is to find the other sentence of a passage of two sentences among all
second or all first sentences. The second is to find the sense of a word of CoarseWSD-20 from the
vector of its sentence. Static vectors are normalized before pooling, as in `/v1/embeddings`. No
constant was chosen by these figures.
"""

import io
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, get_args

import click
import numpy as np
import zstandard
from benchmarks.record import record
from benchmarks.sentences import bundled

from polyseme.engine.arrays import Floats, unit
from polyseme.models.model import Model
from polyseme.operations.embed import Pooling, token_weights, weighted_mean
from polyseme.operations.encode import encode
from polyseme.operations.options import EncodeOptions
from polyseme_lab.evaluation.coarsewsd import coarsewsd, occurrences_in
from polyseme_lab.evaluation.datasets import (
    Files,
    OccurrenceVectors,
    number_occurrences,
    read_archive,
)
from polyseme_lab.evaluation.statistics import IntervalEstimate, resample_counts

RESULTS = Path(__file__).parents[1] / "results"
PASSAGES = 2_000
MIN_WORDS, MAX_WORDS = 8, 40
"""The bounds of the number of words of a sentence, split at white space."""
WIDTHS = (300, 256, 192, 128, 96, 64, 32, 16)
_BOUNDARY = re.compile(r"(?<=[.!?]) (?=[A-Z])")
"""A sentence boundary, in nearly all cases."""

Systems: TypeAlias = dict[str, Floats]
"""Vectors of the same S sentences by method, [S, d] each."""


def passages(corpus: Path) -> Iterator[tuple[str, str]]:
    """Yield the two sentences of each line with exactly two, of 8 to 40 words each."""
    with zstandard.open(corpus, "rb") as stream:
        for line in io.TextIOWrapper(stream, "utf-8"):
            match _BOUNDARY.split(line.strip()):
                case [first, second] if _fits(first) and _fits(second):
                    yield first, second


def _fits(sentence: str) -> bool:
    return MIN_WORDS <= len(sentence.split()) <= MAX_WORDS


def vectors(model: Model, texts: Sequence[str | Sequence[str]]) -> Systems:
    """Return the sentence vectors by kind of token vectors and pooling."""
    options = EncodeOptions(include=["static", "contextual"])
    found: dict[str, list[Floats]] = {}
    for one in encode(model, texts, options):
        parts = {"contextual": one.arrays["contextual"], "static": unit(one.arrays["static"])}
        for pooling in get_args(Pooling):
            (weights,) = token_weights(model, [one.tokens], pooling)
            for kind, rows in parts.items():
                mean = weighted_mean(rows, weights)
                found.setdefault(f"{kind}, {pooling}", []).append(mean)
    return {name: np.array(rows, np.float32) for name, rows in found.items()}


def halves(first: Floats, second: Floats) -> IntervalEstimate:
    """Return how often the nearest sentence is the other one of the passage, in both directions."""
    cosines = unit(first) @ unit(second).T
    right = _is_nearest(cosines) / 2 + _is_nearest(cosines.T) / 2
    drawn = resample_counts(len(right)) / len(right)
    return IntervalEstimate.from_resamples(float(right.mean()), drawn @ right)


def _is_nearest(cosines: Floats) -> Floats:
    right: Floats = (cosines.argmax(axis=1) == np.arange(len(cosines))).astype(np.float64)
    return right


def by_width(
    model: Model, corpus: Path, archive: Path
) -> Iterator[tuple[str, int, IntervalEstimate, IntervalEstimate]]:
    """Yield method, width, and the figures of both tasks."""
    files: Files = read_archive(archive)
    pairs = list(islice(passages(corpus), PASSAGES))
    first, second = (vectors(model, half) for half in zip(*pairs, strict=True))
    rows = number_occurrences(occurrences_in(files))
    sentences = vectors(model, [one.words for one in rows])
    for name in first:
        for width in WIDTHS:
            cut = [one[name][:, :width] for one in (first, second, sentences)]
            senses = coarsewsd(files, OccurrenceVectors(rows, cut[2]))
            yield name, width, halves(cut[0], cut[1]), senses.accuracy


@click.command()
@click.argument("corpus", type=click.Path(path_type=Path, exists=True))
@click.argument("archive", type=click.Path(path_type=Path, exists=True))
def main(corpus: Path, archive: Path) -> None:
    """Run the benchmark."""
    results: dict[str, dict[str, Any]] = {}
    for name, width, found, senses in by_width(bundled(), corpus, archive):
        figures = {"halves": found._asdict(), "senses": senses._asdict()}
        results.setdefault(name, {})[str(width)] = figures
        click.echo(f"{name:<28} {width:>4} {found.value:>6} {senses.value:>6}")
    what = {"corpus": corpus.name, "passages": PASSAGES, "systems": results}
    record("sentence-vectors", ["numpy"], what, RESULTS)


if __name__ == "__main__":
    main()
