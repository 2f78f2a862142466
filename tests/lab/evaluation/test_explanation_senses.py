"""Tagged occurrences, their centroids and the classifier, with numbers derived by hand."""

from math import log

import numpy as np
import pytest
from sklearn.metrics import f1_score, roc_auc_score

from polyseme_lab.evaluation.datasets import TokenizedOccurrence
from polyseme_lab.evaluation.senses import (
    MAX_OF_LEMMA,
    MAX_WORDS,
    MIN_OF_SENSE,
    Centroids,
    Lemma,
    NaiveBayes,
    collect_senses,
    lemma_quality,
    margins,
    round_robin,
)


def everything(_):
    return True


def known(words):
    return [True] * len(words)


def tagged(sense, number, *words, lemma="bank/noun"):
    return (["bank", f"{sense}{number}", *words], [(0, lemma, sense)])


def some(**counts):
    return [tagged(sense, n) for sense, count in counts.items() for n in range(count)]


def lemma_of(senses, sentences=None):
    sentences = sentences or [("bank", f"w{n}") for n in range(len(senses))]
    return Lemma("bank", [TokenizedOccurrence(words, 0) for words in sentences], np.array(senses))


class TestCollectSenses:
    def test_a_lemma_needs_two_senses_that_occur_often(self):
        found = collect_senses(
            some(river=MIN_OF_SENSE, money=MIN_OF_SENSE, seat=MIN_OF_SENSE - 1), everything, known
        )
        (lemma,) = found.lemmas
        assert np.bincount(lemma.senses).tolist() == [MIN_OF_SENSE, MIN_OF_SENSE]
        assert {one.words[1][:5] for one in lemma.occurrences} == {"river", "money"}
        assert not collect_senses(
            some(river=MIN_OF_SENSE, money=MIN_OF_SENSE - 1), everything, known
        ).lemmas

    def test_unknown_words_have_no_occurrences(self):
        sentences = some(river=MIN_OF_SENSE, money=MIN_OF_SENSE)
        sentences[0][0][0] = "Bank"
        assert not collect_senses(
            sentences, everything, lambda words: [w == "bank" for w in words]
        ).lemmas

    def test_only_wanted_lemmas_are_collected_and_all_words_are_counted(self):
        sentences = [
            *some(river=MIN_OF_SENSE, money=MIN_OF_SENSE),
            (["The", "crane", "the"], [(1, "c", "bird")]),
        ]
        found = collect_senses(sentences, lambda lemma: lemma == "c", known)
        assert found.lemmas == []
        assert (found.counts["bank"], found.counts["the"]) == (2 * MIN_OF_SENSE, 2)
        assert found.tagged == ["crane", "bank"]

    def test_a_frequent_lemma_is_sampled_and_a_long_sentence_excluded(self):
        sentences = some(river=MAX_OF_LEMMA, money=MAX_OF_LEMMA)
        long = [tagged("seat", n, *["x"] * MAX_WORDS) for n in range(MIN_OF_SENSE)]
        (lemma,) = collect_senses([*sentences, *long], everything, known).lemmas
        assert len(lemma.senses) == len(set(lemma.occurrences)) == MAX_OF_LEMMA
        assert np.unique(lemma.senses).tolist() == [0, 1]
        assert (
            collect_senses(sentences, everything, known, 1).lemmas[0].occurrences
            == lemma.occurrences
        )
        assert (
            collect_senses(sentences, everything, known, 2).lemmas[0].occurrences
            != lemma.occurrences
        )

    def test_round_robin_takes_an_occurrence_of_each_lemma_in_turn(self):
        lemmas = [lemma_of([0, 0, 1]), lemma_of([0])]
        found = round_robin(lemmas, 1)
        assert [lemma for lemma, _ in found] == [0, 1, 0, 0]
        assert sorted(found) == [(0, 0), (0, 1), (0, 2), (1, 0)]


class TestCentroids:
    def test_a_centroid_excludes_the_occurrence_itself(self):
        """Without the first occurrence sense 0 is the second axis; sense 1 is (3, 4)/5."""
        centroids = Centroids(np.array([[2.0, 0], [0, 7], [3, 4]]), np.array([0, 0, 1]))
        np.testing.assert_allclose(centroids.cosines(0, np.array([[5.0, 0]])), [[0, 0.6]])
        np.testing.assert_allclose(centroids.cosines(2, np.array([[0.0, 1]])), [[0.5**0.5, 0]])

    def test_quality_is_that_of_scikit_learn(self):
        rng = np.random.default_rng(1)
        senses = np.arange(23) % 3
        vectors = rng.standard_normal((23, 5)) + 1.5 * np.eye(5)[senses]
        units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        guesses = []
        for n in range(23):
            rest = np.delete(np.arange(23), n)
            means = np.stack([units[rest][senses[rest] == s].mean(axis=0) for s in range(3)])
            means /= np.linalg.norm(means, axis=1, keepdims=True)
            guesses.append(np.argmax(means @ units[n]))
        pairs = [(a, b) for a in range(23) for b in range(a)]
        same = [senses[a] == senses[b] for a, b in pairs]
        auc, f1 = lemma_quality(vectors, lemma_of(senses))
        assert f1 == pytest.approx(f1_score(senses, guesses, average="macro"))
        assert auc == pytest.approx(roc_auc_score(same, [units[a] @ units[b] for a, b in pairs]))
        assert 0.5 < auc < 1 and 0.5 < f1 < 1

    def test_a_margin_is_to_the_best_other_sense(self):
        cosines = np.array([[0.5, 0.2, 0.9], [0.8, 0.1, 0.3]])
        np.testing.assert_allclose(margins(cosines, 0), [-0.4, 0.5])


class TestNaiveBayes:
    SENTENCES = (
        ("bank", "River", "old"),
        ("bank", "river", "old"),
        ("bank", "river", "new"),
        ("bank", "loan", "old"),
        ("bank", "loan", "new"),
    )
    CLASSIFIER = NaiveBayes(lemma_of([0, 0, 0, 1, 1], SENTENCES))

    def test_evidence_is_the_log_ratio_of_rates_with_a_prior_of_ten_occurrences(self):
        """Without the first occurrence each sense has 2; `river` is in 2 and in 0, so q = ½."""
        (river,) = self.CLASSIFIER.evidence(0, ["RIVER"])
        expected = log((2 + 5) / (2 + 10)) - log((0 + 5) / (2 + 10))
        np.testing.assert_allclose(river, [expected, -expected])

    def test_a_unique_or_equally_common_word_is_no_evidence(self):
        found = self.CLASSIFIER.evidence(0, ["bank", "old", "moon"])
        assert found.shape == (3, 2)
        np.testing.assert_allclose(found, 0, atol=1e-12)

    def test_another_occurrence_in_the_sentence_is_no_evidence(self):
        twice = (*self.SENTENCES, self.SENTENCES[0])
        classifier = NaiveBayes(lemma_of([0, 0, 0, 1, 1, 1], twice))
        np.testing.assert_array_equal(
            classifier.evidence(0, ["river"]), self.CLASSIFIER.evidence(0, ["river"])
        )

    def test_the_guess_is_that_of_all_words_but_the_occurrence_itself(self):
        """`river` decides the first, `loan` the fourth and the last."""
        assert [self.CLASSIFIER.guess(n) for n in (0, 3, 4)] == [0, 1, 1]

    def test_two_of_three_senses_count_as_one_against_the_third(self):
        classifier = NaiveBayes(lemma_of([0, 1, 2, 0], [("a",), ("a",), ("b",), ("c",)]))
        (found,) = classifier.evidence(3, ["a"])  # in 1, 1, 0 of 1, 1, 1: q = 2/3
        q = 10 * 2 / 3
        one = log((1 + q) / 11) - log((1 + q) / 12)
        np.testing.assert_allclose(found, [one, one, log(q / 11) - log((2 + q) / 12)])
