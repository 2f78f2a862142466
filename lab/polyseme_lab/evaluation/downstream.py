"""Evaluate vectors by token tagging, sentence similarity and pseudo-words."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray
from sklearn.metrics import f1_score

from polyseme.client.local import LocalModel
from polyseme.client.results import Sentence
from polyseme.engine import Floats, Integers, unit
from polyseme.errors import CommandError
from polyseme.models.model import Model
from polyseme.operations.embed import DEFAULT_POOLING
from polyseme.operations.schema import Part
from polyseme.terminal import SILENT, Progress
from polyseme_lab.evaluation.datasets import TokenizedOccurrence
from polyseme_lab.evaluation.results import ResultRow, Results
from polyseme_lab.evaluation.statistics import (
    IntervalEstimate,
    interval_note,
    nearest_centroids,
    rank_correlation,
    resample_counts,
)
from polyseme_lab.evaluation.systems import Kind, systems, tabulate
from polyseme_lab.files import read_text_lines

HIDDEN_WORD = "\ue000" * 257
"""The token that replaces both words of a pair. It has no vector: no vocabulary contains it, and
words of more than 256 code points are not composed of subwords."""
IMBALANCE = 5
"""The imbalanced figure uses every fifth training example of the second word."""
PROBE_SEED = 1


@dataclass(frozen=True)
class LabeledWords:
    """The words of a sentence and their tags."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True)
class PseudoWord:
    """Occurrences of two words that are replaced by the same token, HIDDEN_WORD."""

    words: tuple[str, str]
    occurrences: list[TokenizedOccurrence]
    senses: NDArray[np.int64]
    """[m], 0 or 1, the index of the replaced word"""


def read_tagged_sentences(path: Path) -> list[LabeledWords]:
    """Read a file of `token TAB tag` lines with an empty line after each sentence.

    Raises CommandError for another format.
    """
    sentences: list[LabeledWords] = []
    pairs: list[tuple[str, ...]] = []
    for number, line in enumerate([*read_text_lines(path), ""], 1):
        if line.strip():
            fields = tuple(line.split("\t"))
            if len(fields) != 2 or not all(fields):
                raise CommandError(f"{path.name}, line {number} is not a token, a tab and a tag.")
            pairs.append(fields)
        elif pairs:
            words, tags = zip(*pairs, strict=True)
            sentences.append(LabeledWords(words, tags))
            pairs = []
    if not sentences:
        raise CommandError(f"{path.name} has no sentence.")
    return sentences


def read_sentence_pairs(path: Path) -> list[tuple[float, str, str]]:
    """Read `score TAB sentence TAB sentence` lines.

    Raises CommandError for another format, or if all scores are equal.
    """
    pairs = []
    for number, line in enumerate(read_text_lines(path), 1):
        first, *texts = line.split("\t")
        try:
            score = float(first)
        except ValueError:
            score = np.nan
        if len(texts) != 2 or not all(texts) or not np.isfinite(score):
            raise CommandError(
                f"{path.name}, line {number}: the line is not a score and two sentences, separated"
                " by tabs."
            )
        pairs.append((score, texts[0], texts[1]))
    if len({score for score, _, _ in pairs}) <= 1:
        raise CommandError(f"{path.name} needs pairs with different scores.")
    return pairs


def read_pseudowords(path: Path) -> list[PseudoWord]:
    """Read a JSONL file, also `.xz`, of pairs of words. Raises CommandError for another format.

    A line has `words`, two words, and `occurrences`, at least two of each word, with `sense` (0 or
    1), `index` and `tokens`.
    """
    pairs = []
    for number, line in enumerate(read_text_lines(path), 1):
        try:
            document = orjson.loads(line)
            occurrences, senses = [], []
            for occurrence in document["occurrences"]:
                words = [str(word) for word in occurrence["tokens"]]
                index = range(len(words)).index(occurrence["index"])  # ValueError if out of range
                words[index] = HIDDEN_WORD
                occurrences.append(TokenizedOccurrence(tuple(words), index))
                senses.append((0, 1).index(occurrence["sense"]))
            first, second = document["words"]
            good = np.bincount(senses, minlength=2).min() >= 2
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            good = False
        if not good:
            raise CommandError(
                f"{path.name}, line {number} is not a pair of words with their occurrences."
            )
        pairs.append(PseudoWord((str(first), str(second)), occurrences, np.array(senses, np.int64)))
    if not pairs:
        raise CommandError(f"{path.name} has no pair of words.")
    return pairs


# Tags of tokens

TokenVectors: TypeAlias = Callable[[Sequence[Sentence]], Floats]
"""A function from encoded sentences to one row of width w per token. -> [N, w]"""


def _window(sentences: Sequence[Sentence]) -> Floats:
    """Return the unit static vectors of each word and of its two neighbors. -> [N, 3d]"""
    rows = []
    for sentence in sentences:
        static = unit(sentence.static)
        padded = np.pad(static, ((1, 1), (0, 0)))
        rows.append(np.hstack([static, padded[:-2], padded[2:]]))
    return np.concatenate(rows)


def _of_part(part: Part) -> TokenVectors:
    return lambda sentences: np.concatenate([sentence.arrays[part] for sentence in sentences])


TAGGING: dict[str, tuple[str, Kind, TokenVectors]] = {
    "static": ("static vector", "control", _of_part("static")),
    "window": ("static vectors of the word and its neighbors", "control", _window),
    "contextual": ("contextual vector", "model", _of_part("contextual")),
    "features": ("features", "model", _of_part("features")),
}


def measure_tagging(
    model: Model, directory: Path, progress: Progress = SILENT, *, hidden: bool = False
) -> Results:
    """Train a probe on `train.tsv` of a folder and measure it on `dev.tsv`.

    The probe is a logistic regression on standardized vectors, or with `hidden` a network with a
    hidden layer of 256 units. The figure is the accuracy, or the F1 of spans if a tag in
    `train.tsv` begins with `B-`.
    """
    train, dev = (read_tagged_sentences(directory / f"{split}.tsv") for split in ("train", "dev"))
    labels = [tag for sentence in train for tag in sentence.tags]
    spans = any(tag.startswith("B-") for tag in labels)
    rows = []
    encoded: list[list[Sentence]] = []
    for split in (train, dev):
        texts = [list(sentence.words) for sentence in split]
        parts: tuple[Part, ...] = ("static", "contextual", "features")
        with progress.stage("encoding", len(split), in_bytes=False) as bar:
            encoded.append([])
            for sentence in LocalModel(model).encode_each(texts, include=parts):
                encoded[-1].append(sentence)
                bar.advance(1)
    for name, (title, kind, vectors) in TAGGING.items():
        known, measured = map(vectors, encoded)
        with progress.stage(f"probe, {name}", 1, in_bytes=False):
            tags = _probe(known, labels, hidden=hidden).predict(measured).tolist()
        figure = tag_score(dev, tags, spans=spans)
        rows.append(ResultRow(name, title, kind, {"score": figure}, {"width": known.shape[1]}))
    tokens = sum(len(sentence.tags) for sentence in dev)
    kind_of_probe = "one hidden layer of 256" if hidden else "logistic regression"
    column = "span F1" if spans else "accuracy"
    return Results(
        task="tagging",
        title=f"{directory.name}: {column} of {tokens:,} tokens, {kind_of_probe}, %",
        columns={"score": column},
        rows=rows,
        notes=[interval_note("the sentences")],
        facts={"probe": kind_of_probe, "train": len(labels), "tokens": tokens},
    )


def _probe(vectors: Floats, labels: Sequence[str], *, hidden: bool) -> Any:
    """Train a classifier of standardized vectors. [N, w], [N]"""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(set(labels)) < 2:
        raise CommandError("The training sentences have a single tag: there is nothing to learn.")
    if hidden:
        probe: Any = MLPClassifier(
            (256,), batch_size=256, max_iter=8, random_state=PROBE_SEED, alpha=1e-3
        )
    else:
        probe = LogisticRegression(C=0.1, max_iter=100, random_state=PROBE_SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a probe may stop before it converges
        return make_pipeline(StandardScaler(), probe).fit(vectors, labels)


def tag_score(
    sentences: Sequence[LabeledWords], predicted: Iterable[str], *, spans: bool
) -> IntervalEstimate:
    """Return the accuracy of tags, or conlleval's F1 of `spans`, over resampled sentences."""
    rest, cells = iter(predicted), []
    for gold in (sentence.tags for sentence in sentences):
        tags = list(islice(rest, len(gold)))
        if spans:
            a, b = spans_of(gold), spans_of(tags)
            cells.append((2 * len(a & b), len(a) + len(b)))
        else:
            cells.append((sum(map(str.__eq__, gold, tags)), len(gold)))
    counts = np.array(cells)
    total, drawn = counts.sum(axis=0), resample_counts(len(counts)) @ counts
    resamples = drawn[:, 0] / np.maximum(drawn[:, 1], 1)
    return IntervalEstimate.from_resamples(float(total[0] / max(total[1], 1)), resamples)


def spans_of(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """Return the spans of BIO tags as (start, stop, kind).

    `I-` after another kind or after `O` begins a span, as in conlleval (Tjong Kim Sang 2000).
    """
    spans = set()
    start, kind = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        inside = prefix == "I" and kind == name
        if kind and not inside:
            spans.add((start, place, kind))
            kind = ""
        if prefix in {"B", "I"} and not inside:
            start, kind = place, name
    return spans


# Similarity of sentences

POOLINGS = {
    "static-mean": "static vectors, mean",
    "sif": "static vectors, smooth inverse frequency",
    "whitened": "static vectors, smooth inverse frequency, whitened",
    "mean": "contextual vectors, mean",
    "informativeness": "contextual vectors, informativeness",
}


def measure_sentences(model: Model, path: Path, progress: Progress = SILENT) -> Results:
    """Measure Spearman's correlation of the cosines of sentence vectors with people's scores."""
    encoder, pairs = LocalModel(model), read_sentence_pairs(path)
    scores = np.array([score for score, _, _ in pairs])
    texts = [first for _, first, _ in pairs], [second for _, _, second in pairs]
    rows = []
    for name, title in POOLINGS.items():
        with progress.stage(name, 1, in_bytes=False):
            if name == "static-mean":
                encoded = [encoder.encode_each(side, include=("static",)) for side in texts]
                sides = [
                    np.stack([sentence.static.sum(axis=0) for sentence in side]) for side in encoded
                ]
            else:
                sides = [encoder.embed(side, pooling=name) for side in texts]  # type: ignore[arg-type]
        # The default pooling is the system to evaluate, the others are controls.
        kind: Kind = "model" if name == DEFAULT_POOLING else "control"
        rows.append(_correlated(name, title, kind, sides, scores))
    return Results(
        task="sentences",
        title=f"{path.name}: Spearman's correlation of {len(pairs):,} cosines with people's scores,"
        " × 100",
        columns={"spearman": "correlation"},
        rows=rows,
        notes=[interval_note("the pairs")],
        facts={"pairs": len(pairs)},
    )


def _correlated(
    name: str, title: str, kind: Kind, sides: Sequence[Floats], scores: Floats
) -> ResultRow:
    cosines = np.vecdot(unit(sides[0]).astype(np.float64), unit(sides[1]))

    def correlation(rows: Integers) -> float:
        return rank_correlation(cosines[rows], scores[rows])

    figure = IntervalEstimate.of_statistic(correlation, len(scores))
    return ResultRow(name, title, kind, {"spearman": figure})


# Pseudo-words


def measure_pseudowords(model: Model, path: Path, progress: Progress = SILENT) -> Results:
    """Measure how well the nearest centroid tells the two words of each pseudo-word apart."""
    pairs = read_pseudowords(path)
    chosen = systems(model, ["mean", "model"])
    readers = {name: system.readers[0] for name, system in chosen.items()}
    occurrences = [occurrence for pair in pairs for occurrence in pair.occurrences]
    tables = tabulate(model, readers, occurrences, progress)
    titles = {"mean": "mean of the static vectors", "model": "contextual vector"}
    rows = []
    for name, table in tables.items():
        vectors = [unit(table(pair.occurrences)) for pair in pairs]
        figures = {}
        for column, imbalanced in (("balanced", False), ("imbalanced", True)):
            f1 = [
                centroid_f1(of_pair, pair.senses, imbalanced=imbalanced)
                for of_pair, pair in zip(vectors, pairs, strict=True)
            ]
            figures[column] = IntervalEstimate.of_mean(np.array(f1))
        rows.append(ResultRow(name, titles[name], chosen[name].kind, figures))
    return Results(
        task="pseudowords",
        title=f"{len(pairs)} pseudo-words: macro-F1 of the nearest centroid, %",
        columns={"balanced": "balanced", "imbalanced": f"imbalanced, 1 : {IMBALANCE}"},
        rows=rows,
        notes=[interval_note("the pairs of words")],
        facts={"pairs": len(pairs)},
    )


def centroid_f1(vectors: Floats, senses: NDArray[np.int64], *, imbalanced: bool) -> float:
    """Return the macro-F1 of the nearest centroid. [m, d], [m]

    Every second occurrence of a word is a training example, the others are test examples;
    `imbalanced` uses every fifth training example of the second word.
    """
    training = np.zeros(len(senses), np.bool_)
    for sense in (0, 1):
        training[np.flatnonzero(senses == sense)[::2]] = True
    used = training.copy()
    if imbalanced:
        second = np.flatnonzero(training & (senses == 1))
        used[second] = False
        used[second[::IMBALANCE]] = True
    nearest = nearest_centroids(vectors[used], senses[used], vectors[~training])
    return float(f1_score(senses[~training], nearest, average="macro"))
