"""The benchmarks of imported vectors: coverage of the evaluation sets, and compared variants."""

import tarfile

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra `evaluate`")

from lab.studies.ablation import TaggedWord, known
from lab.studies.imported import coverage, document, downstream_sets
from lab.studies.imported_constants import SPREADS, variants

from polyseme.engine.layers import Layer
from polyseme.importing.closed_form import (
    SPREAD,
    association,
    frequencies_by_rank,
    informativeness,
)
from polyseme_lab.evaluation.coarsewsd import known_words
from polyseme_lab.evaluation.measure import part_figures
from polyseme_lab.evaluation.sources import LocalSource
from polyseme_lab.evaluation.wic import known_pairs
from tests.importing.test_closed_form import mixed
from tests.lab.evaluation.conftest import model
from tests.lab.evaluation.sets import WIC_WITH_MOLES as WIC

__all__ = ["model"]

COARSE = {
    f"coarsewsd/{word}/{split}.{kind}.txt": lines
    for word, near in (("bank", ("river", "money")), ("mole", ("river", "end")))
    for split in ("train", "test")
    for kind, lines in (
        ("data", [f"1\tthe {word} {near[0]}", f"0\t{word} {near[1]}"]),
        ("gold", ["0", "1"]),
    )
}


def test_tagged_words_outside_the_vocabulary_are_not_measured(model):
    texts = [["bank"]] * 16 + [["mole"]] * 16 + [["river"]] * 16
    tagged = [TaggedWord(n, 0, f"{text[0]}/NOUN", str(n % 2)) for n, text in enumerate(texts)]
    # Each sense needs eight known occurrences; one of `river` then has seven.
    texts[-1] = ["mole"]
    assert known(texts, tagged, model) == tagged[:16]


def test_coverage_counts_measured_words(model):
    knows = LocalSource(model).knows
    pairs = {**known_pairs(WIC, knows), "wic/train/train.gold.txt": []}
    assert coverage(model, known_words(COARSE, knows), pairs) == {
        "words": 11,
        "dimension": 5,
        "coarsewsd_words": ["bank"],
        "wic_pairs": {"train": 0, "dev": 1},
    }


def test_contextual_vectors_separate_senses_and_static_ones_do_not(model):
    files = known_words(COARSE, LocalSource(model).knows)
    pairs = {name.replace("dev", split): WIC[name] for name in WIC for split in ("dev", "train")}
    found = dict(part_figures(model, files, pairs))
    assert found["contextual vector"]["coarsewsd"] == {
        "words": 1,
        "accuracy": 100.0,
        "macro_f1": 100.0,
    }
    assert found["static vector"]["coarsewsd"]["accuracy"] == 50
    assert list(found) == [
        "static vector",
        "plain mean of the context",
        "parameter-free attention",
        "without association",
        "without informativeness",
        "contextual vector",
    ]
    assert found["static vector"]["wic"].keys() == {"train_accuracy", "dev_accuracy"}


def test_variants_of_the_spread_are_multiples_of_the_chosen_weights():
    vectors = mixed(1, 61, 7).astype(np.float32)
    found = variants(vectors)
    chosen = found[f"spread {SPREAD}"]
    assert np.array_equal(chosen.key.weight, association(vectors, frequencies_by_rank(61)).weight)
    assert not found["spread 0.0"].key.weight.any()
    for spread in SPREADS:
        expected = spread / SPREAD * chosen.key.weight
        np.testing.assert_allclose(found[f"spread {spread}"].key.weight, expected, rtol=1e-6)
    for layer in found.values():
        assert layer.scoring.mask == chosen.scoring.mask or layer == Layer()


def test_the_scores_of_other_forms_have_the_same_standard_deviation():
    vectors = mixed(2, 61, 7).astype(np.float32)
    p = frequencies_by_rank(61)
    weights = p * np.exp(informativeness(p))
    weights /= weights.sum()
    for name in ("products", "products from the mean", "whitened, from the mean"):
        layer = variants(vectors)[name]
        queries = layer.query(vectors).astype(np.float64)
        scores = queries @ layer.key(vectors).astype(np.float64).T
        rows = scores - (scores @ weights)[:, None]
        assert np.sqrt(weights @ (rows**2 @ weights)) == pytest.approx(SPREAD, rel=1e-3)


def test_sets_are_extracted_for_the_time_of_a_block(tmp_path):
    (tmp_path / "downstream").mkdir()
    with tarfile.open(tmp_path / "downstream.tar.xz", "w:xz") as tar:
        tar.add(tmp_path / "downstream", "downstream")
    with downstream_sets(tmp_path / "downstream.tar.xz") as folder:
        assert folder.is_dir()
    assert not folder.exists()


def test_results_name_their_inputs(tmp_path):
    data = tmp_path / "data.txt"
    data.write_text("abc")
    found = document([data], {"files": {}})
    assert found["data"]["data.txt"].startswith("ba7816bf8f01cfea")
    assert found["versions"].keys() == {"python", "gensim", "numpy", "scikit-learn"}
    assert str(tmp_path) not in str(found)
