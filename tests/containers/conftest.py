"""podman without systemd, bridge networks and cgroups version 2, and the images of the tests."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT

IMAGE = "localhost/polyseme:test"
ENGINE = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
netns = "host"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
Podman = Callable[..., subprocess.CompletedProcess[str]]


def _missing() -> str:
    programs = [name for name in ("buildah", "podman", "runc") if shutil.which(name) is None]
    if programs:
        return f"needs {', '.join(programs)}"
    return "" if os.geteuid() == 0 else "needs root"


NEEDS_AN_ENGINE = [
    pytest.mark.container,
    pytest.mark.skipif(bool(_missing()), reason=_missing() or "nothing is missing"),
]
"""The `pytestmark` of a file whose tests run containers."""


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
