"""SemEval-2013 task 13: its files, and fuzzy B-Cubed and fuzzy NMI by hand and by loops."""

from collections import Counter
from itertools import permutations
from math import log2

import numpy as np
import pytest

from polyseme.errors import CommandError
from polyseme_lab.evaluation.datasets import TokenizedOccurrence
from polyseme_lab.evaluation.semeval import (
    CONTEXTS,
    KEY,
    RatedTerm,
    figures,
    fuzzy_b_cubed,
    fuzzy_nmi,
    one_hot,
    parse_key,
    read_terms,
    weights_of,
)

TWO = one_hot(np.array([0, 0, 1, 1]))
GOLD = weights_of([{"a": 1, "b": 0.5}, {"a": 1}, {"b": 1}])
FOUND = weights_of([{"x": 1}, {"x": 1, "y": 0.4}, {"y": 1}])


@pytest.mark.parametrize(
    ("induced", "b_cubed", "nmi"),
    [
        (TWO[:, ::-1], (1, 1), 1),  # the same senses under other names
        (np.ones((4, 1)), (1, pytest.approx(1 / 3)), 0),  # one in three pairs is right
        (np.eye(4), (0, 0), None),  # no pair
    ],
)
def test_senses_by_hand(induced, b_cubed, nmi):
    assert fuzzy_b_cubed(TWO, induced) == b_cubed
    assert nmi is None or fuzzy_nmi(TWO, induced) == nmi
    assert fuzzy_nmi(np.ones((4, 1)), np.ones((4, 1))) == 0


def test_weighted_senses_by_hand():
    # The pairs 1-2, 1-3, 2-3 agree by 1, ½, 0 in gold and by 1, 0, 0.4 in what is found.
    # Precision: (1 + 0) / 2, 1 / 1, 0 / 1. Recall: 1 / 1, (1 + 0) / 2, 0 / 1.
    assert fuzzy_b_cubed(GOLD, FOUND) == (0.5, 0.5)
    # a and x are equal. b and y share one occurrence of three, which explains nothing of H(b). So
    # H(a) of H(a) + H(b) is explained; b has three weights in three intervals: H(b) = log2(3).
    entropy = log2(3) - 2 / 3
    assert fuzzy_nmi(GOLD, FOUND) == pytest.approx(entropy / (entropy + log2(3)))


def looped_b_cubed(gold, found):
    """Precision of hard labels by its definition; with the arguments exchanged, recall."""
    values = []
    for i in range(len(gold)):
        same = [j for j in range(len(gold)) if j != i and gold[j] == gold[i]]
        values.append(np.mean([found[i] == found[j] for j in same]) if same else 0)
    return np.mean(values)


def looped_nmi(gold, found):
    """NMI of hard labels from their counts."""
    n = len(gold)

    def entropy(items):
        return -sum(c / n * log2(c / n) for c in Counter(items).values())

    def h(count):
        return -count / n * log2(count / n) if count else 0

    sides = [
        [[one == s for one in labels] for s in sorted(set(labels))] for labels in (gold, found)
    ]
    total = [sum(entropy(one) for one in side) for side in sides]
    rest = []
    for first, second in permutations(sides):
        left = 0
        for one in first:
            best = None
            for other in second:
                both = Counter(zip(one, other, strict=True))
                if h(both[True, True]) + h(both[False, False]) < h(both[True, False]) + h(
                    both[False, True]
                ):
                    continue
                given = entropy(zip(one, other, strict=True)) - entropy(other)
                best = given if best is None else min(best, given)
            left += entropy(one) if best is None else best
        rest.append(left)
    return (sum(total) - sum(rest)) / 2 / max(total)


@pytest.mark.parametrize("seed", range(5))
def test_figures_of_hard_clusters_are_those_of_the_loops(seed):
    rng = np.random.default_rng(seed)
    gold, found = rng.integers(0, 3, 30), rng.integers(0, 4, 30)
    found[:12] = gold[:12]
    precision, recall = fuzzy_b_cubed(one_hot(gold), one_hot(found))
    assert precision == pytest.approx(looped_b_cubed(gold, found))
    assert recall == pytest.approx(looped_b_cubed(found, gold))
    expected = looped_nmi(gold.tolist(), found.tolist())
    assert fuzzy_nmi(one_hot(gold), one_hot(found)) == pytest.approx(expected)


def test_the_reported_f_is_of_the_means_over_the_terms():
    terms = [RatedTerm("a.n", [], TWO), RatedTerm("b.n", [], TWO)]
    found = figures(terms, [TWO, np.ones((4, 1))])
    # NMI 1 and 0; precision 1 and 1, recall 1 and ⅓: F of 1 and ⅔ is 0.8.
    assert found["fuzzy_nmi"].value == 50
    assert found["fuzzy_b_cubed"].value == 80
    assert found["both"].value == pytest.approx(100 * 0.4**0.5, abs=0.01)


def test_weights_are_divided_by_the_largest_and_missing_ones_are_one():
    text = "add.v add.v.1 x/2 y/4 !! a comment\nadd.v add.v.2 x/3 y\n\nwin.v win.v.1 z\n"
    assert parse_key(text, "key") == {
        "add.v": {"add.v.1": {"x": 0.5, "y": 1}, "add.v.2": {"x": 1, "y": 1}},
        "win.v": {"win.v.1": {"z": 1}},
    }


@pytest.mark.parametrize("line", ["add.v add.v.1", "add.v", "a b x/0", "a b x/-1", "a b x/much"])
def test_another_line_of_a_key_is_rejected(line):
    with pytest.raises(CommandError, match=r"line 2 is not a term"):
        parse_key(f"add.v add.v.1 x\n{line}\n", "key")


def write_set(folder, contexts, key):
    for name, text in ((CONTEXTS, contexts), (KEY, key)):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    return folder


def test_occurrences_are_read_from_the_text_around_head(tmp_path):
    contexts = (
        '<corpus lang="english"><lexelt item="win.v"><instance id="win.v.1">\n'
        "<context>R&D did <head>win</head>, at last.</context></instance>\n"
        '<instance id="win.v.2"><context>Unrated <head>won</head></context></instance>'
    )
    (term,) = read_terms(write_set(tmp_path, contexts, "win.v win.v.1 b/1 a/4\n"))
    assert term.occurrences == [
        TokenizedOccurrence(("R&D", "did", "win", ",", "at", "last", "."), 2)
    ]
    assert term.name == "win.v" and term.weights.tolist() == [[1, 0.25]]


def test_a_set_that_lacks_parts_is_rejected(tmp_path):
    with pytest.raises(CommandError, match=r"all\.key cannot be read"):
        read_terms(tmp_path)
    instance = '<instance id="win.v.1"><context>no head</context>'
    folder = write_set(tmp_path / "set", instance, "win.v win.v.1 a\n")
    with pytest.raises(CommandError, match=r"win\.v\.1 has no word in <head>"):
        read_terms(folder)
    (folder / KEY).write_text("win.v win.v.7 a\n")
    with pytest.raises(CommandError, match=r"lacks win\.v\.7"):
        read_terms(folder)
    (folder / KEY).write_text("\n")
    with pytest.raises(CommandError, match="rates no occurrence"):
        read_terms(folder)
