"""Commands that are killed or out of space at any step lose no model.

    python -m tests.models.test_kills replace kill

Each step runs the command in a forked process on a fresh folder with the models `tiny` and `other`.
A step is an audit event of Python that changes or opens a file. The output is a JSON line for each
step.
"""

import errno
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from polyseme.cli.main import polyseme
from polyseme.models.reader import read_model
from polyseme.models.registry import Registry, find_models
from tests.conftest import ROOT
from tests.importing.files import rows
from tests.models.damage import MANIFEST, paths, version_of, write
from tests.tiny import VECTORS, WORDS

# Weights and subwords take time and add files that are written like the others.
IMPORT = ("import", "{file}", "--no-weights", "--no-subwords", "--name")
OPERATIONS = {
    "import": ((*IMPORT, "new"), {"new": 2, "tiny": 1}),
    "replace": ((*IMPORT, "tiny", "--replace"), {"tiny": 2}),
    "rename": (("rename", "tiny", "new"), {"new": 1}),
    "remove": (("remove", "tiny", "--yes"), {}),
}
"""The arguments of `polyseme models`, and the versions of the models afterwards."""
FAULTS = {"kill": None, "full": OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))}
EVENTS = {
    *("open", "fcntl.flock", "shutil.rmtree"),
    *("os.mkdir", "os.rename", "os.remove", "os.rmdir"),
}


def run_command(arguments, models):
    """Run `polyseme models` without output; return its exit code."""
    arguments = ["models", *arguments, "--models-dir", str(models)]
    return CliRunner().invoke(polyseme, arguments, catch_exceptions=False).exit_code


def stopped_at_event(step, arguments, models, fault):
    """Run a command in a forked process with a fault at an event; return its exit code.

    It is None if the command ends before the event.
    """
    if child := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return None if code == 99 else code
    count = itertools.count(1)

    def stop(event, _):
        if event in EVENTS and next(count) == step:
            if fault is None:
                os.kill(os.getpid(), signal.SIGKILL)
            raise fault

    code = 70
    try:
        sys.addaudithook(stop)
        code = run_command(arguments, models)
        code = 99 if next(count) <= step else code
    finally:
        os._exit(code)


def versions(models):
    """The version of each model, which is valid."""
    folders = find_models([models])
    return {name: version_of(read_model(f, verify=True)) for name, f in folders.items()}


def check(models, service):
    """The models after a step, which a service that runs has too, and the next command replaces."""
    after = versions(models)
    assert {name: version_of(service.model(name)) for name in service.states()} == after
    assert after.pop("other") == 1
    for folder in {*models.iterdir()} - {models / "other"}:
        write(folder, 3)
        assert {*folder.iterdir()} == {folder / MANIFEST, *paths(folder).values()}
    return after


def sweep(operation, fault):
    """Yield the exit code and the models of each step, until the command ends without a fault."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "version 2").write_bytes(rows(WORDS, 2 * VECTORS))
        arguments = [one.format(file=folder / "version 2") for one in OPERATIONS[operation][0]]
        for name in ("tiny", "other"):
            write(folder / "original" / name, 1)
        # The first call imports modules, which are no steps of the command.
        shutil.copytree(folder / "original", folder / "warm")
        run_command(arguments, folder / "warm")
        code = step = 0
        while code is not None:
            step += 1
            models = shutil.copytree(folder / "original", folder / f"models-{step}")
            service = Registry([models], "tiny", preload=True)
            service.load()
            code = stopped_at_event(step, arguments, models, FAULTS[fault])
            yield code, check(models, service)
            shutil.rmtree(models)


@pytest.mark.parametrize("fault", ["kill", pytest.param("full", marks=pytest.mark.slow)])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_command_that_is_stopped_at_any_step_loses_no_model(operation, fault):
    done = subprocess.run(
        [sys.executable, "-m", "tests.models.test_kills", operation, fault],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    *steps, (code, end) = map(json.loads, done.stdout.splitlines())
    before, after = {"tiny": 1}, OPERATIONS[operation][1]
    assert (code, end) == (None, after)
    finished = [models == after for _, models in steps]
    assert all(models in (before, after) for _, models in steps)
    assert not finished[0]
    if fault == "kill":
        assert {code for code, _ in steps} == {-signal.SIGKILL}
        assert finished == sorted(finished)  # from one step on, the command has happened
    else:  # the command is undone or, if only its cleanup fails, done
        assert {code for code, _ in steps} <= {0, 1}
        assert 1 in {code for code, _ in steps}
        assert all(models == after for code, models in steps if code == 0)


if __name__ == "__main__":
    for result in sweep(*sys.argv[1:]):
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()
