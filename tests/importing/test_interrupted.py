"""An import that a signal ends leaves nothing behind.

`tests/models/test_kills.py` stops imports at every step.
"""

import os
import signal
import subprocess
import sys

import pytest

from tests.conftest import PYTHONPATH
from tests.importing.files import many
from tests.signals import default_handling

pytestmark = pytest.mark.slow

CHECKING, READING, WRITING = ("/file", 2), ("/file", 3), ("/models/file/.writing-", 1)
"""Steps of an import: a part of the path of a file, and which time such a file is opened."""
PROGRAM = """
import os, runpy, sys

number, part, left = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def send(event, arguments):
    global left
    if event == "open" and part in str(arguments[0]):
        left -= 1
        if not left:
            os.kill(os.getpid(), number)

sys.argv[1:4] = []
sys.addaudithook(send)
runpy.run_module("polyseme", run_name="__main__")
"""
"""Runs `polyseme` and sends a signal to itself at a step: from outside, the step is soon over."""


def signalled(place, step, number, before=()):
    """Send a signal to an import at a step; return the exit code, the output and the errors."""
    (place / "file").write_bytes(many("glove", 2_000, 10))
    (place / "models").mkdir()
    part, time = step
    step = (str(int(number)), f"{place}{part}", str(time))
    command = [*before, sys.executable, "-c", PROGRAM, *step]
    command += ["models", "import", str(place / "file"), "--models-dir", str(place / "models")]
    with default_handling(number):
        done = subprocess.run(
            [*command, "--no-weights", "--no-subwords"],
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
            capture_output=True,
            check=False,
            timeout=120,
        )
    return done.returncode, done.stdout, done.stderr.decode().splitlines()


@pytest.mark.parametrize(
    ("step", "number", "code"),
    [
        (CHECKING, signal.SIGTERM, 143),
        (CHECKING, signal.SIGHUP, 129),
        (READING, signal.SIGINT, 1),
        (WRITING, signal.SIGINT, 1),
    ],
)
def test_an_interrupted_import_leaves_nothing(tmp_path, step, number, code):
    *found, lines = signalled(tmp_path, step, number)
    assert found == [code, b""]
    others = [line for line in lines if not line.startswith("polyseme: ")]
    assert others in ([], ["", "Aborted!"])
    assert not any((tmp_path / "models").iterdir())


def test_an_import_under_nohup_goes_on(tmp_path):
    nohup = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    code, out, _ = signalled(tmp_path, READING, signal.SIGHUP, nohup)
    assert (code, out[:4]) == (0, b"file")
