"""Exercises of a class, each in few actions: a paste, a click or a choice."""

import json
from pathlib import Path

import pytest

import polyseme
from tests.page.conftest import Open
from tests.page.driver import paste

pytestmark = pytest.mark.slow

EXAMPLES = Path(polyseme.__file__).parent / "page/examples.json"


def test_two_senses_in_a_paragraph_take_three_actions(open_page: Open) -> None:
    sentences = json.loads(EXAMPLES.read_text("utf-8"))["texts"][1]["sentences"]
    reader = open_page("#senses")
    area = reader.field("Sentences, one on each line")
    paste(area, " ".join(sentences))
    reader.pause()
    reader.press(f"Split into {len(sentences)} sentences")
    reader.pause()
    reader.button(f"bank {len(sentences)}").first.click()
    reader.settle()
    assert area.input_value().splitlines() == sentences
    assert not reader.button("Split into").is_visible()
    assert f"in {len(sentences)} lines: 2 senses." in reader.texts(".summary")[0]


def test_two_models_on_five_sentences_take_three_actions(open_page: Open) -> None:
    lines = [f"The bat {verb}" for verb in ("flies", "sleeps", "hits a ball", "broke", "bites")]
    reader = open_page("#compare", service="several")
    paste(reader.field("Sentence 1"), "\r\n".join(lines))
    reader.pause()
    reader.choose("Second model, beside it", "second")
    assert [text for text, _, _ in reader.kept()] == lines
    assert [reader.pressed(i) for i in range(1, 6)] == [[1]] * 5
    first, second = reader.page.locator(".models-beside figure:visible").all()
    assert first.bounding_box()["y"] == second.bounding_box()["y"]
    assert second.locator("h3").text_content().startswith("second: bat: 1.00 static, ")
    assert len(reader.cosines()) == 2 * 2 * 25
    assert reader.text("The map and the cards below are those of wiki-en.").is_visible()
    reader.back()
    assert reader.query == {}
