"""Attention as an explanation: a model and sentences whose figures can be derived by hand.

In each sentence `pen` has three words on each side: one cue, which decides the sense, and the same
five fillers. The cue is at each of the six positions in turn. In head 0 the score of a cue is
log 25 for the query `pen` and log 4 for the query `wave`; all other scores are 0. So `pen` gives
the cue the weight 25/30 and each filler 1/30. The weights of head 1 depend on the distance only,
and its values are dropped. The value of a cue is the axis of its sense; the value of each filler is
a third axis.
"""

from math import log, sqrt

import numpy as np
import pytest

from polyseme.engine.attention import Scoring
from polyseme.engine.layers import Layer, Projection, contextualize
from polyseme.errors import CommandError
from polyseme_lab.evaluation.explanation import estimates, explain
from polyseme_lab.evaluation.perturbation import collect_senses
from polyseme_lab.evaluation.sources import LocalSource
from tests.tiny import full_layer, tiny_model

FILLERS = ("the", "old", "grey", "had", "been")
CUES = {"fold": ("sheep", "pig"), "writing": ("ink", "paper")}
AXES = {"sheep": 0, "pig": 0, "ink": 1, "paper": 1, **dict.fromkeys(FILLERS, 2)}
VOCABULARY = (*AXES, "pen", "wave")
D = 5


def vector(word):
    return np.eye(D, dtype=np.float32)[AXES.get(word, 3 if word == "pen" else 4)]


def cue_layer():
    """A layer whose head 0 attends to cues, and head 1 to near words, with its values dropped."""
    query, key = np.zeros((D, 2), np.float32), np.zeros((D, 2), np.float32)
    query[3, 0], query[4, 0], key[[0, 1], 0] = log(25), log(4), 1
    value, output = np.zeros((D, 2 * D), np.float32), np.zeros((2 * D, D), np.float32)
    value[:3, :3], output[:3, :3] = np.eye(3), np.eye(3)
    table = np.zeros((2, 7), np.float32)
    table[1] = -np.abs(np.arange(-3, 4))
    return Layer(
        heads=2,
        query=Projection(query),
        key=Projection(key),
        value=Projection(value),
        output=Projection(output),
        scoring=Scoring(scale=False, mask="other-words", position_bias=table),
    )


def sentences():
    """Each cue at each of six positions around `pen`, and `wave` as the word of another lemma."""
    found = []
    for sense, cues in CUES.items():
        for cue in cues:
            for place in range(6):
                around = list(FILLERS)
                around.insert(place, cue)
                found.append(([*around[:3], "pen", *around[3:]], [(3, "pen/noun", sense)]))
    return [*found, (["wave"], [(0, "wave/noun", "water")])]


def model_of(folder, layer, **facts):
    vectors = np.stack([vector(word) for word in VOCABULARY])
    return tiny_model(folder, words=VOCABULARY, vectors=vectors, layers=[layer], **facts)


def explained(model, tagged, **options):
    found = collect_senses(tagged, lambda lemma: lemma == "pen/noun", LocalSource(model).knows)
    return explain(model, found, **options)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    model = model_of(tmp_path_factory.mktemp("model"), cue_layer())
    return explained(model, sentences(), count=1000)


def values(figures):
    return {name: None if one is None else one["value"] for name, one in figures.items()}


def test_every_head_is_listed_with_and_without_its_query_and_with_the_controls(found):
    assert list(found["rankings"]) == [
        *("head 0", "head 0, Wq = 0", "head 1", "head 1, Wq = 0", "mean of heads"),
        "contributions",
        *("nearness", "rarity", "uniform", "random"),
    ]
    assert (found["occurrences"], found["lemmas"]) == (24, 1)


CHANCE = {
    "evidence_auc": 50,
    "evidence_correlation": 0,
    "evidence_at_1": 16.67,
    "evidence_at_3": 16.67,
}


@pytest.mark.parametrize(
    ("ranking", "expected"),
    [
        # A head that attends to the deciding word, and rankings that ignore words.
        ("head 0", dict.fromkeys(CHANCE, 100) | {"evidence_at_3": 33.33}),
        *((name, CHANCE) for name in ("head 1", "nearness", "uniform", "head 0, Wq = 0")),
        ("rarity", {"evidence_auc": 100}),  # every sentence has the fillers
    ],
)
def test_rankings_by_hand(found, ranking, expected):
    assert values(found["rankings"][ranking]).items() >= expected.items()
    # The effect of a query is the difference to the head without it.
    effect = values(found["by_query"]["head 0"])
    assert (effect["evidence_auc"], effect["evidence_at_1"]) == (50, 83.33)
    assert set(values(found["by_query"]["head 1"]).values()) <= {0, None}


def test_removing_the_cue_takes_the_whole_margin(found):
    """c = (5·sense + filler)/√26, and so are the centroids: the margin is 1 − 1/26. Without the cue
    c is the filler's axis: no margin. With the cue alone c is the sense's axis: 5/√26."""
    margin = 25 / 26
    figures = values(found["rankings"]["head 0"])
    for k in (1, 2, 3):
        assert figures[f"removed_{k}"] == pytest.approx(100 * margin, abs=0.01)
    assert figures["kept_1"] == pytest.approx(100 * (margin - 5 / sqrt(26)), abs=0.01)


def test_removing_a_filler_costs_the_computed_amount(found):
    """Without one filler c is (25, 4)/√641. The ranking by nearness removes a word beside `pen`
    first, which is the cue in some sentences and a filler in the others."""
    cue, filler = 25 / 26, 25 / 26 - 125 / sqrt(641 * 26)
    assert filler < 0
    figures = values(found["rankings"]["nearness"])
    low, high = 100 * filler, 100 * cue
    assert low < figures["removed_1"] < high
    removed = (figures["removed_1"] - low) / (high - low)
    # In 8 of 24 sentences the cue is beside pen; chance decides between it and the other side.
    assert removed * 24 == pytest.approx(round(removed * 24), abs=0.01)
    assert 0 <= round(removed * 24) <= 8


def test_another_query_word_changes_the_weights_unless_a_head_ignores_words(found):
    """`wave` gives the cue 4/9 and `pen` 25/30: the total variation distance is 7/18."""
    assert found["swaps"] == {
        "head 0": {"value": 38.89, "error": 0.0},
        "head 1": {"value": 0.0, "error": 0.0},
    }


def test_every_sense_is_right_and_a_head_without_effect_costs_nothing(found):
    assert found["right_sense"] == found["judge_right_sense"] == 100
    assert values(found["quality"]) == {"pairs_auc": 100, "macro_f1": 100}
    assert list(found["cost"]) == ["all heads", "head 0", "head 1"]
    assert values(found["cost"]["head 1"]) == {"pairs_auc": 0, "macro_f1": 0}


def test_heads_and_their_mean_are_ranked_by_their_weights(tmp_path):
    """The area of each random head is the share of fillers with less weight than the cue."""
    layer = full_layer(4)
    model = model_of(tmp_path, layer, word_bias=np.linspace(-1, 1, len(VOCABULARY)))
    found = explained(model, sentences(), count=1000)
    areas = []
    for words, _ in sentences()[:-1]:
        (stack,) = LocalSource(model)([words])
        (record,) = contextualize(stack.inputs.select(0), [layer], ("weights",)).records
        keys = [0, 1, 2, 4, 5, 6]
        row = record["weights"][:, 3, keys]
        row = row / row.sum(axis=1, keepdims=True)
        row = np.concatenate([row, row.mean(axis=0, keepdims=True)])
        cue = np.array([words[key] not in FILLERS for key in keys])
        below, level = row[:, ~cue] < row[:, cue], row[:, ~cue] == row[:, cue]
        areas.append((below + level / 2).mean(axis=1))
    names = ("head 0", "head 1", "head 2", "mean of heads")
    given = [found["rankings"][name]["evidence_auc"]["value"] for name in names]
    assert given == pytest.approx(list(100 * np.mean(areas, axis=0)), abs=0.01)
    assert len(set(given)) == 4


def test_zeroing_the_query_costs_quality_where_other_words_mislead(tmp_path):
    """Decoys occur equally often with both senses and have values twice as long as those of cues,
    so uniform weights give wrong senses."""
    tagged = []
    for number, (words, tags) in enumerate(sentences()[:-1]):
        decoy = ("decoy0", "decoy1")[number % 2]
        tagged.append(([decoy if word == "had" else word for word in words], tags))
    words = (*VOCABULARY, "decoy0", "decoy1")
    wide = np.zeros((len(words), 7), np.float32)
    wide[: len(VOCABULARY), :D] = [vector(word) for word in VOCABULARY]
    wide[-2, 5], wide[-1, 6] = (
        2,
        2,
    )  # keys ignore these axes; values add them to the axes of the senses
    layer = cue_layer()
    grown = {
        name: np.pad(getattr(layer, name).weight, ((0, 2), (0, 0))) for name in ("query", "key")
    }
    value, output = np.zeros((7, 14), np.float32), np.zeros((14, 7), np.float32)
    value[[0, 1, 2, 5, 6], [0, 1, 2, 0, 1]] = 1
    output[:7] = np.eye(7)
    layer = Layer(
        heads=2,
        query=Projection(grown["query"]),
        key=Projection(grown["key"]),
        value=Projection(value),
        output=Projection(output),
        scoring=layer.scoring,
    )
    found = explained(tiny_model(tmp_path, words=words, vectors=wide, layers=[layer]), tagged)
    assert values(found["quality"]) == {"pairs_auc": 100, "macro_f1": 100}
    for heads in ("all heads", "head 0"):
        assert all(one["value"] > 30 and one["error"] == 0 for one in found["cost"][heads].values())
    assert values(found["cost"]["head 1"]) == {"pairs_auc": 0, "macro_f1": 0}


def test_a_model_of_one_head_without_weights_is_measured(tmp_path):
    found = explained(model_of(tmp_path, Layer()), sentences(), count=5)
    assert list(found["rankings"])[:3] == ["head 0", "head 0, Wq = 0", "contributions"]
    assert list(found["cost"]) == ["all heads"]
    assert found["occurrences"] == 5
    # The vector of `pen` is orthogonal to every other, so all scores are 0.
    assert found["rankings"]["head 0"]["evidence_auc"]["value"] == 50


def test_the_names_of_heads_include_the_layer_if_there_are_several(tmp_path):
    layers = [cue_layer(), cue_layer()]
    vectors = np.stack([vector(word) for word in VOCABULARY])
    model = tiny_model(tmp_path, words=VOCABULARY, vectors=vectors, layers=layers)
    found = explained(model, sentences())
    assert list(found["swaps"]) == [f"layer {n} head {h}" for n in (0, 1) for h in (0, 1)]
    assert [name for name in found["rankings"] if "mean" in name] == [
        f"layer {n}, mean of heads" for n in (0, 1)
    ]
    assert len(found["cost"]) == 5


def test_equal_seeds_give_equal_documents_and_another_seed_a_different_one(tmp_path):
    model = model_of(tmp_path, cue_layer())
    documents = [explained(model, sentences(), count=7, seed=seed) for seed in (1, 1, 2)]
    assert documents[0] == documents[1]
    assert documents[0]["rankings"]["random"] != documents[2]["rankings"]["random"]


def test_an_impossible_measurement_is_reported(tmp_path):
    model = model_of(tmp_path, cue_layer())
    with pytest.raises(CommandError, match="use more tags"):
        explained(model, sentences()[:12])  # one sense
    short = [(words[2:5], [(1, *tag[1:]) for tag in tags]) for words, tags in sentences()[:-1]]
    with pytest.raises(CommandError, match="has 4 other known words"):
        explained(model, short)


def test_errors_are_those_of_resampled_lemmas():
    """Two lemmas, means 0 and 1, two occurrences each: a resample's mean is 0, ½ or 1 with
    probabilities ¼, ½, ¼, whose standard deviation is √⅛."""
    figures = np.array([[0.0, np.nan], [0, np.nan], [1, np.nan], [1, np.nan]])
    one, none = estimates(figures, np.array([0, 0, 1, 1]))
    assert one["value"] == 50 and one["error"] == pytest.approx(100 * sqrt(1 / 8), abs=1.5)
    assert none is None


def test_undefined_values_are_ignored():
    figures = np.array([[0.0], [np.nan], [1], [np.nan]])
    (one,) = estimates(figures, np.array([0, 0, 0, 1]))
    assert one == {"value": 50, "error": 0}
