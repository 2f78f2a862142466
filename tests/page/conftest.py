"""The page in a real browser (Debian's chromium), served by a real gunicorn."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Request, sync_playwright

from polyseme.engine.attention import Scoring
from polyseme.engine.layers import Layer, Residual
from polyseme.models.registry import bundled_models
from polyseme.settings import BUNDLED
from tests.conftest import Serve
from tests.page.attention import HEBREW
from tests.page.reader import FLAGS, Reader
from tests.tiny import SUBWORDS, VECTORS, WORDS, full_layer, normal, write_tiny

CHROMIUM = shutil.which("chromium")
Open = Callable[..., Reader]


@pytest.fixture(scope="package")
def client(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> httpx.Client:
    """A service whose default model is the bundled one without subwords, so words are unknown."""
    folder = tmp_path_factory.mktemp("models") / BUNDLED
    shutil.copytree(bundled_models() / BUNDLED, folder)
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    del manifest["subwords"]
    for name in ("subwords.npy", "subword_scales.npy", "ngrams.npy"):
        del manifest["files"][name]
        (folder / name).unlink()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return serve(models_dir=folder.parent)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for all tests of the page."""
    if CHROMIUM is None:
        pytest.skip("needs Debian's chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Window:
    """A page of the browser that records errors."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.page = context.new_page()
        self.page.set_default_timeout(20_000)
        self.host = ""
        self.wrong: list[str] = []
        self.reusable = False
        """Whether the next test may use the loaded page."""
        self.page.on("request", self._check_host)
        self.page.on("pageerror", lambda error: self.wrong.append(f"script: {error}"))
        self.page.on(
            "console",
            lambda message: (
                message.type in {"error", "warning"}
                # Chromium logs each status over 399, which tests of errors expect.
                and "Failed to load resource" not in message.text
                and self.wrong.append(f"console: {message.text}")
            ),
        )

    def _check_host(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in {"http", "https"} and parts.netloc != self.host:
            self.wrong.append(f"request to another host: {request.url}")

    def clear(self) -> None:
        """Make the window like a new one."""
        self.page.unroute_all(behavior="ignoreErrors")
        self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        self.page.goto("about:blank")
        self.context.clear_permissions()
        self.reusable = False


@pytest.fixture(scope="package")
def shared_window(browser: Browser) -> Iterator[Window]:
    """A window that tests share, because creating one takes longer than most tests."""
    context = browser.new_context(accept_downloads=True)
    yield Window(context)
    context.close()


@pytest.fixture
def open_page(browser: Browser, shared_window: Window, client: httpx.Client) -> Iterator[Open]:
    """Open the page at an address, in a window of some width and theme.

    A test fails when a script fails, the content security policy is violated or another host is
    requested. A `fresh` window, one with options and a second one have a context of their own.
    """
    windows: list[Window] = []

    def open_(
        fragment: str = "",
        *,
        service: httpx.Client = client,
        width: int = 1200,
        height: int = 900,
        theme: str = "light",
        fresh: bool = False,
        **options: object,
    ) -> Reader:
        own = fresh or options or windows
        window = Window(browser.new_context(**options)) if own else shared_window
        windows.append(window)
        if window.reusable:
            window.clear()
        window.wrong = []
        window.host = urlsplit(str(service.base_url)).netloc
        window.page.set_viewport_size({"width": width, "height": height})
        if "forced_colors" not in options:
            window.page.emulate_media(color_scheme=theme)
        reader = Reader(window.page, str(service.base_url).rstrip("/"), window.wrong)
        reader.go(fragment)
        return reader

    yield open_
    for window in windows:
        if window is shared_window:
            window.clear()
        else:
            window.context.close()
    assert [one for window in windows for one in window.wrong] == []


@pytest.fixture
def visit(shared_window: Window, client: httpx.Client) -> Iterator[Open]:
    """Go to an address without loading the page if the previous test visited the same service.

    Loading the page takes longer than most tests. This is for tests that change only the address:
    they open no details, type nothing and intercept no request.
    """
    window = shared_window

    def visit_(
        fragment: str,
        *,
        service: httpx.Client = client,
        width: int = 1200,
        theme: str = "light",
    ) -> Reader:
        base = str(service.base_url).rstrip("/")
        if window.reusable and not window.page.url.startswith(f"{base}/#"):
            window.clear()
        window.wrong = []
        window.host = urlsplit(base).netloc
        window.page.set_viewport_size({"width": width, "height": 900})
        window.page.emulate_media(color_scheme=theme)
        window.page.mouse.move(0, 0)
        reader = Reader(window.page, base, window.wrong)
        reader.go(fragment)
        window.reusable = True
        return reader

    yield visit_
    assert window.wrong == []


@pytest.fixture(scope="package")
def tiny_models(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> httpx.Client:
    """A service with tiny models: every kind of layer, many heads, subwords, Hebrew words."""
    folder = tmp_path_factory.mktemp("models")
    noise = normal(np.random.default_rng(3), len(WORDS))
    ramp = np.linspace(-1, 1, len(WORDS)).astype(np.float32)
    zero = np.zeros(len(WORDS), np.float32)
    after = full_layer(2, norm="after", residual=Residual("unit", 0.5, 0.25))
    plain = replace(Layer(), residual=Residual("add"), scoring=Scoring(mask="others"))
    norm = full_layer(3).attention_norm
    bare = Layer(residual=Residual("add"), norm="before", attention_norm=norm)
    write_tiny(folder / "deep", layers=[full_layer(1), full_layer(2)], word_bias=noise)
    write_tiny(folder / "four", layers=[heads_layer(3, 4)])
    write_tiny(folder / "many", layers=[heads_layer(seed, 12) for seed in range(12)])
    write_tiny(folder / "parts", subwords=SUBWORDS)
    write_tiny(folder / "small", words=("apple", "bank"), vectors=VECTORS[:2], cased=False)
    write_tiny(folder / "hebrew", words=HEBREW, vectors=VECTORS[:3] + 0.5)
    write_tiny(folder / "norm-before", layers=[full_layer(5), full_layer(1)], word_bias=ramp)
    write_tiny(folder / "norm-after", layers=[full_layer(5), after], word_bias=ramp)
    write_tiny(folder / "plain", layers=[Layer(), plain])
    write_tiny(folder / "bare", layers=[bare])
    write_tiny(folder / "full", layers=[full_layer(1)], word_bias=zero)
    return serve(models_dir=folder, model="plain", workers=1)


def heads_layer(seed: int, heads: int) -> Layer:
    """A layer with a number of heads."""
    rng = np.random.default_rng(seed)
    scoring = Scoring(True, "other-words", normal(rng, heads, 13))
    return full_layer(seed, heads=heads, scoring=scoring)


@pytest.fixture(scope="session")
def axe() -> Axe:
    """The accessibility checker."""
    return Axe()
