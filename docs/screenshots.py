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
    """A view, and how its picture is cut."""

    fragment: str
    height: int | None = None
    """of README's picture, in pixels; None for one that README does not show"""


def _address(name: str, **state: str) -> str:
    return f"#{name}?{urlencode(state)}"


BANKS = json.dumps([["River bank flows", "bank", 0], ["Money bank grows", "bank", 0]])
VIEWS = {
    "look": View(_address("look", text=APPLES, row="0", column="1"), 1000),
    "lines": View(_address("look", text=APPLES, picture="lines"), None),
    "long": View(_address("look", text=LONG), None),
    "compare": View(_address("compare", occurrences=BANKS), 1500),
    "steps": View(_address("steps", example="2", cell="scores:1:2"), 1100),
    "sentence": View(_address("steps", source="sentence", text="River bank flows"), None),
    "neighbours": View(_address("neighbours", word="bank"), None),
    "models": View("#models", None),
    "refusal": View(_address("neighbours", word="qqzzxx"), None),
}
WINDOWS = {"wide": 1200, "narrow": 360}


@contextmanager
def served() -> Iterator[None]:
    """The bundled model, served."""
    command = [sys.executable, "-m", "service", "serve", "--port", str(PORT)]
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
def opened(browser: Browser, fragment: str, width: int, colours: str) -> Iterator[Page]:
    """A view in a window of its own."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if colours == "dark" else "light",
        device_scale_factor=1,
    )
    page = context.new_page()
    page.goto(f"{BASE}/{fragment}")
    page.wait_for_load_state("networkidle")
    yield page
    context.close()


@click.command()
@click.option("--all", "everything", type=click.Path(path_type=Path, file_okay=False))
def main(everything: Path | None) -> None:
    """Make the pictures."""
    PICTURES.mkdir(exist_ok=True)
    with served(), sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        for name, view in VIEWS.items():
            if view.height:
                for colours in ("light", "dark"):
                    with opened(browser, view.fragment, 1000, colours) as page:
                        clip = {"x": 0, "y": 0, "width": 1000, "height": view.height}
                        file = PICTURES / f"{name}-{colours}.png"
                        page.screenshot(path=file, full_page=True, clip=clip)  # type: ignore[arg-type]
            if everything:
                everything.mkdir(parents=True, exist_ok=True)
                for window, width in WINDOWS.items():
                    for colours in ("light", "dark"):
                        with opened(browser, view.fragment, width, colours) as page:
                            file = everything / f"{name}-{window}-{colours}.png"
                            page.screenshot(path=file, full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
