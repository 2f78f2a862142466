"""The page on quality: its figures and pictures agree with the measurements."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")

import matplotlib as mpl
from docs import performance, reliability
from docs.explained import attention_explained
from docs.quality import ablation, images, senses_found
from docs.results import trainings
from docs.trainings import histories, not_helpful, training_runs
from lab.studies.training_record import record

from polyseme.models.manifest import Manifest

ROOT = Path(__file__).parents[1]
IMAGES, RESULTS = ROOT / "docs" / "images", ROOT / "lab" / "results"
README = (ROOT / "README.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "quality.md").read_text("utf-8")
NAMES = (
    *(r"CoarseWSD-\d+", r"WordSim-\d+", r"SimLex-\d+", r"context2vec", r"MiniLM-L6-v2", r"F1\b"),
    *(r"word2vec", r"Word2Vec", r"crawl-300d-2M", r"GloVe 6B", r"0003-closed-form", r"WNUT17"),
    *(r"SemEval-2013 task 13",),
)
"""Patterns of names with digits."""


def numbers(text: str) -> set[str]:
    """Every number as it is written, without its sign and without thousands separators."""
    found = re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", text)
    return {one.replace(",", "") for one in found}


def numbers_in(value: object) -> set[str]:
    """Every number in a JSON document, in keys and strings too, and the lengths of its lists."""
    if isinstance(value, dict):
        return set().union(*(numbers(key) | numbers_in(one) for key, one in value.items()), set())
    if isinstance(value, list):
        return set().union(*map(numbers_in, value), {str(len(value))})
    return numbers(value) if isinstance(value, str) else {str(value).lstrip("-")}


def documents() -> list[object]:
    places = (RESULTS, ROOT / "models" / "wiki-en")
    return [
        json.loads(file.read_text("utf-8")) for place in places for file in place.glob("*.json")
    ]


def test_every_number_on_the_page_is_in_a_file_that_a_script_wrote():
    text = re.sub(r"!?\[[^]]*\]\([^)]*\)", "", PAGE)
    for name in NAMES:
        text = re.sub(name, "", text)
    measured = set().union(*map(numbers_in, documents()))
    measured.add(str(sum(_document("similarity")["lacking"].values())))
    assert numbers(text) <= measured, sorted(numbers(text) - measured)


def _document(name):
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


ROWS = {
    "most frequent sense": "most-frequent",
    "static vector": "static",
    "plain mean of the context": "mean",
    "parameter-free attention": "parameter-free",
    "random projections": "random",
    "closed form": "closed-form",
    "closed-form attention weights": "closed-form",
    "closed form without association": "no-association",
    "without association": "no-association",
    "without informativeness": "no-informativeness",
    "contextual vector": "model",
}
"""The systems of the results, by their names in the README."""


def readme_rows() -> list[list[str]]:
    lines = re.search(r"^\|[^\n]*macro-F1[^\n]*\n(.*?)\n\n", README, re.DOTALL | re.MULTILINE)
    lines = lines[1].splitlines()[1:]
    return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("row", readme_rows(), ids=lambda row: row[0])
def test_readmes_figures_of_quality_are_those_measured(row):
    title = row[0].partition(" (")[0]
    coarse, pairs = _document("coarsewsd"), _document("wic")
    if title in ROWS:
        one, other = (found["systems"][ROWS[title]] for found in (coarse, pairs))
        expected = [one["accuracy"]["value"], one["macro_f1"]["value"], other["accuracy"]["value"]]
    elif "MiniLM" in title:
        one = _document("coarsewsd-minilm")["systems"]["minilm"]
        expected = [one["accuracy"]["value"], one["macro_f1"]["value"]]
    else:
        (one,) = [one for one in coarse["published"] if one["title"].startswith(f"{title},")]
        expected = [one["accuracy"], one["macro_f1"]]
    assert [cell for cell in row[1:] if cell] == [f"{figure:.1f}" for figure in expected]


def test_all_results_are_of_the_bundled_model_and_of_the_same_data():
    for name in ("coarsewsd", "wic", "similarity", "ablation", "examples"):
        assert _document(name)["model"] == "wiki-en"
    assert _document("coarsewsd")["data"] == _document("coarsewsd-minilm")["data"]
    bundled = json.loads((ROOT / "models/wiki-en/manifest.json").read_text("utf-8"))["files"]
    for name in ("ablation", "examples"):
        files = {file: entry["sha256"] for file, entry in bundled.items()}
        assert _document(name)["files"] == files, f"run `make results-{name} docs`"
    claimed = json.loads((ROOT / "models/wiki-en/manifest.json").read_text("utf-8"))["quality"]
    measured = _document("coarsewsd")["systems"]["model"]
    assert claimed["coarsewsd"]["macro_f1"] == measured["macro_f1"]["value"]
    assert (
        claimed["wic"]["dev_accuracy"] == _document("wic")["systems"]["model"]["accuracy"]["value"]
    )


DRAWN = images()


def test_every_picture_is_shown_and_every_shown_picture_exists():
    shown = set(re.findall(r"\(images/([^)]+)\)", PAGE))
    assert shown == DRAWN.keys()
    assert {file.name for file in IMAGES.iterdir()} == (
        shown | performance.images().keys() | reliability.images().keys()
    )


@pytest.mark.parametrize("name", list(DRAWN))
def test_a_committed_picture_is_up_to_date(name):
    committed = (IMAGES / name).read_bytes()
    by = re.search(rb"Matplotlib v([\d.]+)", committed)
    if by and by[1].decode() != mpl.__version__:
        pytest.skip(f"drawn by matplotlib {by[1].decode()}, and this is {mpl.__version__}")
    assert DRAWN[name] == committed, "run `make docs`"


def test_pictures_are_small_and_reproducible_without_a_date():
    for name, data in DRAWN.items():
        assert len(data) < 150_000, name
        assert b"<dc:date>" not in data
    assert images() == DRAWN


RUNS = [
    {
        "name": name,
        "settings": {"heads": heads, "seed": 1, "steps": 300},
        "before": {"auc": 61.17, "macro_f1": 72.13},
        "after": {"auc": after, "macro_f1": None},
        "history": [{"step": 0, "auc": 61.17, "macro_f1": 72.13}],
    }
    for name, heads, after in (("one head", 1, 62.5), ("two heads", 2, 63.25))
]


def test_runs_are_named_by_the_settings_in_which_they_differ():
    lines = training_runs(RUNS, pictured=True)
    rows = [line for line in lines if line.startswith("|")]
    assert rows[0] == "| run | heads | AUC | macro-F1 |"
    assert rows[2] == "| one head | 1 | 61.17 → 62.5 | 72.13 → – |"
    assert rows[3] == "| two heads | 2 | 61.17 → 63.25 | 72.13 → – |"
    assert "In all runs: steps 300, seed 1." in " ".join(lines)
    assert lines[-1].endswith("(images/learning-curves.svg)")
    assert training_runs([], pictured=True) == []


def test_runs_measured_on_the_sets_are_marked():
    measured = {**RUNS[1], "coarsewsd": {"macro_f1": 90.5}, "wic": {"dev_accuracy": 64.1}}
    rows = [r for r in training_runs([RUNS[0], measured], pictured=False) if r.startswith("|")]
    assert rows[2].endswith("|  |  |")
    assert rows[3].endswith("| 90.5 | 64.1 |")


def test_curves_are_of_the_bundled_model_and_of_every_run_with_a_history():
    own = {"name": "ours", "training": {"history": [{"step": 0}]}}
    bare = {"name": "no history", "settings": {}}
    assert list(histories(own, [*RUNS, bare])) == ["ours", "one head", "two heads"]
    assert histories({"name": "ours", "training": {}}, []) == {}


def test_an_option_without_effect_has_its_scores_without_and_with_it():
    tried = [{"tried": "a third head", "measured": "AUC", "without": 62.5, "with": 62.1}]
    assert not_helpful(tried)[-1] == "| a third head | AUC | 62.5 | 62.1 |"
    assert not_helpful(None) == []


def test_a_record_agrees_with_the_manifest_of_the_model():
    manifest = Manifest.model_validate(
        {
            **json.loads((ROOT / "models/wiki-en/manifest.json").read_text("utf-8")),
            "training": {
                "recipe": {
                    "init": "model",
                    "feed_forward": None,
                    "tune_embeddings": False,
                    "interpolate": 0.6,
                },
                "data": {"tags": 250, "paragraphs": 0},
                "held_out": {"before": {"auc": 1.0}, "trained": {"auc": 3.0}, "kept": {"auc": 2.0}},
                "steps": 300,
                "seed": 7,
                "seconds": 20.7,
                "history": [{"step": 0}],
            },
        }
    )
    found = record(manifest, "a run")
    assert (found["before"], found["after"]) == ({"auc": 1.0}, {"auc": 2.0})
    settings = found["settings"]
    assert (settings["tags"], settings["seed"], settings["layers"]) == (
        250,
        7,
        len(manifest.layers),
    )
    assert settings["heads"] == manifest.heads


@pytest.mark.parametrize("one", trainings(), ids=lambda one: one["name"])
def test_a_record_of_a_run_has_what_the_page_needs(one):
    assert isinstance(one["settings"], dict)
    assert one["before"].keys() >= {"auc", "macro_f1"} <= one["after"].keys()


def estimate(value):
    return {"value": value, "error": 0.5}


EXPLAINED = {
    "occurrences": 400,
    "lemmas": 90,
    "right_sense": 71.5,
    "judge_right_sense": 64.25,
    "rankings": {
        "head 1": {"flip_auc": estimate(70.0), "evidence_auc": estimate(66.0)},
        "uniform": {"flip_auc": estimate(50.0), "evidence_auc": estimate(49.5)},
    },
    "swaps": {"head 1": estimate(30.0), "head 2": estimate(0.0)},
    "quality": {"pairs_auc": estimate(62.0), "macro_f1": estimate(73.0)},
    "cost": {
        who: {"pairs_auc": estimate(1.5), "macro_f1": estimate(0.25)}
        for who in ("all heads", "head 1")
    },
}


def test_the_explanation_table_has_heads_and_controls():
    text = "\n".join(attention_explained(EXPLAINED))
    assert "| ranking | flips, AUC | evidence, AUC |" in text
    assert "| uniform | 50.0 ± 0.5 | 49.5 ± 0.5 |" in text
    assert "| all heads |  | 1.5 ± 0.5 | 0.25 ± 0.5 |" in text
    assert "| head 2 | 0.0 ± 0.5 |  |  |" in text
    assert text.count("| head 1 | 30.0 ± 0.5 |") == 1
    assert "71.5 % of these occurrences" in text.replace("\n", " ")
    assert attention_explained(None) == []


def test_found_senses_have_a_table_for_each_measured_set():
    figure = {"value": 61.5, "low": 50.0, "high": 70.25}
    words = {"bank": {"senses": 2, "found": 3, "ari_given": 70.5, "ari_found": 40.25}}
    coarse = {"title": "`/v1/senses`", "words": words, "ari_given": figure}
    sets = {"coarsewsd": {"occurrences": 1234, "systems": {"model": coarse}}}
    text = "\n".join(senses_found({"sets": sets}))
    assert "| `/v1/senses` | 61.5 [50.0, 70.25] | – | – | – | – |" in text
    assert "| bank | 2 | 3 | 70.5 | 40.25 |" in text and "in 1,234 test sentences" in text
    assert "pseudo-words" not in text
    assert senses_found(None) == []


def test_variants_are_listed_with_the_model_and_their_differences():
    figure = {"value": 80.0, "error": 1.25}
    other = {**figure, "difference": 0.5, "difference_error": 0.25}
    measured = {"nouns_macro_f1": figure, "pairs_auc": figure}
    sample = {"nouns": 3, "lemmas": 5, "occurrences": 1700, "sentences": 40, "held_out": True}
    variants = {"the model": measured, "less": dict.fromkeys(measured, other)}
    lines = ablation({"sample": sample, "variants": variants})
    assert lines[-2] == "| **the model** | 80.0 ± 1.25 |  | 80.0 ± 1.25 |  |"
    assert lines[-1] == "| less | 80.0 | +0.5 ± 0.25 | 80.0 | +0.5 ± 0.25 |"
    assert "that the model was not trained on" in " ".join(lines)
