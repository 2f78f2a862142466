"""Actions in the view Step by step, and its texts."""

import json
from urllib.parse import urlencode

import httpx

from tests.page.reader import Reader

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


def address(request: dict | None = None, **fields: object) -> str:
    """The address of the view, with the numbers of a request or with other fields."""
    own = {} if request is None else {"source": "numbers", "numbers": json.dumps(request)}
    return f"#steps?{urlencode({**own, **fields})}"


def turned(request: dict) -> dict:
    """The same request with its weights in the column convention, W·x."""
    weights = {
        name: [list(column) for column in zip(*rows, strict=True)]
        for name, rows in request["weights"].items()
    }
    return {**request, "weights": weights, "convention": "column"}


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
    rows = reader.page.locator(f"[data-step={step}] table.matrix tbody tr").evaluate_all(ROWS)
    return [[float(text.replace("−", "-")) for text in row] for row in rows]


ROWS = """(rows) => rows.map((row) =>
  [...row.querySelectorAll("td .number")].map((number) => number.textContent))"""


def said(reader: Reader) -> list[str]:
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


def field(reader: Reader, matrix: str, row: int, column: int):
    """A cell of the editor."""
    group = reader.page.get_by_role("group", name=matrix, exact=True)
    return group.locator(f"input[data-row='{row}'][data-column='{column}']")


def typed(reader: Reader, matrix: str, row: int, column: int, text: str) -> None:
    """Type into a cell of the editor, and move the focus away."""
    field(reader, matrix, row, column).fill(text)
    field(reader, matrix, row, column).blur()
    reader.settle()


def own(reader: Reader) -> dict:
    """The current request, read from the curl command."""
    command = reader.command()
    return json.loads(
        command[command.index("-d '") + 4 : command.rindex("'")].replace("'\\''", "'")
    )


def pasted(reader: Reader, matrix: str, text: str) -> None:
    """Paste a text into the first cell of a matrix."""
    field(reader, matrix, 0, 0).evaluate(PASTE, text)
    reader.settle()


PASTE = """(input, text) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  input.focus();
  const options = {clipboardData: data, bubbles: true, cancelable: true};
  input.dispatchEvent(new ClipboardEvent("paste", options));
}"""
