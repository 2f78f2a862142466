"""The view Step by step: its addresses, the service's steps, and what the page shows of them."""

import json
from pathlib import Path
from urllib.parse import urlencode

import httpx
import numpy as np
from playwright.sync_api import Locator

from tests.page.reader import Reader

FILE = Path(__file__).parents[2] / "service" / "polyseme" / "page" / "worked-examples.json"
EXAMPLES = json.loads(FILE.read_text("utf-8"))["examples"]
SMALL = {
    "tokens": ["a", "b"],
    "embeddings": [[1, 2], [3, -1]],
    "weights": {
        "query": [[1, 0, 2, 1], [0, 1, 1, -1]],
        "key": [[0, 1, 1, 0], [1, 0, 0, 2]],
        "value": [[1, 2], [0, 1]],
        "output": [[1, 0], [2, 1]],
    },
    "heads": 2,
}
"""Two words and two heads, with whole numbers, so that every step can be computed by hand:
Q = [[1, 2, 4, -1], [3, -1, 5, 4]], K = [[2, 1, 1, 4], [-1, 3, 3, -2]], V = [[1, 4], [3, 5]]."""
TURNED = {
    **SMALL,
    "weights": {name: np.transpose(rows).tolist() for name, rows in SMALL["weights"].items()},
    "convention": "column",
}
"""The same with weights in the column convention, W·x."""
PLAIN = {"tokens": ["a", "b"], "embeddings": [[1, 2], [3, -1]], "scale": False}
LONG = "pneumonoultramicroscopicsilicovolcanoconiosis" * 3


def address(request: dict | None = None, **fields: object) -> str:
    """The address of the view, with the numbers of a request or with other fields."""
    own = {} if request is None else {"source": "numbers", "numbers": json.dumps(request)}
    return f"#steps?{urlencode({**own, **fields})}"


def sentence(text: str, **fields: object) -> str:
    """The address of the view with a sentence."""
    return address(source="sentence", text=text, **fields)


def traced(client: httpx.Client, **body: object) -> dict[str, list]:
    """The values of the steps in the service's response, by name."""
    response = client.post("/v1/trace", json=body)
    assert response.status_code == 200, response.text
    return {step["name"]: step["values"] for step in response.json()["steps"]}


def steps(reader: Reader) -> list[str]:
    """The names of the steps on the cards, in order."""
    cards = reader.page.locator("[data-step]")
    return cards.evaluate_all("(cards) => cards.map((card) => card.dataset.step)")


def numbers(reader: Reader, step: str) -> list[list[float]]:
    """The numbers in the table of a step."""
    rows = reader.page.locator(f"[data-step={step}] tbody tr").evaluate_all(ROWS)
    return [[float(text.replace("−", "-")) for text in row] for row in rows]


ROWS = """(rows) => rows.map((row) =>
  [...row.querySelectorAll("td .number")].map((number) => number.textContent))"""


def row_names(reader: Reader) -> list[str]:
    """The names of the rows of the scores."""
    return reader.page.locator("[data-step=scores] th[scope=row]").all_text_contents()


def sums(reader: Reader) -> list[str]:
    """The sums that the panel of the chosen cell shows."""
    return reader.page.locator(".derived .sum").all_text_contents()


def panel(reader: Reader) -> str:
    """The text of the panel of the chosen cell."""
    return reader.page.locator(".derived").text_content() or ""


def lit(reader: Reader) -> set[str]:
    """The cells that the chosen cell is computed from, as `step:row:column`."""
    return set(reader.page.evaluate(CELLS, "lit"))


def chosen(reader: Reader) -> list[str]:
    """The chosen cells, at most one, as `step:row:column`."""
    return reader.page.evaluate(CELLS, "chosen")


CELLS = """(kind) => [...document.querySelectorAll(`td.${kind}`)].map((td) =>
  [td.closest("[data-step]").dataset.step, td.dataset.row, td.dataset.column].join(":"))"""


def field(reader: Reader, label: str) -> Locator:
    """A field of the editor."""
    return reader.page.locator(".editor").get_by_label(label, exact=True)


def write(reader: Reader, label: str, text: str) -> None:
    """Write into a field of the editor, and move the focus away."""
    field(reader, label).fill(text)
    field(reader, label).blur()
    reader.settle()
