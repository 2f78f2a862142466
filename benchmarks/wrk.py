"""Requests from many connections at once, by wrk (https://github.com/wg/wrk)."""

import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

import orjson
from gunicorns import Running

_SCRIPT = Path(__file__).parent / "posting.lua"
_TRIES = 200
_POLLS, _PAUSE = 50, 0.02
"""The number of checks whether all kept connections are accepted, and the seconds between them."""


class Posted(NamedTuple):
    """The result of a run of wrk."""

    requests_per_second: float
    p50_ms: float
    p99_ms: float
    errors: int
    """responses that are not 2xx, broken connections and timeouts"""
    busiest: float
    """the largest share of the connections at one worker, from 0 to 1"""


@dataclass(frozen=True)
class Posting:
    """The options of a run of wrk."""

    bodies: Path
    """a body in each line, posted in turn"""
    accept: str
    connections: int
    seconds: int
    kept: bool = True
    """whether connections are kept, instead of a new one for each request"""

    def command(self, url: str) -> list[str]:
        """Return the command line of wrk."""
        program = shutil.which("wrk")
        if program is None:
            raise SystemExit("wrk is not installed; on Debian: apt-get install wrk.")
        about = ["-t1", f"-c{self.connections}", f"-d{self.seconds}s", "--timeout", "30s"]
        script = ["-s", str(_SCRIPT), url, "--", str(self.bodies), self.accept]
        return [program, *about, *script, "keep-alive" if self.kept else "close"]


def post(server: Running, path: str, posting: Posting, *, shared: bool = False) -> Posted:
    """Post for some seconds.

    A kept connection stays with the worker that accepted it, and one worker may accept nearly all
    of them. `shared` repeats the run until each worker has at least half of its share.
    """
    for _ in range(_TRIES):
        with subprocess.Popen(  # noqa: S603 - our own command
            posting.command(server.address + path), stdout=subprocess.PIPE
        ) as process:
            each = _settled(server, posting)
            if shared and 2 * len(each) * min(each) < posting.connections:
                process.terminate()
                continue
            out, _ = process.communicate()
        return _posted(out, max(each) / max(sum(each), 1))
    raise SystemExit("The workers did not share the connections; try another number of them.")


def _settled(server: Running, posting: Posting) -> list[int]:
    """Return the connections of each worker, once all are accepted, or after a timeout."""
    for _ in range(_POLLS if posting.kept else 1):
        time.sleep(_PAUSE)
        each = server.connections()
        if sum(each) >= posting.connections:
            break
    return each


def _posted(out: bytes, busiest: float) -> Posted:
    found = orjson.loads(out.splitlines()[-1])
    rate = found["requests"] / found["seconds"]
    return Posted(rate, found["p50_ms"], found["p99_ms"], found["errors"], busiest)


def middle(runs: Sequence[Posted]) -> dict[str, float]:
    """Return the medians of several runs, and the sum of their errors."""
    figures = {
        name: round(median(getattr(run, name) for run in runs), 2)
        for name in ("requests_per_second", "p50_ms", "p99_ms", "busiest")
    }
    return {**figures, "errors": sum(run.errors for run in runs)}
