"""How well a model's vectors separate senses: CoarseWSD-20 and WiC, beside their controls.

    python models/senses.py --data FOLDER [--model NAME] [--output FILE.json]

FOLDER holds `coarsewsd.tar.xz` and `wic.tar.xz`. Nothing of the service is trained on either; WiC's
threshold is tuned on its train split. CoarseWSD-20 (Loureiro et al. 2021): nearest sense centroid,
the mean of the unit-length training vectors of each sense; accuracy and macro-F1 are means over
words. WiC (Pilehvar & Camacho-Collados 2019): cosine of the two occurrences against a threshold.
"""

import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import compress
from pathlib import Path

import click
import numpy as np
import orjson
from sklearn.metrics import accuracy_score, f1_score
from tqdm import tqdm

from service.engine.arrays import Floats
from service.engine.layer import Layer
from service.engine.norm import unit
from service.engine.stack import contextualise
from service.store.model import Model
from service.store.registry import Registry
from service.text.tokens import resolve_all

Occurrence = tuple[list[str], int]
Embedder = Callable[[Occurrence], Floats]
Files = dict[str, list[str]]
"""The lines of each text file of an archive."""
Figures = dict[str, dict[str, float]]


def systems(model: Model) -> dict[str, Embedder]:
    """The model, and what it has to beat."""

    def with_layers(layers: list[Layer]) -> Embedder:
        def embed(occurrence: Occurrence) -> Floats:
            words, place = occurrence
            sentence = model.sentence(resolve_all(words, model.vocabulary))
            return contextualise(sentence, layers).contextual[place]

        return embed

    def context_mean(occurrence: Occurrence) -> Floats:
        words, place = occurrence
        vectors = model.static(resolve_all(words, model.vocabulary))
        return np.delete(vectors, place, axis=0).sum(axis=0)

    def static(occurrence: Occurrence) -> Floats:
        words, place = occurrence
        return model.static(resolve_all([words[place]], model.vocabulary))[0]

    return {
        "static vector": static,
        "plain mean of the context": context_mean,
        "parameter-free attention": with_layers([Layer()]),
        "without association": with_layers(_without_association(model)),
        "without informativeness": with_layers(_without_informativeness(model)),
        "contextual vector": with_layers(list(model.layers)),
    }


def _without_association(model: Model) -> list[Layer]:
    zero = np.zeros((model.manifest.dimension, model.key_width), np.float32)
    return [replace(layer, key=replace(layer.key, weight=zero)) for layer in model.layers]


def _without_informativeness(model: Model) -> list[Layer]:
    return [
        replace(layer, scoring=replace(layer.scoring, word_bias=False)) for layer in model.layers
    ]


def lines_of(archive: Path) -> Files:
    """The text files of an archive by name, as lines."""
    with tarfile.open(archive) as tar:
        return {
            member.name: file.read().decode().splitlines()
            for member in tar
            if member.isfile() and (file := tar.extractfile(member))
        }


def known_words(files: Files, model: Model) -> Files:
    """CoarseWSD-20 without the words that the model's vocabulary lacks."""
    lacking = {
        Path(name).parent
        for name, lines in files.items()
        if name.endswith("test.data.txt") and not _known([_coarse_occurrence(lines[0])], model)
    }
    return {name: lines for name, lines in files.items() if Path(name).parent not in lacking}


def known_pairs(files: Files, model: Model) -> Files:
    """WiC without the pairs of which the model's vocabulary lacks a word."""
    kept = dict(files)
    for name in files:
        if name.endswith(".data.txt"):
            known = [_known(_wic_occurrences(line), model) for line in files[name]]
            for part in (name, name.replace(".data.", ".gold.")):
                kept[part] = list(compress(files[part], known))
    return kept


def _known(occurrences: list[Occurrence], model: Model) -> bool:
    targets = (words[place] for words, place in occurrences)
    return all(token.row is not None for token in resolve_all(targets, model.vocabulary))


def coarsewsd(files: Files, embed: Embedder) -> dict[str, float]:
    """Accuracy and macro-F1 in %, as means over the words."""
    words = sorted({Path(name).parent for name in files if name.endswith("test.data.txt")})
    accuracies, macros = [], []
    for word in tqdm(words, desc="coarsewsd", leave=False, disable=None):
        (train, senses), (test, gold) = (
            _coarse_split(files, word, split, embed) for split in ("train", "test")
        )
        names = np.unique(senses)
        centroids = np.stack([train[senses == name].mean(axis=0) for name in names])
        guesses = names[np.argmax(test @ unit(centroids).T, axis=1)]
        accuracies.append(accuracy_score(gold, guesses))
        macros.append(f1_score(gold, guesses, average="macro"))
    return {
        "words": len(words),
        "accuracy": round(100 * float(np.mean(accuracies)), 2),
        "macro_f1": round(100 * float(np.mean(macros)), 2),
    }


def _coarse_split(
    files: Files, word: Path, split: str, embed: Embedder
) -> tuple[Floats, np.ndarray]:
    vectors = [embed(_coarse_occurrence(line)) for line in files[f"{word}/{split}.data.txt"]]
    return unit(np.stack(vectors)), np.array(files[f"{word}/{split}.gold.txt"])


def _coarse_occurrence(line: str) -> Occurrence:
    place, text = line.split("\t")
    return text.split(), int(place)


def wic(files: Files, embed: Embedder) -> dict[str, float]:
    """Accuracy in % on dev, the threshold being the best one on train."""
    (train, labels), (dev, gold) = (_wic_split(files, s, embed) for s in ("train", "dev"))
    thresholds = np.unique(train)
    accuracies = [np.mean((train >= threshold) == labels) for threshold in thresholds]
    threshold = thresholds[int(np.argmax(accuracies))]
    return {
        "train_accuracy": round(100 * float(max(accuracies)), 2),
        "dev_accuracy": round(100 * float(np.mean((dev >= threshold) == gold)), 2),
    }


def _wic_split(files: Files, split: str, embed: Embedder) -> tuple[Floats, np.ndarray]:
    data, gold = (
        next(lines for name, lines in files.items() if name.endswith(f"{split}.{kind}.txt"))
        for kind in ("data", "gold")
    )
    cosines = []
    for line in tqdm(data, desc="wic", leave=False, disable=None):
        a, b = unit(np.stack([embed(one) for one in _wic_occurrences(line)]))
        cosines.append(float(a @ b))
    return np.array(cosines), np.array(gold) == "T"


def _wic_occurrences(line: str) -> list[Occurrence]:
    _, _, places, *texts = line.split("\t")
    pairs = zip(texts, places.split("-"), strict=True)
    return [(text.split(), int(place)) for text, place in pairs]


def measure(model: Model, data: Path) -> Iterator[tuple[str, Figures]]:
    """Yield each system and its figures."""
    yield from figures(model, lines_of(data / "coarsewsd.tar.xz"), lines_of(data / "wic.tar.xz"))


def figures(model: Model, coarse: Files, in_context: Files) -> Iterator[tuple[str, Figures]]:
    """Yield each system and its figures on these files."""
    for name, embed in systems(model).items():
        yield name, {"coarsewsd": coarsewsd(coarse, embed), "wic": wic(in_context, embed)}


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--model", default="wiki-en", show_default=True)
@click.option("--models-dir", type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path))
def main(data: Path, model: str, models_dir: Path | None, output: Path | None) -> None:
    """Measure a model."""
    registry = Registry.of(models_dir, model)
    results = {}
    for name, found in measure(registry.model(), data):
        results[name] = found
        click.echo(f"{name:<28} {found}")
    if output:
        style = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        output.write_bytes(orjson.dumps({"model": model, "systems": results}, option=style))


if __name__ == "__main__":
    main()
