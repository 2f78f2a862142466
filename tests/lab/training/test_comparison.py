"""The comparison of a trained model with its start, on pseudo-words of held-out text."""

import json
from dataclasses import replace
from string import ascii_lowercase

import numpy as np
import pytest

from polyseme.engine.layers import Layer, Projection
from polyseme.models.reader import read_model
from polyseme.models.writer import write_model
from polyseme.terminal import SILENT, ProgressBar
from polyseme_lab.evaluation.datasets import TokenizedOccurrence
from polyseme_lab.evaluation.downstream import HIDDEN_WORD, PseudoWord
from polyseme_lab.evaluation.systems import stack_reader
from polyseme_lab.training import comparison
from polyseme_lab.training.comparison import (
    MAX_EACH,
    MIN_EACH,
    WINDOW,
    Comparison,
    compare,
    pseudoword_f1,
    pseudowords,
)
from polyseme_lab.training.trainer import Trainer
from tests.cli.conftest import run

TOPICS = ("river", "money")
LETTERS = ascii_lowercase[:10]
WORDS = [topic + a + b for a in LETTERS for b in LETTERS for topic in TOPICS]
"""A hundred words of each topic in turns."""
GOOD, BAD = Layer(), Layer(value=Projection(np.zeros((3, 3), np.float32)))
"""A layer that separates the topics, and one whose results are all 0."""


def topics_model(folder, layer=GOOD):
    """A model in which a word has its topic in the first two columns, and noise in the third."""
    vectors = np.zeros((len(WORDS), 3), np.float32)
    vectors[::2, 0] = vectors[1::2, 1] = 1
    vectors[:, 2] = np.random.default_rng(1).uniform(-0.1, 0.1, len(WORDS))
    bias = -np.arange(len(WORDS), dtype=np.float32)
    write_model(folder, WORDS, vectors, [layer], bias, cased=True, licence="CC0-1.0")
    return read_model(folder)


def topic_sentences(count, seed=1):
    """Sentences of nine words of one topic."""
    rng = np.random.default_rng(seed)
    return [tuple(rng.choice(WORDS[rng.integers(2) :: 2], 9, replace=False)) for _ in range(count)]


def topic_pair(first, second):
    """A pseudo-word, each of whose words occurs six times among words of its topic."""
    occurrences, rng = [], np.random.default_rng(2)
    for word in (first, second):
        others = [other for other in WORDS if other[:5] == word[:5] and other != word]
        for _ in range(6):
            context = (*rng.choice(others, 5), HIDDEN_WORD)
            occurrences.append(TokenizedOccurrence(context, 5))
    return PseudoWord((first, second), occurrences, np.repeat([0, 1], 6))


PAIRS = [topic_pair(*WORDS[i : i + 2]) for i in range(0, 40, 2)]
"""Twenty pseudo-words, one word of each topic."""


def sentences_of(counts):
    """Different sentences of one word each, which occurs in so many; the rest are no words."""
    return [(word, f"{word}{i}") for word, n in counts.items() for i in range(n)]


def test_words_of_similar_frequency_are_paired():
    counts = {"one": 8, "three": 9, "ten": 13, "seventy": 14, "two": 18, "eleven": 19}
    rest = {"rare": MIN_EACH - 1, "the": MAX_EACH + 1, "a-b": 9, "9": 9}
    pairs = pseudowords(sentences_of(counts | rest), seed=1)
    assert {frozenset(pair.words) for pair in pairs} == {
        frozenset({"one", "three"}),
        frozenset({"ten", "seventy"}),
        frozenset({"two", "eleven"}),
    }
    for pair in pairs:
        n = min(counts[word] for word in pair.words)
        assert pair.senses.tolist() == [0] * n + [1] * n
        assert len(set(pair.occurrences)) == 2 * n
        assert {one.word for one in pair.occurrences} == {HIDDEN_WORD}


def test_the_word_is_removed_from_its_context_which_is_a_window():
    long = ["-"] * WINDOW
    long[3] = "word"
    lines = [("-", *long, "word", *long, str(i)) for i in range(8)]
    [pair] = pseudowords([*lines, *sentences_of({"other": 8})], seed=1)
    of_word = [one for one in pair.occurrences if len(one.words) > 3]
    assert len(of_word) == 8
    for words, place in of_word:
        assert (place, len(words)) == (4, 4 + WINDOW + 1)  # the first of three in the sentence
        assert words.count(HIDDEN_WORD) == 2
        assert "word" not in words


def test_pseudo_words_depend_on_the_seed(monkeypatch):
    lines = topic_sentences(230)
    one, same, other = (pseudowords(lines, seed) for seed in (1, 1, 2))
    assert [(p.words, p.occurrences) for p in one] == [(p.words, p.occurrences) for p in same]
    assert [pair.words for pair in one] != [pair.words for pair in other]
    words = [word for pair in one for word in pair.words]
    assert len(words) == len(set(words)) > 100  # no word is in two pairs
    monkeypatch.setattr(comparison, "MAX_PAIRS", 7)
    assert len(pseudowords(lines, 1)) == 7


def test_frequent_words_are_used_but_not_all_their_sentences():
    lines = sentences_of({"one": 30, "two": 30, "the": 31})
    rest = 30_000 - sum(map(len, lines))  # 30 are a thousandth
    [pair] = pseudowords([*lines, ("-",) * rest], 1)
    assert set(pair.words) == {"one", "two"}
    assert pair.senses.tolist() == [0] * MAX_EACH + [1] * MAX_EACH


def test_a_pseudo_word_is_known_with_the_mean_vector_and_bias(tmp_path):
    model, inputs = topics_model(tmp_path / "model"), []

    def read(stack, places):
        inputs.append((stack.inputs, places))
        return stack_reader(model.layers)(stack, places)

    pseudoword_f1(model, {"read": read}, PAIRS[:1], ProgressBar())
    for arrays, places in inputs:
        assert arrays.known.all()
        expected = (model.vectors[0] + model.vectors[1]) / 2
        np.testing.assert_array_equal(arrays.vectors[places], [expected] * len(places[0]))
        np.testing.assert_array_equal(arrays.word_bias[places], -0.5)  # of 0 and −1
        assert (arrays.word_bias != -0.5).sum() == 5 * len(places[0])


def test_a_better_and_a_worse_result_by_hand(tmp_path):
    good, bad = (topics_model(tmp_path / name, layer) for name, layer in (("g", GOOD), ("b", BAD)))
    helped = compare(bad, good, PAIRS, SILENT)
    facts = {"pairs": 20, "static": 33.33, "mean": 100, "start": 33.33, "result": 100}
    assert helped.facts() == facts
    assert helped.better == []
    assert helped.lead("start") == (66.67, 66.67, 66.67)
    assert helped.results().notes[-1] == "The result is better than the start."
    harmed = compare(good, bad, PAIRS, SILENT)
    assert harmed.facts() == facts | {"start": 100, "result": 33.33}
    assert harmed.better == ["the mean of the context", "the start"]
    assert harmed.results().notes[-1] == "The result is worse than the start."
    equal = replace(good, rows=np.ones_like(good.vectors))  # tuned until all words are the same
    assert compare(good, equal, PAIRS, SILENT).facts() == facts | {"start": 100, "result": 33.33}


def test_a_difference_within_chance_is_none():
    rng = np.random.default_rng(1)
    start = rng.uniform(0.5, 0.9, 40)
    noise = rng.permutation(np.repeat([-0.2, 0.2], 20))
    for shift, better, verdict in (
        (0, [], "does not differ from the start by more than chance"),
        (-0.05, [], "does not differ from the start by more than chance"),
        (-0.1, ["the start"], "is worse than the start"),
        (0.1, [], "is better than the start"),
    ):
        scores = {"static": start - 0.5, "mean": start - 0.3, "start": start}
        found = Comparison({**scores, "result": start + noise + shift})
        # The standard error is .2/√40 = .032; 1.96 of them are .062.
        assert found.better == better
        assert found.results().notes[-1] == f"The result {verdict}."


@pytest.mark.slow
def test_a_worse_model_is_written_only_on_request(tmp_path, monkeypatch):
    monkeypatch.setattr("polyseme_lab.training.run.MIN_PAIRS", 5)
    lines = map(" ".join, topic_sentences(1200))  # of which 120 are held out
    (tmp_path / "corpus.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "models").mkdir()
    topics_model(tmp_path / "models" / "topics", GOOD)
    manifest = tmp_path / "models" / "topics" / "manifest.json"

    def zeros(trainer):
        return {name: 0 * tensor.detach() for name, tensor in trainer.initial.items()}

    def train(*options):
        options = ("--corpus", tmp_path / "corpus.txt", "--steps", 0, *options)
        options = (*options, "--output", "topics", "--replace", "--checkpoints", tmp_path / "c")
        return run("train", "--model", "topics", *options, models_dir=tmp_path / "models")

    monkeypatch.setattr(Trainer, "result", zeros)
    done = train()
    assert done.returncode == 1
    assert "The result is worse than the start." in done.stdout.decode().splitlines()
    message = done.stderr.decode().splitlines()[-1]
    assert "worse than the mean of the context and the start, so it was not written" in message
    assert json.loads(manifest.read_bytes())["training"] == {}  # still the start
    done = train("--resume", "--keep-worse")
    assert done.returncode == 0, done.stderr.decode()
    assert "step" not in done.stderr.decode()  # the checkpoint is at the last one
    facts = json.loads(manifest.read_bytes())["training"]["pseudo_words"]
    assert facts["result"] < facts["start"] - 10
