"""The page in a real browser (Debian's chromium), served by a real gunicorn."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect, sync_playwright

from polyseme.engine.attention import Scoring
from polyseme.engine.layers import Layer, Residual
from polyseme.models.reader import bundled_models
from polyseme.settings import BUNDLED
from tests.conftest import Serve, write_over_bundled
from tests.page.driver import FLAGS, HEBREW, KEY, TIMEOUT, Reader
from tests.tiny import SUBWORDS, VECTORS, WORDS, full_layer, normal, write_tiny

CHROMIUM = shutil.which("chromium")
Visit = Callable[..., Reader]


@pytest.fixture(scope="package")
def client(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> httpx.Client:
    """A service whose default model is the bundled one without subwords, so words are unknown."""
    folder = tmp_path_factory.mktemp("models") / BUNDLED
    shutil.copytree(bundled_models() / BUNDLED, folder)
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    del manifest["subwords"]
    for name in ("subwords.npy", "subword_scales.npy", "ngrams.npy"):
        del manifest["files"][name]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return serve(models_dir=folder.parent, workers=1)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for all tests of the page."""
    if CHROMIUM is None:
        pytest.skip("needs Debian's chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        expect.set_options(timeout=TIMEOUT)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """Open the page of a service, a fixture, at an address, in a new window of some width.

    A test fails when a script fails, the content security policy is violated or another host is
    requested.
    """
    windows: list[Reader] = []

    def open_(
        fragment: str = "", *, service: str = "client", width: int = 1200, **options: object
    ) -> Reader:
        size = {"width": width, "height": 900}
        # While a result fades in, axe-core sees little contrast.
        context = browser.new_context(viewport=size, reduced_motion="reduce", **options)
        base = str(request.getfixturevalue(service).base_url).rstrip("/")
        windows.append(Reader(context, base))
        windows[-1].go(fragment)
        return windows[-1]

    yield open_
    for window in windows:
        window.page.unroute_all(behavior="ignoreErrors")
        window.context.close()
    assert [one for window in windows for one in window.wrong] == []


@pytest.fixture(scope="package")
def tiny_models(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> httpx.Client:
    """A service with tiny models: every kind of layer, subwords, Hebrew words."""
    folder = tmp_path_factory.mktemp("models")
    noise = normal(np.random.default_rng(3), len(WORDS))
    ramp = np.linspace(-1, 1, len(WORDS)).astype(np.float32)
    after = full_layer(2, norm="after", residual=Residual("unit", 0.5, 0.25))
    plain = replace(Layer(), residual=Residual("add"), scoring=Scoring(mask="others"))
    norm = full_layer(3).attention_norm
    bare = Layer(residual=Residual("add"), norm="before", attention_norm=norm)
    write_tiny(folder / "deep", layers=[full_layer(1), full_layer(2)], word_bias=noise)
    write_tiny(folder / "parts", subwords=SUBWORDS)
    write_tiny(folder / "small", words=("apple", "bank"), vectors=VECTORS[:2], cased=False)
    write_tiny(folder / "hebrew", words=HEBREW, vectors=VECTORS[:3] + 0.5)
    write_tiny(folder / "norm-before", layers=[full_layer(5), full_layer(1)], word_bias=ramp)
    write_tiny(folder / "norm-after", layers=[full_layer(5), after], word_bias=ramp)
    write_tiny(folder / "plain", layers=[Layer(), plain])
    write_tiny(folder / "bare", layers=[bare])
    return serve(models_dir=folder, model="plain", workers=1)


@pytest.fixture(scope="package")
def several(
    serve: Serve, broken_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> httpx.Client:
    """A service with three models: one is broken, and one has the bundled one as its base."""
    folder = tmp_path_factory.mktemp("several")
    shutil.copytree(broken_models / "broken", folder / "broken")
    write_over_bundled(folder / "second")
    return serve(models_dir=folder, preload_models=True, workers=1)


@pytest.fixture(scope="package")
def port() -> Iterator[int]:
    """The port of a server of pages, which has one origin for each of its names."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="package")
def locked(serve: Serve, port: int) -> httpx.Client:
    """A service that requires a key and lists one origin."""
    return serve(cors_origins=f"http://127.0.0.1:{port}", api_keys=KEY, workers=1)


@pytest.fixture(scope="session")
def axe() -> Axe:
    """The accessibility checker."""
    return Axe()
