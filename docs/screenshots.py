"""Make the pictures of the page for README and docs, from a real service in a real browser.

    python docs/screenshots.py [--all FOLDER]

Needs Debian's chromium. Pictures go to docs/page/; `--all` also keeps every view in light and dark,
wide and narrow, to be looked at before a release.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import NamedTuple
from urllib.parse import urlencode

import click
import httpx
from playwright.sync_api import Browser, Page, sync_playwright

HERE = Path(__file__).parent
PICTURES = HERE / "page"
PORT = 18_432
BASE = f"http://127.0.0.1:{PORT}"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars")
APPLES = "Apple launched a new phone while I was eating an apple."
LONG = " ".join(["The bank of the river was steep, and the bank in the town was shut."] * 12)


class View(NamedTuple):
    """A view, and what of it README or docs show: a window scrolled to something, so high."""

    fragment: str
    top: str = ""
    height: int = 0


def _address(name: str, **state: str) -> str:
    return f"#{name}?{urlencode(state)}"


BANKS = json.dumps([["River bank flows", "bank", 0], ["Money bank grows", "bank", 0]])
VIEWS = {
    "look": View(_address("look", text=APPLES, row="0", column="1"), ".words", 900),
    "lines": View(_address("look", text=APPLES, picture="lines")),
    "long": View(_address("look", text=LONG)),
    "compare": View(_address("compare", occurrences=BANKS), "figure", 1250),
    "steps": View(_address("steps", example="2", cell="scores:1:2"), "figure", 1060),
    "sentence": View(_address("steps", source="sentence", text="River bank flows")),
    "neighbours": View(_address("neighbours", word="bank")),
    "models": View("#models"),
    "refusal": View(_address("neighbours", word="qqzzxx")),
}
SHOWN = 1100
WINDOWS = {"wide": 1200, "narrow": 360}
COLOURS = ("light", "dark")


@contextmanager
def served() -> Iterator[None]:
    """The bundled model, served."""
    command = [sys.executable, "-m", "polyseme", "serve", "--port", str(PORT)]
    process = Popen(command, cwd=HERE.parent, stderr=DEVNULL)  # noqa: S603 - a command of our own
    try:
        transport = httpx.HTTPTransport(retries=8)
        with httpx.Client(transport=transport, timeout=30) as client:
            client.get(f"{BASE}/readyz").raise_for_status()
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def opened(
    browser: Browser, fragment: str, width: int, height: int, colours: str
) -> Iterator[Page]:
    """A view in a window of its own."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if colours == "dark" else "light",
    )
    page = context.new_page()
    page.goto(f"{BASE}/{fragment}")
    page.wait_for_load_state("networkidle")
    yield page
    context.close()


def show(browser: Browser, name: str, view: View) -> None:
    """Make the pictures that README and docs show."""
    for colours in COLOURS:
        with opened(browser, view.fragment, SHOWN, view.height, colours) as page:
            # A card begins above what stands in it; a little of the page's ground is seen.
            page.evaluate(
                "top => { const at = document.querySelector(top);"
                " const card = at.closest('.card, figure') ?? at;"
                " scrollTo(0, card.getBoundingClientRect().top + scrollY - 12); }",
                view.top,
            )
            page.screenshot(path=PICTURES / f"{name}-{colours}.png")


def keep(browser: Browser, name: str, view: View, folder: Path) -> None:
    """Keep a view in every window and in every colours, to be looked at."""
    for window, width in WINDOWS.items():
        for colours in COLOURS:
            with opened(browser, view.fragment, width, 900, colours) as page:
                page.screenshot(path=folder / f"{name}-{window}-{colours}.png", full_page=True)


@click.command()
@click.option("--all", "everything", type=click.Path(path_type=Path, file_okay=False))
def main(everything: Path | None) -> None:
    """Make the pictures."""
    PICTURES.mkdir(exist_ok=True)
    if everything:
        everything.mkdir(parents=True, exist_ok=True)
    with served(), sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        for name, view in VIEWS.items():
            if view.height:
                show(browser, name, view)
            if everything:
                keep(browser, name, view, everything)
        browser.close()


if __name__ == "__main__":
    main()
