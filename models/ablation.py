"""What each part of the closed form is worth, on text that the evaluation sets do not contain.

    python models/ablation.py --senses FOLDER [--output FILE.json]

FOLDER holds `google_wsd.tar.xz`: SemCor and MASC with dictionary senses. For each noun with two or
more senses of eight or more occurrences: nearest sense centroid in five folds, macro-F1 as a mean
over the nouns. For every lemma: how often two occurrences of one sense are nearer than two of
different senses (the area under the curve, over 60,000 pairs). The words of CoarseWSD-20 are left
out.
"""

import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import click
import numpy as np
import orjson
from sklearn.metrics import f1_score, roc_auc_score
from tqdm import tqdm

from service.engine.arrays import Floats
from service.engine.attention import Sentence
from service.engine.layer import Layer
from service.engine.norm import unit
from service.engine.stack import contextualise
from service.store.folder import read_model
from service.store.model import Model
from service.text.tokens import resolve_all

HERE = Path(__file__).parent
LEFT_OUT = frozenset(
    [
        *("apple", "arm", "bank", "bass", "bow", "chair", "club", "crane", "deck", "digit"),
        *("hood", "java", "mole", "pitcher", "pound", "seal", "spring", "square", "trunk", "yard"),
    ]
)
FEWEST, FOLDS, PAIRS, LONGEST, SEED = 8, 5, 60_000, 200, 1
Tagged = tuple[int, int, str, str]
"""sentence, place in it, lemma and part of speech, sense"""


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
    """The sentences as words, and every word that has a sense."""
    texts, tagged = [], []
    for words in sentences(archive):
        for place, word in enumerate(words):
            lemma, sense = word.get("lemma"), word.get("sense")
            if lemma and sense and lemma.lower() not in LEFT_OUT:
                tagged.append((len(texts), place, f"{lemma}/{word.get('pos')}", sense))
        texts.append([word.get("text") or "" for word in words])
    measured = by_lemma(tagged)
    return texts, [one for one in tagged if one[2] in measured and len(texts[one[0]]) <= LONGEST]


def by_lemma(tagged: list[Tagged]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each lemma, which occurrences and of which sense, in senses that occur often enough."""
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, (_, _, lemma, sense) in enumerate(tagged):
        found[lemma][sense].append(number)
    kept = {}
    for lemma, senses in found.items():
        often = {sense: ns for sense, ns in senses.items() if len(ns) >= FEWEST}
        if len(often) > 1:
            numbers = np.array([n for ns in often.values() for n in ns])
            labels = np.array([i for i, ns in enumerate(often.values()) for _ in ns])
            kept[lemma] = numbers, labels
    return kept


def centroids_f1(vectors: Floats, labels: np.ndarray, rng: np.random.Generator) -> float:
    """Macro-F1 of the nearest sense centroid in five folds."""
    folds = rng.permutation(len(labels)) % FOLDS
    guesses = np.empty_like(labels)
    for fold in range(FOLDS):
        train, test = folds != fold, folds == fold
        names = np.unique(labels[train])
        means = np.stack([vectors[train & (labels == name)].mean(axis=0) for name in names])
        guesses[test] = names[np.argmax(vectors[test] @ unit(means).T, axis=1)]
    return float(f1_score(labels, guesses, average="macro"))


def pairs_auc(
    vectors: Floats, lemmas: dict[str, tuple[np.ndarray, np.ndarray]], rng: np.random.Generator
) -> float:
    """The area under the curve of the cosine, over pairs of occurrences of one lemma."""
    names = list(lemmas)
    cosines, same = [], []
    for lemma in rng.integers(len(names), size=PAIRS):
        numbers, labels = lemmas[names[lemma]]
        a, b = rng.choice(len(numbers), 2, replace=False)
        cosines.append(vectors[numbers[a]] @ vectors[numbers[b]])
        same.append(labels[a] == labels[b])
    return float(roc_auc_score(same, cosines))


def variants(layer: Layer) -> dict[str, Layer]:
    """The layer, and what becomes of it without each part or with more or less of it."""
    scoring, residual = layer.scoring, layer.residual

    def attraction(times: float) -> Layer:
        return replace(layer, key=replace(layer.key, weight=layer.key.weight * np.float32(times)))

    return {
        "closed form": layer,
        "association × 0": attraction(0),
        "association × 1/3": attraction(1 / 3),
        "association × 2/3": attraction(2 / 3),
        "association × 2": attraction(2),
        "no nearness": replace(layer, scoring=replace(scoring, position_bias=None)),
        "no informativeness": replace(layer, scoring=replace(scoring, word_bias=False)),
        "no half-whitening": replace(layer, value=Layer().value),
        "may look at itself": replace(layer, scoring=replace(scoring, looks_at="all")),
        "no position share": replace(layer, residual=replace(residual, position_share=0.0)),
        "share 0": replace(layer, residual=replace(residual, share=0.0)),
        "share 0.4": replace(layer, residual=replace(residual, share=0.4)),
        "share 0.8": replace(layer, residual=replace(residual, share=0.8)),
        "parameter-free": Layer(),
    }


def embed(sentences: dict[int, Sentence], tagged: list[Tagged], layer: Layer) -> Floats:
    """The unit contextual vector of each tagged word."""
    states: dict[int, Floats] = {}
    vectors = []
    for sentence, place, _, _ in tagged:
        if sentence not in states:
            states = {sentence: contextualise(sentences[sentence], [layer]).contextual}
        vectors.append(states[sentence][place])
    return unit(np.stack(vectors))


def measure(vectors: Floats, tagged: list[Tagged]) -> dict[str, float]:
    """Both figures, in %."""
    lemmas = by_lemma(tagged)
    nouns = [pair for lemma, pair in lemmas.items() if lemma.endswith("/NOUN")]
    rng = np.random.default_rng(SEED)
    f1 = [centroids_f1(vectors[numbers], labels, rng) for numbers, labels in nouns]
    auc = pairs_auc(vectors, lemmas, np.random.default_rng(SEED))
    return {"nouns_macro_f1": round(100 * float(np.mean(f1)), 2), "pairs_auc": round(100 * auc, 2)}


def known(texts: list[list[str]], tagged: list[Tagged], model: Model) -> list[Tagged]:
    """The tagged words that are in the model's vocabulary, of lemmas that are still measured."""
    words = [texts[sentence][place] for sentence, place, _, _ in tagged]
    found = resolve_all(words, model.vocabulary)
    kept = [one for one, token in zip(tagged, found, strict=True) if token.row is not None]
    measured = by_lemma(kept)
    return [one for one in kept if one[2] in measured]


def run(
    model: Model,
    texts: list[list[str]],
    tagged: list[Tagged],
    layers: dict[str, Layer],
    fold: Callable[[str], str] = str,
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each variant and its figures, the words passed through `fold` first."""
    numbers = sorted({sentence for sentence, *_ in tagged})
    read = {
        number: model.sentence(resolve_all(map(fold, texts[number]), model.vocabulary))
        for number in numbers
    }
    for name, layer in tqdm(layers.items(), disable=None):
        yield name, measure(embed(read, tagged, layer), tagged)


@click.command()
@click.option("--senses", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--output", type=click.Path(path_type=Path))
def main(senses: Path, output: Path | None) -> None:
    """Measure every variant, in the case of the text and in lower case."""
    texts, tagged = read(senses / "google_wsd.tar.xz")
    model = read_model(HERE / "wiki-en")
    layers = variants(model.layers[0])
    results: dict[str, dict[str, dict[str, float]]] = {}
    for case, fold in (("as written", str), ("lower case", str.lower)):
        for name, figures in run(model, texts, tagged, layers, fold):
            results.setdefault(name, {})[case] = figures
            click.echo(f"{case:<12} {name:<20} {figures}")
    if output:
        style = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        output.write_bytes(orjson.dumps(results, option=style))


if __name__ == "__main__":
    main()
