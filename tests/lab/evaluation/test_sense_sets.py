"""CoarseWSD-20: nearest centroids; WiC: the threshold that is best on train; their intervals."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score
from sklearn.neighbors import NearestCentroid

from polyseme.errors import CommandError
from polyseme_lab.evaluation.coarsewsd import coarsewsd, most_frequent_sense
from polyseme_lab.evaluation.statistics import (
    IntervalEstimate,
    rank_correlation,
    resample_counts,
)
from polyseme_lab.evaluation.wic import best_threshold, wic
from tests.lab.evaluation.sets import COARSE, WIC, by_neighbor

TEST, GOLD = "coarsewsd/bank/test.data.txt", "coarsewsd/bank/test.gold.txt"
TRAIN, TRAIN_GOLD = "coarsewsd/bank/train.data.txt", "coarsewsd/bank/train.gold.txt"
LINE = "the line is not the position"


def rounded(found):
    """The number of words, the accuracy and the macro-F1."""
    return len(found.words), found.accuracy.value, found.macro_f1.value


def with_second_word(word, **lines):
    """The set with a second word, whose files are those of bank except for `lines`."""
    copied = {name.replace("/bank/", f"/{word}/"): value for name, value in COARSE.items()}
    changed = {f"coarsewsd/{word}/{name.replace('_', '.')}.txt": v for name, v in lines.items()}
    return {**COARSE, **copied, **changed}


def zeros(occurrences):
    return np.zeros((len(occurrences), 2))


def test_the_sense_of_the_nearest_centroid_by_hand():
    """The vector of the last sentence is zero, so its cosines are equal: the first sense."""
    # F1 of sense 0: 2 correct of 2, 3 predicted: 4/5; of sense 1: 1 of 2, 1 predicted: 2/3.
    assert rounded(coarsewsd(COARSE, by_neighbor)) == (1, 75, 73.33)
    # The figures of several embedders, and of words, are means. Other sets are ignored.
    assert rounded(coarsewsd(COARSE, zeros)) == (1, 50, 33.33)
    assert rounded(coarsewsd(COARSE, by_neighbor, zeros)) == (1, 62.5, 53.33)
    files = with_second_word("mole", test_data=["0\tbank river"], test_gold=["0"])
    files |= {"wic/test/test.data.txt": ["x"], "train/train.data.txt": ["x"]}
    found = coarsewsd(files, by_neighbor)
    assert rounded(found) == (2, 87.5, 86.67)
    assert {w: one.accuracy for w, one in found.words.items()} == {"bank": 0.75, "mole": 1.0}


def test_centroids_are_means_of_unit_vectors_and_not_of_vectors():
    """A single long vector would dominate the mean of a sense."""
    files = {
        **COARSE,
        TRAIN: ["0\tx a", "0\tx b", "0\tx c"],
        TRAIN_GOLD: ["0", "0", "1"],
        TEST: ["0\tx d"],
        GOLD: ["0"],
    }
    vectors = {"a": [100, 0], "b": [0, 1], "c": [1, 0], "d": [1, 1.1]}
    # Of unit vectors the centroid of 0 is [.5, .5], near d; of vectors [50, .5], near [1, 0].
    assert coarsewsd(files, lambda o: np.array([vectors[x.words[1]] for x in o])).accuracy[0] == 100


def test_a_sense_that_is_absent_from_train_is_never_predicted():
    files = {**COARSE, TRAIN: COARSE[TRAIN][:1], TRAIN_GOLD: ["1"], GOLD: ["1", "1", "1", "0"]}
    assert rounded(coarsewsd(files, by_neighbor)) == (1, 75, 42.86)  # F1 of sense 1: 6/7


def test_the_most_frequent_sense_is_that_of_train():
    assert rounded(most_frequent_sense(COARSE)) == (1, 50.0, 33.33)
    assert most_frequent_sense({**COARSE, GOLD: ["1", "1", "1", "0"]}).accuracy.value == 75
    for labels in (["0", "1"], ["1", "0"]):  # of equally frequent ones, the first label
        tied = {TRAIN: COARSE[TRAIN][:2], TRAIN_GOLD: labels, GOLD: ["0", "0", "0", "1"]}
        assert most_frequent_sense({**COARSE, **tied}).accuracy.value == 75


def test_figures_and_their_resamples_agree_with_scikit_learn():
    """Each word has resamples of its own, in many of which a sense is absent."""
    rng = np.random.default_rng(1)
    files, vectors, expected = {}, {}, []
    for stream, word in enumerate("abc"):
        x, y = {}, {}
        for split, n in (("train", 40), ("test", 9)):
            y[split] = np.concatenate([np.arange(4), rng.integers(4, size=n - 4)])
            x[split] = rng.standard_normal((n, 7)) + 0.8 * np.eye(7)[y[split]]
            lines = [f"{word} {split}{number}" for number in range(n)]
            files[f"{word}/{split}.data.txt"] = [f"0\t{line}" for line in lines]
            files[f"{word}/{split}.gold.txt"] = list(map(str, y[split]))
            vectors |= zip(lines, x[split], strict=True)
            x[split] /= np.linalg.norm(x[split], axis=1, keepdims=True)
        centroids = NearestCentroid().fit(x["train"], y["train"])
        centroids.centroids_ /= np.linalg.norm(centroids.centroids_, axis=1, keepdims=True)
        both = np.stack([y["test"], centroids.predict(x["test"])])
        drawn = [both, *(both.repeat(times, axis=1) for times in resample_counts(9, stream)[:50])]
        expected.append([(accuracy_score(*d), f1_score(*d, average="macro")) for d in drawn])
    found = coarsewsd(files, lambda o: np.array([vectors[" ".join(one.words)] for one in o]))
    for word, (whole, *rest) in zip(found.words.values(), expected, strict=True):
        assert (word.accuracy, word.macro_f1) == pytest.approx(whole)
        np.testing.assert_allclose(word.resampled[:, :50].T, rest)
    mean = np.mean([word.resampled for word in found.words.values()], axis=0)
    limits = np.percentile(mean, [2.5, 97.5], axis=1).T
    figures = (found.accuracy, found.macro_f1)
    for figure, value, ends in zip(figures, np.mean(expected, axis=0)[0], limits, strict=True):
        assert figure == pytest.approx((100 * value, *(100 * ends)), abs=0.006)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        *(
            ({n: lines for n, lines in COARSE.items() if n != name}, f"{name} is missing")
            for name in (TEST, TRAIN_GOLD)
        ),
        ({**COARSE, GOLD: ["0", "1"]}, "bank/test.gold.txt has 2 labels for 4 sentences"),
        ({**COARSE, GOLD: ["0", "1", "", "1"]}, "bank/test.gold.txt, line 3: the label is empty"),
        *(
            ({**COARSE, TEST: ["0\tbank"] * 3 + [line]}, f"bank/test.data.txt, line 4: {LINE}")
            for line in ("no tab", "2\ta bank", "-1\ta bank", "0\t", "²\ta b c")
        ),
        ({**COARSE, **{f"copy/{name}": lines for name, lines in COARSE.items()}}, "the same name"),
        (with_second_word("mole", test_data=[], test_gold=[]), "has 0 labels for 0 sentences"),
        ({"wic/train/train.data.txt": ["x"]}, "it is not CoarseWSD-20"),
    ],
)
def test_a_malformed_set_is_rejected(files, message):
    with pytest.raises(CommandError, match=message):
        coarsewsd(files, by_neighbor)


DEV, DEV_GOLD = "wic/dev/dev.data.txt", "wic/dev/dev.gold.txt"
PAIR = "dev/dev.data.txt, line 3: the line is not"


def test_a_pair_counts_as_the_same_from_the_threshold_of_train_up():
    """In train the cosine 1 is T and 0 is F, so the threshold is 1. In dev the third pair has the
    cosine 1 but is F."""
    found = wic(WIC, by_neighbor)
    assert (found.train, found.threshold, found.accuracy.value) == (100.0, 1.0, 66.67)
    # The length of vectors does not matter.
    assert wic(WIC, lambda o: by_neighbor(o) * np.arange(1, len(o) + 1)[:, None]) == found
    files = {**WIC, "wic/test/test.data.txt": WIC[DEV][:1], "wic/test/test.gold.txt": ["F"]}
    found = wic(files, by_neighbor, split="test")
    assert (found.train, found.accuracy.value) == (100.0, 0.0)


def test_figures_of_several_embedders_are_means_with_separate_thresholds():
    found = wic(WIC, by_neighbor, lambda o: np.ones((len(o), 2)))
    # With equal cosines all pairs count as the same: 1 of 2 is right in train, 1 of 3 in dev.
    assert (found.train, found.accuracy.value) == (75.0, 50.0)


def test_the_interval_is_that_of_the_resampled_pairs():
    right = np.array([0, 1, 1])
    found = wic({**WIC, DEV_GOLD: ["F", "F", "T"]}, by_neighbor)
    assert found.threshold == wic(WIC, by_neighbor).threshold  # it is not tuned on this split
    low, high = np.percentile(100 * (resample_counts(3) * right).sum(axis=1) / 3, [2.5, 97.5])
    assert found.accuracy == pytest.approx((66.67, low, high), abs=0.006)


@pytest.mark.parametrize("seed", range(3))
def test_no_other_threshold_is_better_on_train(seed):
    rng = np.random.default_rng(seed)
    cosines, same = rng.uniform(-1, 1, 60).round(1), rng.random(60) < 0.5
    threshold, accuracy = best_threshold(cosines, same)
    assert accuracy == np.mean((cosines >= threshold) == same)
    others = [np.mean((cosines >= one) == same) for one in np.linspace(-1, 1.1, 421)]
    assert accuracy == max(others)


@pytest.mark.parametrize(
    ("cosines", "same", "threshold", "accuracy"),
    [
        ([0.1, 0.2, 0.3, 0.4], [1, 0, 0, 1], 0.4, 0.75),  # the lowest of equally good ones
        ([0.1, 0.2, 0.3, 0.4], [1, 1, 1, 1], 0.1, 1),
        ([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1], 0.2, 0.75),
        ([0.1, 0.2, 0.9], [1, 0, 0], np.nextafter(0.9, 1), 2 / 3),  # no pair is the same
    ],
)
def test_the_best_threshold_by_hand(cosines, same, threshold, accuracy):
    assert best_threshold(np.array(cosines), np.array(same, bool)) == (threshold, accuracy)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        *(
            ({n: lines for n, lines in WIC.items() if n != name}, f"no {name[4:]}")
            for name in (DEV, DEV_GOLD, "wic/train/train.data.txt")
        ),
        ({**WIC, DEV_GOLD: ["T"]}, "dev/dev.gold.txt has 1 labels for 3 pairs"),
        ({**WIC, DEV: [], DEV_GOLD: []}, "has 0 labels for 0 pairs"),
        ({**WIC, DEV_GOLD: ["T", "F", "1"]}, "dev/dev.gold.txt, line 3: the label is not T or F"),
        *(
            ({**WIC, DEV: [f"b\tN\t{rest}" for rest in ("0-0\tb\tb", "0-0\tb\tb", line)]}, PAIR)
            for line in ("x", "0-1\tb\tb", "1-0\tb\tb", "0\tb\tb", "0-0\tb\tb\tb")
        ),
    ],
)
def test_malformed_pairs_are_rejected(files, message):
    with pytest.raises(CommandError, match=message):
        wic(files, by_neighbor)


def test_the_draws_depend_on_the_stream_only():
    assert np.array_equal(resample_counts(11, 3), resample_counts(11, 3))
    assert not np.array_equal(resample_counts(11, 3), resample_counts(11, 4))


@pytest.mark.parametrize(("n", "p"), [(100, 0.5), (1000, 0.65)])
def test_the_interval_of_an_accuracy_is_that_of_a_binomial_distribution(n, p):
    correct = np.arange(n) < n * p
    estimate = IntervalEstimate.from_resamples(correct.mean(), resample_counts(n) @ correct / n)
    low, high = 100 * np.array(stats.binom.interval(0.95, n, p)) / n
    standard_error = 100 * (p * (1 - p) / n) ** 0.5
    assert estimate.value == 100 * p
    assert estimate.low == pytest.approx(low, abs=0.4 * standard_error)
    assert estimate.high == pytest.approx(high, abs=0.4 * standard_error)


def test_too_many_items_are_rejected():
    with pytest.raises(CommandError, match="more than 50,000 items"):
        resample_counts(50_001)


def test_bootstrap_means_have_the_theoretical_distribution():
    values = np.arange(50.0)

    def mean(rows):
        return float(values[rows].mean()) / 100

    found = IntervalEstimate.of_statistic(mean, 50)
    assert found.value == 24.5
    width = 2 * 1.96 * values.std() / 50**0.5
    assert found.high - found.low == pytest.approx(width, rel=0.1)
    assert IntervalEstimate.of_statistic(mean, 50) == found


def test_rank_correlation_is_that_of_scipy():
    rng = np.random.default_rng(5)
    first, second = rng.integers(0, 4, (2, 13)).astype(float)
    expected = stats.spearmanr(first, second).statistic
    assert rank_correlation(first, second) == pytest.approx(expected)
    assert rank_correlation(np.ones(3), np.arange(3.0)) == 0
