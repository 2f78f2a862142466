"""The documented properties of the bundled model."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from polyseme.engine.layers import contextualize
from polyseme.models.model import Model
from polyseme.operations.compare import Occurrence
from polyseme_lab.evaluation.coarsewsd import coarsewsd, occurrences_in
from polyseme_lab.evaluation.datasets import read_data_set
from polyseme_lab.evaluation.systems import systems, tabulate
from tests.operations.calls import compare_occurrences, neighbors_of_word
from tests.tokenizer.vocabularies import tokenize

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "models" / "wiki-en"
WORDS = ("apple", "spring", "trunk")
RULES = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text("utf-8")
UNKNOWN_WORDS_ALERT = float(RULES.partition("PolysemeUnknownWords")[2].split(" > ")[1].split()[0])
DATA = Path(os.environ.get("POLYSEME_TEST_DATA", ROOT.parent / "shared" / "data")) / "eval"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("apple", {"apples", "pear", "apricot"}),
        ("Apple", {"Macintosh", "Macs", "iPhone"}),
        ("river", {"rivers", "valley", "estuary"}),
    ],
)
def test_neighbors_are_meaningful(bundled: Model, word: str, expected: set[str]) -> None:
    assert expected <= {near.word for near in neighbors_of_word(bundled, word, 10, "exact")}


RUSSIAN = "Банк поднял процентные ставки Река вышла из берегов после сильных дождей весной"
RANDOM = "xqzt vbnrp wwkkjq lmzx qjfhvk zzpgtw bxkcwq gvhjzx kqwzvp jxhhgq ptkzqv"
BIOMEDICAL = (
    "The phosphorylated kinase inhibits apoptosis in hepatocytes . Patients with glomerulonephritis"
    " received methylprednisolone and cyclophosphamide ."
)
TWEET = "omg cannot wait to see u tmrw lol this weekend gonna be soooo goood @friend #excited"


def unknown_share(model: Model, text: str) -> float:
    """The share of the tokens that have no vector."""
    tokens = model.tokenizer.tokens(text)
    return sum(token.resolution == "oov" for token in tokens) / len(tokens)


def test_foreign_words_are_unknown_and_rare_ones_are_composed(bundled: Model) -> None:
    for text in (RUSSIAN, RANDOM):
        assert unknown_share(bundled, text) >= 0.9 > UNKNOWN_WORDS_ALERT
    for text, most in ((BIOMEDICAL, 0.02), (TWEET, 0.2)):
        assert "subword" in {token.resolution for token in bundled.tokenizer.tokens(text)}
        assert unknown_share(bundled, text) < most < UNKNOWN_WORDS_ALERT


def test_the_files_are_small_enough_for_git(bundled: Model) -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= 45_000_000
    assert bundled.manifest.dtype == "int8"
    assert "CC BY-SA 3.0" in (FOLDER / "LICENSE").read_text()


def test_attention_depends_on_the_query_and_not_only_on_the_position(bundled: Model) -> None:
    """The two texts differ only in the query word, and so must the weights of its row."""
    rows = []
    for text in ("the bank of money by a river", "the tree of money by a river"):
        sentence = bundled.inputs(tokenize(text, bundled.vocabulary))
        record = contextualize(sentence, bundled.layers, ("weights",)).records[0]
        rows.append(record["weights"][0, 1])
    assert np.abs(rows[0] - rows[1]).max() > 0.05


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="needs the evaluation sets (POLYSEME_TEST_DATA)")
def test_senses_are_separated_as_documented(
    bundled: Model,
) -> None:
    # Three words are enough: `make results` measures all ten.
    files = {
        name: lines
        for name, lines in read_data_set(DATA, "coarsewsd").items()
        if name.split("/")[1] in WORDS
    }
    readers = {name: one.readers[0] for name, one in systems(bundled, ("mean", "model")).items()}
    tables = tabulate(bundled, readers, occurrences_in(files))
    mean, ours = (coarsewsd(files, tables[name]) for name in ("mean", "model"))
    stored = json.loads((ROOT / "lab/results/coarsewsd.json").read_bytes())["systems"]["model"]
    quality = bundled.manifest.quality["coarsewsd"]
    for measure in ("accuracy", "macro_f1"):
        documented = np.mean([stored["words"][word][measure] for word in WORDS])
        assert getattr(ours, measure).value == pytest.approx(documented, abs=0.2)
        assert quality[measure] == stored[measure]["value"]
    assert ours.accuracy.value > mean.accuracy.value + 1
    assert ours.macro_f1.value > mean.macro_f1.value + 1


@pytest.mark.parametrize("case", ["auto", "lower"])
def test_context_separates_the_company_from_the_fruit(bundled: Model, case: str) -> None:
    texts = {
        "Apple unveiled a faster laptop and new software in California.": "Apple",
        "Apple sued a rival maker of computers over its patents.": "Apple",
        "She peeled an apple and put the slices into the cake.": "apple",
        "The tree in the orchard bore a ripe apple every autumn.": "apple",
    }
    pairs = [Occurrence(text, word) for text, word in texts.items()]
    found = compare_occurrences(bundled, pairs, case=case)
    similarity = found.contextual_similarity
    assert min(similarity[0, 1], similarity[2, 3]) > similarity[:2, 2:].max()
    if case == "lower":
        np.testing.assert_allclose(found.static_similarity, np.ones((4, 4)), atol=1e-6)
