"""WiC: the threshold that is best on train, by hand and compared with every other threshold."""

import numpy as np
import pytest

from polyseme.errors import CommandError
from polyseme_lab.evaluation.statistics import resample_counts
from polyseme_lab.evaluation.wic import best_threshold, wic
from tests.lab.evaluation.sets import WIC, by_neighbor

DATA, GOLD = "wic/dev/dev.data.txt", "wic/dev/dev.gold.txt"
LINE = "dev/dev.data.txt, line 3: the line is not"


def test_a_pair_counts_as_the_same_from_the_threshold_of_train_up():
    """In train the cosine 1 is T and 0 is F, so the threshold is 1. In dev the third pair has the
    cosine 1 but is F."""
    found = wic(WIC, by_neighbor)
    assert (found.train, found.threshold, found.accuracy.value) == (100.0, 1.0, 66.67)
    # The length of vectors does not matter.
    assert wic(WIC, lambda o: by_neighbor(o) * np.arange(1, len(o) + 1)[:, None]) == found
    files = {**WIC, "wic/test/test.data.txt": WIC[DATA][:1], "wic/test/test.gold.txt": ["F"]}
    found = wic(files, by_neighbor, split="test")
    assert (found.train, found.accuracy.value) == (100.0, 0.0)


def test_figures_of_several_embedders_are_means_with_separate_thresholds():
    found = wic(WIC, by_neighbor, lambda o: np.ones((len(o), 2)))
    # With equal cosines all pairs count as the same: 1 of 2 is right in train, 1 of 3 in dev.
    assert (found.train, found.accuracy.value) == (75.0, 50.0)


def test_the_interval_is_that_of_the_resampled_pairs():
    right = np.array([0, 1, 1])
    found = wic({**WIC, GOLD: ["F", "F", "T"]}, by_neighbor)
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
            for name in (DATA, GOLD, "wic/train/train.data.txt")
        ),
        ({**WIC, GOLD: ["T"]}, "dev/dev.gold.txt has 1 labels for 3 pairs"),
        ({**WIC, DATA: [], GOLD: []}, "has 0 labels for 0 pairs"),
        ({**WIC, GOLD: ["T", "F", "1"]}, "dev/dev.gold.txt, line 3: the label is not T or F"),
        *(
            ({**WIC, DATA: [f"b\tN\t{rest}" for rest in ("0-0\tb\tb", "0-0\tb\tb", line)]}, LINE)
            for line in ("x", "0-1\tb\tb", "1-0\tb\tb", "0\tb\tb", "0-0\tb\tb\tb")
        ),
    ],
)
def test_a_malformed_set_is_rejected(files, message):
    with pytest.raises(CommandError, match=message):
        wic(files, by_neighbor)
