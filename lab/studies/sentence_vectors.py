"""Measure the quality of sentence vectors by token vectors, pooling and number of dimensions.

    python lab/studies/sentence_vectors.py PASSAGES COARSEWSD

There are two tasks. The first is to find the other sentence of a passage of two sentences among all
second or all first sentences. The second is to find the sense of a word of CoarseWSD-20 from the
vector of its sentence. Static vectors are normalized before pooling, as in `/v1/embeddings`. No
constant was chosen by these figures.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, get_args

import click
import numpy as np
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
from polyseme_lab.evaluation.statistics import IntervalEstimate
from polyseme_lab.training.corpus import read_lines

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
    for line in read_lines(corpus):
        sentences = _BOUNDARY.split(line.strip())
        lengths = [len(sentence.split()) for sentence in sentences]
        if len(lengths) == 2 and MIN_WORDS <= min(lengths) <= max(lengths) <= MAX_WORDS:
            yield sentences[0], sentences[1]


def vectors(model: Model, texts: Sequence[str | Sequence[str]]) -> Systems:
    """Return the sentence vectors by kind of token vectors and pooling."""
    options = EncodeOptions(include=["static", "contextual"])
    means: dict[str, list[Floats]] = {}
    for sentence in encode(model, texts, options):
        arrays = sentence.arrays
        parts = {"contextual": arrays["contextual"], "static": unit(arrays["static"])}
        for pooling in get_args(Pooling):
            (weights,) = token_weights(model, [sentence.tokens], pooling)
            for kind, rows in parts.items():
                means.setdefault(f"{kind}, {pooling}", []).append(weighted_mean(rows, weights))
    return {name: np.array(rows, np.float32) for name, rows in means.items()}


def halves(first: Floats, second: Floats) -> IntervalEstimate:
    """Return how often the nearest sentence is the other one of the passage, in both directions."""
    cosines, own = unit(first) @ unit(second).T, np.arange(len(first))
    right = [cosines.argmax(axis=axis) == own for axis in (0, 1)]
    return IntervalEstimate.of_mean(np.mean(right, axis=0))


def by_width(
    model: Model, corpus: Path, archive: Path
) -> Iterator[tuple[str, int, IntervalEstimate, IntervalEstimate]]:
    """Yield method, width, and the figures of both tasks."""
    files: Files = read_archive(archive)
    pairs = list(islice(passages(corpus), PASSAGES))
    first, second = (vectors(model, half) for half in zip(*pairs, strict=True))
    rows = number_occurrences(occurrences_in(files))
    sentences = vectors(model, [occurrence.words for occurrence in rows])
    for name in first:
        for width in WIDTHS:
            cut = [systems[name][:, :width] for systems in (first, second, sentences)]
            senses = coarsewsd(files, OccurrenceVectors(rows, cut[2]))
            yield name, width, halves(cut[0], cut[1]), senses.accuracy


@click.command()
@click.argument("corpus", type=click.Path(path_type=Path, exists=True))
@click.argument("archive", type=click.Path(path_type=Path, exists=True))
def main(corpus: Path, archive: Path) -> None:
    """Run the benchmark."""
    results: dict[str, dict[str, Any]] = {}
    for name, width, pairs, senses in by_width(bundled(), corpus, archive):
        figures = {"halves": pairs._asdict(), "senses": senses._asdict()}
        results.setdefault(name, {})[str(width)] = figures
        click.echo(f"{name:<28} {width:>4} {pairs.value:>6} {senses.value:>6}")
    what = {"corpus": corpus.name, "passages": PASSAGES, "systems": results}
    record("sentence-vectors", ["numpy"], what, RESULTS)


if __name__ == "__main__":
    main()
