"""Pictures of the pages, and the results and training runs that the page on quality shows."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")

import matplotlib as mpl
from docs.charts import images
from docs.results import trainings
from docs.trainings import constant_settings, differing_settings, histories
from lab.studies.trials import record

from polyseme.models.manifest import Manifest

ROOT = Path(__file__).parents[1]
IMAGES, RESULTS = ROOT / "docs" / "images", ROOT / "lab" / "results"


def _document(name):
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


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
    pages = [page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"\(images/([^)]+)\)", page)}
    assert shown == DRAWN.keys() == {file.name for file in IMAGES.iterdir()}


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
    assert differing_settings(RUNS) == {"heads": "heads"}
    assert constant_settings(RUNS) == "steps 300, seed 1"


def test_curves_are_of_the_bundled_model_and_of_every_run_with_a_history():
    own = {"name": "ours", "training": {"history": [{"step": 0}]}}
    bare = {"name": "no history", "settings": {}}
    assert list(histories(own, [*RUNS, bare])) == ["ours", "one head", "two heads"]
    assert histories({"name": "ours", "training": {}}, []) == {}


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
