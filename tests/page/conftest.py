"""The page in a real browser (Debian's chromium), in front of a real gunicorn."""

import shutil
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, sync_playwright

from tests.page.reader import FLAGS, Reader

CHROMIUM = shutil.which("chromium")
Open = Callable[..., Reader]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for all tests of the page."""
    if CHROMIUM is None:
        pytest.skip("needs Debian's chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser, client: httpx.Client) -> Iterator[Open]:
    """Open the page at an address, in a window of some width and colours.

    What no test expects is an error: a script that fails, a policy that is broken, a request to
    another host.
    """
    contexts = []
    wrong: list[str] = []

    def open_(
        fragment: str = "",
        *,
        service: httpx.Client = client,
        width: int = 1200,
        height: int = 900,
        colours: str = "light",
        **options: object,
    ) -> Reader:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=colours,
            accept_downloads=True,
            **options,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        watch(page, service, wrong)
        reader = Reader(page, str(service.base_url).rstrip("/"), wrong)
        reader.go(fragment)
        return reader

    yield open_
    for context in contexts:
        context.close()
    assert wrong == []


def watch(page: Page, service: httpx.Client, wrong: list[str]) -> None:
    """Note what goes wrong in a page."""
    host = urlsplit(str(service.base_url)).netloc

    def asked(request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in {"http", "https"} and parts.netloc != host:
            wrong.append(f"asked another host: {request.url}")

    page.on("request", asked)
    page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
    page.on(
        "console",
        lambda message: (
            message.type in {"error", "warning"}
            # The browser notes each status over 399; tests of refusals expect those.
            and "Failed to load resource" not in message.text
            and wrong.append(f"console: {message.text}")
        ),
    )


@pytest.fixture(scope="session")
def axe() -> Axe:
    """The accessibility checker."""
    return Axe()
