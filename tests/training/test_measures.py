"""What of the evaluation sets a vocabulary can be measured on, and by what systems."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra `train`")
pytest.importorskip("tqdm", reason="needs the extra `train`")

from benchmarks.imported import coverage, document
from benchmarks.imported_constants import SPREADS, variants
from models.ablation import known
from models.senses import coarsewsd, known_pairs, known_words, systems
from service.engine.layer import Layer
from service.training.closed_form import (
    SPREAD,
    attraction,
    closed_form,
    frequencies_by_rank,
    informativeness,
)
from tests.tiny import VECTORS, WORDS, tiny_model
from tests.training.test_closed_form import mixed

COARSE = {
    f"coarsewsd/{word}/{split}.{kind}.txt": lines
    for word, near in (("bank", ("river", "money")), ("mole", ("river", "end")))
    for split in ("train", "test")
    for kind, lines in (
        ("data", [f"1\tthe {word} {near[0]}", f"0\t{word} {near[1]}"]),
        ("gold", ["0", "1"]),
    )
}
WIC = {
    "wic/dev/dev.data.txt": [
        "bank\tN\t1-0\tthe bank .\tbank money",
        "mole\tN\t1-0\tthe mole .\tbank money",
        "bank\tN\t0-1\tBANK .\tthe moles",
    ],
    "wic/dev/dev.gold.txt": ["T", "F", "F"],
}


@pytest.fixture
def model(tmp_path):
    p = frequencies_by_rank(len(WORDS))
    layer = closed_form(VECTORS, attraction(VECTORS, p))
    return tiny_model(tmp_path, layers=[layer], word_bias=informativeness(p))


def test_words_that_the_vocabulary_lacks_are_not_measured(model):
    files = known_words(COARSE, model)
    assert {Path(name).parent.name for name in files} == {"bank"}
    assert files["coarsewsd/bank/test.data.txt"] == COARSE["coarsewsd/bank/test.data.txt"]


def test_pairs_of_which_the_vocabulary_lacks_a_word_are_not_measured(model):
    files = known_pairs(WIC, model)
    assert files["wic/dev/dev.data.txt"] == WIC["wic/dev/dev.data.txt"][:1]
    assert files["wic/dev/dev.gold.txt"] == ["T"]
    assert len(WIC["wic/dev/dev.gold.txt"]) == 3


def test_tagged_words_that_the_vocabulary_lacks_are_not_measured(model):
    texts = [["bank"]] * 16 + [["mole"]] * 16 + [["river"]] * 16
    tagged = [(n, 0, f"{text[0]}/NOUN", str(n % 2)) for n, text in enumerate(texts)]
    # Eight banks and eight rivers of each sense, but the last river is a word nobody knows.
    texts[-1] = ["mole"]
    assert known(texts, tagged, model) == tagged[:16]


def test_coverage_counts_what_is_measured(model):
    pairs = {**known_pairs(WIC, model), "wic/train/train.gold.txt": []}
    assert coverage(model, known_words(COARSE, model), pairs) == {
        "words": 11,
        "dimension": 5,
        "coarsewsd_words": ["bank"],
        "wic_pairs": {"train": 0, "dev": 1},
    }


def test_senses_that_the_context_tells_are_told(model):
    found = systems(model)
    files = known_words(COARSE, model)
    assert coarsewsd(files, found["contextual vector"])["accuracy"] == 100
    assert coarsewsd(files, found["static vector"])["accuracy"] == 50


def test_each_system_without_a_part_lacks_that_part_alone(model):
    found = systems(model)
    occurrence = ["end", "bank", "river", "apple"], 1
    whole = found["contextual vector"](occurrence)
    for name in ("without association", "without informativeness", "parameter-free attention"):
        assert not np.allclose(found[name](occurrence), whole)
    bare = closed_form(VECTORS, attraction(0 * VECTORS, frequencies_by_rank(11)))
    without = tiny_model(
        Path(model.vectors.filename).parents[1], layers=[bare], word_bias=model.word_bias
    )
    expected = systems(without)["contextual vector"](occurrence)
    np.testing.assert_array_equal(found["without association"](occurrence), expected)


def test_the_variants_that_are_compared_differ_in_size_or_form_alone():
    vectors = mixed(1, 61, 7).astype(np.float32)
    found = variants(vectors)
    chosen = found[f"spread {SPREAD}"]
    assert np.array_equal(chosen.key.weight, attraction(vectors, frequencies_by_rank(61)).weight)
    assert not found["spread 0.0"].key.weight.any()
    for spread in SPREADS:
        expected = spread / SPREAD * chosen.key.weight
        np.testing.assert_allclose(found[f"spread {spread}"].key.weight, expected, rtol=1e-6)
    for layer in found.values():
        assert layer.scoring.looks_at == chosen.scoring.looks_at or layer == Layer()


def test_the_forms_that_are_compared_vary_as_much_as_the_chosen_one():
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


def test_results_say_what_they_came_from(tmp_path):
    data = tmp_path / "data.txt"
    data.write_text("abc")
    found = document([data], {"files": {}})
    assert found["data"]["data.txt"].startswith("ba7816bf8f01cfea")
    assert found["versions"].keys() == {"python", "gensim", "numpy", "scikit-learn"}
    assert str(tmp_path) not in str(found)
