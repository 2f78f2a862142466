"""Fixtures of the container tests: the engine and the images."""

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.containers.engine import ENGINE, IMAGE, ROOT, Podman


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment variables with podman's configuration."""
    configuration = tmp_path_factory.mktemp("engine") / "containers.conf"
    configuration.write_text(ENGINE)
    return {**os.environ, "CONTAINERS_CONF": str(configuration)}


@pytest.fixture(scope="session")
def podman(engine: dict[str, str]) -> Podman:
    """A function that runs podman and returns the finished process."""

    def run(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["podman", *arguments],
            env=engine,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done

    return run


def _build(*command: object, **environment: str) -> None:
    """Run a script that builds images, one at a time over all test processes."""
    with (Path(tempfile.gettempdir()) / "polyseme-images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [str(part) for part in command],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


@pytest.fixture(scope="session")
def image() -> str:
    """The image, built by the script of `make image`."""
    _build(ROOT / "containers/build", TAG="test")
    return IMAGE


@pytest.fixture(scope="session")
def compose_images(image: str) -> str:
    """The other images of the compose file, or stand-ins from Debian's packages."""
    _build(ROOT / "containers/stand-ins")
    return image
