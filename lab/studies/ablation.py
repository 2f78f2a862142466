"""Measure the parts of a model by ablation, on text that the evaluation sets do not contain.

    python lab/studies/ablation.py --senses FOLDER [--model NAME] [--output FILE.json]

FOLDER contains `google_wsd.tar.xz`: SemCor and MASC with dictionary senses. A sample of the lemmas
with two or more senses of eight or more occurrences is measured, which takes minutes. The measures
are, for nouns, the mean macro-F1 of the nearest sense centroid in five folds; and for all lemmas,
the probability that two occurrences with the same sense are nearer than two with different senses
(ROC AUC). The words of CoarseWSD-20 are excluded. Each value, and each difference of a variant from
the model on the same occurrences, has a standard error over lemmas. For a model trained on sense
tags, only held-out lemmas are measured.
"""

import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import click
import numpy as np
import orjson
from lab.studies.separation import (
    SEED,
    Tagged,
    by_lemma,
    figures,
    nouns_of,
    pairs_of,
    plain,
    separation,
)
from lab.studies.variants import THE_MODEL, variants
from tqdm import tqdm

from polyseme.engine.arrays import Floats, unit
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import Layer, contextualize
from polyseme.models.model import Model
from polyseme.models.registry import Registry
from polyseme.tokenizer import resolve_all
from polyseme_lab.training.tags import is_lemma_held_out

LEFT_OUT = frozenset(
    [
        *("apple", "arm", "bank", "bass", "bow", "chair", "club", "crane", "deck", "digit"),
        *("hood", "java", "mole", "pitcher", "pound", "seal", "spring", "square", "trunk", "yard"),
    ]
)
MAX_WORDS = 200
"""Maximum number of words in a sentence; longer ones are skipped."""
OCCURRENCES, OF_LEMMA = 9000, 48
"""The approximate total of occurrences, and the maximum per lemma unless there are few lemmas."""
PACKAGES = ("numpy", "scikit-learn", "scipy")


def sentences(archive: Path) -> Iterator[list[ET.Element]]:
    """Yield the sentences of every document as their word elements."""
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.name.endswith(".xml") else None
            if file is None:
                continue
            sentence: list[ET.Element] = []
            for word in ET.fromstring(file.read()).iter("word"):  # noqa: S314 - our data
                starts = word.get("break_level") in {"SENTENCE_BREAK", "PARAGRAPH_BREAK"}
                if starts and sentence:
                    yield sentence
                    sentence = []
                sentence.append(word)
            if sentence:
                yield sentence


def read(archive: Path) -> tuple[list[list[str]], list[Tagged]]:
    """Return the words of each sentence, and the tagged words that can be measured."""
    texts, tagged = [], []
    for words in sentences(archive):
        for place, word in enumerate(words):
            lemma, sense = word.get("lemma"), word.get("sense")
            if lemma and sense and lemma.lower() not in LEFT_OUT:
                tagged.append((len(texts), place, f"{lemma}/{word.get('pos')}", sense))
        texts.append([word.get("text") or "" for word in words])
    measured = by_lemma(tagged)
    return texts, [one for one in tagged if one[2] in measured and len(texts[one[0]]) <= MAX_WORDS]


def known(texts: list[list[str]], tagged: list[Tagged], model: Model) -> list[Tagged]:
    """Return the tagged words in the model's vocabulary whose lemmas can be measured."""
    words = [texts[sentence][place] for sentence, place, _, _ in tagged]
    found = resolve_all(words, model.vocabulary)
    kept = [one for one, token in zip(tagged, found, strict=True) if token.row is not None]
    measured = by_lemma(kept)
    return [one for one in kept if one[2] in measured]


def held_out(tagged: list[Tagged], training: Mapping[str, Any]) -> list[Tagged]:
    """Return the tagged words of held-out lemmas, or all if no lemma was held out of training."""
    recipe, data = training.get("recipe", {}), training.get("data", {})
    part, split = recipe.get("held_out", 0), recipe.get("split", 0)
    if not data.get("tags") or not part:
        return tagged
    lemmas = {one[2] for one in tagged}
    kept = {lemma for lemma in lemmas if is_lemma_held_out(lemma, part, split)}
    return [one for one in tagged if one[2] in kept]


def sample(tagged: list[Tagged], most: int) -> list[Tagged]:
    """Return a random sample of lemmas and of their occurrences, in the order of the text."""
    rng = np.random.default_rng(SEED)
    lemmas, chosen = by_lemma(tagged), []
    of_lemma = max(OF_LEMMA, most // max(1, len(lemmas)))
    for lemma in rng.permutation(sorted(lemmas)):
        numbers, _ = lemmas[lemma]
        some = [tagged[number] for number in rng.permutation(numbers)[:of_lemma]]
        kept = by_lemma(some)
        if len(chosen) < most and kept:
            chosen += [some[number] for number in kept[lemma][0]]
    return sorted(chosen, key=lambda one: one[:2])


def embed(
    sentences: Mapping[int, SentenceArrays],
    tagged: Sequence[Tagged],
    stacks: Mapping[str, Sequence[Layer]],
) -> dict[str, Floats]:
    """Return the unit contextual vectors of the tagged words by stack of layers. -> [m, d] each"""
    places: dict[int, list[int]] = {}
    for number, (sentence, *_) in enumerate(tagged):
        places.setdefault(sentence, []).append(number)
    found: dict[str, Floats] = {}
    for sentence, numbers in tqdm(places.items(), desc="sentences", disable=None):
        rows = [tagged[number][1] for number in numbers]
        for name, layers in stacks.items():
            vectors = contextualize(sentences[sentence], layers).contextual[rows]
            if name not in found:
                found[name] = np.empty((len(tagged), vectors.shape[1]), np.float32)
            found[name][numbers] = unit(vectors)
    return found


def sentences_of(
    model: Model, texts: list[list[str]], tagged: Sequence[Tagged], fold: Callable[[str], str] = str
) -> dict[int, SentenceArrays]:
    """Return the engine's arrays of the sentences of tagged words; `fold` is applied to words."""
    numbers = sorted({sentence for sentence, *_ in tagged})
    return {
        number: model.sentence(resolve_all(map(fold, texts[number]), model.vocabulary))
        for number in numbers
    }


def run(
    model: Model,
    texts: list[list[str]],
    tagged: list[Tagged],
    layers: dict[str, Layer],
    fold: Callable[[str], str] = str,
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the name of each layer and its measures on all tagged words, in %."""
    of_number, lemmas = sentences_of(model, texts, tagged, fold), by_lemma(tagged)
    pairs = pairs_of(lemmas)
    for name, layer in layers.items():
        vectors = embed(of_number, tagged, {name: [layer]})[name]
        yield name, plain(figures(separation(vectors, lemmas, pairs)))


def ablation(
    model: Model, texts: list[list[str]], tagged: list[Tagged]
) -> Iterator[tuple[str, dict[str, dict[str, float]]]]:
    """Yield the names and the measures in % of the model and of each variant."""
    lemmas = by_lemma(tagged)
    pairs = pairs_of(lemmas)
    stacks = variants(model)
    vectors = embed(sentences_of(model, texts, tagged), tagged, stacks)
    lowered = sentences_of(model, texts, tagged, str.lower)
    for name in (THE_MODEL, "parameter-free"):
        vectors[f"{name}, in lower case"] = embed(lowered, tagged, {name: stacks[name]})[name]
    base = separation(vectors.pop(THE_MODEL), lemmas, pairs)
    yield THE_MODEL, figures(base)
    for name in list(vectors):
        yield name, figures(separation(vectors.pop(name), lemmas, pairs), base)


def document(
    model: Model, tagged: list[Tagged], found: dict[str, object], *, unseen: bool
) -> dict[str, object]:
    """Return a JSON document of the results and the data."""
    lemmas = by_lemma(tagged)
    return {
        "model": model.manifest.name,
        "files": fingerprints(model),
        "sample": {
            "lemmas": len(lemmas),
            "nouns": len(nouns_of(lemmas)),
            "occurrences": len(tagged),
            "sentences": len({sentence for sentence, *_ in tagged}),
            "seed": SEED,
            "held_out": unseen,
        },
        "versions": {package: version(package) for package in PACKAGES},
        "variants": found,
    }


def fingerprints(model: Model) -> dict[str, str]:
    """Return the sha256 of each file of a model, which identifies its edition."""
    return {name: entry.sha256 for name, entry in sorted(model.manifest.files.items())}


@click.command()
@click.option("--senses", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--model", "name", default="wiki-en", show_default=True)
@click.option("--models-dir", type=click.Path(path_type=Path))
@click.option(
    "--occurrences",
    default=OCCURRENCES,
    show_default=True,
    help="Approximate number of occurrences to measure.",
)
@click.option("--output", type=click.Path(path_type=Path))
def main(
    senses: Path, name: str, models_dir: Path | None, occurrences: int, output: Path | None
) -> None:
    """Measure a model and every variant of it."""
    model = Registry.of(models_dir, name).model()
    texts, words = read(senses / "google_wsd.tar.xz")
    words = known(texts, words, model)
    unseen = held_out(words, model.manifest.training)
    tagged = sample(unseen, occurrences)
    found: dict[str, object] = {}
    for variant, measured in ablation(model, texts, tagged):
        found[variant] = measured
        click.echo(f"{variant:<34} {measured}")
    if output:
        results = document(model, tagged, found, unseen=len(unseen) < len(words))
        style = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        output.write_bytes(orjson.dumps(results, option=style))


if __name__ == "__main__":
    main()
