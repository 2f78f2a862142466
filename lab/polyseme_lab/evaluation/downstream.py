"""Evaluate vectors by token tagging, sentence similarity and pseudo-words."""

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from polyseme.client.encoder import Encoder
from polyseme.client.results import Sentence
from polyseme.engine.arrays import Floats, Integers, unit
from polyseme.errors import CommandError
from polyseme.operations.embed import DEFAULT_POOLING
from polyseme.operations.options import Part
from polyseme.progress import SILENT, Progress
from polyseme_lab.evaluation.datasets import TokenizedOccurrence, read_text_lines
from polyseme_lab.evaluation.results import ResultRow, Results
from polyseme_lab.evaluation.statistics import (
    RESAMPLES,
    SEED,
    IntervalEstimate,
    bootstrap,
    macro_f1,
    rank_correlation,
    resample_counts,
)
from polyseme_lab.evaluation.systems import MINILM, MINILM_TITLE, Kind, transformer_vectors

HIDDEN_WORD = "\ue000" * 257
"""The token that replaces both words of a pair. It has no vector: no vocabulary contains it, and
words of more than 256 code points are not composed of subwords."""
IMBALANCE = 5
"""The imbalanced figure uses every fifth training example of the second word."""
PROBE_SEED = 1
_NOTE = (
    f"In brackets: 95 % intervals of {RESAMPLES:,} bootstrap resamples of the {{}} (seed {SEED})."
)


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
        fields = line.split("\t")
        try:
            score = float(fields[0])
        except ValueError:
            score = np.nan
        if len(fields) != 3 or not np.isfinite(score):
            raise CommandError(
                f"{path.name}, line {number} is not a score and two sentences, separated by tabs."
            )
        pairs.append((score, fields[1], fields[2]))
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
            for one in document["occurrences"]:
                words = [str(word) for word in one["tokens"]]
                index = range(len(words)).index(one["index"])  # ValueError if out of range
                words[index] = HIDDEN_WORD
                occurrences.append(TokenizedOccurrence(tuple(words), index))
                senses.append((0, 1).index(one["sense"]))
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
        static = unit(_array(sentence.static))
        padded = np.pad(static, ((1, 1), (0, 0)))
        rows.append(np.hstack([static, padded[:-2], padded[2:]]))
    return np.concatenate(rows)


def _of_part(part: str) -> TokenVectors:
    return lambda sentences: np.concatenate([_array(getattr(one, part)) for one in sentences])


def _array(array: Any) -> Floats:
    found: Floats = np.asarray(array, np.float32)
    return found


TAGGING: dict[str, tuple[str, Kind, TokenVectors]] = {
    "static": ("static vector", "control", _of_part("static")),
    "window": ("static vectors of the word and its neighbors", "control", _window),
    "contextual": ("contextual vector", "model", _of_part("contextual")),
    "features": ("features", "model", _of_part("features")),
}


def measure_tagging(
    encoder: Encoder,
    directory: Path,
    *,
    names: Collection[str] = tuple(TAGGING),
    hidden: bool = False,
    compare: bool = False,
    progress: Progress = SILENT,
) -> Results:
    """Train a probe on `train.tsv` of a folder and measure it on `dev.tsv`, for each of `names`.

    The probe is a logistic regression on standardized vectors, or with `hidden` a network with a
    hidden layer of 256 units. The figure is the accuracy, or the F1 of spans if a tag in
    `train.tsv` begins with `B-`.
    """
    train, dev = (read_tagged_sentences(directory / f"{split}.tsv") for split in ("train", "dev"))
    labels = [tag for sentence in train for tag in sentence.tags]
    spans = any(tag.startswith("B-") for tag in labels)
    rows = []

    def measure(name: str, title: str, kind: Kind, known: Floats, measured: Floats) -> None:
        with progress.stage(f"probe, {name}", 1, in_bytes=False):
            tags = _probe(known, labels, hidden=hidden).predict(measured).tolist()
        figure = span_f1(dev, tags) if spans else tag_accuracy(dev, tags)
        rows.append(ResultRow(name, title, kind, {"score": figure}, {"width": known.shape[1]}))

    encoded: list[list[Sentence]] = []
    for split in (train, dev):
        texts = [list(sentence.words) for sentence in split]
        parts: tuple[Part, ...] = ("static", "contextual", "features")
        with progress.stage("encoding", len(split), in_bytes=False) as bar:
            encoded.append([])
            for sentence in encoder.encode_each(texts, include=parts):
                encoded[-1].append(sentence)
                bar.advance(1)
    for name in names:
        title, kind, vectors = TAGGING[name]
        measure(name, title, kind, vectors(encoded[0]), vectors(encoded[1]))
    if compare:
        sides = []
        for split in (train, dev):
            occurrences = [one for sentence in split for one in _occurrences(sentence.words)]
            sides.append(transformer_vectors(occurrences, progress)(occurrences))
        measure(MINILM, MINILM_TITLE, "compared", sides[0], sides[1])
    tokens = sum(len(sentence.tags) for sentence in dev)
    kind_of_probe = "one hidden layer of 256" if hidden else "logistic regression"
    column = "span F1" if spans else "accuracy"
    return Results(
        task="tagging",
        title=f"{directory.name}: {column} of {tokens:,} tokens, {kind_of_probe}, %",
        columns={"score": column},
        rows=rows,
        notes=[_NOTE.format("sentences")],
        facts={"probe": kind_of_probe, "train": len(labels), "tokens": tokens},
    )


def _occurrences(words: tuple[str, ...]) -> list[TokenizedOccurrence]:
    return [TokenizedOccurrence(words, place) for place in range(len(words))]


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


def tag_accuracy(sentences: Sequence[LabeledWords], found: Sequence[str]) -> IntervalEstimate:
    """Return the accuracy of the tags, with an interval from resampled sentences."""
    right, sizes = [], []
    for one, tags in _by_sentence(sentences, found):
        right.append(sum(a == b for a, b in zip(one.tags, tags, strict=True)))
        sizes.append(len(tags))
    drawn = resample_counts(len(right))
    resamples = (drawn @ np.array(right)) / (drawn @ np.array(sizes))
    return IntervalEstimate.from_resamples(sum(right) / sum(sizes), resamples)


def span_f1(sentences: Sequence[LabeledWords], found: Sequence[str]) -> IntervalEstimate:
    """Return conlleval's F1 of the spans of BIO tags, with an interval from resampled sentences."""
    cells = []
    for one, tags in _by_sentence(sentences, found):
        gold, guessed = spans_of(one.tags), spans_of(tags)
        cells.append((2 * len(gold & guessed), len(gold) + len(guessed)))
    counts = np.array(cells)
    drawn = resample_counts(len(counts)) @ counts
    total = counts.sum(axis=0)
    resamples = drawn[:, 0] / np.maximum(drawn[:, 1], 1)
    return IntervalEstimate.from_resamples(float(total[0] / max(total[1], 1)), resamples)


def spans_of(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """Return the spans of BIO tags as (start, stop, kind).

    `I-` after another kind or after `O` begins a span, as in conlleval (Tjong Kim Sang 2000).
    """
    found = set()
    start, kind = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        inside = prefix == "I" and kind == name
        if kind and not inside:
            found.add((start, place, kind))
            kind = ""
        if prefix in {"B", "I"} and not inside:
            start, kind = place, name
    return found


def _by_sentence(
    sentences: Sequence[LabeledWords], found: Sequence[str]
) -> Iterator[tuple[LabeledWords, Sequence[str]]]:
    start = 0
    for one in sentences:
        yield one, found[start : start + len(one.tags)]
        start += len(one.tags)


# Similarity of sentences

POOLINGS = {
    "static-mean": "static vectors, mean",
    "sif": "static vectors, smooth inverse frequency",
    "whitened": "static vectors, smooth inverse frequency, whitened",
    "mean": "contextual vectors, mean",
    "informativeness": "contextual vectors, informativeness",
}


def measure_sentences(
    encoder: Encoder, path: Path, *, compare: bool = False, progress: Progress = SILENT
) -> Results:
    """Measure Spearman's correlation of the cosines of sentence vectors with people's scores."""
    pairs = read_sentence_pairs(path)
    scores = np.array([score for score, _, _ in pairs])
    texts = [first for _, first, _ in pairs], [second for _, _, second in pairs]
    rows = []
    for name, title in POOLINGS.items():
        with progress.stage(name, 1, in_bytes=False):
            if name == "static-mean":
                encoded = [encoder.encode_each(side, include=("static",)) for side in texts]
                sides = [
                    np.stack([_array(sentence.static).sum(axis=0) for sentence in side])
                    for side in encoded
                ]
            else:
                sides = [encoder.embed(side, pooling=name) for side in texts]  # type: ignore[arg-type]
        # The default pooling is the system to evaluate, the others are controls.
        kind: Kind = "model" if name == DEFAULT_POOLING else "control"
        rows.append(_correlated(name, title, kind, sides, scores))
    if compare:
        sides = []
        for side in texts:
            words = [_occurrences(tuple(text.split()) or (".",)) for text in side]
            table = transformer_vectors([one for sentence in words for one in sentence], progress)
            sides.append(np.stack([table(sentence).mean(axis=0) for sentence in words]))
        title = "all-MiniLM-L6-v2, mean of the words"
        rows.append(_correlated(MINILM, title, "compared", sides, scores))
    return Results(
        task="sentences",
        title=f"{path.name}: Spearman's correlation of {len(pairs):,} cosines with people's scores,"
        " × 100",
        columns={"spearman": "correlation"},
        rows=rows,
        notes=[_NOTE.format("pairs")],
        facts={"pairs": len(pairs)},
    )


def _correlated(
    name: str, title: str, kind: Kind, sides: Sequence[Floats], scores: Floats
) -> ResultRow:
    cosines = np.vecdot(unit(sides[0]).astype(np.float64), unit(sides[1]))

    def correlation(rows: Integers) -> float:
        return rank_correlation(cosines[rows], scores[rows])

    n = len(scores)
    figure = IntervalEstimate.from_resamples(correlation(np.arange(n)), bootstrap(correlation, n))
    return ResultRow(name, title, kind, {"spearman": figure})


# Pseudo-words


def measure_pseudowords(
    encoder: Encoder, path: Path, *, compare: bool = False, progress: Progress = SILENT
) -> Results:
    """Measure how well the nearest centroid tells the two words of each pseudo-word apart."""
    pairs = read_pseudowords(path)
    rows = [
        _separated(pairs, "mean", "mean of the static vectors", "control",
                   _pseudoword_vectors(encoder, pairs, "static", progress)),
        _separated(pairs, "model", "contextual vector", "model",
                   _pseudoword_vectors(encoder, pairs, "contextual", progress)),
    ]  # fmt: skip
    if compare:
        vectors = [
            transformer_vectors(pair.occurrences, progress)(pair.occurrences) for pair in pairs
        ]
        rows.append(_separated(pairs, MINILM, MINILM_TITLE, "compared", iter(vectors)))
    return Results(
        task="pseudowords",
        title=f"{len(pairs)} pseudo-words: macro-F1 of the nearest centroid, %",
        columns={"balanced": "balanced", "imbalanced": f"imbalanced, 1 : {IMBALANCE}"},
        rows=rows,
        notes=[_NOTE.format("pairs of words")],
        facts={"pairs": len(pairs)},
    )


def _pseudoword_vectors(
    encoder: Encoder, pairs: Iterable[PseudoWord], part: str, progress: Progress
) -> Iterator[Floats]:
    pairs = list(pairs)
    with progress.stage(part, len(pairs), in_bytes=False) as bar:
        for pair in pairs:
            texts = [list(one.words) for one in pair.occurrences]
            encoded = encoder.encode(texts, include=(part,))  # type: ignore[arg-type]
            arrays = [_array(getattr(one, part)) for one in encoded]
            if part == "static":
                yield np.stack([array.sum(axis=0) for array in arrays])
            else:
                places = [one.place for one in pair.occurrences]
                yield np.stack([a[p] for a, p in zip(arrays, places, strict=True)])
            bar.advance(1)


def _separated(
    pairs: Sequence[PseudoWord], name: str, title: str, kind: Kind, vectors: Iterator[Floats]
) -> ResultRow:
    scores = np.array(
        [
            [centroid_f1(unit(found), pair.senses, imbalanced=one) for one in (False, True)]
            for pair, found in zip(pairs, vectors, strict=True)
        ]
    )
    drawn = resample_counts(len(scores)) @ scores / len(scores)
    names = ("balanced", "imbalanced")
    figures = {
        column: IntervalEstimate.from_resamples(float(scores[:, place].mean()), drawn[:, place])
        for place, column in enumerate(names)
    }
    return ResultRow(name, title, kind, figures)


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
    centroids = np.stack([vectors[used & (senses == sense)].mean(axis=0) for sense in (0, 1)])
    guessed = (vectors[~training] @ unit(centroids).T).argmax(axis=1)
    counts = np.zeros((2, 2))
    np.add.at(counts, (senses[~training], guessed), 1)
    return float(macro_f1(counts))
