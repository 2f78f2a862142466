"""Pictures of measurements: the elements of their SVG."""

from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")

from docs.pictures import CELL, bars, curves, heatmap


def svg(text):
    return ET.fromstring(text)


def of_kind(text, kind):
    return list(svg(text).iter(f"{{http://www.w3.org/2000/svg}}{kind}"))


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
    assert "layer 2, head 3" in texts
    assert texts.count("a") == 1 + 6
    lone = [text.text for text in of_kind(heatmap("a b", ["a", "b"], [[one]]), "text")]
    assert sorted(lone) == ["a", "a", "b", "b"]


def test_a_hostile_sentence_is_escaped_in_its_picture():
    token = '</svg><script>"&'
    picture = heatmap(token, [token, "b"], [[[[0.0, 1.0], [1.0, 0.0]]]])
    assert not of_kind(picture, "script")
    assert [text.text for text in of_kind(picture, "text")].count(token) == 2


def test_curves_have_a_marker_for_each_measured_score():
    points = [{"step": 0, "auc": 60.0, "macro_f1": None}, {"step": 10, "auc": 61.0}]
    drawn = curves({"one run": points, "another": [{"step": 0, "auc": None, "macro_f1": 70.0}]})
    texts = [text.text for text in of_kind(drawn, "text")]
    assert {"one run", "another", "steps"} <= set(texts)
    # The ticks of the axes are black; the legend has a marker for each run.
    markers = [use for use in of_kind(drawn, "use") if "#000000" not in use.get("style")]
    assert len(markers) == 3 + 2


def test_bars_show_every_system_and_what_others_published():
    figure = {"value": 90.0, "low": 88.0, "high": 91.5}
    drawn = bars(
        {
            "systems": {"model": {"title": "ours", "kind": "model", "accuracy": figure}},
            "published": [{"title": "theirs", "source": "They 2020", "accuracy": 95.0}],
        },
        "a title",
        {"accuracy": "accuracy"},
        "wic",
        50.0,
    )
    texts = " ".join(text.text or "" for text in of_kind(drawn, "text"))
    assert all(part in texts for part in ("ours", "90.0", "theirs", "a title"))
