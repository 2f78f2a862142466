"""Three exercises of a class, each in few actions: a paste, a click, a choice or a filled field."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest

import polyseme
from tests.page.conftest import Open
from tests.page.driver import Reader, cosines, kept, paste, pause, pressed, write

pytestmark = pytest.mark.slow

EXAMPLES = Path(polyseme.__file__).parent / "page/examples.json"


def act(reader: Reader, *actions: Callable[[], object]) -> None:
    """Do one action after the other, and wait until each is drawn."""
    for action in actions:
        action()
        pause(reader)


def test_two_senses_in_a_paragraph_take_three_actions(open_page: Open) -> None:
    reader = open_page("#senses")
    sentences = json.loads(EXAMPLES.read_text("utf-8"))["texts"][1]["sentences"]
    act(
        reader,
        lambda: paste(reader.field("Sentences, one on each line"), " ".join(sentences)),
        lambda: reader.press(f"Split into {len(sentences)} sentences"),
        reader.button(f"bank {len(sentences)}").first.click,
    )
    assert reader.field("Sentences, one on each line").input_value().splitlines() == sentences
    assert not reader.button("Split into").is_visible()
    assert f"in {len(sentences)} lines: 2 senses." in reader.texts(".summary")[0]
    assert reader.text("Shares of the evidence for this sense").first.is_visible()


def test_attention_by_hand_is_checked_in_five_actions(open_page: Open) -> None:
    x = np.array([[1, 0.5], [0, 2]])
    weights = np.exp(x @ x.T)
    context = weights / weights.sum(axis=1, keepdims=True) @ x
    own = "\n".join(" ".join(f"{number:.2f}" for number in row) for row in context)
    reader = open_page("#steps")
    act(
        reader,
        lambda: reader.press("Own numbers"),
        lambda: write(reader, "Words", "river\nbank"),
        lambda: write(reader, "Embeddings X", "1 0.5\n0 2"),
        lambda: reader.press("Hide results"),
        lambda: write(reader, "My result: Context", own),
    )
    status = reader.page.locator("[data-step=context]").get_by_role("status")
    assert status.text_content() == "Right to 2 decimals: 4 of 4 numbers."


def test_two_models_on_five_sentences_take_three_actions(
    open_page: Open, several: httpx.Client
) -> None:
    reader = open_page("#compare", service=several)
    lines = [f"The bat {verb}" for verb in ("flies", "sleeps", "hits a ball", "broke", "bites")]
    act(
        reader,
        lambda: paste(reader.field("Sentence 1"), "\r\n".join(lines)),
        lambda: reader.page.locator("details.options summary").click(),
        lambda: reader.field("Second model, beside it").select_option("second"),
    )
    assert [text for text, _, _ in kept(reader)] == lines
    assert [pressed(reader, i) for i in range(1, 6)] == [[1]] * 5
    assert reader.page.locator(".models-beside figure:visible").count() == 2
    assert len(cosines(reader)) == 2 * 2 * 25
    assert reader.text("The map and the cards below are those of wiki-en.").is_visible()
    reader.back()
    assert reader.query == {}
