"""An import that a signal ends, or that fills the disk, leaves nothing behind.

`tests/models/test_kills.py` stops imports at every step.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import PYTHONPATH
from tests.http.service import until
from tests.importing.conftest import TIMEOUT
from tests.importing.files import many, rows
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
    code, out, _ = signalled(tmp_path, reading, signal.SIGHUP, FEW, nohup)
    assert (code, out[:4]) == (0, b"file")


NO_SPACE = "polyseme: The disk of the models is full; --limit or --dtype int8 uses less."
MOUNT_SMALL_DISK = """
mount -t tmpfs -o size="$1" tmpfs "$2" || exit 99
shift 2
"$@"
code=$?
find "$PLACE" -mindepth 1
exit $code
"""
"""Mounts a small private disk at a folder, runs a command, and lists the files on the disk."""


def on_a_small_disk(size, disk, command, **variables):
    """Run a command; return the exit code, the output and the remaining files."""
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c", MOUNT_SMALL_DISK, "sh"]
    done = subprocess.run(
        [*unshare, size, disk, *command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "PLACE": str(disk), **variables},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def small_disk(tmp_path):
    """A folder at which a small disk can be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not shutil.which("unshare") or on_a_small_disk("1m", disk, ["true"])[0]:
        pytest.skip("a small disk cannot be mounted here")
    return disk


@pytest.mark.parametrize(("width", "size"), [(1, "396k"), (100, "1200k")])
def test_a_full_disk_is_reported_and_no_file_remains(tmp_path, small_disk, width, size):
    words = ["x" * 200 + str(number) for number in range(2000)]
    vectors = np.ones((2000, width), np.float32)
    (tmp_path / "file").write_bytes(rows(words, vectors))
    code, out, err = on_a_small_disk(
        size, small_disk, import_command(tmp_path / "file", small_disk)
    )
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == NO_SPACE  # a slow machine prints progress first
