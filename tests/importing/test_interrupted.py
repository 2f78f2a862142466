"""An import that a signal ends leaves nothing behind.

`tests/models/test_kills.py` stops imports at every step.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PYTHONPATH
from tests.http.service import until
from tests.importing.conftest import TIMEOUT
from tests.importing.files import many
from tests.signals import default_handling

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc"),
]


def import_command(file, models):
    command = [sys.executable, "-m", "polyseme", "models", "import", file, "--models-dir", models]
    return [*map(str, command), "--no-weights", "--no-subwords"]


def checking(pid, place):
    """Whether the first pass over the file has begun."""
    return str(place / "file") in map(os.path.realpath, Path(f"/proc/{pid}/fd").glob("*"))


def reading(_pid, place):
    """Whether the second pass has begun."""
    return " words of dimension " in (place / "err").read_text()


def writing(_pid, place):
    """Whether the model is being written."""
    return any(place.glob("models/file/.*"))


def signalled(place, stage, number, content, before=()):
    """Send a signal to an import at a stage; return the exit code, the output and the errors."""
    (place / "file").write_bytes(many(*content))
    (place / "models").mkdir()
    with (place / "err").open("wb") as err, default_handling(number):
        process = subprocess.Popen(
            [*before, *import_command(place / "file", place / "models")],
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
            stdout=subprocess.PIPE,
            stderr=err,
        )
    until(lambda: process.poll() is not None or stage(process.pid, place))
    assert process.poll() is None, (place / "err").read_text()
    process.send_signal(number)
    out, _ = process.communicate(timeout=TIMEOUT)
    return process.returncode, out, (place / "err").read_text().splitlines()


FEW, MANY = ("glove", 15_000, 100), ("glove", 60_000, 100)
NARROW = ("word2vec-binary", 60_000, 10)  # many words, whose index takes a while


@pytest.mark.parametrize(
    ("stage", "number", "code", "content"),
    [
        (checking, signal.SIGTERM, 143, FEW),
        (checking, signal.SIGHUP, 129, FEW),
        (reading, signal.SIGINT, 1, MANY),
        (writing, signal.SIGINT, 1, NARROW),
    ],
)
def test_an_interrupted_import_leaves_nothing(tmp_path, stage, number, code, content):
    *found, lines = signalled(tmp_path, stage, number, content)
    assert found == [code, b""]
    others = [line for line in lines if not line.startswith("polyseme: ")]
    assert others in ([], ["", "Aborted!"])
    assert not any((tmp_path / "models").iterdir())


def test_an_import_under_nohup_goes_on(tmp_path):
    nohup = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    code, out, _ = signalled(tmp_path, reading, signal.SIGHUP, MANY, nohup)
    assert (code, out[:4]) == (0, b"file")
