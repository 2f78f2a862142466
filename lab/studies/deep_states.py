"""Compare the states of a stack, and what is taken away from them, as contextual vectors.

    python lab/studies/deep_states.py FOLDER --pseudowords FILE --corpus FILE

The states are the output of each layer, and sums of several. Each is measured as it is, without its
mean over tokens of the corpus, without its leading principal directions, and multiplied by C^(-a),
where C is the covariance over these tokens. The measure is the macro-F1 of the nearest centroid on
every second pair of pseudo-words, as in `polyseme evaluate pseudowords`. The corpus is one of lines
of text, compressed or not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import click
import numpy as np

from polyseme.engine.arrays import Floats, unit
from polyseme.engine.layers import Projection, contextualize
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.operations.encode import stacks
from polyseme.tokenizer import resolve_all, tokenize
from polyseme_lab.evaluation.downstream import centroid_f1, read_pseudowords
from polyseme_lab.training.corpus import read_lines

LINES = 2000
"""Number of lines of the corpus from which mean and covariance are estimated."""
POWERS = (0.125, 0.25, 0.375, 0.5)


def states_of(model: Model, sentences: Sequence[Sequence[object]]) -> Iterator[tuple[int, Floats]]:
    """Yield the number of each sentence and its states, without final projections. -> [L, n, d]"""
    plain = [replace(one, final=Projection(), skip=None) for one in model.layers]
    for numbers in stacks([len(tokens) for tokens in sentences]):
        inputs = model.stack([sentences[number] for number in numbers])  # type: ignore[misc]
        depths = range(1, len(plain) + 1)
        outputs = [contextualize(inputs, plain[:depth]).contextual for depth in depths]
        for place, number in enumerate(numbers):
            yield number, np.stack([output[place] for output in outputs])


def corpus_states(model: Model, corpus: Path) -> Floats:
    """Return the states of the tokens of the first lines. -> [L, m, d]"""
    texts = [line.strip() for line in islice(read_lines(corpus), LINES)]
    sentences = [tokenize(text, model.vocabulary, composes=model.composes)[:200] for text in texts]
    kept = [tokens for tokens in sentences if tokens]
    return np.concatenate([states for _, states in states_of(model, kept)], axis=1)


def maps_of(states: Floats) -> dict[str, tuple[Floats, Floats]]:
    """Return means [d] and matrices [d, d] by name, from the states of tokens. [m, d]"""
    d = states.shape[1]
    mean = states.mean(axis=0)
    values, directions = np.linalg.eigh(np.cov(states, rowvar=False))
    found: dict[str, tuple[Floats, Floats]]
    found = {"as it is": (np.zeros(d), np.eye(d)), "less mean": (mean, np.eye(d))}
    for count in (3, 10):
        rest = directions[:, : d - count]
        found[f"less {count} directions"] = mean, rest @ rest.T
    for power in POWERS:
        scaled = directions * np.maximum(values, values[-1] * 1e-6) ** -power
        found[f"C^-{power:g}"] = mean, scaled @ directions.T
    return found


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.option("--pseudowords", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--corpus", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--every", default=2, help="Measure one pair in so many.")
def main(folder: Path, pseudowords: Path, corpus: Path, every: int) -> None:
    """Run the study."""
    model = read_model(folder)
    of_corpus = corpus_states(model, corpus)
    scale = [1 / np.sqrt(np.square(states).sum(axis=1).mean()) for states in of_corpus]
    depth = len(of_corpus)
    weights = {f"layer {n + 1}": np.eye(depth)[n] for n in range(depth)}
    if depth > 1:
        weights["mean of all"] = np.array(scale)
        weights["mean of the last two"] = np.array(scale) * ([0] * (depth - 2) + [1, 1])
    maps = {
        (state, how): (factors, *both)
        for state, factors in weights.items()
        for how, both in maps_of(np.tensordot(factors, of_corpus, 1)).items()
    }
    scores: dict[tuple[str, str], list[tuple[float, float]]] = {key: [] for key in maps}
    for pair in read_pseudowords(pseudowords)[::every]:
        sentences = [resolve_all(o.words, model.vocabulary) for o in pair.occurrences]
        rows = np.empty((len(sentences), depth, of_corpus.shape[2]))
        for number, states in states_of(model, sentences):
            rows[number] = states[:, pair.occurrences[number].place]
        for key, (factors, mean, matrix) in maps.items():
            vectors = unit((np.tensordot(rows, factors, ([1], [0])) - mean) @ matrix)
            both = (centroid_f1(vectors, pair.senses, imbalanced=how) for how in (False, True))
            scores[key].append(tuple(both))  # type: ignore[arg-type]
    for (state, how), found in scores.items():
        balanced, imbalanced = 100 * np.mean(found, axis=0)
        click.echo(f"{state:<22} {how:<20} {balanced:.1f} {imbalanced:.1f}")


if __name__ == "__main__":
    main()
