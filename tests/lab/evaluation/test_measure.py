"""Word similarity, and the words and pairs of a set that the vocabulary lacks."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from polyseme.engine.attention import SentenceArrays
from polyseme.errors import CommandError
from polyseme_lab.evaluation.coarsewsd import known_words
from polyseme_lab.evaluation.measure import (
    judged_pairs,
    measure_model,
    quality,
    similarity,
)
from polyseme_lab.evaluation.sources import LocalSource, StaticStack
from polyseme_lab.evaluation.systems import EvaluationConfig
from polyseme_lab.evaluation.wic import known_pairs
from tests.lab.evaluation.sets import COARSE, WIC_WITH_MOLES, WORDSIM, unpacked
from tests.lab.evaluation.sets import WIC as WIC_WITHOUT_MOLES
from tests.tiny import VECTORS, WORDS

WORDS_ON_A_CIRCLE = {f"w{n}": [np.cos(n / 8), np.sin(n / 8)] for n in range(12)}


def on_a_circle(sentences):
    for number, (word,) in enumerate(sentences):
        vectors = np.array([[WORDS_ON_A_CIRCLE.get(word, [0, 0])]])
        yield StaticStack([number], SentenceArrays(vectors, vectors.any(axis=2), np.zeros((1, 1))))


def alike(sentences):
    for number in range(len(sentences)):
        one = SentenceArrays(np.ones((1, 1, 2)), np.ones((1, 1), np.bool_), np.zeros((1, 1)))
        yield StaticStack([number], one)


def pairs(judgment, number=12):
    """`w0` with each other word; the cosine falls with the number of the word."""
    return [(judgment(n), "w0", f"w{n}") for n in range(1, number)]


def test_the_same_order_is_100_and_the_opposite_minus_100():
    judged = [*pairs(lambda n: -(n**3)), (99, "w0", "zebra"), (99, "gnu", "w1")]
    same = similarity(judged, on_a_circle)
    assert same.spearman == (100, 100, 100)
    assert (same.pairs, same.lacking) == (11, 2)  # pairs with an unknown word are skipped
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


def test_too_few_pairs_or_equal_ones_are_rejected():
    with pytest.raises(CommandError, match="both words of only 9 of 10 pairs"):
        similarity([*pairs(lambda n: n, 10), (1, "gnu", "w1")], on_a_circle)
    with pytest.raises(CommandError, match="no order to compare"):
        similarity(pairs(lambda _: 5), on_a_circle)
    with pytest.raises(CommandError, match="no order to compare"):
        similarity(pairs(lambda n: n), alike)


def test_the_correlation_of_a_file_is_that_of_scipy(tmp_path, model):
    (tmp_path / "wordsim353.tsv").write_text(WORDSIM)
    judged = judged_pairs(tmp_path)
    assert list(judged) == ["WordSim-353"]
    found = similarity(judged["WordSim-353"], LocalSource(model))
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


MOLES = {
    name.replace("/bank/", "/mole/"): [line.replace("bank", "mole") for line in lines]
    for name, lines in COARSE.items()
}
WIC = {**WIC_WITH_MOLES, "wic/README.txt": ["not a pair"]}


def test_unknown_words_are_not_measured(model):
    files = known_words({**COARSE, **MOLES}, LocalSource(model).knows)
    assert files == COARSE
    with pytest.raises(CommandError, match="missing or empty"):
        known_words({**COARSE, "coarsewsd/bank/test.data.txt": []}, LocalSource(model).knows)


def test_pairs_with_an_unknown_word_are_not_measured(model):
    files = known_pairs(WIC, LocalSource(model).knows)
    assert files["wic/dev/dev.data.txt"] == WIC["wic/dev/dev.data.txt"][:1]
    assert files["wic/dev/dev.gold.txt"] == ["T"]
    assert files["wic/README.txt"] == ["not a pair"]
    assert len(WIC["wic/dev/dev.gold.txt"]) == 3


def test_pairs_with_a_word_without_a_vector_are_counted_in_a_note(model, tmp_path):
    files = unpacked(tmp_path, {**WIC_WITHOUT_MOLES, **WIC_WITH_MOLES})
    found = measure_model(model, EvaluationConfig("wic", files, ("static",)))
    note = "Without a static vector, so classified by context alone: one or both words of 2 pairs."
    assert note in found.notes


def test_a_set_without_a_pair_of_known_words_is_rejected(model, tmp_path):
    moles = {name: lines[1:] for name, lines in WIC_WITH_MOLES.items()}
    files = unpacked(tmp_path, {**WIC_WITHOUT_MOLES, **moles})
    with pytest.raises(CommandError, match="Every pair of the set has a word"):
        measure_model(model, EvaluationConfig("wic", files, ("static",)))


def test_quality_in_a_manifest_is_that_of_the_evaluation(model, tmp_path):
    folder = unpacked(tmp_path, {**COARSE, **WIC_WITHOUT_MOLES})
    coarse, pairs = (
        measure_model(model, EvaluationConfig(task, folder, ("model",))).rows[0]
        for task in ("coarsewsd", "wic")
    )
    scores = {name: figure.value for name, figure in coarse.figures.items()}
    accuracy = pairs.figures["accuracy"].value
    assert quality(model, COARSE, WIC_WITHOUT_MOLES) == {
        "coarsewsd": {"words": 1, **scores},
        "wic": {"train_accuracy": pairs.facts["train_accuracy"], "dev_accuracy": accuracy},
    }
