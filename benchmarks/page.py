"""How long the page takes from the service's answer to the picture, and from its address to it.

    python benchmarks/page.py [--rounds 15]

Each view is opened in a fresh window of Debian's chromium, nothing kept from the one before, all
views in turn. `drawn` runs from the last byte of the answer until the browser has painted (the
first timer after the next frame), `opened` from the navigation to the same moment. Needs chromium.
Results: results/page.json.
"""

import shutil
from urllib.parse import urlencode

import click
from playwright.sync_api import Browser, sync_playwright
from record import medians, record
from sentences import bundled, sentences
from serving import PORT, served

from polyseme.models.registry import bundled_models
from polyseme.settings import BUNDLED

WORKERS = 2
WIDTH, HEIGHT = 1200, 900
LENGTHS = (10, 30, 150, 200, 400)
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
DRAWN = "performance.getEntriesByName('polyseme-drawn')[0]"


def addresses() -> dict[str, str]:
    """The views that are measured."""
    texts = {n: " ".join(words) for n, words in zip(LENGTHS, texts_of(), strict=True)}
    found = {f"look, {n} words": _address("look", text=text) for n, text in texts.items()}
    return {
        **found,
        "look, 30 words as lines": _address("look", text=texts[30], picture="lines"),
        "compare, 2 occurrences": "#compare",
        "steps, a worked example": "#steps",
        "steps, a sentence of 10 words": _address("steps", source="sentence", text=texts[10]),
        "neighbours": "#neighbours",
        "models": "#models",
    }


def texts_of() -> list[list[str]]:
    """A sentence of each length."""
    return sentences(bundled(), LENGTHS)


def _address(view: str, **state: str) -> str:
    return f"#{view}?{urlencode(state)}"


def opened(browser: Browser, address: str) -> tuple[float, float]:
    """Milliseconds from the answer, and from the navigation, to the picture."""
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{PORT}/{address}")
    # A function, not a string: the page's policy forbids what strings need.
    page.wait_for_function("() => performance.getEntriesByName('polyseme-drawn').length > 0")
    drawn = page.evaluate(f"(({DRAWN}).duration)")
    ended = page.evaluate(f"(({DRAWN}).startTime + ({DRAWN}).duration)")
    context.close()
    return float(drawn), float(ended)


@click.command()
@click.option("--rounds", default=15)
def main(rounds: int) -> None:
    """Measure, and keep what was found."""
    views = addresses()
    drawn: dict[str, list[float]] = {view: [] for view in views}
    whole: dict[str, list[float]] = {view: [] for view in views}
    with served(bundled_models(), BUNDLED, WORKERS), sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        version = browser.version
        for _ in range(rounds + 1):
            for view, address in views.items():
                from_answer, from_start = opened(browser, address)
                drawn[view].append(from_answer)
                whole[view].append(from_start)
        browser.close()
    for times in (drawn, whole):
        for values in times.values():
            del values[0]  # the service's own first answers
    found = {"drawn": medians(drawn), "opened": medians(whole)}
    for view in views:
        click.echo(f"{view:<32} {found['drawn'][view]:8.1f} {found['opened'][view]:8.1f}")
    record(
        "page",
        ["playwright", "gunicorn"],
        {
            "chromium": version,
            "rounds": rounds,
            "window": [WIDTH, HEIGHT],
            "median_milliseconds": found,
            "worst_drawn": {view: round(max(values), 1) for view, values in drawn.items()},
        },
    )


if __name__ == "__main__":
    main()
