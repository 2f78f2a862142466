"""Batches of sentences with hidden words, and the corpus as arrays of rows."""

import numpy as np
import pytest

from polyseme.errors import CommandError
from polyseme.terminal import SILENT
from polyseme_lab.training import hidden_words as module
from polyseme_lab.training.config import HiddenWordsConfig
from polyseme_lab.training.hidden_words import (
    POOL,
    UNKNOWN,
    HiddenWords,
    TokenizedText,
    tokenize_files,
)
from tests.tiny import SUBWORDS, VECTORS, tiny_model

WORDS = [f"word{number}" for number in range(50)]
COMPOSED = len(WORDS)
"""The row of a composed word."""


def tokens_of(sentences):
    lengths = [len(one) for one in sentences]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = np.concatenate(sentences).astype(np.int32)
    return TokenizedText(rows, offsets, np.zeros((1, 3), np.float16))


def random_sentences(count=400, seed=1):
    """Sentences whose first two tokens are their number."""
    rng = np.random.default_rng(seed)
    return [
        np.concatenate([[number // 50, number % 50], rng.integers(0, 50, rng.integers(3, 30))])
        for number in range(count)
    ]


def hidden_words(text=None, **config):
    given = {"sentences": 2, "leave_out": (), "held_out_sentences": 0, **config}
    text = random_sentences() if text is None else text
    return HiddenWords(tokens_of(text), WORDS, HiddenWordsConfig(**given))


def restored(batch):
    """The rows of the sentences without padding, with the hidden words in their places."""
    rows = batch.rows.copy()
    known = batch.targets != UNKNOWN
    for row, places, words, found in zip(rows, batch.positions, batch.targets, known, strict=True):
        row[places[found]] = words[found]
    return [row[row != UNKNOWN].tolist() for row in rows]


def test_a_share_of_the_shortest_sentence_is_hidden_in_each():
    data = hidden_words(hidden=0.25)
    for step in range(30):
        batch = data.batch(step)
        shortest = min(len(one) for one in restored(batch))
        assert batch.targets.shape == (len(batch.rows), max(1, round(shortest / 4)))
        assert all(len(set(places)) == len(places) for places in batch.positions.tolist())


def test_hidden_words_become_unknown_others_or_stay():
    data = hidden_words([np.arange(40)] * 256, hidden=0.5)
    batches = [data.batch(step) for step in range(POOL)]
    shown = np.concatenate([np.take_along_axis(b.rows, b.positions, 1).ravel() for b in batches])
    targets = np.concatenate([batch.targets.ravel() for batch in batches])
    assert len(shown) == 256 * 20
    assert (shown == UNKNOWN).mean() == pytest.approx(0.8, abs=0.02)
    assert (shown == targets).mean() == pytest.approx(0.1, abs=0.02)


def test_words_that_are_left_out_are_neither_hidden_nor_negative():
    data = hidden_words(leave_out=("WORD3", "word7"), hidden=0.9, negatives=500)
    hidden = np.concatenate([data.batch(step).targets.ravel() for step in range(20)])
    negatives = np.concatenate([data.negatives(step) for step in range(20)])
    assert set(hidden.tolist()) == {UNKNOWN, *range(50)} - {3, 7}
    assert set(negatives.tolist()) == set(range(50)) - {3, 7}


def test_composed_and_unknown_tokens_are_not_hidden():
    sentence = np.array([COMPOSED, UNKNOWN, 4, COMPOSED, UNKNOWN, COMPOSED])
    data = hidden_words([sentence] * 10, hidden=0.5)
    batch = data.batch(0)
    assert batch.targets.shape == (len(batch.rows), 3)
    for row, targets in zip(batch.rows, batch.targets, strict=True):
        assert sorted(targets.tolist()) == [UNKNOWN, UNKNOWN, 4]
        assert row[[0, 1, 3, 4, 5]].tolist() == sentence[[0, 1, 3, 4, 5]].tolist()


def test_an_epoch_has_each_sentence_once():
    sentences = random_sentences(2 * POOL * 3)
    data = hidden_words(sentences, sentences=3)
    for epoch in range(2):
        steps = range(epoch * 2 * POOL, (epoch + 1) * 2 * POOL)
        found = [tuple(one) for step in steps for one in restored(data.batch(step))]
        assert sorted(found) == sorted(tuple(one) for one in sentences)


def test_the_sentences_of_a_batch_have_similar_lengths():
    data = hidden_words(random_sentences(2000), sentences=8)
    batches = [data.batch(step) for step in range(POOL)]
    # Hidden words are unknown, too.
    padding = sum((batch.rows == UNKNOWN).sum() - batch.targets.size for batch in batches)
    total = [batch.tokens for batch in batches]
    assert padding / sum(total) < 0.01
    assert max(total) < 1.6 * np.mean(total)


def test_a_batch_depends_on_the_seed_and_the_step_only():
    one, two = hidden_words(negatives=9), hidden_words(negatives=9)
    for step in (300, 0, 5):
        for name in ("rows", "positions", "targets"):
            first, second = (getattr(data.batch(step), name) for data in (one, two))
            np.testing.assert_array_equal(first, second)
    other = hidden_words(seed=2).batch(0)
    assert restored(other) != restored(one.batch(0))
    assert one.negatives(0).tolist() != one.negatives(1).tolist()


def test_held_out_sentences_are_not_trained_on():
    text = random_sentences(600)
    data = hidden_words(text, held_out_sentences=40)
    held = {tuple(one) for batch in data.held_out() for one in restored(batch)}
    trained = {tuple(one) for step in range(2 * POOL) for one in restored(data.batch(step))}
    assert len(held) == 40
    assert not held & trained
    again = hidden_words(text, held_out_sentences=40, seed=9).held_out()
    assert {tuple(one) for batch in again for one in restored(batch)} == held
    for batch in data.held_out():  # hidden words are always unknown
        shown = np.take_along_axis(batch.rows, batch.positions, 1)
        assert (shown[batch.targets != UNKNOWN] == UNKNOWN).all()
    few = hidden_words(random_sentences(50), held_out_sentences=1000).held_out()
    assert sum(len(batch.rows) for batch in few) == 5  # at most a tenth


def test_frequent_words_are_negatives_more_often():
    """The probability is proportional to the frequency to the ¾: 16 times as frequent, 8 times."""
    left_out = WORDS[:1] + WORDS[3:]
    data = hidden_words([np.repeat([1, 2], [16, 1])], leave_out=left_out)
    np.testing.assert_allclose(data.negative[:4], [0, 8 / 9, 1 / 9, 0])
    assert data.counts[:4].tolist() == [0, 16, 1, 0]


def test_too_small_a_corpus_is_reported(tmp_path, model):
    for make in (
        lambda: hidden_words([np.array([UNKNOWN, COMPOSED, UNKNOWN, COMPOSED])]),
        lambda: hidden_words([np.array([3, 3, 3, 3])], leave_out=("word3",)),
        lambda: tokenized(tmp_path, model, "end\n\n"),
    ):
        with pytest.raises(CommandError, match="too little training data"):
            make()


@pytest.fixture
def model(tmp_path):
    return tiny_model(tmp_path, subwords=SUBWORDS)


def tokenized(folder, model, text):
    path = folder / "text.txt"
    path.write_text(text)
    return tokenize_files(model, [path], SILENT)


def lines(text):
    return [part.tolist() for part in np.split(text.rows, text.offsets[1:-1])]


def test_sentences_are_rows_of_a_table_of_the_vocabulary_and_composed_words(tmp_path, model):
    text = 'bank Apple gnu river end! "Apple did high gnu." APPLE river money end'
    tokens = tokenized(tmp_path, model, text)
    # The first composed word is `gnu`; marks may be composed too.
    known = [[row for row in one if 0 <= row <= len(VECTORS)] for one in lines(tokens)]
    assert known == [[3, 1, 11, 4, 10], [1, 6, 8, 11], [2, 4, 5, 10]]
    table = tokens.table(model)
    np.testing.assert_array_equal(table[: len(VECTORS) + 1], [*VECTORS, [2, 0, 0, 0, 1]])
    assert len(table) == len(VECTORS) + len(tokens.composed) + 1
    assert not table[-1].any()
    assert table.dtype == np.float32


def test_the_rows_are_those_of_the_tokens_of_the_service(tmp_path, model):
    line = "river didn't high-end\tApple unheard www.end.org gnu money"
    tokens, text = model.tokenizer.tokens(line), tokenized(tmp_path, model, line)
    [rows] = lines(text)
    np.testing.assert_allclose(text.table(model)[rows], model.static(tokens), atol=1e-3)
    assert UNKNOWN in rows
    assert [row == UNKNOWN for row in rows] == [t.resolution == "oov" for t in tokens]


def test_short_sentences_are_skipped_and_long_ones_divided(tmp_path, model, monkeypatch):
    monkeypatch.setattr(module, "MAX_TOKENS", 5)
    monkeypatch.setattr(module, "MAX_COMPOSED", 1)
    tokens = tokenized(tmp_path, model, "gnu river emu gnu emu")
    assert lines(tokens) == [[11, 4, UNKNOWN, 11, UNKNOWN]]  # further words are unknown
    text = "\n".join(["end " * 3, "river " * 4, "money " * 12])
    assert [len(one) for one in lines(tokenized(tmp_path, model, text))] == [4, 5, 5]
