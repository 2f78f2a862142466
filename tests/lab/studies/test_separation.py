"""The measures of how well vectors separate senses, and their standard errors."""

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra `evaluate`")

from lab.studies.separation import (
    PAIRS,
    Separation,
    auc_influence,
    by_lemma,
    figures,
    pairs_of,
    separation,
)

from polyseme.engine.arrays import unit


def tags(lemma, counts, begin=0):
    """Occurrences of each sense, each in its own sentence."""
    senses = [str(sense) for sense, count in enumerate(counts) for _ in range(count)]
    return [(begin + n, 0, lemma, sense) for n, sense in enumerate(senses)]


def lemmas_of(rng, count=6):
    tagged = [t for n in range(count) for t in tags(f"w{n}/NOUN", (9, 9), 18 * n)]
    vectors = unit(rng.standard_normal((len(tagged), 3)))
    return vectors, by_lemma(tagged)


@pytest.mark.slow
def test_pairs_are_two_occurrences_of_one_lemma():
    _, lemmas = lemmas_of(np.random.default_rng(8))
    pairs = pairs_of(lemmas)
    assert len(pairs.same) == PAIRS
    assert (pairs.first != pairs.second).all()
    assert (pairs.first // 18 == pairs.lemma).all()
    assert (pairs.second // 18 == pairs.lemma).all()
    assert ((pairs.first % 18 < 9) == (pairs.second % 18 < 9)).tolist() == pairs.same.tolist()


def test_the_error_of_an_auc_follows_its_definition():
    """The structural components of Obuchowski 1997, by comparing all pairs."""
    cosines = np.array([0.9, 0.2, 0.5, 0.5, 0.1, 0.7])
    same = np.array([True, True, True, False, False, False])
    lemma = np.array([0, 1, 2, 0, 1, 2])

    def beats(a, b):
        return 1.0 if a > b else 0.5 if a == b else 0.0

    grid = np.array([[beats(a, b) for b in cosines[~same]] for a in cosines[same]])
    area = grid.mean()
    expected = (grid.mean(axis=1) - area) / 3 + (grid.mean(axis=0) - area) / 3
    found = auc_influence(cosines, same, lemma, 3)
    np.testing.assert_allclose(found, np.sqrt(3 / 2) * expected)
    assert found.sum() == pytest.approx(0)


@pytest.mark.slow
def test_the_error_of_an_auc_agrees_with_resampled_lemmas():
    rng = np.random.default_rng(9)
    count = 60
    lemma = np.repeat(np.arange(count), 40)
    same = rng.random(len(lemma)) < 0.5
    shift = rng.normal(1, 0.8, count)[lemma]  # lemmas differ in their separation
    cosines = rng.standard_normal(len(lemma)) + same * shift
    error = np.sqrt((auc_influence(cosines, same, lemma, count) ** 2).sum())

    from sklearn.metrics import roc_auc_score

    resampled = []
    for _ in range(200):
        rows = np.concatenate(
            [np.flatnonzero(lemma == one) for one in rng.integers(count, size=count)]
        )
        resampled.append(roc_auc_score(same[rows], cosines[rows]))
    assert error == pytest.approx(np.std(resampled), rel=0.25)


def test_a_difference_is_taken_lemma_by_lemma():
    one = Separation(np.array([0.5, 0.7, 0.9]), 0.6, np.array([0.03, -0.04]))
    other = Separation(np.array([0.6, 0.8, 1.0]), 0.65, np.array([0.03, -0.03]))
    found = figures(other, one)
    # Each noun gains 0.1, so the difference has no error although the figures have one.
    assert found["nouns_macro_f1"] == {
        "value": 80.0,
        "error": 11.55,
        "difference": 10.0,
        "difference_error": 0.0,
    }
    assert found["pairs_auc"]["error"] == 4.24
    assert found["pairs_auc"]["difference"] == 5.0
    assert found["pairs_auc"]["difference_error"] == 1.0
    assert str(figures(one, one)["pairs_auc"]["difference"]) == "0.0"


def test_perfect_vectors_have_full_scores():
    _, lemmas = lemmas_of(np.random.default_rng(10))
    pairs = pairs_of(lemmas)
    vectors = np.eye(2)[np.arange(108) % 18 // 9]
    found = figures(separation(vectors, lemmas, pairs))
    assert found == {
        "nouns_macro_f1": {"value": 100.0, "error": 0.0},
        "pairs_auc": {"value": 100.0, "error": 0.0},
    }
