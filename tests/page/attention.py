"""Actions in the view Attention, and the results of the service."""

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
    response = client.post("/v1/encode", json={"input": text, **more})
    assert response.status_code == 200, response.text
    return response.json()["results"][0]


def weights(client: httpx.Client, text: str, **more: object) -> np.ndarray:
    """The attention [L, h, n, n], or [L, n, n] with `heads="mean"`."""
    return np.array(encoded(client, text, **more)["attention"])


def attention(reader: Reader) -> Locator:
    """The figure of attention."""
    return reader.page.get_by_role("figure", name="Attention:")


def readout(reader: Reader) -> str:
    """The text below the figure about the current cell or word."""
    return attention(reader).get_by_role("status").text_content() or ""


def grid(reader: Reader) -> Locator:
    """The grid of cells of the heatmap."""
    return reader.page.get_by_role("grid")


MIDDLE = """(grid, [row, column, count]) => {
  const place = () => {
    const { left, top, width } = grid.getBoundingClientRect();
    return [left + (column + 0.5) * width / count, top + (row + 0.5) * width / count];
  };
  // Without animation: otherwise the page still scrolls while the pointer moves.
  scrollBy({ top: place()[1] - innerHeight / 2, behavior: "instant" });
  return place();
}"""


def point(reader: Reader, row: int, column: int, count: int) -> None:
    """Scroll to a cell and move the pointer to it."""
    x, y = grid(reader).evaluate(MIDDLE, [row, column, count])
    reader.page.mouse.move(x, y)


def number(sentence: str) -> float:
    """The number at the end of a sentence."""
    return float(re.search(r"(\d\.\d+)$", sentence)[1])


def sentence(reader: Reader) -> Locator:
    """The box with the sentence."""
    return reader.page.get_by_label("Sentence", exact=True)


def words(reader: Reader) -> Locator:
    """The buttons of the words of the sentence."""
    return reader.page.locator(".attention button.word")
