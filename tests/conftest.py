"""Shared fixtures: the bundled model and real services."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from itertools import cycle, islice
from pathlib import Path
from socket import socket
from typing import Any

import httpx
import pytest
from xdist.scheduler import LoadFileScheduling

from polyseme.models.manifest import MANIFEST
from polyseme.models.model import Model
from polyseme.models.reader import bundled_models, read_manifest, read_model
from polyseme.models.registry import find_models
from polyseme.settings import BUNDLED

BUNDLED_NAMES = sorted(find_models([bundled_models()]))
"""The names of the bundled models."""
Serve = Callable[..., httpx.Client]


# Browsers do not connect to port 10080.
_PORTS = cycle(range(11_000, 31_000))
next(islice(_PORTS, os.getpid() * 997 % 20_000, None))


def free_port() -> int:
    """Return a TCP port on which nothing listens.

    A port that the system chooses could be given to another program before it is used. These ports
    are below those that it chooses from, and each process of the tests begins at another one.
    """
    while True:
        port = next(_PORTS)
        with closing(socket()) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


SLOWEST = ("container", "wheel", "faults", "clients")
"""Markers of the files that take longest."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest files first, so that parallel processes end together.

    The page's tests follow in a row, because a process keeps its browser for the next file.
    """

    def rank(item: pytest.Item) -> int:
        if any(mark.name in SLOWEST for mark in item.iter_markers()):
            return 0
        return 1 if item.nodeid.startswith("tests/page/") else 2

    items.sort(key=rank)


class WholeFiles(LoadFileScheduling):
    """Give each process whole files, and all container tests to one, because they share an image.

    `--dist loadgroup` of xdist 3.8 does not see groups with pytest 9.2, which changed node IDs.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "containers" if file.startswith("tests/containers/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> WholeFiles:
    """Return the scheduler of parallel runs, for any `--dist`."""
    return WholeFiles(config, log)


@pytest.fixture(scope="session", autouse=True)
def _hide_models_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hide the models in the user's data directory from the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


ROOT = Path(__file__).parents[1]
PYTHONPATH = os.pathsep.join(map(str, (ROOT / "service", ROOT / "lab", ROOT)))
"""The value for child processes, which then import this tree even if another one is installed."""
COMMAND = (sys.executable, "-m", "polyseme")


def start(
    log: Path, command: Sequence[str | Path] = COMMAND, **settings: object
) -> tuple[subprocess.Popen[bytes], str]:
    """Run `polyseme serve` and wait until it responds; return the process and its address."""
    port = free_port()
    # There is no load balancer that needs time to notice the shutdown.
    settings = {"workers": 2, "drain_seconds": 0, **settings}
    environment = {f"POLYSEME_{name.upper()}": str(value) for name, value in settings.items()}
    if command is COMMAND:
        # This tree, even if another one is installed.
        environment["PYTHONPATH"] = str(ROOT / "service")
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "serve", "--port", str(port)],
            cwd=log.parent,
            env={**os.environ, **environment},
            stdout=out,
            stderr=out,
        )
    address = f"http://127.0.0.1:{port}"
    end = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < end:
        try:
            httpx.get(f"{address}/livez", timeout=5)
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return process, address
    process.kill()
    process.wait()
    raise AssertionError(f"the service did not start:\n{log.read_text()}")


def output_of(*command: str | Path, **options: Any) -> str:
    """Run a program in this tree, and return what it prints; if it fails, so does the test."""
    options = {"cwd": ROOT, "stderr": subprocess.PIPE, **options}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, **options)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


def printed(program: str, service: subprocess.Popen[bytes], **options: Any) -> str:
    """Run a program of a page that uses a service, stop the service, and return the output."""
    try:
        return output_of(sys.executable, "-W", "ignore", "-c", program, **options)
    finally:
        service.terminate()
        service.wait(30)


def default_handling(number: int) -> AbstractContextManager[None]:
    """Give programs that start in the block the default handling of a signal.

    `nohup` and a shell's `&` start the tests with ignored signals, which child processes inherit.
    """
    # A started program resets a signal with a handler to its default, and an ignored one not.
    return handler_of(number, lambda *_: None)


@contextmanager
def handler_of(number: int, handler: Callable[..., object]) -> Iterator[None]:
    """Handle a signal with a function in the block."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """A function that starts a service with some settings, once a session, and returns a client."""
    running: dict[str, tuple[subprocess.Popen[bytes], httpx.Client]] = {}

    def get(**settings: object) -> httpx.Client:
        key = repr(sorted(settings.items()))
        if key not in running:
            log = tmp_path_factory.mktemp("serve") / "log"
            process, address = start(log, **settings)
            running[key] = process, httpx.Client(base_url=address, timeout=60)
        return running[key][1]

    yield get
    for process, client in running.values():
        client.close()
        process.terminate()
    for process, _ in running.values():
        process.wait(30)


@pytest.fixture(scope="session")
def client(serve: Serve) -> httpx.Client:
    """A client of the service with its default settings."""
    return serve()


@pytest.fixture(scope="session")
def bundled() -> Model:
    """The bundled model."""
    return read_model(bundled_models() / BUNDLED)


def write_over_bundled(folder: Path) -> Path:
    """Write the bundled model without its tables, which are those of its base: itself."""
    folder.mkdir(parents=True)
    source = bundled_models() / BUNDLED
    for name in ("attention.safetensors", "senses.safetensors"):
        shutil.copy(source / read_manifest(source).stored_name(name), folder)
    manifest = json.loads((source / MANIFEST).read_text())
    manifest |= {"name": folder.name, "base": BUNDLED}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


@pytest.fixture(scope="session")
def models_over_bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model `upper`, which is the bundled model and has it as its base."""
    return write_over_bundled(tmp_path_factory.mktemp("over") / "upper").parent


@pytest.fixture(scope="session")
def broken_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one model, `broken`, whose vectors are truncated."""
    folder = tmp_path_factory.mktemp("models") / "broken"
    shutil.copytree(bundled_models() / BUNDLED, folder)
    manifest = (folder / "manifest.json").read_text().replace(f'"{BUNDLED}"', '"broken"')
    (folder / "manifest.json").write_text(manifest)
    (vectors,) = folder.glob("vectors-*.npy")
    os.truncate(vectors, 1000)
    return folder.parent
