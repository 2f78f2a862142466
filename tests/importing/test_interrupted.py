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
"""Runs `polyseme` and sends a signal to itself when a file is opened a number of times."""
NOHUP = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh")


@pytest.mark.parametrize(
    ("before", "part", "time", "number", "code"),
    [
        ((), "/file", 2, signal.SIGTERM, 143),
        ((), "/file", 2, signal.SIGHUP, 129),
        ((), "/file", 3, signal.SIGINT, 1),
        ((), "/models/file/.writing-", 1, signal.SIGINT, 1),
        (NOHUP, "/file", 3, signal.SIGHUP, 0),
    ],
)
def test_an_interrupted_import_leaves_nothing(tmp_path, before, part, time, number, code):
    (tmp_path / "file").write_bytes(many("glove", 2_000, 10))
    models = tmp_path / "models"
    models.mkdir()
    program = (sys.executable, "-c", PROGRAM, str(int(number)), f"{tmp_path}{part}", str(time))
    command = ("models", "import", tmp_path / "file", "--models-dir", models)
    with default_handling(number):
        done = subprocess.run(
            [*before, *program, *command, "--no-weights", "--no-subwords"],
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
            capture_output=True,
            check=False,
            timeout=120,
        )
    assert (done.returncode, done.stdout[:4]) == (code, b"" if code else b"file")
    lines = done.stderr.decode().splitlines()
    others = [line for line in lines if not line.startswith("polyseme: ")]
    assert others in ([], ["", "Aborted!"])
    assert any(models.iterdir()) == (code == 0)
