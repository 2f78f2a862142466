"""Token tables, and the samplers of a step: lemmas with senses, and pseudo-words."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.models.vocabulary import Vocabulary
from polyseme.tokenizer import Tokenizer
from polyseme_lab.training.corpus import is_held_out
from polyseme_lab.training.data import (
    Draw,
    LemmaSampler,
    Lexicon,
    Occurrences,
    PseudoWordSampler,
    Sentences,
    TokenTable,
    concatenate,
    merge_draws,
)
from tests.tiny import SUBWORDS, WORDS, tiny_model
from tests.tokenizer.vocabularies import PROPERTY, tokenize


@pytest.fixture
def model(tmp_path):
    bias = np.arange(len(WORDS), dtype=np.float32)
    return tiny_model(tmp_path, word_bias=bias, subwords=SUBWORDS)


@PROPERTY
@given(st.text("aApPlLeE bn'’.-,:3@_/hwt\n", max_size=60))
def test_a_text_is_tokenized_as_by_the_service(text):
    words = Vocabulary(b"apple\nApple\nal\n'll\nn't\n.\n-\n3\nbe\nPP\n")
    lexicon = Lexicon(SimpleNamespace(tokenizer=Tokenizer(words)))
    expected = [token.row for token in tokenize(text, words)]
    found = [entry for entry, _ in lexicon.of_text(text)]
    rows = [token.row for token in lexicon._tokens]
    assert [None if entry < 0 else rows[entry] for entry in found] == expected


def test_a_text_has_the_vectors_that_the_service_gives_it(model):
    text = "Apple's bank, MONEY didn't end gnu gnat high-end apple Apple"
    lexicon = Lexicon(model)
    entries = [entry for entry, _ in lexicon.of_text(text)]
    table = lexicon.table()
    rows = np.where(np.array(entries, int) < 0, table.unknown, np.array(entries, int))
    sentence = model.inputs(model.tokenizer.tokens(text))
    np.testing.assert_array_equal(table.vectors[rows], sentence.vectors)
    np.testing.assert_array_equal(rows != table.unknown, sentence.known)
    known = sentence.known
    np.testing.assert_array_equal(table.word_bias[rows][known], sentence.word_bias[known])
    same, expected = (w[:, None] == w for w in (table.words[rows], sentence.words))
    np.testing.assert_array_equal(same[known][:, known], expected[known][:, known])


def test_pretokenized_words_are_not_split_and_have_a_lower_case_entry(model):
    lexicon = Lexicon(model, composing=False)
    split, (written, lowered), gnu = lexicon.of_words(["high-end", "APPLE", "gnu"])
    table = lexicon.table()
    assert split == gnu == (Lexicon.UNKNOWN, Lexicon.UNKNOWN)
    assert (table.keys[written], table.keys[lowered]) == ("APPLE", "apple")
    assert table.rows[[written, lowered]].tolist() == [2, 0]
    assert table.words[written] == table.words[lowered]
    # The last entry is for unknown words.
    assert table.unknown == 2
    assert not table.vectors[-1].any()
    assert (table.words[-1], table.word_bias[-1], table.rows[-1]) == (-1, 0, -1)
    composing = Lexicon(model)
    [(gnu, _)] = composing.of_words(["gnu"])
    np.testing.assert_array_equal(composing.table().vectors[gnu], [2, 0, 0, 0, 1])
    assert (composing.table().rows == -1).all()


def test_sentences_are_concatenated():
    pairs = [[(0, 1), (-1, 2)], [], [(3, -1)]]
    found = concatenate([np.array(one, np.int32).reshape(-1, 2) for one in pairs], 9)
    assert found.entries.tolist() == [0, 9, 3]
    assert found.lowered.tolist() == [1, 2, 9]
    assert found.offsets.tolist() == [0, 2, 2, 3]
    assert concatenate([], 9).offsets.tolist() == [0]


def occurrences(groups, labels):
    return Occurrences(np.arange(len(groups)) * 10, np.array(groups), np.array(labels))


def rng(seed=1):
    return np.random.default_rng(seed)


def test_lemmas_with_two_senses_one_of_which_occurs_twice_are_drawn():
    lemmas = LemmaSampler(occurrences([0, 0, 0, 1, 1, 2, 2, 2], [0, 0, 1, 2, 2, 3, 4, 5]))
    drawn = lemmas.draw(rng(), 5, 16)
    assert sorted(drawn.occurrences.positions) == [0, 10, 20]
    assert not drawn.hidden.any()
    assert (len(lemmas), len(LemmaSampler(occurrences([], [])))) == (1, 0)


def test_a_draw_has_distinct_lemmas_and_more_of_rare_senses():
    groups = np.repeat(np.arange(10), 40)
    lemmas = LemmaSampler(occurrences(groups, groups * 4 + np.arange(400) % 4))
    drawn = lemmas.draw(rng(), 6, 16).occurrences
    names, counts = np.unique(drawn.groups, return_counts=True)
    assert (len(names), set(counts), len(np.unique(drawn.positions))) == (6, {16}, 96)
    # Rare senses: 10 % of the occurrences have 25 % of the weight.
    lemmas = LemmaSampler(occurrences([0] * 100, [0] * 90 + [1] * 10))
    drawn = np.concatenate([lemmas.draw(rng(s), 1, 16).occurrences.labels for s in range(50)])
    assert 0.17 < np.mean(drawn) < 0.35


def corpus():
    """Words a, b, … of which the n-th occurs 100 − n times, in sentences of ten."""
    keys = [chr(97 + n) for n in range(26)] + ["x1", ""]
    table = TokenTable(
        np.zeros((28, 2), np.float32), np.array([*range(27), -1]), None, tuple(keys), np.arange(28)
    )
    entries = np.repeat(np.arange(27, dtype=np.int32), np.arange(100, 73, -1))
    entries = rng().permutation(entries)
    return table, Sentences(
        entries, entries, np.append(np.arange(0, len(entries), 10), len(entries))
    )


def test_a_pseudo_word_joins_words_of_similar_frequency():
    table, sentences = corpus()
    words = PseudoWordSampler(table, sentences, frozenset(), 2)
    assert len(words) == 26  # without x1, which has a digit
    draw = words.draw(rng(), 40, 6)
    drawn = draw.occurrences
    assert draw.hidden.all()
    for group in range(40):
        positions = drawn.positions[drawn.groups == group]
        found = sentences.entries[positions]
        assert len(np.unique(found)) == 2
        assert len(np.unique(positions)) == len(positions) == 12
        assert np.ptp(found) <= 20
    words_of_labels = {*zip(drawn.labels, sentences.entries[drawn.positions], strict=True)}
    groups_of_labels = {*zip(drawn.labels, drawn.groups, strict=True)}
    assert len(set(drawn.labels)) == len(words_of_labels) == len(groups_of_labels) == 80


def test_excluded_rare_and_less_frequent_words_are_no_targets():
    table, sentences = corpus()
    assert len(PseudoWordSampler(table, sentences, frozenset({"a", "c"}), 3)) == 24
    few = Sentences(sentences.entries[:50], sentences.lowered[:50], np.array([0, 50]))
    counts = np.bincount(few.entries, minlength=28)[:26]
    assert len(PseudoWordSampler(table, few, frozenset(), 3)) == np.count_nonzero(counts >= 5)
    commonest = PseudoWordSampler(table, sentences, frozenset({"a"}), 2, 5)
    assert len(commonest) == 5
    assert 0 not in commonest.by_frequency  # excluded words do not count
    drawn = commonest.restricted(np.array([3, 4, 5])).draw(rng(), 20, 6).occurrences
    assert set(sentences.entries[drawn.positions]) == {3, 4, 5}


def test_merged_draws_have_distinct_groups_and_labels():
    one, two = occurrences([0, 0, 2], [0, 1, 5]), occurrences([0, 1], [0, 3])
    both = merge_draws([Draw(one, np.zeros(3, bool)), Draw(two, np.ones(2, bool))])
    assert both.occurrences.groups.tolist() == [0, 0, 2, 3, 4]
    assert both.occurrences.labels.tolist() == [0, 1, 5, 6, 9]
    assert both.occurrences.positions.tolist() == [0, 10, 20, 0, 10]
    assert both.hidden.tolist() == [False] * 3 + [True] * 2


def test_the_held_out_words_stay_the_same():
    # An evaluation selects the words that a published model was not trained on.
    held = [n for n in range(40) if is_held_out(f"word{n}", 0.2, 1)]
    assert held == [7, 12, 18, 20, 24, 30, 34, 35]
