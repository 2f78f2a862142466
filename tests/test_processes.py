"""Worker processes: they end with their command, and one that dies is replaced."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from polyseme.processes import run_in_processes
from tests.bulk import command_of, until, workers_of
from tests.conftest import PYTHONPATH, default_handling

SLEEP = """
import sys, time
from polyseme.processes import run_in_processes

try:
    run_in_processes(time.sleep, [3600] * 2, print, workers=2)
except KeyboardInterrupt:
    sys.exit(3)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="processes are read from /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_busy_workers_end_with_their_command(number):
    with default_handling(signal.SIGINT):
        process = subprocess.Popen(
            [sys.executable, "-c", SLEEP],
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
            start_new_session=True,
        )
    # A worker has a second thread once it has read all that the command sends at the start.
    tasks = "/proc/{}/task".format
    until(
        lambda: [len([*Path(tasks(p)).iterdir()]) for p in workers_of(process)] == [2, 2], process
    )
    workers = workers_of(process)
    # As at a terminal, Ctrl-C reaches the workers too.
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    assert process.wait(60) == (3 if number == signal.SIGINT else -number)
    until(lambda: not any(b"spawn_main" in command_of(pid) for pid in workers))


DIE_ONCE = """
import os
try:
    os.mkdir({!r})
except FileExistsError:
    pass
else:
    os._exit(9)
"""


# The workers call a built-in function, so that they import nothing.
def test_the_item_of_a_worker_that_dies_is_repeated(tmp_path):
    items = [DIE_ONCE.format(str(tmp_path / name)) for name in ("one", "two")]
    results = []
    run_in_processes(exec, items, lambda item, _: results.append(item), workers=1)
    assert results == items


def test_one_item_is_read_ahead_of_the_workers():
    read, results, ahead = [], [], []

    def items():
        for number in range(30):
            read.append(number)
            ahead.append(len(read) - len(results))
            yield f"{number}"

    run_in_processes(eval, items(), lambda _, result: results.append(result), workers=2)
    assert sorted(results) == read == list(range(30))
    assert max(ahead) == 2 + 1
