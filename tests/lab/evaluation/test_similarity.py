"""Word similarity: ranks of cosines against ranks of judgments."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from polyseme.errors import CommandError
from polyseme_lab.evaluation.measure import lookup
from polyseme_lab.evaluation.similarity import JudgedPair, judged_pairs, similarity
from polyseme_lab.evaluation.sources import LocalSource
from tests.lab.evaluation.sets import WORDSIM
from tests.tiny import VECTORS, WORDS

WORDS_ON_A_CIRCLE = {f"w{n}": [np.cos(n / 8), np.sin(n / 8)] for n in range(12)}


def on_a_circle(words):
    rows = np.array([WORDS_ON_A_CIRCLE.get(word, [0, 0]) for word in words])
    return rows, rows.any(axis=1)


def pairs(judgment, number=12):
    """`w0` with each other word; the cosine falls with the number of the word."""
    return [JudgedPair("w0", f"w{n}", judgment(n)) for n in range(1, number)]


def test_the_same_order_is_100_and_the_opposite_minus_100():
    same = similarity(pairs(lambda n: -(n**3)), on_a_circle)
    assert same.spearman == (100, 100, 100)
    assert (same.pairs, same.lacking) == (11, 0)
    assert similarity(pairs(lambda n: n), on_a_circle).spearman.value == -100


def test_two_swapped_ranks_by_hand():
    """ρ = 1 − 6·Σd²/(n·(n² − 1)) with n = 11 and two differences of 1: 1 − 12/1320."""
    judged = pairs(lambda n: -{3: 4, 4: 3}.get(n, n))
    found = similarity(judged, on_a_circle)
    assert found.spearman.value == round(100 * (1 - 12 / 1320), 2)
    assert found.spearman.low < found.spearman.value < 100


def test_a_resample_of_equal_judgments_has_the_correlation_0():
    found = similarity(pairs(lambda n: 1 + (n == 1)), on_a_circle)
    assert 0 == found.spearman.low < found.spearman.value < found.spearman.high < 100


def test_pairs_without_both_words_are_skipped_and_counted():
    judged = [*pairs(lambda n: -n), JudgedPair("w0", "zebra", 99), JudgedPair("gnu", "w1", 99)]
    found = similarity(judged, on_a_circle)
    assert (found.spearman.value, found.pairs, found.lacking) == (100, 11, 2)


def test_too_few_pairs_or_equal_ones_are_rejected():
    with pytest.raises(CommandError, match="both words of only 9 of 10 pairs"):
        similarity([*pairs(lambda n: n, 10), JudgedPair("gnu", "w1", 1)], on_a_circle)
    with pytest.raises(CommandError, match="no order to compare"):
        similarity(pairs(lambda _: 5), on_a_circle)
    with pytest.raises(CommandError, match="no order to compare"):
        similarity(pairs(lambda n: n), lambda w: (np.ones((len(w), 2)), np.ones(len(w), np.bool_)))


def test_the_correlation_of_a_file_is_that_of_scipy(tmp_path, model):
    (tmp_path / "wordsim353.tsv").write_text(WORDSIM)
    judged = judged_pairs(tmp_path)
    assert list(judged) == ["WordSim-353"]
    found = similarity(judged["WordSim-353"], lookup(LocalSource(model)))
    assert (found.pairs, found.lacking) == (10, 1)
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    rows = {word: unit[row] for row, word in enumerate(WORDS)}
    lines = [line.split("\t") for line in WORDSIM.splitlines()[1:-1]]
    cosines = np.round([rows[a] @ rows[b] for a, b, _ in lines], 6)
    expected = spearmanr(cosines, [float(judgment) for *_, judgment in lines]).statistic
    assert found.spearman.value == pytest.approx(100 * expected, abs=0.006)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a\tb\n", "line 1: the line is not two words and a number"),
        (b"# note\na\tb\t1\n\nb\tc\tx\n", "line 4: the line is not two words and a number"),
        (b"a\tb\tnan\n", "line 1: the line is not two words"),
        (b"a\tb\tinf\n", "line 1: the line is not two words"),
        (b"a\tb\t1\t2\n", "line 1: the line is not two words"),
        (b"a\t\t1\n", "line 1: the line is not two words"),
        (b"# nothing\n", "simlex999.txt has no pairs"),
        (b"", "simlex999.txt has no pairs"),
        (b"na\xefve\tb\t1\n", "simlex999.txt is not UTF-8"),
    ],
)
def test_a_malformed_file_is_rejected(tmp_path, data, message):
    (tmp_path / "simlex999.txt").write_bytes(data)
    with pytest.raises(CommandError) as caught:
        judged_pairs(tmp_path)
    assert message in caught.value.sentence
    assert caught.value.sentence.endswith(".")


def test_a_folder_without_sets_is_rejected(tmp_path):
    with pytest.raises(CommandError, match=r"neither wordsim353\.tsv nor simlex999\.txt"):
        judged_pairs(tmp_path)
