"""CoarseWSD-20 (Loureiro et al. 2021): disambiguation of a word between a few coarse senses.

The predicted sense is that of the nearest centroid by cosine; a centroid is the mean of a sense's
unit training vectors. Accuracy and macro-F1 are averaged over the words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath

import numpy as np

from polyseme.engine import Floats, Integers, unit
from polyseme.errors import CommandError
from polyseme_lab.evaluation.datasets import (
    Embedder,
    Files,
    LabeledOccurrences,
    TokenizedOccurrence,
)
from polyseme_lab.evaluation.statistics import (
    IntervalEstimate,
    accuracy,
    confusion_cells,
    macro_f1,
    nearest_centroids,
    resample_counts,
)

_SPLITS = ("train", "test")


@dataclass(frozen=True)
class AmbiguousWord:
    """A word of the set."""

    name: str
    senses: list[str]
    """the sorted labels, indexed by the senses of the occurrences"""
    train: LabeledOccurrences
    test: LabeledOccurrences


@dataclass(frozen=True)
class WordFigures:
    """The measures of one word as fractions, averaged over embedders."""

    accuracy: float
    macro_f1: float
    resampled: Floats
    """[2, B]: both measures in each resample"""


@dataclass(frozen=True)
class CoarseWsdResult:
    """The measures of a system on the whole set."""

    accuracy: IntervalEstimate
    macro_f1: IntervalEstimate
    words: dict[str, WordFigures]


def coarsewsd(files: Files, *embedders: Embedder) -> CoarseWsdResult:
    """Evaluate embedders and average their measures.

    `files` is the result of `read_data_set(directory, "coarsewsd")`. Raises CommandError if the
    files are not those of CoarseWSD-20.
    """
    words = {}
    for stream, word in enumerate(ambiguous_words(files)):
        guesses = []
        for embed in embedders:
            train, test = (unit(embed(part.occurrences)) for part in (word.train, word.test))
            guesses.append(nearest_centroids(train, word.train.senses, test))
        words[word.name] = _figures(word, guesses, stream)
    return _mean_figures(words)


def most_frequent_sense(files: Files) -> CoarseWsdResult:
    """Evaluate the baseline that always predicts the most frequent sense in train."""
    words = {}
    for stream, word in enumerate(ambiguous_words(files)):
        sense = int(np.argmax(np.bincount(word.train.senses)))
        words[word.name] = _figures(word, [np.full(len(word.test.senses), sense)], stream)
    return _mean_figures(words)


def occurrences_in(files: Files) -> list[TokenizedOccurrence]:
    """Return all occurrences that need a vector."""
    words = ambiguous_words(files)
    return list(chain.from_iterable((*w.train.occurrences, *w.test.occurrences) for w in words))


def _figures(word: AmbiguousWord, guesses: Sequence[Integers], stream: int) -> WordFigures:
    gold, s = word.test.senses, len(word.senses)
    whole = np.ones((1, len(gold)))
    drawn = np.concatenate([whole, resample_counts(len(gold), stream)])
    counts = np.stack(
        [(drawn @ confusion_cells(gold, senses, s)).reshape(-1, s, s) for senses in guesses]
    )
    measures = np.stack([accuracy(counts).mean(axis=0), macro_f1(counts).mean(axis=0)])
    right, f1 = measures[:, 0].tolist()
    return WordFigures(right, f1, measures[:, 1:])


def _mean_figures(words: dict[str, WordFigures]) -> CoarseWsdResult:
    resampled = np.mean([word.resampled for word in words.values()], axis=0)
    right = float(np.mean([word.accuracy for word in words.values()]))
    f1 = float(np.mean([word.macro_f1 for word in words.values()]))
    return CoarseWsdResult(
        IntervalEstimate.from_resamples(right, resampled[0]),
        IntervalEstimate.from_resamples(f1, resampled[1]),
        words,
    )


def ambiguous_words(files: Files) -> list[AmbiguousWord]:
    """Return the words of the set, sorted by folder; raise CommandError for an invalid set."""
    folders = word_folders(files)
    if not folders:
        raise CommandError(
            "The set has no folder of a word with test.data.txt: it is not CoarseWSD-20."
        )
    if len({PurePosixPath(folder).name for folder in folders}) < len(folders):
        raise CommandError("Two folders of the set have the same name; remove one of them.")
    return [_word(files, folder) for folder in folders]


def word_folders(files: Files) -> list[str]:
    """Return the sorted folders of words, without WiC's, whose files have the same names."""
    data = {f"{split}.data.txt" for split in _SPLITS}
    folders = {path.parent for path in map(PurePosixPath, files) if path.name in data}
    return sorted(str(folder) for folder in folders if folder.name not in {"train", "dev", "test"})


def _word(files: Files, folder: str) -> AmbiguousWord:
    labels, occurrences = {}, {}
    for split in _SPLITS:
        data, gold = (f"{folder}/{split}.{kind}.txt" for kind in ("data", "gold"))
        if missing := [name for name in (data, gold) if name not in files]:
            raise CommandError(f"{missing[0]} is missing; get the set again.")
        lines, labels[split] = files[data], files[gold]
        if len(labels[split]) != len(lines) or not lines:
            raise CommandError(
                f"{gold} has {len(labels[split])} labels for {len(lines)} sentences in {data}."
            )
        if not all(labels[split]):
            raise CommandError(f"{gold}, line {labels[split].index('') + 1}: the label is empty.")
        occurrences[split] = [
            parse_occurrence(line, f"{data}, line {number}") for number, line in enumerate(lines, 1)
        ]
    senses, numbers = np.unique(np.array([*labels["train"], *labels["test"]]), return_inverse=True)
    train, test = np.split(numbers, [len(labels["train"])])
    name = PurePosixPath(folder).name
    return AmbiguousWord(
        name,
        [str(sense) for sense in senses],
        LabeledOccurrences(name, occurrences["train"], train),
        LabeledOccurrences(name, occurrences["test"], test),
    )


def parse_occurrence(line: str, where: str) -> TokenizedOccurrence:
    """Parse a line `position TAB sentence`; raise CommandError if it is invalid."""
    position, tab, text = line.partition("\t")
    words = tuple(text.split())
    if not tab or not re.fullmatch(r"[0-9]{1,6}", position) or int(position) >= len(words):
        raise CommandError(
            f"{where}: the line is not the position of a word, a tab and a sentence."
        )
    return TokenizedOccurrence(words, int(position))
