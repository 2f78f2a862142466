"""Environments of third-party clients, each with its own versions of packages.

`openai.txt` and the files beside it list the packages; uv creates an environment once, in seconds.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.conftest import ROOT

_FOLDER = ROOT / "build" / "environments"
_SECONDS = 900


@cache
def python_of(name: str) -> Path:
    """The Python of an environment, which is created if it does not exist."""
    wanted = Path(__file__).with_name(f"{name}.txt")
    key = hashlib.sha256(wanted.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = _FOLDER / f"{name}-{key}"
    if not folder.is_dir():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_FOLDER) as made:
            _uv("venv", "--relocatable", "--python", sys.executable, f"{made}/it")
            _uv("pip", "install", "--python", f"{made}/it/bin/python", "-r", str(wanted))
            # Another test process may have created it.
            if not folder.is_dir():
                shutil.move(f"{made}/it", folder)
    return folder / "bin" / "python"


def run_in(name: str, script: str, *arguments: str, seconds: float = 120) -> str:
    """Run a script of this folder in an environment; its standard output."""
    return output(python_of(name), Path(__file__).with_name(script), *arguments, seconds=seconds)


def output(
    *command: str | Path, folder: Path | None = None, seconds: float = 300, **environment: str
) -> str:
    """Run a program, which must succeed; its standard output."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _uv(*arguments: str) -> None:
    command = [sys.executable, "-m", "uv", "--quiet", *arguments]
    # Sources of wheels for pip, such as a PyTorch without GPU libraries.
    found = os.environ.get("PIP_FIND_LINKS", "")
    environment = {"UV_FIND_LINKS": ",".join(found.split()), **os.environ}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_SECONDS, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
