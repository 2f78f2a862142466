"""Pictures of the pages, and the results and training runs that the page on quality shows."""

import json
import re
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")

import matplotlib as mpl
from docs.charts import CELL, grids, head_panels, heatmap, images
from docs.results import trainings

from tests.conftest import ROOT

IMAGES, RESULTS = ROOT / "docs" / "images", ROOT / "lab" / "results"
MANIFEST = json.loads((ROOT / "models/wiki-en/manifest.json").read_text("utf-8"))


def _document(name):
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def test_all_results_are_of_the_bundled_model_and_of_the_same_data():
    for name in ("coarsewsd", "wic", "similarity", "ablation", "examples"):
        assert _document(name)["model"] == "wiki-en"
    assert _document("coarsewsd")["data"] == _document("coarsewsd-minilm")["data"]
    files = {file: entry["sha256"] for file, entry in MANIFEST["files"].items()}
    for name in ("ablation", "examples"):
        assert _document(name)["files"] == files, f"run `make results-{name} docs`"
    coarsewsd, wic = (_document(name)["systems"]["model"] for name in ("coarsewsd", "wic"))
    assert MANIFEST["quality"]["coarsewsd"]["macro_f1"] == coarsewsd["macro_f1"]["value"]
    assert MANIFEST["quality"]["wic"]["dev_accuracy"] == wic["accuracy"]["value"]


def test_the_heads_are_those_of_the_bundled_models():
    for name, measured in _document("heads")["models"].items():
        manifest = json.loads((ROOT / "models" / name / "manifest.json").read_text("utf-8"))
        expected = {name: entry["sha256"] for name, entry in manifest["files"].items()}
        assert measured["files"] == expected, "run `the retired heads.py` and `make docs`"


def test_the_screenshots_show_the_bundled_model():
    shown = json.loads((ROOT / "docs/page/model.json").read_text("utf-8"))["files"]
    files = {name: entry["sha256"] for name, entry in MANIFEST["files"].items()}
    assert shown == files, "run `python docs/screenshots.py`"


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


def of_kind(picture, kind):
    return list(ET.fromstring(picture).iter(f"{{http://www.w3.org/2000/svg}}{kind}"))


def test_a_cell_is_in_the_row_of_its_query_with_the_opacity_of_its_weight():
    picture = heatmap("a b c", ["a", "b", "c"], [[[[0, 0.8, 0.2], [0.4, 0, 0.01], [0, 0, 0.6]]]])
    cells = [one for one in of_kind(picture, "rect") if one.get("class") == "cell"]
    (frame,) = [one for one in of_kind(picture, "rect") if one.get("class") == "frame"]
    left, top = int(frame.get("x")) + 1, int(frame.get("y")) + 1
    found = {
        ((int(c.get("y")) - top) // CELL, (int(c.get("x")) - left) // CELL): c.get("fill-opacity")
        for c in cells
    }
    # Row, column; 0.01 is too faint to be drawn.
    assert found == {(0, 1): "1.00", (0, 2): "0.25", (1, 0): "0.50", (2, 2): "0.75"}
    assert int(frame.get("width")) == 3 * CELL + 1


def test_every_head_of_every_layer_has_a_frame_and_a_title():
    one = [[1.0, 0.0], [0.5, 0.5]]
    picture = heatmap("a b", ["a", "b"], [[one, one, one], [one, one, one]])
    assert len([r for r in of_kind(picture, "rect") if r.get("class") == "frame"]) == 6
    texts = [text.text for text in of_kind(picture, "text")]
    assert "layer 1, head 2" in texts
    assert texts.count("a") == 1 + 6
    lone = [text.text for text in of_kind(heatmap("a b", ["a", "b"], [[one]]), "text")]
    assert sorted(lone) == ["a", "a", "b", "b"]


def test_a_hostile_sentence_is_escaped_in_its_picture():
    token = '</svg><script>"&'
    picture = heatmap(token, [token, "b"], [[[[0.0, 1.0], [1.0, 0.0]]]])
    assert not of_kind(picture, "script")
    assert [text.text for text in of_kind(picture, "text")].count(token) == 2


@pytest.mark.parametrize("one", trainings(), ids=lambda one: one["name"])
def test_a_record_of_a_run_has_what_the_page_needs(one):
    assert isinstance(one["settings"], dict)
    assert one["before"].keys() >= {"auc", "macro_f1"} <= one["after"].keys()


def test_a_table_of_numbers_has_a_shade_for_each_opacity_and_a_gap_between_groups():
    tables = [
        {"a": [("1", 0.0), ("2", 0.4), ("3", 1.5)]},
        {"b": [("4", 0.01), ("5", 0.02), ("6", -1)]},
    ]
    picture = grids("title", ["x", "y", "z"], tables, [("first", 2), ("second", 1)], 30)
    shades = [(c.get("fill-opacity"), float(c.get("x"))) for c in of_kind(picture, "rect")]
    assert [shade for shade, _ in shades] == ["0.30", "0.75", "0.01"]
    assert shades[1][1] - shades[0][1] == 30 + 8  # a column and the gap
    assert shades[2][1] == shades[0][1]
    texts = [one.text for one in of_kind(picture, "text")]
    head = ["first", "second", "x", "y", "z"]
    assert texts == [*head, "a", "1", "2", "3", *head, "b", "4", "5", "6"]


def test_a_panel_has_bars_as_high_as_the_weights_of_its_head():
    weights = {1: [0.0] * 7 + [20, 10, 40] + [0.0] * 7, 2: [0.0] * 17}
    heads = [{"layer": 1, "head": n, "name": "x", "weight_at": w} for n, w in weights.items()]
    picture = head_panels({"m": {"heads": heads}})
    bars = [(bar.get("class"), bar.get("height")) for bar in of_kind(picture, "rect")]
    assert bars == [("cell", "30"), ("frame", "15"), ("cell", "60")]
    assert {"m, layer 0", "0.0 x", "0.1 x"} <= {one.text for one in of_kind(picture, "text")}
