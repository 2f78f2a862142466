"""The parts of `explain`: erasing and swapping words, rankings and their figures."""

from collections import Counter
from math import log

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from polyseme.engine.attention import Scoring, SentenceArrays
from polyseme.engine.layers import Layer, Projection, contextualize
from polyseme_lab.evaluation.perturbation import (
    MEASURES,
    Erasure,
    FrequencyMatcher,
    Head,
    attended_places,
    attention_rows,
    erase,
    evaluate_rankings,
    swap_word,
    total_variation,
    zero_queries,
)
from polyseme_lab.evaluation.senses import SenseData
from polyseme_lab.evaluation.statistics import precision_at, roc_auc, spearman
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
    def test_keys_are_known_and_other_words(self):
        one = sentence(np.ones((5, 2)), words=[0, 1, 0, 2, 3], known=[1, 1, 1, 0, 1])
        assert attended_places(sentence(np.ones((5, 2)), [0, 1, 0, 2, 3]), 0).tolist() == [1, 3, 4]
        assert attended_places(one, 1).tolist() == [0, 2, 4]

    def test_an_erased_word_is_unknown_and_the_rest_stays(self):
        one = sentence([[1, 2], [3, 4], [5, 6]])
        found = erase(one, [1])
        assert found.known.tolist() == [True, False, True]
        assert found.vectors.tolist() == [[1, 2], [0, 0], [5, 6]]
        assert one.known.all() and one.vectors.all()

    def test_a_swapped_word_has_its_own_vector_and_bias_at_the_same_position(self):
        one = sentence([[1, 2], [3, 4]], bias=np.array([1, 2], np.float32))
        found = swap_word(one, 1, sentence([[7, 8]], bias=np.array([9], np.float32)))
        assert found.vectors.tolist() == [[1, 2], [7, 8]]
        assert found.word_bias.tolist() == [1, 9]
        assert found.words.tolist() == [0, 1]
        assert one.vectors.tolist() == [[1, 2], [3, 4]] and one.word_bias.tolist() == [1, 2]

    def test_a_row_has_the_normalized_weights_of_some_keys(self):
        """The first query has scores of 0, log 2, log 3, log 4 and weights of 1 to 4 tenths."""
        one = sentence([[1, 0], [log(2), 0], [log(3), 0], [log(4), 0]])
        layer = Layer(key=Projection(np.eye(2, dtype=np.float32)), scoring=Scoring(scale=False))
        found = attention_rows(one, [layer], 0, np.array([1, 3]))
        weights = contextualize(one, [layer], ("weights",)).records[0]["weights"][0, 0, [1, 3]]
        np.testing.assert_allclose(found, [weights / weights.sum()], rtol=1e-6)
        np.testing.assert_allclose(found, [[1 / 3, 2 / 3]], rtol=1e-6)

    def test_zero_weights_become_uniform(self):
        one = sentence([[30, 0], [0, 1], [0, 2]])
        found = attention_rows(one, [Layer(scoring=Scoring(scale=False))], 0, np.array([1, 2]))
        np.testing.assert_allclose(found, [[0.5, 0.5]])

    def test_total_variation_is_half_the_sum_of_the_differences(self):
        one, other = np.array([[0.5, 0.5, 0], [1, 0, 0]]), np.array([[0, 0.5, 0.5], [0, 0, 1]])
        assert total_variation(one, other).tolist() == [0.5, 1]
        assert total_variation(one, one).tolist() == [0, 0]

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


class TestRanking:
    def test_spearman_and_roc_auc_are_those_of_scipy_and_scikit_learn(self):
        rng = np.random.default_rng(5)
        scores = rng.integers(0, 4, (7, 13)).astype(float)
        target = rng.integers(0, 5, 13).astype(float)
        positive = target > 2
        expected = [spearmanr(row, target).statistic for row in scores]
        np.testing.assert_allclose(spearman(scores, target), expected)
        expected = [roc_auc_score(positive, row) for row in scores]
        np.testing.assert_allclose(roc_auc(scores, positive), expected)

    def test_a_constant_correlates_with_nothing(self):
        assert spearman(np.ones((1, 3)), np.arange(3.0)).tolist() == [0]
        assert np.isnan(spearman(np.ones((1, 3)), np.ones(3))).all()
        for positive in (np.zeros(3, np.bool_), np.ones(3, np.bool_)):
            assert np.isnan(roc_auc(np.ones((2, 3)), positive)).tolist() == [True, True]

    @pytest.mark.parametrize(
        ("scores", "k", "expected"),
        [
            ([9, 5, 3, 1], 1, 1),
            ([9, 5, 3, 1], 3, 2 / 3),
            ([5, 9, 3, 1], 1, 0),
            ([5, 5, 5, 5], 1, 2 / 4),
            ([5, 5, 5, 5], 3, 2 / 4),
            ([5, 5, 9, 1], 2, (1 + 1 / 2) / 2),  # the third, and one of the first two
        ],
    )
    def test_precision_is_a_mean_over_the_orders_of_ties(self, scores, k, expected):
        """The first and the third are positive."""
        positive = np.array([True, False, True, False])
        assert precision_at(np.array([scores], float), positive, k) == pytest.approx(expected)

    def test_precision_is_undefined_without_positives(self):
        assert np.isnan(precision_at(np.ones((1, 3)), np.zeros(3, np.bool_), 1)).all()


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
        np.testing.assert_allclose(erasure.cosines(), [1, 2 / 3], rtol=1e-6)
        np.testing.assert_allclose(erasure.cosines([1]), [0, 1], rtol=1e-6)
        lost = erasure.losses([[1], [2], [3], [2, 3]], 0)
        # The margin is 1/3; without one key −1, 3/2 or 1/2; with the first key alone 3.
        np.testing.assert_allclose(
            lost, [1 / 3 + 1, 1 / 3 - 1.5, 1 / 3 - 0.5, 1 / 3 - 3], rtol=1e-5
        )

    def test_each_set_of_words_is_computed_once_in_any_order(self):
        computed = []

        def cosines(vectors):
            computed.append(vectors)
            return vectors

        erasure = Erasure(self.ONE, [self.LAYER], 0, cosines)
        erasure.losses([[1, 2], [2, 1]], 0)
        erasure.cosines(np.array([2, 1]))
        assert len(computed) == 2  # with all keys, and without both

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
