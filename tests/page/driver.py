"""A reader of the page: windows of the browser, and what the views show in them."""

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import numpy as np
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Request

OFF = (
    # The suggestions of the address bar: each window starts processes for them, which takes as
    # long as the rest of the window.
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup"),
    # A spare process for another site, which no test opens.
    "SpareRendererForSitePerProcess",
    # Those that Playwright disables: of two --disable-features flags, the last one replaces the
    # first.
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"),
    *("HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding"),
    *("ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "AimEnabled"),
    *("OptimizationHints", "NetworkTimeServiceQuerying", "PreconnectToSearch"),
)
"""Features of the browser that no test needs."""
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    f"--disable-features={','.join(OFF)}",
]
TIMEOUT = 30_000
"""Milliseconds to wait for what a test expects, also on a busy machine."""
KEY = "a-key-of-this-test"
ONLY_VIOLATIONS = {"resultTypes": ["violations"]}
"""axe-core then describes no element that passes, which takes longest."""
RESIZED = """async (width) => {
  const frame = () => new Promise(requestAnimationFrame);
  while (innerWidth !== width) await frame();
  // The page notices the change in the first frame and draws in the second; the third is drawn.
  for (let i = 0; i < 3; i += 1) await frame();
}"""
RECORD_ANNOUNCEMENTS = """(root) => {
  globalThis.announced = [];
  const regionOf = (node) =>
    (node.closest ? node : node.parentElement)?.closest("output, [role=status], [role=alert]");
  new MutationObserver((changes) => {
    const nodes = changes.flatMap(({ target, addedNodes }) => [target, ...addedNodes]);
    for (const region of new Set(nodes.map(regionOf))) {
      const text = region?.textContent.trim();
      if (text && region.getAttribute("aria-live") !== "off") globalThis.announced.push(text);
    }
  }).observe(root, { childList: true, characterData: true, subtree: true });
}"""


Row = tuple[str, str] | tuple[str, str, int]


class Reader:
    """A window with the page in it, which records requests and errors."""

    def __init__(self, context: BrowserContext, base: str) -> None:
        self.context = context
        self.page = context.new_page()
        self.page.set_default_timeout(TIMEOUT)
        self.base = base
        """The address of the service."""
        self.wrong: list[str] = []
        """Unexpected errors."""
        self.requests: list[Request] = []
        self.page.on("request", self._record)
        self.page.on("pageerror", lambda error: self.wrong.append(f"script: {error}"))
        self.page.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))
        self.page.on("console", self._check_message)

    def _record(self, request: Request) -> None:
        self.requests.append(request)
        parts = urlsplit(request.url)
        if parts.scheme in {"http", "https"} and parts.netloc != urlsplit(self.base).netloc:
            self.wrong.append(f"request to another host: {request.url}")

    def _check_message(self, message: ConsoleMessage) -> None:
        # Chromium logs each status over 399, which tests of errors expect.
        expected = "Failed to load resource" in message.text
        if message.type in {"error", "warning"} and not expected:
            self.wrong.append(f"console: {message.text}")

    def go(self, fragment: str) -> None:
        """Open an address of the page, and wait until it is drawn."""
        self.page.goto(f"{self.base}/{fragment}")
        self.settle()

    def settle(self) -> None:
        """Wait until the page is drawn and no request is open."""
        self.page.locator("main > section").wait_for()
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        self.page.locator("[aria-busy=true]").first.wait_for(state="detached")

    def back(self) -> None:
        self.page.go_back()
        self.settle()

    def reload(self) -> None:
        self.page.reload()
        self.settle()

    def resize(self, width: int, height: int = 900) -> None:
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.evaluate(RESIZED, width)
        self.settle()

    def open_view(self, title: str) -> None:
        self.page.get_by_role("navigation").get_by_role("link", name=title, exact=True).click()

    def theme(self, value: str) -> None:
        self.page.get_by_label("Theme").select_option(value)
        self.settle()

    def choose(self, label: str, value: str) -> None:
        """Select a value in a list, which may be among the options."""
        field = self.field(label)
        closed = self.page.locator("details.options:not([open])").filter(has=field)
        if closed.count():
            closed.locator("summary").click()
        if field.get_attribute("type") == "number":
            field.fill(value)
            field.press("Enter")
        else:
            field.select_option(value)
        self.settle()

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()
        self.settle()

    def keys(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def open_tables(self, title: str) -> None:
        """Open details with tables, which the page builds after the click."""
        details = self.page.locator("details.numbers").filter(has_text=title).first
        details.locator("summary").click()
        details.locator(".sides > *").first.wait_for()

    def submit(self, label: str, text: str) -> None:
        """Fill a field, and press Enter in it."""
        self.field(label).fill(text)
        self.field(label).press("Enter")
        self.settle()

    def field(self, label: str) -> Locator:
        return self.page.get_by_label(label, exact=True)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name)

    def link(self, name: str) -> Locator:
        return self.page.get_by_role("link", name=name)

    def heading(self, name: str) -> Locator:
        return self.page.get_by_role("heading", name=name)

    def figure(self, name: str) -> Locator:
        return self.page.get_by_role("figure", name=name)

    def text(self, text: str) -> Locator:
        return self.page.get_by_text(text)

    def examples(self) -> Locator:
        return self.page.get_by_role("group", name="Examples").get_by_role("button")

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_text_contents()

    def numbers(self, selector: str) -> list[float]:
        return [float(text.replace("−", "-")) for text in self.texts(selector)]

    @property
    def address(self) -> str:
        """The fragment of the address, with its #."""
        return self.page.evaluate("location.hash")

    @property
    def query(self) -> dict[str, str]:
        """The state in the address."""
        return query_of(self.address)

    @property
    def problem(self) -> Locator:
        return self.page.get_by_role("alert")

    def requested(self) -> list[str]:
        """The paths of the service's API that the page requested."""
        return [path for one in self.requests if (path := urlsplit(one.url).path)[:4] == "/v1/"]

    def record_announcements(self, within: str = "body") -> None:
        """Record the changes of live regions from now on."""
        self.page.locator(within).first.evaluate(RECORD_ANNOUNCEMENTS)

    def announced(self) -> list[str]:
        return self.page.evaluate("globalThis.announced.splice(0)")

    def saved(self, button: Locator, folder: Path) -> Path:
        with self.page.expect_download() as download:
            button.click()
        path = folder / download.value.suggested_filename
        download.value.save_as(path)
        return path

    def saved_json(self, folder: Path) -> dict:
        """The response that the button Save JSON downloads."""
        return json.loads(self.saved(self.button("Save JSON"), folder).read_text("utf-8"))

    def command(self) -> str:
        return self.page.locator(".source code").text_content() or ""

    def sent(self) -> dict:
        """The body of the shown request, from the command."""
        body = self.command().partition("-d '")[2].removesuffix("'")
        return json.loads(body.replace("'\\''", "'"))

    def scrolls_sideways(self) -> bool:
        return self.page.evaluate(
            "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )

    def violations(self, axe: Axe) -> list[str]:
        """The violations that axe-core finds, with the elements."""
        violations = axe.run(self.page, options=ONLY_VIOLATIONS).response["violations"]
        return [
            f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes']][:5]}"
            for one in violations
        ]

    def post(self, operation: str, body: dict) -> dict:
        """The service's response to a request that the page does not send."""
        response = httpx.post(f"{self.base}/v1/{operation}", json=body, timeout=60)
        return response.raise_for_status().json()

    def models(self) -> list[dict]:
        return httpx.get(f"{self.base}/v1/models", timeout=60).json()["data"]

    def encoded(self, text: str, **more: object) -> dict:
        """The service's result for one sentence."""
        return self.post("encode", {"input": text, **more})["results"][0]

    def weights(self, text: str, **more: object) -> np.ndarray:
        """The attention [L, h, n, n], or [L, n, n] with `heads="mean"`."""
        return np.array(self.encoded(text, **more)["attention"])

    def contributions(self, text: str, **more: object) -> np.ndarray:
        """The contributions of the words and of the other terms. [L, n, m]"""
        return np.array(self.encoded(text, include=["contributions"], **more)["contributions"])

    def attention(self) -> Locator:
        return self.figure("Layer ")

    def readout(self) -> str:
        """The text below the figure about the current cell or word."""
        return self.attention().get_by_role("status").text_content() or ""

    def grid(self) -> Locator:
        """The grid of cells of the heatmap."""
        return self.page.get_by_role("application")

    def point(self, row: int, column: int, count: int) -> None:
        """Scroll to a cell and move the pointer to it."""
        self.page.mouse.move(*self.grid().evaluate(MIDDLE, [row, column, count]))

    def words(self) -> Locator:
        return self.page.locator(".attention button.word")

    def word_texts(self) -> list[str]:
        return self.texts(".attention button.word span")

    def compared(self, rows: Sequence[Row], **fields: object) -> dict:
        """The service's response for occurrences."""
        names = ("text", "word", "nth")
        occurrences = [dict(zip(names, (*row, 0), strict=False)) for row in rows]
        body = {"occurrences": occurrences, "neighbors": 8, "map": True, **fields}
        return self.post("compare", body)

    def kept(self) -> list[list]:
        """The occurrences in the current address, or those that Compare opens with."""
        return json.loads(self.query.get("occurrences") or json.dumps([[*row, 0] for row in BANKS]))

    def words_of(self, number: int) -> Locator:
        """The buttons of the words of a sentence."""
        group = self.page.get_by_role("group", name=f"Word of sentence {number} to compare")
        return group.get_by_role("button")

    def pressed(self, number: int) -> list[int]:
        """The indices of the selected words of a sentence."""
        self.words_of(number).first.wait_for()
        states = self.words_of(number).evaluate_all(
            "(words) => words.map((word) => word.getAttribute('aria-pressed'))"
        )
        return [i for i, state in enumerate(states) if state == "true"]

    def typed(self, number: int, text: str) -> None:
        """Type another sentence and wait for the response."""
        with self.page.expect_response("**/v1/compare"):
            self.field(f"Sentence {number}").fill(text)
        self.settle()

    def cosines(self) -> list[float]:
        """The numbers in the two matrices, row by row, static first."""
        return self.numbers("svg.similarity text.in-cell")

    def places(self) -> dict[str, tuple[float, ...]]:
        """The positions of the points of the map by name."""
        points = self.page.locator("svg.flat-map .point").evaluate_all(
            "(all) => all.map((one) => ['aria-label', 'transform'].map((n) => one.getAttribute(n)))"
        )
        number = re.compile(r"-?[\d.]+(?:e-?\d+)?")
        return {name: tuple(map(float, number.findall(transform))) for name, transform in points}

    def card(self, name: str) -> Locator:
        return self.page.get_by_role("article", name=name, exact=True)

    def traced(self, **body: object) -> dict[str, list]:
        """The values of the steps in the service's response, by name."""
        return {step["name"]: step["values"] for step in self.post("trace", body)["steps"]}

    def steps(self) -> list[str]:
        """The names of the steps on the cards, in order."""
        cards = self.page.locator("[data-step]")
        return cards.evaluate_all("(cards) => cards.map((card) => card.dataset.step)")

    def matrix(self, step: str) -> list[list[float]]:
        rows = self.page.locator(f"[data-step={step}] tbody tr").evaluate_all(ROWS)
        return [[float(text.replace("−", "-")) for text in row] for row in rows]

    def row_names(self) -> list[str]:
        return self.texts("[data-step=scores] th[scope=row]")

    def sums(self) -> list[str]:
        return self.texts(".derived .sum")

    def panel(self) -> str:
        return self.page.locator(".derived").text_content() or ""

    def lit(self) -> set[str]:
        """The cells that the chosen cell is computed from, as `step:row:column`."""
        return set(self.page.evaluate(CELLS, "lit"))

    def chosen(self) -> list[str]:
        """The chosen cells, at most one, as `step:row:column`."""
        return self.page.evaluate(CELLS, "chosen")

    def write(self, label: str, text: str) -> None:
        """Write into a field of the editor, and wait until it is drawn."""
        self.field(label).fill(text)
        self.pause()

    def pause(self) -> None:
        """Wait until the views use what is typed, by a later timer of the same 300 ms."""
        self.page.evaluate("new Promise((done) => setTimeout(done, 300))")
        self.settle()


PASTE = """(field, text) => {
  field.select();
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", text);
  const paste = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
  // The browser inserts nothing for an event that a script dispatches.
  if (!field.dispatchEvent(paste)) return;
  field.value = text;
  field.dispatchEvent(new InputEvent("input", { bubbles: true }));
}"""


def paste(field: Locator, text: str) -> None:
    field.evaluate(PASTE, text)


VIEWS = {
    "attention": ("Attention", "figure svg.heatmap"),
    "compare": ("Compare", "figure svg.flat-map"),
    "senses": ("Senses", "figure svg.senses-map"),
    "steps": ("Step by step", "[data-step=weights] table"),
    "neighbors": ("Neighbors", "figure svg.bars"),
    "models": ("Models", "article .facts"),
}
"""The title of each view, and what it shows."""


def address(view: str, **state: object) -> str:
    """The address of a view in a state."""
    return f"#{view}?{urlencode(state)}"


def query_of(address: str) -> dict[str, str]:
    """The state in an address."""
    query = parse_qs(address.partition("?")[2], keep_blank_values=True)
    return {name: values[0] for name, values in query.items()}


# Attention

HEBREW = ("שלום", "עולם", "טוב")
APPLES = "Apple launched a new phone while I was eating an apple."
APPLE_WORDS = [*APPLES.removesuffix(".").split(), "."]
APPLE_VIEW = "#attention?text=Apple+launched+a+new+phone+while+I+was+eating+an+apple."
"""The address of Attention with that sentence."""
COMMON = ["the", "bank", "of", "river", "and", "money", "was", "closed", "came", "apple", "to"]
LONG_TEXT = " ".join(random.Random(1).choices(COMMON, k=200))
MIDDLE = """(grid, [row, column, count]) => {
  const place = () => {
    const { left, top, height } = grid.getBoundingClientRect();
    return [left + (column + 0.5) * height / count, top + (row + 0.5) * height / count];
  };
  // Without animation: otherwise the page still scrolls while the pointer moves.
  scrollBy({ top: place()[1] - innerHeight / 2, behavior: "instant" });
  return place();
}"""


# Compare

APPLE_ROWS: list[Row] = [
    ("Apple launched a new phone", "Apple"),
    ("I was eating an apple pie", "apple"),
]
BANKS: list[Row] = [("River bank flows", "bank"), ("Money bank grows", "bank")]
EIGHT: list[Row] = [
    *APPLE_ROWS,
    *BANKS,
    ("He plays bass in a jazz band", "bass"),
    ("We caught a huge bass in the lake", "bass"),
    ("Java is a programming language", "Java"),
    ("qqzzxx flows", "qqzzxx"),
]


def compare_address(rows: object, **fields: str) -> str:
    """The address of Compare with occurrences, as rows or as the text of the parameter."""
    occurrences = rows if isinstance(rows, str) else json.dumps(rows)
    return address("compare", occurrences=occurrences, **fields)


# Step by step

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
LONG_WORD = "pneumonoultramicroscopicsilicovolcanoconiosis" * 3
CELLS = """(kind) => [...document.querySelectorAll(`td.${kind}`)].map((td) =>
  [td.closest("[data-step]").dataset.step, td.dataset.row, td.dataset.column].join(":"))"""
ROWS = """(rows) => rows.map((row) =>
  [...row.querySelectorAll("td .number")].map((number) => number.textContent))"""


def steps_address(request: dict | None = None, **fields: object) -> str:
    """The address of Step by step, with the numbers of a request or with other fields."""
    own = {} if request is None else {"source": "numbers", "numbers": json.dumps(request)}
    return address("steps", **own, **fields)


def sentence_address(text: str, **fields: object) -> str:
    """The address of Step by step with a sentence."""
    return steps_address(source="sentence", text=text, **fields)
