"""Commands that are killed, interrupted or out of space at any step lose no model."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.kills import BEFORE, OPERATIONS

ROOT = Path(__file__).parents[2]


def results(operation, *options):
    """The results of the steps of a command, which `tests.models.kills` runs."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.models.kills", operation, *options],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if b"strace: " in done.stderr:
        pytest.skip("strace may not attach to a process")
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def require_one_state(operation, found, *, exchange):
    """Check that each step has the models before or after the command, and nothing else."""
    states = (BEFORE, OPERATIONS[operation][1])
    for one in found:
        assert one["running"] == one["started"] == one["afterwards"], one
        assert one["started"] in states, one
        assert (one["listed"], one["left"]) == (0, []), one
        if exchange or operation != "replace":
            assert one["at_once"] == one["started"], one


@pytest.mark.parametrize("way", ["exchange", "fallback"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_command_that_is_killed_loses_no_model(operation, way):
    exchange = way == "exchange"
    found = results(operation, *([] if exchange else ["--fallback"]))
    require_one_state(operation, found, exchange=exchange)
    assert [one["code"] for one in found] == [-9] * (len(found) - 1) + [0]
    finished = [one["started"] == OPERATIONS[operation][1] for one in found]
    assert finished == sorted(finished)  # from one step on, the command has happened
    assert (finished[0], finished[-1]) == (False, True)
    if operation == "replace" and not exchange:
        assert {} in [one["at_once"] for one in found]  # killed between the two renames


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["interrupt", "full"])
@pytest.mark.parametrize("way", ["exchange", "fallback"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_interrupted_command_and_a_full_disk_lose_no_model(operation, way, fault):
    options = ["--fault", fault, *(["--fallback"] if way == "fallback" else [])]
    found = results(operation, *options)
    require_one_state(operation, found, exchange=way == "exchange")
    # The command is undone or, if only its cleanup fails, done.
    for one in found:
        if one["code"] == 0:
            assert one["started"] == OPERATIONS[operation][1], one
    assert {one["code"] for one in found} >= {1, 99}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize(("call", "way"), [("renameat2", []), ("rename", ["--fallback"])])
def test_a_replacement_that_is_killed_at_a_system_call_loses_no_model(call, way):
    found = results("replace", "--strace", call, *way)
    require_one_state("replace", found, exchange=not way)
    assert [one["code"] for one in found] == [-9] * (len(found) - 1) + [0]
    assert len(found) > 1
