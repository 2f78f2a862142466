"""Commands that are killed, interrupted or out of space at any step lose no model.

    python -m tests.models.test_kills replace kill

Each step runs the command in a forked process on a fresh folder with the models `tiny` and `other`.
A step is an audit event of Python that changes or opens a file. The output is a JSON line for each
step.
"""

import errno
import io
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from pathlib import Path

import pytest

from polyseme.cli.main import polyseme
from polyseme.errors import ModelFolderError
from polyseme.models.reader import read_model
from polyseme.models.registry import Registry, find_models
from tests.conftest import ROOT
from tests.models.damage import MANIFEST, paths
from tests.models.versions import version_of, write
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
BEFORE = {"tiny": 1}
FAULTS = {
    "kill": None,
    "interrupt": KeyboardInterrupt(),
    "full": OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
}
EVENTS = {
    *("open", "fcntl.flock", "shutil.rmtree"),
    *("os.mkdir", "os.rename", "os.remove", "os.rmdir"),
}


def run_command(arguments, models):
    """Run `polyseme models` and end the process."""
    os.environ["POLYSEME_MODELS_DIR"] = str(models)
    polyseme.main(["models", *arguments], "polyseme", standalone_mode=True)


def in_child(function):
    """Run a function in a forked process without output; return its process ID."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        function()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except KeyboardInterrupt:
        code = 1
    finally:
        os._exit(code)


def exit_code(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def stopped_at_event(step, command, *, fault):
    """Run a command with a fault at an event; return its exit code."""
    count = itertools.count(1)

    def stop(event, _):
        if event in EVENTS and next(count) == step:
            if fault is None:
                os.kill(os.getpid(), signal.SIGKILL)
            raise fault

    def run():
        sys.addaudithook(stop)
        try:
            command()
        except SystemExit as end:
            if end.code or not fault:
                raise
        if fault and next(count) <= step:
            os._exit(99)

    return exit_code(in_child(run))


def versions(folders):
    """The version of each valid model, 0 for an invalid one, without `other`, which is checked."""
    found = {}
    for name, folder in folders.items():
        try:
            found[name] = version_of(read_model(folder, verify=True))
        except (ModelFolderError, AssertionError):
            found[name] = 0
    assert found.pop("other") == 1
    return found


def check(models, service):
    """What a running service, a new process and the next command find after a step."""
    at_once = versions(find_models([models]))
    names = service.states().keys() - {"other"}
    running = {name: version_of(service.model(name)) for name in names}
    new = Registry([models], "tiny")
    started = {name: version_of(new.model(name)) for name in new.names if name != "other"}
    listed = exit_code(in_child(lambda: run_command(["list"], models)))
    for folder in models.iterdir():
        if folder.name != "other":
            write(folder, 3)
    left = sorted(
        file.name
        for folder in find_models([models]).values()
        for file in folder.iterdir()
        if file not in {folder / MANIFEST, *paths(folder).values()}
    )
    return {
        "at_once": at_once,
        "running": running,
        "started": started,
        "listed": listed,
        "afterwards": versions(find_models([models])),
        "left": left,
    }


def sweep(operation, fault):
    """Yield the result of each step, until the command ends without a fault."""
    arguments = OPERATIONS[operation][0]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        file = folder / "version 2"
        rows = [
            f"{word} {' '.join(str(2 * value) for value in row)}"
            for word, row in zip(WORDS, VECTORS, strict=True)
        ]
        file.write_text("\n".join(rows) + "\n")
        for name in ("tiny", "other"):
            write(folder / "original" / name, 1)
        given = [one.format(file=file) for one in arguments]
        # The first call imports modules, which are no steps of the command.
        shutil.copytree(folder / "original", folder / "warm")
        with suppress(SystemExit), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            run_command(given, folder / "warm")
        with suppress(SystemExit), redirect_stdout(io.StringIO()):
            run_command(["list"], folder / "warm")
        for step in itertools.count(1):
            models = folder / f"models-{step}"
            shutil.copytree(folder / "original", models)
            service = Registry([models], "tiny", preload=True)
            service.load()
            command = partial(run_command, given, models)
            code = stopped_at_event(step, command, fault=FAULTS[fault])
            yield {"step": step, "code": code, **check(models, service)}
            shutil.rmtree(models)
            if code == (0 if fault == "kill" else 99):
                break


def results(operation, fault):
    """The results of the steps of a command, which a process of its own runs."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.models.test_kills", operation, fault],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def require_one_state(operation, found):
    """Check that each step has the models before or after the command, and nothing else."""
    states = (BEFORE, OPERATIONS[operation][1])
    for one in found:
        assert one["at_once"] == one["running"] == one["started"], one
        assert one["started"] in states, one
        assert (one["listed"], one["left"]) == (0, []), one
        assert set(one["afterwards"].values()) <= {3}, one


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_command_that_is_killed_loses_no_model(operation):
    found = results(operation, "kill")
    require_one_state(operation, found)
    assert [one["code"] for one in found] == [-9] * (len(found) - 1) + [0]
    finished = [one["started"] == OPERATIONS[operation][1] for one in found]
    assert finished == sorted(finished)  # from one step on, the command has happened
    assert (finished[0], finished[-1]) == (False, True)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["interrupt", "full"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_interrupted_command_and_a_full_disk_lose_no_model(operation, fault):
    found = results(operation, fault)
    require_one_state(operation, found)
    # The command is undone or, if only its cleanup fails, done.
    for one in found:
        if one["code"] == 0:
            assert one["started"] == OPERATIONS[operation][1], one
    assert {one["code"] for one in found} >= {1, 99}


if __name__ == "__main__":
    for result in sweep(*sys.argv[1:]):
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()
