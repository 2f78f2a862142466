"""What a service holds: load, faults, hostile requests, and memory in ten minutes of it.

    python benchmarks/reliability.py [--bounded] [--only soak]

Runs the tests of faults as often as the record has it, a quarter of an hour on a quiet machine;
`--bounded` as often as `make test` does, to try it out. A test that fails ends it, and nothing is
kept. Results: results/reliability.json.
"""

import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
import orjson
from record import record

ROOT = Path(__file__).parents[1]
_PACKAGES = ["gunicorn", "flask", "numpy", "pydantic", "hypothesis", "schemathesis"]
RESULT = ROOT / "benchmarks/results/reliability.json"
_KINDS = {"load", "fault", "hostile", "schema", "soak"}


@click.command()
@click.option("--bounded", is_flag=True, help="Try each fault as often as `make test` does.")
@click.option("--only", help="Run what has this in its name, and keep the rest of the last record.")
def main(bounded: bool, only: str | None) -> None:
    """Measure."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found"
        command = [sys.executable, "-m", "pytest", "tests/faults", "-v", "-s"]
        command += ["-p", "no:cacheprovider", "--record", str(file)]
        command += [*([] if bounded else ["--full"]), *(["-k", only] if only else [])]
        done = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603 - a command of our own
        if done.returncode:
            raise SystemExit("A test failed; nothing is kept.")
        found: dict[str, Any] = dict(sorted_by_kind(file.read_bytes().splitlines()))
    before = orjson.loads(RESULT.read_bytes()) if only else {"bounded": []}
    bounded_kinds = set(before["bounded"]) - found.keys() | (set(found) if bounded else set())
    found = {kind: found.get(kind, before.get(kind)) for kind in sorted(_KINDS)}
    if missing := [kind for kind, some in found.items() if not some]:
        raise SystemExit(f"Tests were skipped; nothing is kept without {', '.join(missing)}.")
    record("reliability", _PACKAGES, {"bounded": sorted(bounded_kinds), **found})


def sorted_by_kind(lines: list[bytes]) -> dict[str, list[dict[str, Any]]]:
    """What the tests found, by its kind."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        one = orjson.loads(line)
        found[one.pop("kind")].append(one)
    return dict(found)


if __name__ == "__main__":
    main()
