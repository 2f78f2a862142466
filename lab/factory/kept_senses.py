"""Measure senses that are found without labels, kept in an inventory and applied to other texts.

- *Tagged nouns*: the decision for several senses, and the calibration of `several`, on a half of
  `lab/factory/nouns.json` (`--half held_out` is for the end: constants are chosen on `choosing`).
- *Applied*: the senses of a word of CoarseWSD-20 are found in its training sentences and applied to
  its test sentences. A sense gets the label that most of its training sentences have; accuracy.
- *Unsure*: an inventory of all senses but one; the area under the ROC curve with which the distance
  below the threshold tells test sentences of the absent sense from others.

python lab/factory/kept_senses.py --tags google_wsd.tar.xz --data EVALUATION_SETS [--half choosing]
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson
from sklearn.metrics import roc_auc_score
from tagged_nouns import read_drawn, read_nouns

from polyseme.engine.arrays import Floats, Integers
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.senses.clustering import Clusterings, assign, divide
from polyseme.senses.inventory import inventory_of
from polyseme.senses.occurrences import find_projection, project, surround
from polyseme.tokenizer import resolve_all
from polyseme_lab.evaluation.coarsewsd import ambiguous_words
from polyseme_lab.evaluation.datasets import TokenizedOccurrence, read_data_set
from polyseme_lab.report import about, write

MOST = 300
"""Maximum occurrences of a word; a random sample if there are more."""
BINS = 5
"""The calibration error has bins of equally many nouns."""
RESULTS = Path(__file__).parents[1] / "results" / "kept-senses.json"
WIKI_EN = Path(__file__).parents[2] / "models" / "wiki-en"


def points_of(model: Model, occurrences: Sequence[TokenizedOccurrence]) -> Floats:
    """Return the points that are clustered. -> [m, r]"""
    words = [
        resolve_all(words, model.vocabulary, composes=model.composes) for words, _ in occurrences
    ]
    return project(
        surround(model, words, [[place] for _, place in occurrences]), find_projection(model)
    )


def calibration_error(probabilities: Floats, several: Floats) -> float:
    """Return the expected calibration error (Naeini et al. 2015) in BINS bins of equal size."""
    order = np.argsort(probabilities, kind="stable")
    bins = np.array_split(order, BINS)
    gaps = [abs(probabilities[each].mean() - several[each].mean()) * len(each) for each in bins]
    return float(sum(gaps) / len(order))


def measure_nouns(model: Model, tags: Path, half: str) -> dict[str, float]:
    """Return the decisions and the calibration on nouns with one sense and with several."""
    lemmas = read_drawn()[half]
    nouns = [noun for noun in read_nouns(tags) if noun.lemma in lemmas]
    rule = find_projection(model).rule
    found = [divide(points_of(model, noun.occurrences), rule=rule) for noun in nouns]
    several = np.array([bool(noun.several) for noun in nouns])
    probabilities = np.array([each.several for each in found])
    decided = np.array([len(each.chosen.centroids) > 1 for each in found])
    return {
        "nouns": len(nouns),
        "several_right": float(decided[several].mean()),
        "one_right": float((~decided[~several]).mean()),
        "auc": float(roc_auc_score(several, probabilities)),
        "calibration_error": calibration_error(probabilities, several.astype(float)),
    }


def scores_of(model: Model, found: Clusterings, points: Floats) -> tuple[Integers, Floats]:
    """Return the sense of each point, and how far below its threshold the cosine is. [m], [m]"""
    keywords = [[] for _ in found.chosen.centroids]
    senses = inventory_of(model, "word", [], "any", found, keywords, phrases=False).senses
    centroids = np.stack([sense.centroid for sense in senses])
    thresholds = np.array([sense.threshold for sense in senses])
    assigned = assign(points, centroids)
    return assigned.labels, thresholds[assigned.labels] - assigned.cosines


def measure_applied(model: Model, data: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Return the accuracy of applied senses for each word, and the area of `unsure` of each."""
    rng = np.random.default_rng(0)
    rule = find_projection(model).rule
    accuracies: dict[str, float] = {}
    areas: dict[str, float] = {}
    for word in ambiguous_words(read_data_set(data, "coarsewsd")):
        sides = []
        for part in (word.train, word.test):
            size = len(part.senses)
            drawn = np.sort(rng.choice(size, min(size, MOST), replace=False))
            occurrences = [part.occurrences[number] for number in drawn]
            sides.append((points_of(model, occurrences), np.asarray(part.senses)[drawn]))
        (points, senses), (later, gold) = sides
        count = len(np.unique(senses))
        for name, given in (("given", count), ("found", None)):
            found = divide(points, given, rule)
            labels, _ = scores_of(model, found, later)
            names = [
                Counter(senses[found.chosen.labels == sense].tolist()).most_common(1)[0][0]
                for sense in range(len(found.chosen.centroids))
            ]
            accuracies[f"{word.name} {name}"] = float(np.mean(np.array(names)[labels] == gold))
        for absent in np.unique(senses) if count > 2 else ():
            if 5 <= (gold == absent).sum() < len(gold) - 5:
                known = divide(points[senses != absent], count - 1, rule)
                _, score = scores_of(model, known, later)
                areas[f"{word.name} {absent}"] = float(roc_auc_score(gold == absent, score))
    return accuracies, areas


def in_percent(part: Any) -> Any:
    """Return the fractions of a document in %."""
    if isinstance(part, dict):
        return {name: in_percent(value) for name, value in part.items()}
    return round(100 * part, 1) if isinstance(part, float) else part


@click.command()
@click.option("--tags", type=click.Path(path_type=Path, exists=True))
@click.option("--data", type=click.Path(path_type=Path, exists=True))
@click.option("--half", type=click.Choice(["choosing", "held_out"]), default="choosing")
@click.option("--model", "folder", type=click.Path(path_type=Path, exists=True), default=WIKI_EN)
def main(tags: Path | None, data: Path | None, half: str, folder: Path) -> None:
    """Write the measurements to lab/results/kept-senses.json and its report."""
    model = read_model(folder)
    measured = about(["numpy", "scipy", "scikit-learn"])
    if tags:
        measured[half] = measure_nouns(model, tags, half)
    if data:
        accuracies, areas = measure_applied(model, data)
        measured["accuracy"] = accuracies
        for name in ("given", "found"):
            values = [value for key, value in accuracies.items() if key.endswith(name)]
            measured[f"mean_accuracy_{name}"] = float(np.mean(values))
        measured["unsure"] = areas
        measured["mean_unsure"] = float(np.mean([*areas.values()]))
    before = orjson.loads(RESULTS.read_bytes())  # has the other half
    write(RESULTS, before | {name: in_percent(part) for name, part in measured.items()})


if __name__ == "__main__":
    main()
