"""Compare final projections and skips of a stack that is trained by hidden words.

    python lab/studies/finals.py FOLDER --corpus FILE --pseudowords FILE --tags FILE --wic FOLDER

FOLDER is a model, whose own final projection and skip are compared too. The others are those of
`training/stack.py` with other powers and shares, estimated from 30 occurrences of 1,500 words, once
hidden and once shown. The figures are the macro-F1 of pseudo-words (every second pair, balanced and
imbalanced), the accuracy on WiC train, and the macro-F1 of tagged nouns: of the supersenses with at
least 14 tags, ten tagged occurrences each give the centroids.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import click
import numpy as np
from sklearn.metrics import f1_score

from polyseme.engine.arrays import Flags, Floats, unit
from polyseme.engine.layers import Layer, Projection, contextualize
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.operations.encode import stacks
from polyseme.tokenizer import resolve_all
from polyseme_lab.evaluation.datasets import TokenizedOccurrence, read_data_set
from polyseme_lab.evaluation.downstream import HIDDEN_WORD, centroid_f1, read_pseudowords
from polyseme_lab.evaluation.statistics import nearest_centroids
from polyseme_lab.evaluation.wic import best_threshold, pairs_of
from polyseme_lab.training.stack import Occurrences, final_and_skip

sys.path.insert(0, str(Path(__file__).parents[1] / "factory"))
from fit_senses import choose_words, collect
from tagged_nouns import TaggedNoun, read_nouns

WORDS, SENTENCES = 1500, 30
GIVEN, TAGS, DRAWS = 10, 14, 4
"""Numbers of given occurrences, of all occurrences at least, and of draws, for each supersense."""
POWERS, SHARES = (0.125, 0.25, 0.375, 0.5), (0.0, 0.3, 0.5, 0.75, 1.0)
Map: TypeAlias = Callable[[Occurrences], Floats]
_path = click.Path(path_type=Path, exists=True)


def states(model: Model, occurrences: Sequence[TokenizedOccurrence], *, hide: bool) -> Occurrences:
    """Return the results of the last layer without final projection; words are all 0."""
    last = replace(model.layers[-1], final=Projection(), skip=None)
    layers: list[Layer] = [*model.layers[:-1], last]
    sentences = []
    for words, place in occurrences:
        shown = [*words[:place], HIDDEN_WORD, *words[place + 1 :]] if hide else words
        sentences.append(resolve_all(shown, model.vocabulary, composes=model.composes))
    results, vectors = np.empty((2, len(sentences), model.manifest.dimension))
    for numbers in stacks([len(tokens) for tokens in sentences]):
        inputs = model.stack([sentences[number] for number in numbers])
        found = contextualize(inputs, layers).contextual
        for row, number in enumerate(numbers):
            place = occurrences[number].place
            results[number], vectors[number] = found[row, place], inputs.vectors[row, place]
    return Occurrences(np.zeros(len(sentences), np.int64), results, vectors)


def noun_f1(noun: TaggedNoun, vectors: Floats) -> list[float]:
    """Return the macro-F1 of the frequent supersenses of a noun, of each draw."""
    _, senses = np.unique(noun.supersenses, return_inverse=True)
    frequent = np.flatnonzero(np.bincount(senses) >= TAGS)
    rng, found = np.random.default_rng(0), []
    for _ in range(DRAWS if len(frequent) > 1 else 0):
        given = [rng.permutation(np.flatnonzero(senses == one)) for one in frequent]
        known = np.concatenate([rows[:GIVEN] for rows in given])
        asked = np.concatenate([rows[GIVEN:] for rows in given])
        guessed = nearest_centroids(vectors[known], senses[known], vectors[asked])
        found.append(f1_score(senses[asked], guessed, average="macro"))
    return found


def wic_accuracy(vectors: Floats, same: Flags) -> float:
    """Return the accuracy with the best threshold; the vectors of each pair are adjacent."""
    return best_threshold(np.vecdot(vectors[::2], vectors[1::2]), same)[1]


@click.command()
@click.argument("folder", type=_path)
@click.option("--corpus", type=_path, required=True)
@click.option("--pseudowords", type=_path, required=True)
@click.option("--tags", type=_path, required=True)
@click.option("--wic", type=_path, required=True)
def main(folder: Path, corpus: Path, pseudowords: Path, tags: Path, wic: Path) -> None:
    """Run the study."""
    model, pairs = read_model(folder), read_pseudowords(pseudowords)
    contexts = collect(corpus, set(choose_words(model, pairs)[:WORDS]))
    occurrences = [one for found in contexts.values() for one in found[:SENTENCES]]
    words = np.repeat(np.arange(len(contexts)), SENTENCES)
    hidden, shown = (
        states(model, occurrences, hide=hide)._replace(words=words) for hide in (True, False)
    )
    of_pairs = [(states(model, pair.occurrences, hide=True), pair.senses) for pair in pairs[::2]]
    train = pairs_of(read_data_set(wic, "wic"), "train")
    sides = [one for pair in train.occurrences for one in pair]
    of_wic = states(model, sides, hide=False)
    nouns = [noun for noun in read_nouns(tags) if noun.several]
    of_nouns = [(noun, states(model, noun.occurrences, hide=False)) for noun in nouns]

    def measure(name: str, final: Projection, skip: Floats | None) -> None:
        def mapped(one: Occurrences) -> Floats:
            added = 0 if skip is None else one.vectors @ skip
            return unit(final(one.results) + added)

        both = [
            [centroid_f1(mapped(one), senses, imbalanced=how) for how in (False, True)]
            for one, senses in of_pairs
        ]
        found = [*np.mean(both, axis=0), wic_accuracy(mapped(of_wic), train.same)]
        found.append(np.mean([f1 for noun, one in of_nouns for f1 in noun_f1(noun, mapped(one))]))
        click.echo(f"{name:<24}" + " ".join(f"{100 * one:.1f}" for one in found))

    measure("as it is", Projection(), None)
    measure("of the model", model.layers[-1].final, model.layers[-1].skip)
    for power in POWERS:
        measure(f"{power}", final_and_skip(hidden, shown, power=power, share=0)[0], None)
    for share in SHARES[1:]:
        measure(f"0.25, share {share}", *final_and_skip(hidden, shown, share=share))


if __name__ == "__main__":
    main()
