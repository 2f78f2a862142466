"""Measure the time until the page has drawn a view, from the navigation and from the response.

    python benchmarks/page.py [--rounds 15]

Every view except Senses opens in a new window of chromium with an empty cache, in turn. `drawn`
is the time from the last byte of the response until the browser has painted (the first timer after
the next frame), `opened` the time from the navigation to the same moment. Needs chromium. Results:
results/page.json.
"""

import shutil
from urllib.parse import urlencode

import click
from playwright.sync_api import Browser, sync_playwright
from record import medians, record
from sentences import sentences
from serving import PORT, served

from polyseme.models.reader import bundled_models
from polyseme.settings import BUNDLED

WORKERS = 2
WIDTH, HEIGHT = 1200, 900
LENGTHS = (10, 30, 150, 200, 400)
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
DRAWN = "performance.getEntriesByName('polyseme-drawn')[0]"


def addresses() -> dict[str, str]:
    """Return the URL fragments of the views."""
    texts = {len(words): " ".join(words) for words in sentences(LENGTHS)}
    return {
        **{f"attention, {n} words": _address("attention", text=t) for n, t in texts.items()},
        "attention, 30 words as lines": _address("attention", text=texts[30], picture="lines"),
        "compare, 2 occurrences": "#compare",
        "steps, a worked example": "#steps",
        "steps, a sentence of 10 words": _address("steps", source="sentence", text=texts[10]),
        "neighbors": "#neighbors",
        "models": "#models",
    }


def _address(view: str, **state: str) -> str:
    return f"#{view}?{urlencode(state)}"


def opened(browser: Browser, address: str) -> tuple[float, float]:
    """Return the milliseconds from the response, and from the navigation, to the drawn view."""
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{PORT}/{address}")
    # A function, not an expression: the page's content security policy forbids eval.
    page.wait_for_function("() => performance.getEntriesByName('polyseme-drawn').length > 0")
    drawn = page.evaluate(f"(({DRAWN}).duration)")
    ended = page.evaluate(f"(({DRAWN}).startTime + ({DRAWN}).duration)")
    context.close()
    return float(drawn), float(ended)


@click.command()
@click.option("--rounds", default=15)
def main(rounds: int) -> None:
    """Run the benchmark."""
    views = addresses()
    drawn: dict[str, list[float]] = {view: [] for view in views}
    whole: dict[str, list[float]] = {view: [] for view in views}
    with served(bundled_models(), BUNDLED, WORKERS), sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        version = browser.version
        for _ in range(rounds + 1):
            for view, address in views.items():
                from_response, from_start = opened(browser, address)
                drawn[view].append(from_response)
                whole[view].append(from_start)
        browser.close()
    for times in (drawn, whole):
        for values in times.values():
            del values[0]  # the service's first responses
    middle = {"drawn": medians(drawn), "opened": medians(whole)}
    for view in views:
        click.echo(f"{view:<32} {middle['drawn'][view]:8.1f} {middle['opened'][view]:8.1f}")
    record(
        "page",
        ["playwright", "gunicorn"],
        {
            "chromium": version,
            "rounds": rounds,
            "window": [WIDTH, HEIGHT],
            "median_milliseconds": middle,
            "worst_drawn": {view: round(max(values), 1) for view, values in drawn.items()},
        },
    )


if __name__ == "__main__":
    main()
