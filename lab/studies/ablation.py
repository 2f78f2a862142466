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

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import compress
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from lab.studies.variants import THE_MODEL, variants
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from polyseme.engine.arrays import Flags, Floats, Integers, unit
from polyseme.engine.layers import Layer
from polyseme.models.model import Model
from polyseme.models.registry import Registry
from polyseme.progress import ConsoleProgress
from polyseme.tokenizer import resolve_all
from polyseme_lab.commands.evaluate import write_json
from polyseme_lab.evaluation.datasets import TokenizedOccurrence, Words
from polyseme_lab.evaluation.sources import StaticStack
from polyseme_lab.evaluation.statistics import centroids_f1
from polyseme_lab.evaluation.systems import stack_reader, tabulate
from polyseme_lab.training.config import COARSEWSD
from polyseme_lab.training.corpus import is_lemma_held_out, read_archive_words

FEWEST, PAIRS, SEED = 8, 60_000, 1
Lemmas = dict[str, tuple[Integers, Integers]]
"""Indices of the tagged words of each lemma, and the index of the sense of each."""


class TaggedWord(NamedTuple):
    """A word with a sense tag."""

    sentence: int
    """number of the sentence"""
    place: int
    lemma: str
    """with its part of speech"""
    sense: str


class Pairs(NamedTuple):
    """Pairs of occurrences of one lemma."""

    first: Integers
    second: Integers
    same: Flags
    lemma: Integers


@dataclass(frozen=True)
class Separation:
    """The measures of some vectors, as fractions."""

    f1: Floats
    """[nouns]"""
    auc: float
    influence: Floats
    """[lemmas], contribution of each lemma to the error of the AUC; see `auc_influence`"""


def by_lemma(tagged: Sequence[TaggedWord]) -> Lemmas:
    """Return the occurrences in frequent senses of each lemma with two or more such senses."""
    lemmas: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, word in enumerate(tagged):
        lemmas[word.lemma][word.sense].append(number)
    kept = {}
    for lemma, senses in lemmas.items():
        frequent = [numbers for numbers in senses.values() if len(numbers) >= FEWEST]
        if len(frequent) > 1:
            labels = np.repeat(np.arange(len(frequent)), list(map(len, frequent)))
            kept[lemma] = np.concatenate(frequent), labels
    return kept


def nouns_of(lemmas: Lemmas) -> list[tuple[Integers, Integers]]:
    """Return the indices and senses of each noun."""
    return [pair for lemma, pair in lemmas.items() if lemma.endswith("/NOUN")]


def pairs_of(lemmas: Lemmas) -> Pairs:
    """Draw random pairs of occurrences; each lemma has the same expected number of pairs."""
    rng, all_ = np.random.default_rng(SEED), list(lemmas.values())
    drawn = []
    for lemma in rng.integers(len(all_), size=PAIRS):
        numbers, labels = all_[lemma]
        a, b = rng.choice(len(numbers), 2, replace=False)
        drawn.append((numbers[a], numbers[b], labels[a] == labels[b], lemma))
    first, second, same, lemma = (np.array(part) for part in zip(*drawn, strict=True))
    return Pairs(first, second, same, lemma)


def separation(vectors: Floats, lemmas: Lemmas, pairs: Pairs) -> Separation:
    """Return both measures of unit vectors. [m, d]"""
    rng = np.random.default_rng(SEED)
    f1 = [centroids_f1(vectors[numbers], labels, rng) for numbers, labels in nouns_of(lemmas)]
    cosines = np.einsum("md,md->m", vectors[pairs.first], vectors[pairs.second])
    auc = float(roc_auc_score(pairs.same, cosines))
    influence = auc_influence(cosines, pairs.same, pairs.lemma, len(lemmas))
    return Separation(np.array(f1), auc, influence)


def auc_influence(cosines: Floats, same: Flags, lemma: Integers, lemmas: int) -> Floats:
    """Return each lemma's contribution to the AUC's error; the squares sum to its variance. -> [l]

    With l lemmas, a contribution is √(l / (l − 1)) times the sum of the structural components
    (Obuchowski 1997) of the lemma's pairs. The component of a pair with the same sense is the share
    of pairs with different senses that have a lower cosine, minus the AUC, divided by the number of
    pairs with the same sense. For a pair with different senses, it is the share of pairs with the
    same sense that have a higher cosine, minus the AUC, divided by the number of pairs with
    different senses.
    """
    ranks, above = rankdata(cosines), np.empty(len(cosines))
    for kind in (same, ~same):
        above[kind] = (ranks[kind] - rankdata(cosines[kind])) / max(1, np.count_nonzero(~kind))
    above[~same] = 1 - above[~same]
    area = above[same].mean()
    parts = (above - area) / np.where(same, np.count_nonzero(same), np.count_nonzero(~same))
    sums = np.bincount(lemma, weights=parts, minlength=lemmas)
    correction = np.sqrt(lemmas / max(1, lemmas - 1))
    influence: Floats = correction * sums
    return influence


def figures(measured: Separation, base: Separation | None = None) -> dict[str, dict[str, float]]:
    """Return both measures in % with standard errors, and the paired differences from `base`."""
    f1 = _percents(value=float(measured.f1.mean()), error=_of_mean(measured.f1))
    auc = _percents(value=measured.auc, error=_of_sum(measured.influence))
    if base is not None:
        gain, influence = measured.f1 - base.f1, measured.influence - base.influence
        f1 |= _percents(difference=float(gain.mean()), difference_error=_of_mean(gain))
        auc |= _percents(difference=measured.auc - base.auc, difference_error=_of_sum(influence))
    return {"nouns_macro_f1": f1, "pairs_auc": auc}


def _of_mean(values: Floats) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _of_sum(influence: Floats) -> float:
    return float(np.sqrt((influence**2).sum()))


def _percents(**parts: float) -> dict[str, float]:
    return {name: round(100 * part, 2) + 0.0 for name, part in parts.items()}  # no −0.0


MAX_WORDS = 200
"""Maximum number of words in a sentence; longer ones are skipped."""
OCCURRENCES, OF_LEMMA = 9000, 48
"""The approximate total of occurrences, and the maximum per lemma unless there are few lemmas."""
PACKAGES = ("numpy", "scikit-learn", "scipy")


def read(archive: Path) -> tuple[list[list[str]], list[TaggedWord]]:
    """Return the words of each sentence, and the tagged words that can be measured."""
    texts, tagged = [], []
    for words in read_archive_words(archive):
        for place, word in enumerate(words):
            lemma, sense = word.get("lemma"), word.get("sense")
            if lemma and sense and lemma.lower() not in COARSEWSD:
                lemma = f"{lemma}/{word.get('pos')}"
                tagged.append(TaggedWord(len(texts), place, lemma, sense))
        texts.append([word.get("text") or "" for word in words])
    measured = measurable(tagged)
    return texts, [word for word in measured if len(texts[word.sentence]) <= MAX_WORDS]


def measurable(tagged: list[TaggedWord]) -> list[TaggedWord]:
    """Return the words whose lemmas have two or more frequent senses."""
    lemmas = by_lemma(tagged)
    return [word for word in tagged if word.lemma in lemmas]


def known(texts: list[list[str]], tagged: list[TaggedWord], model: Model) -> list[TaggedWord]:
    """Return the tagged words in the model's vocabulary whose lemmas can be measured."""
    tokens = resolve_all([texts[word.sentence][word.place] for word in tagged], model.vocabulary)
    return measurable(list(compress(tagged, [token.row is not None for token in tokens])))


def held_out(tagged: list[TaggedWord], training: Mapping[str, Any]) -> list[TaggedWord]:
    """Return the tagged words of held-out lemmas, or all if no lemma was held out of training."""
    recipe, data = training.get("recipe", {}), training.get("data", {})
    part, split = recipe.get("held_out", 0), recipe.get("split", 0)
    if not data.get("tags") or not part:
        return tagged
    return [word for word in tagged if is_lemma_held_out(word.lemma, part, split)]


def sample(tagged: list[TaggedWord], most: int) -> list[TaggedWord]:
    """Return a random sample of lemmas and of their occurrences, in the order of the text."""
    rng = np.random.default_rng(SEED)
    lemmas, chosen = by_lemma(tagged), []
    of_lemma = max(OF_LEMMA, most // max(1, len(lemmas)))
    for lemma in rng.permutation(sorted(lemmas)):
        numbers, _ = lemmas[lemma]
        kept = measurable([tagged[number] for number in rng.permutation(numbers)[:of_lemma]])
        if len(chosen) < most:
            chosen += kept
    return sorted(chosen, key=itemgetter(0, 1))


def embed(
    model: Model,
    texts: list[list[str]],
    tagged: Sequence[TaggedWord],
    stacks: Mapping[str, Sequence[Layer]],
    fold: Callable[[str], str] = str,
) -> dict[str, Floats]:
    """Return the unit contextual vectors of the tagged words by stack of layers. -> [m, d] each

    `fold` is applied to all words.
    """

    def source(sentences: Sequence[Words]) -> Iterator[StaticStack]:
        for number, words in enumerate(sentences):
            tokens = resolve_all(words, model.vocabulary)
            yield StaticStack([number], model.stack([tokens]), [tokens])

    occurrences = [
        TokenizedOccurrence(tuple(map(fold, texts[word.sentence])), word.place) for word in tagged
    ]
    readers = {name: stack_reader(layers) for name, layers in stacks.items()}
    tables = tabulate(source, readers, occurrences, ConsoleProgress())
    return {name: unit(table(occurrences)) for name, table in tables.items()}


def run(
    model: Model, texts: list[list[str]], tagged: list[TaggedWord], layers: dict[str, Layer]
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the name of each layer and its measures on all tagged words, in %."""
    lemmas = by_lemma(tagged)
    pairs = pairs_of(lemmas)
    for name, layer in layers.items():
        vectors = embed(model, texts, tagged, {name: [layer]})[name]
        measured = figures(separation(vectors, lemmas, pairs))
        yield name, {measure: figure["value"] for measure, figure in measured.items()}


def ablation(
    model: Model, texts: list[list[str]], tagged: list[TaggedWord]
) -> Iterator[tuple[str, dict[str, dict[str, float]]]]:
    """Yield the names and the measures in % of the model and of each variant."""
    lemmas = by_lemma(tagged)
    pairs = pairs_of(lemmas)
    stacks = variants(model)
    vectors = embed(model, texts, tagged, stacks)
    folded = {name: stacks[name] for name in (THE_MODEL, "parameter-free")}
    for name, table in embed(model, texts, tagged, folded, str.lower).items():
        vectors[f"{name}, in lower case"] = table
    base = separation(vectors.pop(THE_MODEL), lemmas, pairs)
    yield THE_MODEL, figures(base)
    for name in list(vectors):
        yield name, figures(separation(vectors.pop(name), lemmas, pairs), base)


def document(
    model: Model, tagged: list[TaggedWord], by_variant: dict[str, object], *, unseen: bool
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
            "sentences": len({word.sentence for word in tagged}),
            "seed": SEED,
            "held_out": unseen,
        },
        "versions": {package: version(package) for package in PACKAGES},
        "variants": by_variant,
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
    by_variant: dict[str, object] = {}
    for variant, measured in ablation(model, texts, tagged):
        by_variant[variant] = measured
        click.echo(f"{variant:<34} {measured}")
    if output:
        results = document(model, tagged, by_variant, unseen=len(unseen) < len(words))
        write_json(output, results)


if __name__ == "__main__":
    main()
