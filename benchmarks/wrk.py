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
_LOOKS, _PAUSE = 50, 0.02
"""How often it is looked whether every kept connection is some worker's, and seconds between."""


class Posted(NamedTuple):
    """What a run of wrk found."""

    requests_per_second: float
    p50_ms: float
    p99_ms: float
    errors: int
    """answers that are not 2xx, broken connections and timeouts"""
    busiest: float
    """the part of the connections that the worker with the most of them has, from 0 to 1"""


@dataclass(frozen=True)
class Posting:
    """What wrk is to do."""

    bodies: Path
    """a body in each line, posted in turn"""
    accept: str
    connections: int
    seconds: int
    kept: bool = True
    """or a new connection for each request"""

    def command(self, url: str) -> list[str]:
        """The command line of wrk."""
        program = shutil.which("wrk")
        if program is None:
            raise SystemExit("wrk is not installed; on Debian: apt-get install wrk.")
        about = ["-t1", f"-c{self.connections}", f"-d{self.seconds}s", "--timeout", "30s"]
        script = ["-s", str(_SCRIPT), url, "--", str(self.bodies), self.accept]
        return [program, *about, *script, "keep-alive" if self.kept else "close"]


def post(server: Running, path: str, posting: Posting, *, shared: bool = False) -> Posted:
    """Post for some seconds.

    A kept connection stays with the worker that accepted it, and one worker may accept nearly all
    of them. `shared` begins anew until none has less than half of its share: then all are busy.
    """
    for _ in range(_TRIES):
        with subprocess.Popen(  # noqa: S603 - a command of our own
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
    """How many connections each worker has, once all are accepted; some workers keep none."""
    for _ in range(_LOOKS if posting.kept else 1):
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
    """The medians of several runs, and all their errors."""
    figures = {
        name: round(median(getattr(run, name) for run in runs), 2)
        for name in ("requests_per_second", "p50_ms", "p99_ms", "busiest")
    }
    return {**figures, "errors": sum(run.errors for run in runs)}
