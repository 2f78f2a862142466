"""The parts of `explain`: tagged occurrences, erased and swapped words, rankings, by hand."""

from collections import Counter
from math import log

import numpy as np
import pytest
from sklearn.metrics import f1_score, roc_auc_score

from polyseme.engine.attention import Scoring, SentenceArrays
from polyseme.engine.layers import Layer, contextualize
from polyseme_lab.evaluation.datasets import LabeledOccurrences, TokenizedOccurrence
from polyseme_lab.evaluation.perturbation import (
    MAX_OF_LEMMA,
    MAX_WORDS,
    MEASURES,
    MIN_OF_SENSE,
    Erasure,
    FrequencyMatcher,
    Head,
    NaiveBayes,
    SenseData,
    attention_rows,
    collect_senses,
    evaluate_rankings,
    lemma_quality,
    round_robin,
    swap_word,
    zero_queries,
)
from tests.tiny import full_layer, normal


def sentence(vectors, words=None, known=None, bias=None):
    n = len(vectors)
    return SentenceArrays(
        np.array(vectors, np.float32),
        np.ones(n, np.bool_) if known is None else np.array(known),
        np.arange(n) if words is None else np.array(words),
        bias,
    )


class TestPerturbation:
    def test_a_swapped_word_has_its_own_vector_and_bias_at_the_same_position(self):
        one = sentence([[1, 2], [3, 4]], bias=np.array([1, 2], np.float32))
        found = swap_word(one, 1, sentence([[7, 8]], bias=np.array([9], np.float32)))
        assert found.vectors.tolist() == [[1, 2], [7, 8]]
        assert found.word_bias.tolist() == [1, 9]
        assert found.words.tolist() == [0, 1]
        assert one.vectors.tolist() == [[1, 2], [3, 4]] and one.word_bias.tolist() == [1, 2]

    def test_zero_weights_become_uniform(self):
        one = sentence([[30, 0], [0, 1], [0, 2]])
        found = attention_rows(one, [Layer(scoring=Scoring(scale=False))], 0, np.array([1, 2]))
        np.testing.assert_allclose(found, [[0.5, 0.5]])

    @pytest.mark.parametrize("head", [0, 1, 2])
    def test_a_head_without_its_query_gives_every_query_the_same_scores(self, head):
        rng = np.random.default_rng(3)
        one = sentence(normal(rng, 7, 5), bias=normal(rng, 7))
        layers = [full_layer(1), full_layer(2)]
        changed = zero_queries(layers, 5, [Head(0, head)])
        names = ("scores", "queries")
        before, after = (contextualize(one, x, names).records[0] for x in (layers, changed))
        for h in range(3):
            if h == head:
                assert np.ptp(after["scores"][h], axis=0).max() == 0  # the bias of the query stays
                assert after["queries"][h].any()
            else:
                np.testing.assert_array_equal(before["scores"][h], after["scores"][h])
        assert changed[1] is layers[1] and layers[0].query.weight.all()

    def test_queries_without_weights_are_zeroed(self):
        one = sentence(normal(np.random.default_rng(3), 4, 6))
        layers = zero_queries([Layer(heads=2)], 6, [Head(0, 1)])
        queries = contextualize(one, layers, ("queries",)).records[0]["queries"]
        np.testing.assert_array_equal(queries[0], one.vectors[:, :3])
        assert not queries[1].any()

    def test_the_replacement_is_absent_and_of_similar_frequency(self):
        words = [f"w{n:03}" for n in range(100)]
        counts = Counter({word: n + 1 for n, word in enumerate(words)})
        like = FrequencyMatcher(
            SenseData([], counts, words), lambda several: [w != "w050" for w in several]
        )
        drawn = set()
        for seed in range(40):
            rng = np.random.default_rng(seed)
            three = like("W052", ["W052", "w051", "w053"], 3, rng)
            assert len(set(three)) == 3
            drawn |= set(three)
        numbers = {int(word[1:]) for word in drawn}
        assert not numbers & {50, 51, 52, 53}
        assert 25 <= min(numbers) < 40 and 65 < max(numbers) <= 77


class TestErasure:
    """The query attends evenly to three keys, whose vectors are (3, 0), (0, 2) and (0, 0), so the
    contextual vector is (3, 2)/3. Its two numbers serve as the cosines with two senses."""

    ONE = sentence([[0, 0], [3, 0], [0, 2], [0, 0]])
    LAYER = Layer(scoring=Scoring(mask="others"))
    KEYS = np.array([1, 2, 3])

    def erasure(self):
        return Erasure(self.ONE, [self.LAYER], 0, lambda vectors: vectors)

    def test_a_removed_word_no_longer_counts(self):
        erasure = self.erasure()
        np.testing.assert_allclose(erasure.cosines(), [[1, 2 / 3]], rtol=1e-6)
        np.testing.assert_allclose(erasure.cosines([[1]]), [[0, 1]], rtol=1e-6)
        lost = erasure.losses([[1], [2], [3], [2, 3]], 0)
        # The margin is 1/3; without one key −1, 3/2 or 1/2; with the first key alone 3.
        np.testing.assert_allclose(
            lost, [1 / 3 + 1, 1 / 3 - 1.5, 1 / 3 - 0.5, 1 / 3 - 3], rtol=1e-5
        )

    def figures(self, scores, ties=(0.1, 0.2, 0.3), evidence=(1, 0, 0.5)):
        found = evaluate_rankings(
            np.array([scores], float),
            self.KEYS,
            self.erasure(),
            0,
            np.array(evidence, float),
            np.array(ties),
        )
        return dict(zip(MEASURES, found[0], strict=True))

    def test_flips_are_found_by_attention_to_the_deciding_word(self):
        """Only the removal of the first key makes the other sense the nearest."""
        right, wrong = self.figures([3, 1, 2]), self.figures([1, 3, 2])
        assert (right["flip_auc"], right["flip_at_1"], right["flip_at_3"]) == (1, 1, 1 / 3)
        assert (wrong["flip_auc"], wrong["flip_at_1"], wrong["flip_at_3"]) == (0, 0, 1 / 3)
        assert right["removed_1"] == pytest.approx(4 / 3, rel=1e-5)
        assert wrong["removed_1"] == pytest.approx(1 / 3 - 1.5, rel=1e-5)
        assert right["kept_1"] == pytest.approx(1 / 3 - 3, rel=1e-5)

    def test_drops_have_a_sign_and_changes_have_none(self):
        """The drops are 4/3, −7/6 and −1/6."""
        assert self.figures([3, 1, 2])["drop_correlation"] == pytest.approx(1)
        assert self.figures([3, 2, 1])["change_correlation"] == pytest.approx(1)

    def test_a_word_is_evidence_from_twice_the_odds(self):
        found = self.figures([3, 2, 1], evidence=(0.70, 0.69, -9))
        assert (found["evidence_auc"], found["evidence_at_1"]) == (1, 1)
        assert found["evidence_correlation"] == pytest.approx(1)
        assert np.isnan(self.figures([3, 2, 1], evidence=(0.6, 0, 0))["evidence_auc"])

    def test_ties_are_removed_in_the_order_of_the_random_numbers(self):
        first, last = self.figures([1, 1, 1]), self.figures([1, 1, 1], ties=(0.3, 0.2, 0.1))
        assert first["removed_1"] == pytest.approx(4 / 3, rel=1e-5)
        assert last["removed_1"] == pytest.approx(1 / 3 - 0.5, rel=1e-5)
        assert first["removed_3"] == last["removed_3"] == pytest.approx(1 / 3, rel=1e-5)
        assert first["kept_3"] == 0


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
    occurrences = [TokenizedOccurrence(words, 0) for words in sentences]
    return LabeledOccurrences("bank", occurrences, np.array(senses))


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
        for seed in (1, 2):
            (again,) = collect_senses(sentences, everything, known, seed).lemmas
            assert (again.occurrences == lemma.occurrences) == (seed == 1)

    def test_round_robin_takes_an_occurrence_of_each_lemma_in_turn(self):
        lemmas = [lemma_of([0, 0, 1]), lemma_of([0])]
        found = round_robin(lemmas, 1)
        assert [lemma for lemma, _ in found] == [0, 1, 0, 0]
        assert sorted(found) == [(0, 0), (0, 1), (0, 2), (1, 0)]


class TestCentroids:
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
