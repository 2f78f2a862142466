"""Actions and texts of the view Compare."""

import json
import re
from collections.abc import Sequence
from urllib.parse import parse_qs, urlencode

import httpx
from playwright.sync_api import Locator

from tests.page.reader import Reader

Row = tuple[str, str] | tuple[str, str, int]

APPLES: list[Row] = [
    ("Apple launched a new phone", "Apple"),
    ("I was eating an apple pie", "apple"),
]
BANKS: list[Row] = [("River bank flows", "bank"), ("Money bank grows", "bank")]
EIGHT: list[Row] = [
    *APPLES,
    *BANKS,
    ("He plays bass in a jazz band", "bass"),
    ("We caught a huge bass in the lake", "bass"),
    ("Java is a programming language", "Java"),
    ("qqzzxx flows", "qqzzxx"),
]


def address(rows: object, **fields: str) -> str:
    """The address of the view with occurrences, as rows or as the text of the parameter."""
    occurrences = rows if isinstance(rows, str) else json.dumps(rows)
    return f"#compare?{urlencode({'occurrences': occurrences, **fields})}"


def asked(client: httpx.Client, rows: Sequence[Row], **fields: object) -> dict:
    """The service's response for occurrences."""
    occurrences = [
        {"text": row[0], "word": row[1], "nth": row[2] if len(row) > 2 else 0} for row in rows
    ]
    body = {"occurrences": occurrences, "neighbors": 8, "map": True, **fields}
    return client.post("/v1/compare", json=body).raise_for_status().json()


def kept(reader: Reader) -> list[list]:
    """The occurrences in the current address."""
    query = parse_qs(reader.address.partition("?")[2])
    return json.loads(query["occurrences"][0])


def sentence(reader: Reader, number: int) -> Locator:
    """The field of a sentence."""
    return reader.page.get_by_label(f"Sentence {number}", exact=True)


def words(reader: Reader, number: int) -> Locator:
    """The buttons of the words of a sentence."""
    group = reader.page.get_by_role("group", name=f"Word of sentence {number} to compare")
    return group.get_by_role("button")


def pressed(reader: Reader, number: int) -> list[int]:
    """The indices of the selected words of a sentence."""
    words(reader, number).first.wait_for()
    states = words(reader, number).evaluate_all(
        "(words) => words.map((word) => word.getAttribute('aria-pressed'))"
    )
    return [i for i, state in enumerate(states) if state == "true"]


def typed(reader: Reader, number: int, text: str) -> None:
    """Type another sentence and wait for the response."""
    with reader.page.expect_response("**/v1/compare"):
        sentence(reader, number).fill(text)
    reader.settle()


def example(reader: Reader, name: str) -> None:
    """Select an example."""
    group = reader.page.get_by_role("group", name="Examples")
    group.get_by_role("button", name=name, exact=True).click()
    reader.settle()


def cosines(reader: Reader) -> list[float]:
    """The numbers in the two matrices, row by row, static first."""
    texts = reader.page.locator("svg.similarity text.number").all_text_contents()
    return [float(text.replace("−", "-")) for text in texts]


def tables(reader: Reader) -> list[float]:
    """The same numbers from the tables."""
    texts = reader.page.locator("table.cosines td.number").all_text_contents()
    return [float(text.replace("−", "-")) for text in texts]


def places(reader: Reader) -> dict[str, tuple[float, float]]:
    """The positions of the points of the map by name."""
    points = reader.page.locator("svg.flat-map .point").evaluate_all(
        "(all) => all.map((one) => ['aria-label', 'transform'].map((n) => one.getAttribute(n)))"
    )
    return {name: place(transform) for name, transform in points}


def place(transform: str) -> tuple[float, float]:
    """The position in a `transform` attribute."""
    x, y = re.findall(r"-?[\d.]+(?:e-?\d+)?", transform)
    return float(x), float(y)


def card(reader: Reader, name: str) -> Locator:
    """The card of an occurrence."""
    return reader.page.get_by_role("article", name=name, exact=True)
