"""podman on machines without systemd, bridge networks and cgroups version 2."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
