"""Runs an import in a process of its own, to observe and interrupt it."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import PYTHONPATH

TIMEOUT = 120
"""Seconds to wait for a condition."""
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

    def workers(self):
        """The child processes that parse vectors."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        try:
            return [one for one in map(int, children.read_text().split()) if self.has_scratch(one)]
        except FileNotFoundError:  # the process has ended
            return []

    def has_scratch(self, pid):
        """Whether a process has an unnamed file in the temporary folder.

        A named one exists for a moment while Python tests whether the folder is writable.
        """
        return any(
            name.startswith(str(self.scratch)) and name.endswith(" (deleted)")
            for name in open_files(pid)
        )


def open_files(pid):
    """The files that a process has open, as the kernel names them."""
    names = []
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            names.append(str(link.readlink()))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return names


def wait_for(condition):
    """Wait until a condition is true."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.005)


def checking(work):
    """Whether the first pass over the file has begun."""
    return str(work.file) in open_files(work.process.pid)


def reading(work):
    """Whether the second pass has begun, in the main process.

    Before it, gensim's own imports swallow a KeyboardInterrupt.
    """
    return work.has_scratch(work.process.pid)


def converting(work):
    """Whether child processes parse vectors."""
    return bool(work.workers())


def expanded(work):
    """Whether the decompressed file is on disk."""
    return work.has_scratch(work.process.pid)


def writing(work):
    """Whether the model is being written."""
    return any(work.models.glob(".writing-*/new/*/*"))
