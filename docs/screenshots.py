"""Make the screenshots of the page for README and docs, from a real service in a real browser.

    python docs/screenshots.py [--all FOLDER]

Needs Debian's chromium. The images go to docs/page/, with the checksums of the model that they
show, which a test compares with the bundled model. `--all` also saves every view in light and dark,
narrow and wide, to check before a release.
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
IMAGES = HERE / "page"
PORT = 18_432
BASE = f"http://127.0.0.1:{PORT}"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars")
APPLES = "Apple launched a new phone while I was eating an apple."
LONG = " ".join(["The bank of the river was steep, and the bank in the town was shut."] * 12)


class View(NamedTuple):
    """A view to open. README or docs show it if `height` is not 0."""

    fragment: str
    top: str = ""
    """CSS selector of an element in the card with which the image starts"""
    height: int = 0
    """of the image, in pixels"""


def _address(name: str, **state: str) -> str:
    return f"#{name}?{urlencode(state)}"


BANKS = json.dumps([["River bank flows", "bank", 0], ["Money bank grows", "bank", 0]])
VIEWS = {
    "attention": View(
        _address("attention", text=APPLES, case="lower", row="0", column="1"), ".words", 1150
    ),
    "lines": View(_address("attention", text=APPLES, picture="lines")),
    "long": View(_address("attention", text=LONG)),
    "compare": View(_address("compare", occurrences=BANKS), "figure", 1250),
    "senses": View(_address("senses", point="3"), "figure", 1390),
    "steps": View(_address("steps", example="2", cell="scores:1:2"), "[data-step=queries]", 1060),
    "sentence": View(_address("steps", source="sentence", text="River bank flows")),
    "neighbors": View(_address("neighbors", word="bank")),
    "models": View("#models"),
    "error": View(_address("neighbors", word="qqzzxx")),
}
SHOWN = 1100
"""The width of the images for README and docs, in pixels."""
WIDTHS = (360, 1280, 1600)
THEMES = ("light", "dark")


@contextmanager
def served() -> Iterator[None]:
    """Serve the bundled model."""
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
def opened(browser: Browser, fragment: str, width: int, height: int, theme: str) -> Iterator[Page]:
    """Open a view in a new window."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
    )
    page = context.new_page()
    page.goto(f"{BASE}/{fragment}")
    page.wait_for_load_state("networkidle")
    yield page
    context.close()


def save_image(browser: Browser, name: str, view: View) -> None:
    """Save the images of a view for README or docs, one for each theme."""
    for theme in THEMES:
        with opened(browser, view.fragment, SHOWN, view.height, theme) as page:
            # Scroll to the card around the element, with a margin.
            page.evaluate(
                "top => { const at = document.querySelector(top);"
                " const card = at.closest('.card, figure') ?? at;"
                " scrollTo(0, card.getBoundingClientRect().top + scrollY - 12); }",
                view.top,
            )
            page.screenshot(path=IMAGES / f"{name}-{theme}.png")


def save_all(browser: Browser, name: str, view: View, folder: Path) -> None:
    """Save a view at every width and in every theme."""
    for width in WIDTHS:
        for theme in THEMES:
            with opened(browser, view.fragment, width, 900, theme) as page:
                page.screenshot(path=folder / f"{name}-{width}-{theme}.png", full_page=True)


@click.command()
@click.option("--all", "folder", type=click.Path(path_type=Path, file_okay=False))
def main(folder: Path | None) -> None:
    """Make the screenshots."""
    IMAGES.mkdir(exist_ok=True)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    with served(), sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        for name, view in VIEWS.items():
            if view.height:
                save_image(browser, name, view)
            if folder:
                save_all(browser, name, view, folder)
        browser.close()
    manifest = json.loads((HERE.parent / "models" / "wiki-en" / "manifest.json").read_text("utf-8"))
    files = {name: entry["sha256"] for name, entry in manifest["files"].items()}
    model = {"model": "wiki-en", "files": files}
    (IMAGES / "model.json").write_text(json.dumps(model, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
