"""Actions in the view Attention, and the service's own results."""

import re
from urllib.parse import urlencode

import httpx
import numpy as np
from playwright.sync_api import Locator

from tests.page.reader import Reader

HEBREW = ("שלום", "עולם", "טוב")
APPLES = "Apple launched a new phone while I was eating an apple."
APPLE_WORDS = [*APPLES.removesuffix(".").split(), "."]


def attention_address(**state: object) -> str:
    """The address of the view in a state."""
    return f"#attention?{urlencode(state)}"


def encoded(client: httpx.Client, text: str, **more: object) -> dict:
    """The service's result for one sentence."""
    answer = client.post("/v1/encode", json={"input": text, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]


def weights(client: httpx.Client, text: str, **more: object) -> np.ndarray:
    """The attention, [L, h, n, n], or [L, n, n] of the mean of heads."""
    return np.array(encoded(client, text, **more)["attention"])


def attention(reader: Reader) -> Locator:
    """The figure of attention."""
    return reader.page.get_by_role("figure", name="Attention:")


def readout(reader: Reader) -> str:
    """The text of the figure about the cell or the word."""
    return attention(reader).get_by_role("status").text_content() or ""


def grid(reader: Reader) -> Locator:
    """The cells."""
    return reader.page.get_by_role("grid")


MIDDLE = """(grid, [row, column, count]) => {
  const place = () => {
    const { left, top, width } = grid.getBoundingClientRect();
    return [left + (column + 0.5) * width / count, top + (row + 0.5) * width / count];
  };
  // At once: a wheel would scroll while the pointer is already on its way.
  scrollBy({ top: place()[1] - innerHeight / 2, behavior: "instant" });
  return place();
}"""


def point(reader: Reader, row: int, column: int, count: int) -> None:
    """Move the pointer to a cell, once it is scrolled to."""
    x, y = grid(reader).evaluate(MIDDLE, [row, column, count])
    reader.page.mouse.move(x, y)


def number(sentence: str) -> float:
    """The number at the end of a sentence."""
    return float(re.search(r"(\d\.\d+)$", sentence)[1])


def choose(reader: Reader, label: str, value: str) -> None:
    """Choose in a list."""
    reader.page.get_by_label(label, exact=True).select_option(value)
    reader.settle()


def sentence(reader: Reader) -> Locator:
    """The box with the sentence."""
    return reader.page.get_by_label("Sentence", exact=True)


def words(reader: Reader) -> Locator:
    """The words of the sentence, to press."""
    return reader.page.locator(".attention button.word")
