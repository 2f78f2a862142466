"""The samplers of a step: lemmas with senses, and pseudo-words of similar frequency."""

import numpy as np
import pytest

from polyseme_lab.training.data import Occurrences, Sentences, TokenTable
from polyseme_lab.training.sampling import Draw, LemmaSampler, PseudoWordSampler, merge_draws
from polyseme_lab.training.tags import is_held_out


def occurrences(groups, labels):
    return Occurrences(np.arange(len(groups)) * 10, np.array(groups), np.array(labels))


def rng(seed=1):
    return np.random.default_rng(seed)


def test_only_lemmas_with_two_senses_one_of_which_occurs_twice_are_drawn():
    lemmas = LemmaSampler(occurrences([0, 0, 0, 1, 1, 2, 2, 2], [0, 0, 1, 2, 2, 3, 4, 5]))
    assert len(lemmas) == 1
    drawn = lemmas.draw(rng(), 5, 16)
    assert sorted(drawn.occurrences.positions) == [0, 10, 20]
    assert not drawn.hidden.any()


def test_a_draw_has_different_lemmas_and_at_most_the_allowed_occurrences():
    groups = np.repeat(np.arange(10), 40)
    lemmas = LemmaSampler(occurrences(groups, groups * 4 + np.arange(400) % 4))
    drawn = lemmas.draw(rng(), 6, 16).occurrences
    names, counts = np.unique(drawn.groups, return_counts=True)
    assert (len(names), set(counts)) == (6, {16})
    assert len(np.unique(drawn.positions)) == 96


def test_rare_senses_are_drawn_more_often_than_they_occur():
    labels = [0] * 90 + [1] * 10
    lemmas = LemmaSampler(occurrences([0] * 100, labels))
    drawn = np.concatenate([lemmas.draw(rng(s), 1, 16).occurrences.labels for s in range(50)])
    assert 0.17 < np.mean(drawn) < 0.35  # 10 % of the occurrences have 25 % of the weight


def test_a_sampler_of_no_lemmas_is_empty():
    assert len(LemmaSampler(occurrences([], []))) == 0


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
    drawn = words.draw(rng(), 40, 6)
    assert drawn.hidden.all()
    for group in range(40):
        which = drawn.occurrences.groups == group
        positions = drawn.occurrences.positions[which]
        found = sentences.entries[positions]
        assert len(np.unique(found)) == 2
        assert len(np.unique(positions)) == len(positions) == 12
        assert len({*zip(found, drawn.occurrences.labels[which], strict=True)}) == 2
        assert np.ptp(found) <= 20


def test_only_the_most_frequent_words_are_targets_on_request():
    table, sentences = corpus()
    words = PseudoWordSampler(table, sentences, frozenset({"a"}), 2, 5)
    assert len(words) == 5
    assert 0 not in words.by_frequency  # excluded words do not count


def test_the_words_of_a_pseudo_word_are_in_one_group():
    table, sentences = corpus()
    drawn = PseudoWordSampler(table, sentences, frozenset(), 20).draw(rng(), 1, 4)
    labels, counts = np.unique(drawn.occurrences.labels, return_counts=True)
    assert (len(labels), set(counts)) == (20, {4})
    assert set(drawn.occurrences.groups) == {0}


def test_labels_of_different_pseudo_words_differ():
    table, sentences = corpus()
    drawn = PseudoWordSampler(table, sentences, frozenset(), 3).draw(rng(), 40, 12).occurrences
    pairs = {*zip(drawn.groups.tolist(), drawn.labels.tolist(), strict=True)}
    assert len({label for _, label in pairs}) == len(pairs)


def test_excluded_and_rare_words_are_no_targets():
    table, sentences = corpus()
    assert len(PseudoWordSampler(table, sentences, frozenset({"a", "c"}), 3)) == 24
    few = Sentences(sentences.entries[:50], sentences.lowered[:50], np.array([0, 50]))
    counts = np.bincount(few.entries, minlength=28)[:26]
    assert len(PseudoWordSampler(table, few, frozenset(), 3)) == np.count_nonzero(counts >= 5)


def test_a_restricted_sampler_draws_only_its_words():
    table, sentences = corpus()
    words = PseudoWordSampler(table, sentences, frozenset(), 2).restricted(np.array([3, 4, 5]))
    drawn = words.draw(rng(), 20, 6).occurrences
    assert set(sentences.entries[drawn.positions]) == {3, 4, 5}


def test_merged_draws_have_distinct_groups_and_labels():
    one, two = occurrences([0, 0, 2], [0, 1, 5]), occurrences([0, 1], [0, 3])
    both = merge_draws([Draw(one, np.zeros(3, bool)), Draw(two, np.ones(2, bool))])
    assert both.occurrences.groups.tolist() == [0, 0, 2, 3, 4]
    assert both.occurrences.labels.tolist() == [0, 1, 5, 6, 9]
    assert both.occurrences.positions.tolist() == [0, 10, 20, 0, 10]
    assert both.hidden.tolist() == [False] * 3 + [True] * 2


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_the_configured_share_of_words_is_held_out(share):
    words = [f"word{n}" for n in range(4000)]
    held = [is_held_out(word, share, 1) for word in words]
    assert abs(np.mean(held) - share) < 0.03
    assert share == 0 or held != [is_held_out(word, share, 2) for word in words]


def test_the_held_out_words_stay_the_same():
    # `lab/studies/ablation.py` selects the words that a published model was not trained on.
    held = [n for n in range(40) if is_held_out(f"word{n}", 0.2, 1)]
    assert held == [7, 12, 18, 20, 24, 30, 34, 35]
