"""Compare a trained model with the model that it started from, on pseudo-words of held-out text.

A pseudo-word is a token that stands for two words of similar frequency, and whose static vector is
the mean of theirs. The token is known, as ambiguous words are. An unknown token would favor layers
that name hidden words, also where they are worse on ambiguous words.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyseme.engine import Floats, Integers, unit
from polyseme.engine.attention import SentenceArrays
from polyseme.models.model import Model
from polyseme.terminal import Progress, ProgressBar
from polyseme_lab.evaluation.datasets import TokenizedOccurrence, Words
from polyseme_lab.evaluation.downstream import HIDDEN_WORD, PseudoWord, centroid_f1
from polyseme_lab.evaluation.results import ResultRow, Results
from polyseme_lab.evaluation.statistics import IntervalEstimate, interval_note
from polyseme_lab.evaluation.systems import (
    Places,
    Reader,
    StaticStack,
    stack_reader,
    systems,
    tabulate,
)

MIN_PAIRS, MAX_PAIRS = 20, 200
"""Minimum number of pseudo-words for a comparison, and the maximum."""
MIN_EACH, MAX_EACH = 8, 20
"""Minimum and maximum number of sentences of each word of a pseudo-word."""
MAX_FREQUENCY = 0.001
"""Maximum relative frequency of these words, unless that is less than MAX_EACH occurrences."""
WINDOW = 30
"""Maximum number of context words on either side."""
TITLES = {
    "static": "the static vector",
    "mean": "the mean of the context",
    "start": "the start",
    "result": "the result",
}
"""The titles of the systems: the baselines, with the vectors of the start, and the two models."""


def words_of(
    words: Iterable[str], tokens: Integers, offsets: Integers, sentences: Integers
) -> list[Words]:
    """Return some of the sentences of a text. [N], [S + 1], [s] -> s sentences

    Tokens that are not an index of `words` are unknown.
    """
    names = dict(enumerate(words))
    return [
        tuple(names.get(t, HIDDEN_WORD) for t in tokens[offsets[s] : offsets[s + 1]].tolist())
        for s in sentences
    ]


def pseudowords(sentences: Sequence[Words], seed: int) -> list[PseudoWord]:
    """Pair words of similar frequency; both words have equal numbers of sentences."""
    found: dict[str, list[TokenizedOccurrence]] = {}
    for words in sentences:
        first = {word: place for place, word in reversed([*enumerate(words)])}
        for word, place in first.items():
            if word.isalpha():
                found.setdefault(word, []).append(TokenizedOccurrence(words, place))
    limit = max(MAX_FREQUENCY * sum(map(len, sentences)), MAX_EACH)
    usable = [word for word, of_word in found.items() if MIN_EACH <= len(of_word) <= limit]
    rng = np.random.default_rng([seed, 0x9D])
    shuffled = [usable[i] for i in rng.permutation(len(usable))]
    by_frequency = sorted(shuffled, key=lambda word: len(found[word]))
    pairs = list(zip(by_frequency[::2], by_frequency[1::2], strict=False))
    chosen = []
    for i in rng.permutation(len(pairs))[:MAX_PAIRS]:
        n = min(MAX_EACH, *(len(found[word]) for word in pairs[i]))
        occurrences = [
            _replaced(found[word][j])
            for word in pairs[i]
            for j in rng.permutation(len(found[word]))[:n]
        ]
        chosen.append(PseudoWord(pairs[i], occurrences, np.repeat([0, 1], n)))
    return chosen


def _replaced(occurrence: TokenizedOccurrence) -> TokenizedOccurrence:
    """Return the context of an occurrence without the word itself."""
    (words, place), word = occurrence, occurrence.word
    first = max(0, place - WINDOW)
    context = words[first : place + WINDOW + 1]
    return TokenizedOccurrence(
        tuple(HIDDEN_WORD if other == word else other for other in context), place - first
    )


def pseudoword_f1(
    model: Model, readers: Mapping[str, Reader], pairs: Sequence[PseudoWord], bar: ProgressBar
) -> dict[str, NDArray[np.float64]]:
    """Return the macro-F1 of the nearest centroid for each reader and each pair. -> [p] each"""
    scores: dict[str, list[float]] = {name: [] for name in readers}
    for pair in pairs:
        both = model.inputs(model.tokenizer.look_up(pair.words))
        shown = {name: with_mean(reader, both) for name, reader in readers.items()}
        for name, table in tabulate(model, shown, pair.occurrences).items():
            vectors = unit(table(pair.occurrences))
            scores[name].append(centroid_f1(vectors, pair.senses, imbalanced=False))
        bar.advance(1)
    return {name: np.array(f1) for name, f1 in scores.items()}


def with_mean(reader: Reader, both: SentenceArrays) -> Reader:
    """Return a reader for which the tokens at its places are the mean of two words. [2]"""

    def read(stack: StaticStack, places: Places) -> Floats:
        inputs, bias = stack.inputs, stack.inputs.word_bias
        vectors, known = inputs.vectors.copy(), inputs.known.copy()
        vectors[places], known[places] = both.vectors.mean(axis=0), True
        if bias is not None and both.word_bias is not None:
            bias = bias.copy()
            bias[places] = both.word_bias.mean()
        shown = SentenceArrays(vectors, known, inputs.words, bias)
        return reader(stack._replace(inputs=shown), places)

    return read


@dataclass(frozen=True)
class Comparison:
    """The macro-F1 of each system on each pseudo-word."""

    scores: Mapping[str, NDArray[np.float64]]
    """[p] for each system of TITLES"""

    def lead(self, name: str) -> IntervalEstimate:
        """Return the mean of the result's score minus that of another system."""
        return IntervalEstimate.of_mean(self.scores["result"] - self.scores[name])

    @property
    def better(self) -> list[str]:
        """The titles of the systems that are better than the result by more than chance."""
        return [title for name, title in TITLES.items() if self.lead(name).high < 0]

    def facts(self) -> dict[str, float]:
        """Return the number of pseudo-words and the mean scores in %, for the manifest."""
        means = {name: round(100 * float(f1.mean()), 2) for name, f1 in self.scores.items()}
        return {"pairs": len(self.scores["result"]), **means}

    def results(self) -> Results:
        """Return the table."""
        rows = []
        for name, title in TITLES.items():
            figures = {"f1": IntervalEstimate.of_mean(self.scores[name])}
            if name != "result":
                figures["lead"] = self.lead(name)
            rows.append(ResultRow(name, title, "control", figures))
        count, lead = len(self.scores["result"]), self.lead("start")
        verdict = "The result does not differ from the start by more than chance."
        if lead.low > 0 or lead.high < 0:
            verdict = f"The result is {'better' if lead.low > 0 else 'worse'} than the start."
        return Results(
            task="pseudowords",
            title=f"{count} pseudo-words of held-out text: macro-F1 of the nearest centroid, %",
            columns={"f1": "macro-F1", "lead": "lead of the result"},
            rows=rows,
            notes=[interval_note("the pseudo-words"), verdict],
        )


def compare(
    start: Model, result: Model, pairs: Sequence[PseudoWord], progress: Progress
) -> Comparison:
    """Measure the systems of TITLES."""
    baselines = systems(start, ["static", "mean"])
    readers = {name: system.readers[0] for name, system in baselines.items()}
    readers["start"] = stack_reader(start.layers)
    with progress.stage("comparing", 2 * len(pairs), in_bytes=False) as bar:
        scores = pseudoword_f1(start, readers, pairs, bar)
        scores |= pseudoword_f1(result, {"result": stack_reader(result.layers)}, pairs, bar)
    return Comparison(scores)
