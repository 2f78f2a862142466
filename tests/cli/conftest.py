"""The command `polyseme`, in this process or its own, with a folder of models."""

import os
import subprocess
import sys
import traceback
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner

from polyseme.cli.main import polyseme as command
from tests.models.damage import path
from tests.tiny import full_layer, write_tiny


class Done(NamedTuple):
    """The result of a command."""

    returncode: int
    stdout: bytes
    stderr: bytes


def environment(models_dir, variables):
    """The variables of a command; a value of None removes one."""
    unset = dict.fromkeys(name for name in os.environ if name.startswith("POLYSEME_"))
    folder = {} if models_dir is None else {"POLYSEME_MODELS_DIR": str(models_dir)}
    return {**unset, **folder, **variables}


def run(*arguments, models_dir=None, stdin="", **variables):
    """Run `polyseme` in this process; an exception is always a failure."""
    runner = CliRunner(env=environment(models_dir, variables))
    done = runner.invoke(command, list(map(str, arguments)), input=stdin, prog_name="polyseme")
    if done.exception and not isinstance(done.exception, SystemExit):
        pytest.fail("".join(traceback.format_exception(done.exception)), pytrace=False)
    return Done(done.exit_code, done.stdout_bytes, done.stderr_bytes)


def run_process(*arguments, models_dir=None, stdin=b"", python=(), **variables):
    """Run `polyseme` in its own process; a traceback is a failure.

    `python` has the arguments of Python in place of `-m polyseme`.
    """
    env = {**os.environ, **environment(models_dir, variables)}
    done = subprocess.run(
        [sys.executable, *(python or ("-m", "polyseme")), *map(os.fsencode, map(str, arguments))],
        input=stdin,
        capture_output=True,
        timeout=120,
        env={"LC_ALL": "C.UTF-8", **{k: v for k, v in env.items() if v is not None}},
        check=False,
    )
    if b"Traceback" in done.stdout + done.stderr:
        pytest.fail(done.stderr.decode().splitlines()[-1], pytrace=False)
    return Done(done.returncode, done.stdout, done.stderr)


def without(package):
    """The arguments of Python that run `polyseme` as if a package were not installed."""
    code = (
        "import sys\n"
        "from importlib.machinery import PathFinder\n"
        "find = PathFinder.find_spec\n"
        "PathFinder.find_spec = classmethod(lambda cls, name, *more:"
        f" None if name == {package!r} else find(name, *more))\n"
        "from polyseme.__main__ import main\n"
        "main()"
    )
    return ("-c", code)


@pytest.fixture(scope="session")
def models_dir(tmp_path_factory):
    """The models `tiny` and `broken`, `unreadable` with an invalid manifest, and no model."""
    folder = tmp_path_factory.mktemp("models")
    bias = np.linspace(-1, 1, 11)
    write_tiny(folder / "tiny", layers=[full_layer(1), full_layer(2)], word_bias=bias)
    vectors = path(write_tiny(folder / "broken"), "vectors.npy")
    vectors.write_bytes(vectors.read_bytes()[:-4])
    (write_tiny(folder / "unreadable") / "manifest.json").write_text("{}")
    (folder / "photos").mkdir()
    return folder


@pytest.fixture(scope="session")
def polyseme(models_dir):
    """`polyseme` in this process with these models; `tiny` is the default."""
    return partial(run, models_dir=models_dir, POLYSEME_MODEL="tiny")
