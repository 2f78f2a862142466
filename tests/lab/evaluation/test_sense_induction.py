"""`polyseme evaluate senses`: figures of found senses by hand, and the command on tiny sets."""

import json

import numpy as np
import pytest

from polyseme.errors import CommandError
from polyseme_lab.evaluation.sense_induction import (
    MAX_OCCURRENCES,
    coarsewsd_samples,
    induced,
    measure_senses,
    rule_figures,
    sense_systems,
)
from tests.cli.conftest import run
from tests.lab.evaluation.sets import COARSE, archived, unpacked
from tests.lab.evaluation.test_downstream import pair_line
from tests.tiny import write_tiny


def clustering(given, found):
    """A clustering that returns labels for a given and for an estimated number of senses."""
    return lambda _, count: np.array(found if count is None else given)


def test_the_adjusted_rand_index_and_v_measure_by_hand():
    gold = np.array([0, 0, 1, 1])
    vectors = np.zeros((4, 2))
    figures = induced(gold, vectors, clustering([1, 1, 0, 0], [0, 0, 0, 0]))
    assert (figures["ari_given"], figures["v_given"]) == (1, 1)
    assert (figures["ari_found"], figures["v_found"]) == (0, 0)
    assert (figures["senses"], figures["found"]) == (2, 1)
    # Of six pairs two are together in gold, one is together in the clusters, and one in both;
    # 2·1/6 = 1/3 is expected by chance: (1 − 1/3) / ((2 + 1) / 2 − 1/3) = 4/7. Homogeneity is 1,
    # completeness 1 / 1.5 bits.
    figures = induced(gold, vectors, clustering([0, 0, 1, 1], [0, 0, 1, 2]))
    assert figures["ari_found"] == pytest.approx(4 / 7)
    assert figures["v_found"] == pytest.approx(2 * (2 / 3) / (5 / 3))


def test_k_means_and_the_default_find_two_directions():
    rng = np.random.default_rng(0)
    gold = np.repeat([0, 1], 30)
    vectors = np.eye(2, 20)[gold] + 0.05 * rng.standard_normal((60, 20))
    for name in ("k-means", "model"):
        figures = induced(gold, vectors, sense_systems()[name].clustering)
        assert figures["ari_given"] == figures["ari_found"] == 1, name
    for count in (None, 2):  # equal vectors are one cluster
        assert not sense_systems()["k-means"].clustering(np.ones((9, 3), np.float32), count).any()


def test_decisions_and_their_ranking_by_hand():
    # Columns: the scores of the first word, the second word, a pseudo-word with as many
    # occurrences, and one with twice as many.
    scores = np.array([[-1.0, -2, 1, 3], [0.5, -3, -1.5, 2]])
    figures = {name: one.value for name, one in rule_figures(scores).items()}
    # 1 is above the scores of all four words, −1.5 above two of them; 3 and 2 are above all.
    assert figures["auc"] == 75 and figures["auc_twice"] == 100
    assert figures["one_right"] == 75
    assert (figures["two_right"], figures["two_right_twice"]) == (50, 100)


def test_a_sample_has_at_most_max_occurrences_and_is_the_same_each_time(tmp_path):
    files = dict(COARSE)
    files["coarsewsd/bank/test.data.txt"] = [f"0\tbank river n{n}" for n in range(400)]
    files["coarsewsd/bank/test.gold.txt"] = [str(n % 2) for n in range(400)]
    unpacked(tmp_path, files)
    (sample,) = coarsewsd_samples(tmp_path)
    assert len(set(sample.occurrences)) == len(sample.senses) == MAX_OCCURRENCES
    numbers = [int(one.words[-1][1:]) for one in sample.occurrences]
    assert numbers == sorted(numbers)
    assert sample.senses.tolist() == [n % 2 for n in numbers]
    assert coarsewsd_samples(tmp_path)[0].occurrences == sample.occurrences


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The output and the JSON document of both sets."""
    folder = tmp_path_factory.mktemp("senses")
    write_tiny(folder / "models" / "tiny")
    sets = folder / "sets"
    sets.mkdir()
    archived(sets / "coarsewsd.tar.xz", COARSE)
    lines = [pair_line(["bank", "apple"], [0, 1] * 10), pair_line(["did", "high"], [0, 1] * 10)]
    (sets / "pseudowords.jsonl").write_text("\n".join(lines))
    done = run(
        *("evaluate", "senses", sets, "--json", folder / "senses.json"),
        models_dir=folder / "models",
        POLYSEME_MODEL="tiny",
    )
    assert done.returncode == 0, done.stderr  # a slow machine shows progress
    return done.stdout.decode(), json.loads((folder / "senses.json").read_bytes())


def test_each_set_has_a_table_and_systems(measured):
    text, found = measured
    assert found["task"] == "senses" and found["model"] == "tiny"
    assert text.count("one sense for all") == 1
    for line in ("CoarseWSD-20, senses found", "2 pseudo-words"):
        assert line in text
    coarse, pseudowords = (one["systems"] for one in found["sets"].values())
    one = coarse["one-sense"]
    assert one["ari_given"]["value"] == one["v_found"]["value"] == one["number_right"]["value"] == 0
    assert one["words"]["bank"]["senses"] == 2 and one["words"]["bank"]["found"] == 1
    # The neighbors decide the senses.
    figures = pseudowords["model"]
    assert figures["split_ari"]["value"] == figures["two_right_twice"]["value"] == 100


def test_a_folder_without_a_set_is_an_error(model, tmp_path):
    with pytest.raises(CommandError, match=r"neither coarsewsd\.tar\.xz nor"):
        measure_senses(model, tmp_path)
