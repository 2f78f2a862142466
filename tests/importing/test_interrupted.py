"""An interrupted or failed import leaves nothing behind."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import PYTHONPATH
from tests.importing.conftest import TIMEOUT, wait_for
from tests.importing.files import many, rows

DEFAULT_SIGNALS = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Runs a command with default signal handling, even if the parent ignores signals."""
HAS_PROC = Path("/proc/self/fd").exists()


class ImportProcess:
    """The running command, in its own session of processes. `wrapper` is a command that runs it."""

    def __init__(self, place, file, *options, wrapper=()):
        self.models, self.scratch = place / "the-models", place / "the-scratch"
        self.models.mkdir(exist_ok=True)
        self.scratch.mkdir(exist_ok=True)
        self.file, self.log = file, place / "err"
        command = [
            sys.executable,
            "-c",
            DEFAULT_SIGNALS,
            *wrapper,
            sys.executable,
            "-m",
            "polyseme",
        ]
        command += ["models", "import", file, "--name", "big", "--models-dir", self.models]
        command += ["--no-weights", "--no-subwords", *options]
        with self.log.open("wb") as err:
            self.process = subprocess.Popen(
                list(map(str, command)),
                stdout=subprocess.PIPE,
                stderr=err,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "TMPDIR": str(self.scratch), "PYTHONPATH": PYTHONPATH},
                start_new_session=True,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.processes():
            os.kill(one, 9)
        self.process.wait()
        self.process.stdout.close()

    def wait_for(self, stage):
        """Wait for a stage of the import; fail if it ends before."""
        wait_for(lambda: stage(self) or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()

    def end(self):
        """Wait for the end; return the exit code, the output and the errors."""
        out, _ = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, out.decode(), self.log.read_text()

    def processes(self):
        """The processes of the session that still run."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, _, session = stat.read_text().rsplit(")", 1)[1].split()[:4]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(session) == self.process.pid and state != "Z":
                found.append(int(stat.parent.name))
        return found


def open_files(pid):
    """The files that a process has open, as the kernel names them."""
    names = []
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            names.append(str(link.readlink()))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return names


def checking(work):
    """Whether the first pass over the file has begun."""
    return str(work.file) in open_files(work.process.pid)


def reading(work):
    """Whether the second pass has begun."""
    return " words of dimension " in work.log.read_text()


def writing(work):
    """Whether the model is being written."""
    return any(work.models.glob("big/.*"))


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_PROC, reason="the tests watch processes in Linux's /proc"),
]

CODES = {signal.SIGINT: 1, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """Files that are large enough for an interruption at each stage."""
    place = tmp_path_factory.mktemp("large")
    contents = {
        checking: many("glove", 15_000, 100),
        reading: many("glove", 60_000, 100),
        writing: many("word2vec-binary", 60_000, 10),  # many words, whose index takes a while
    }
    paths = {}
    for stage, content in contents.items():
        paths[stage] = place / stage.__name__
        paths[stage].write_bytes(content)
    return paths


def interrupt(work, stage, number, *, group):
    """Send a signal at a stage: to the process, or as a terminal does, to its process group."""
    work.wait_for(stage)
    (os.killpg if group else os.kill)(work.process.pid, number)
    code, out, err = work.end()
    assert (code, out) == (CODES[number], "")
    wait_for(lambda: not work.processes())
    assert not any(work.scratch.iterdir())
    assert "Traceback" not in err
    if number != signal.SIGKILL:
        assert [line for line in err.splitlines() if not line.startswith("polyseme: ")] in (
            [],
            ["", "Aborted!"],
        )
    return err


@pytest.mark.parametrize(
    ("stage", "number", "group"),
    [
        (checking, signal.SIGTERM, False),
        (checking, signal.SIGHUP, False),
        (reading, signal.SIGKILL, False),
        (reading, signal.SIGINT, True),
        (writing, signal.SIGINT, True),
    ],
)
def test_an_interrupted_import_leaves_nothing(tmp_path, large, stage, number, group):
    with ImportProcess(tmp_path, large[stage]) as work:
        interrupt(work, stage, number, group=group)
        assert not any(work.models.iterdir())


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
    wrapper = [
        "unshare",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        MOUNT_SMALL_DISK,
        "sh",
        size,
        disk,
    ]
    done = subprocess.run(
        list(map(str, [*wrapper, *command])),
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


def import_command(file, models):
    command = [sys.executable, "-m", "polyseme", "models", "import", file, "--models-dir", models]
    return [*command, "--no-weights", "--no-subwords"]


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
