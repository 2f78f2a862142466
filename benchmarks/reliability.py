"""What a service holds: load, faults, hostile requests, and memory in ten minutes of it.

    python benchmarks/reliability.py [--bounded]

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
_KINDS = {"load", "fault", "hostile", "schema", "soak"}


@click.command()
@click.option("--bounded", is_flag=True, help="Try each fault as often as `make test` does.")
def main(bounded: bool) -> None:
    """Measure."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "tests/faults",
            "-v",
            "-s",
            "-p",
            "no:cacheprovider",
        ]
        command += ["--record", str(file), *([] if bounded else ["--full"])]
        done = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603 - a command of our own
        if done.returncode:
            raise SystemExit("A test failed; nothing is kept.")
        found = sorted_by_kind(file.read_bytes().splitlines())
    if missing := _KINDS - found.keys():
        raise SystemExit(
            f"Tests were skipped; nothing is kept without {', '.join(sorted(missing))}."
        )
    record("reliability", _PACKAGES, {"full": not bounded, **found})


def sorted_by_kind(lines: list[bytes]) -> dict[str, list[dict[str, Any]]]:
    """What the tests found, by its kind."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        one = orjson.loads(line)
        found[one.pop("kind")].append(one)
    return dict(found)


if __name__ == "__main__":
    main()
