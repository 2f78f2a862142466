"""Send requests on many connections at the same time with wrk (https://github.com/wg/wrk)."""

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import orjson

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.http.service import Service, client_ports

_SCRIPT = Path(__file__).parent / "posting.lua"
_TRIES = 200
_POLLS, _PAUSE = 50, 0.02
"""The maximum number of checks for accepted connections, and the seconds before each."""


class Posted(NamedTuple):
    """The result of a run of wrk."""

    requests_per_second: float
    p50_ms: float
    p99_ms: float
    errors: int
    """responses with a status of 400 or more, broken connections and timeouts"""


@dataclass(frozen=True)
class Posting:
    """The options of a run of wrk."""

    bodies: Path
    """a file with a body in each line, which are posted in turn"""
    accept: str
    connections: int
    seconds: int

    def command(self, url: str) -> list[str]:
        """Return the command line of wrk."""
        program = shutil.which("wrk")
        if program is None:
            raise SystemExit("wrk is not installed; on Debian: apt-get install wrk.")
        about = ["-t1", f"-c{self.connections}", f"-d{self.seconds}s", "--timeout", "30s"]
        return [program, *about, "-s", str(_SCRIPT), url, "--", str(self.bodies), self.accept]


def post(server: Service, path: str, posting: Posting) -> Posted:
    """Post for `posting.seconds`.

    A kept connection stays with the worker that accepted it, and one worker may accept nearly all
    connections. The run is repeated until each worker has at least half of its share.
    """
    for _ in range(_TRIES):
        with subprocess.Popen(  # noqa: S603 - our own command
            posting.command(server.url + path), stdout=subprocess.PIPE
        ) as process:
            counts = _connections(server, posting)
            if 2 * len(counts) * min(counts) < posting.connections:
                process.terminate()
                continue
            out, _ = process.communicate()
        run = orjson.loads(out.splitlines()[-1])
        rate = run["requests"] / run["seconds"]
        return Posted(rate, run["p50_ms"], run["p99_ms"], run["errors"])
    raise SystemExit("The workers did not share the connections; try another number of them.")


def _connections(server: Service, posting: Posting) -> list[int]:
    """Return the number of connections of each worker; wait up to a second for all."""
    for _ in range(_POLLS):
        time.sleep(_PAUSE)
        counts = [len(client_ports(server, worker)) for worker in server.workers()]
        if sum(counts) >= posting.connections:
            break
    return counts
