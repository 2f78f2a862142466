"""CoarseWSD-20 (Loureiro et al. 2021): which of a few coarse senses a word has.

Nearest sense centroid: the mean of the unit-length training vectors of each sense, then the cosine.
Accuracy and macro-F1 are means over the words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath

import numpy as np
import orjson
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, f1_score

from polyseme.engine.arrays import Floats, Integers, unit
from polyseme.evaluation.bootstrap import Figure, draws
from polyseme.evaluation.confusion import accuracy, cells, macro_f1
from polyseme.evaluation.files import Files
from polyseme.evaluation.occurrences import Embedder, Occurrence
from polyseme.evaluation.refusal import EvaluationError

_SPLITS = ("train", "test")


@dataclass(frozen=True)
class Examples:
    """Occurrences of a word, and the sense of each."""

    occurrences: list[Occurrence]
    senses: Integers
    """[m], numbers of the word's senses"""


@dataclass(frozen=True)
class AmbiguousWord:
    """A word of the set."""

    name: str
    senses: list[str]
    """the labels, sorted; what `Examples.senses` counts by"""
    train: Examples
    test: Examples


@dataclass(frozen=True)
class WordFigures:
    """What was measured of one word, parts of 1; a mean where there are several embedders."""

    accuracy: float
    macro_f1: float
    resampled: Floats
    """[2, B]: both figures in each resample"""


@dataclass(frozen=True)
class Coarse:
    """What was measured."""

    accuracy: Figure
    macro_f1: Figure
    words: dict[str, WordFigures]

    def rounded(self) -> dict[str, float]:
        """The figures in %, as models keep them in their manifest."""
        return {
            "words": len(self.words),
            "accuracy": self.accuracy.value,
            "macro_f1": self.macro_f1.value,
        }


def coarsewsd(files: Files, *embedders: Embedder) -> Coarse:
    """Measure the vectors of an embedder, or of several as the mean of their figures.

    `files` are `evaluation_files(directory, "coarsewsd")`. Raises EvaluationError where they are
    not CoarseWSD-20's.
    """
    found = {}
    for stream, word in enumerate(ambiguous_words(files)):
        guesses = [_nearest(word, embed) for embed in embedders]
        found[word.name] = _figures(word, guesses, stream)
    return _together(found)


def most_frequent_sense(files: Files) -> Coarse:
    """Measure the guess that is always the sense that train has most often, the first of equals."""
    found = {}
    for stream, word in enumerate(ambiguous_words(files)):
        often = int(np.argmax(np.bincount(word.train.senses)))
        found[word.name] = _figures(word, [np.full(len(word.test.senses), often)], stream)
    return _together(found)


def occurrences_in(files: Files) -> list[Occurrence]:
    """Every occurrence that needs a vector."""
    words = ambiguous_words(files)
    return list(chain.from_iterable((*w.train.occurrences, *w.test.occurrences) for w in words))


def _nearest(word: AmbiguousWord, embed: Embedder) -> Integers:
    """The sense whose centroid is nearest to each occurrence of test. -> [m]"""
    train, test = (unit(embed(part.occurrences)) for part in (word.train, word.test))
    seen = np.unique(word.train.senses)
    centroids = np.stack([train[word.train.senses == sense].mean(axis=0) for sense in seen])
    nearest: Integers = seen[np.argmax(test @ unit(centroids).T, axis=1)]
    return nearest


def _figures(word: AmbiguousWord, guesses: Sequence[Integers], stream: int) -> WordFigures:
    gold, s = word.test.senses, len(word.senses)
    drawn = draws(len(gold), stream).astype(np.float64)
    counts = np.stack([(drawn @ cells(gold, one, s)).reshape(-1, s, s) for one in guesses])
    return WordFigures(
        float(np.mean([accuracy_score(gold, one) for one in guesses])),
        float(np.mean([f1_score(gold, one, average="macro") for one in guesses])),
        np.stack([accuracy(counts).mean(axis=0), macro_f1(counts).mean(axis=0)]),
    )


def _together(words: dict[str, WordFigures]) -> Coarse:
    resampled = np.mean([word.resampled for word in words.values()], axis=0)
    right = float(np.mean([word.accuracy for word in words.values()]))
    f1 = float(np.mean([word.macro_f1 for word in words.values()]))
    return Coarse(Figure.of(right, resampled[0]), Figure.of(f1, resampled[1]), words)


def ambiguous_words(files: Files) -> list[AmbiguousWord]:
    """The words of the set, sorted; raise EvaluationError at the first file that is wrong."""
    folders = folders_of(files)
    if not folders:
        raise EvaluationError(
            "The set has no folder of a word with test.data.txt: it is not CoarseWSD-20."
        )
    if len({PurePosixPath(folder).name for folder in folders}) < len(folders):
        raise EvaluationError("Two folders of the set have the name of one word; take one out.")
    return [_word(files, folder) for folder in folders]


def folders_of(files: Files) -> list[str]:
    """The folders of the words, sorted. WiC's own splits have such files too, and are no words."""
    data = {f"{split}.data.txt" for split in _SPLITS}
    found = {place.parent for place in map(PurePosixPath, files) if place.name in data}
    return sorted(str(folder) for folder in found if folder.name not in {"train", "dev", "test"})


def _word(files: Files, folder: str) -> AmbiguousWord:
    for split in _SPLITS:
        for kind in ("data", "gold"):
            if f"{folder}/{split}.{kind}.txt" not in files:
                raise EvaluationError(f"{folder}/{split}.{kind}.txt is missing; get the set again.")
    labels = {split: files[f"{folder}/{split}.gold.txt"] for split in _SPLITS}
    known = _known_senses(files, folder)
    for split in _SPLITS:
        _check_labels(f"{folder}/{split}", labels[split], files, known)
    senses, numbers = np.unique(np.array([*labels["train"], *labels["test"]]), return_inverse=True)
    number = len(labels["train"])
    parts = {"train": numbers[:number], "test": numbers[number:]}
    examples = {s: Examples(_occurrences(files, f"{folder}/{s}"), parts[s]) for s in _SPLITS}
    return AmbiguousWord(PurePosixPath(folder).name, [str(s) for s in senses], **examples)


def _known_senses(files: Files, folder: str) -> set[str] | None:
    """The labels that the set names; None where it does not name any."""
    lines = files.get(f"{folder}/classes_map.txt")
    if lines is None:
        return None
    try:
        return set(orjson.loads("\n".join(lines)))
    except (orjson.JSONDecodeError, TypeError):
        raise EvaluationError(f"{folder}/classes_map.txt is not a JSON object.") from None


def _check_labels(part: str, labels: list[str], files: Files, known: set[str] | None) -> None:
    lines = len(files[f"{part}.data.txt"])
    if len(labels) != lines or not lines:
        raise EvaluationError(
            f"{part}.gold.txt has {len(labels)} labels for {lines} sentences in {part}.data.txt."
        )
    for number, label in enumerate(labels, 1):
        if not label or (known is not None and label not in known):
            raise EvaluationError(
                f"{part}.gold.txt, line {number}: the label is none that classes_map.txt names."
            )


def _occurrences(files: Files, part: str) -> list[Occurrence]:
    name = f"{part}.data.txt"
    return [occurrence(line, f"{name}, line {n}") for n, line in enumerate(files[name], 1)]


def occurrence(line: str, where: str) -> Occurrence:
    """The occurrence of a line `place TAB sentence`; raise EvaluationError where it is another."""
    place, tab, text = line.partition("\t")
    words = tuple(text.split())
    if not tab or not re.fullmatch(r"[0-9]{1,6}", place) or int(place) >= len(words):
        raise EvaluationError(f"{where}: it is not the place of a word, a tab and the sentence.")
    return Occurrence(words, int(place))


def senses_of(word: AmbiguousWord) -> NDArray[np.int64]:
    """How often test has each sense. -> [s]"""
    return np.bincount(word.test.senses, minlength=len(word.senses))
