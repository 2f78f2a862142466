"""Reports: a Markdown file beside each JSON file of measurements.

    python -m polyseme_lab.report [--command COMMAND] FILE.json...

writes the reports of existing files. With the command that has just written the files, it adds the
command, the date and the machine to them.
"""

import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import orjson

from polyseme.atomic_files import atomic_write

ABOUT = ("command", "date", "machine", "versions")
"""The fields of a document that are in the first line of its report."""
MAX_COLUMNS = 12
"""Objects in the rows of a table are further columns, up to this number."""
MAX_LIST = 24
"""Longer lists are only in the JSON file."""


def about(packages: Sequence[str] = ()) -> dict[str, Any]:
    """Return the command of this process, the date, the machine and versions of packages."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    names = (line.split(": ")[1] for line in lines if line.startswith("model name"))
    return {
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "processor": next(names, "unknown"),
            "cores": len(os.sched_getaffinity(0)),
            "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9),
        },
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
    }


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document as indented JSON."""
    style = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    atomic_write(path, orjson.dumps(document, option=style))


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document as indented JSON, and its report beside it."""
    write_json(path, document)
    atomic_write(path.with_suffix(".md"), markdown(path.stem, document).encode())


def markdown(name: str, document: Mapping[str, Any]) -> str:
    """Return the report of a document."""
    facts = {key: document[key] for key in ABOUT if key in document}
    for key in ("machine", "versions"):
        if key in facts:
            facts[key] = ", ".join(f"{name} {value}" for name, value in facts[key].items())
    if "command" in facts:
        facts["command"] = f"`{facts['command']}`"
    results = {key: value for key, value in document.items() if key not in facts}
    parts = [f"# {name}", "; ".join(facts.values()), *_blocks("", results)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _blocks(title: str, value: Mapping[str, Any]) -> Iterator[str]:
    """Yield the plain values, a table of the objects, and the blocks of what does not fit in it."""
    plain = {name: part for name, part in value.items() if not _nested(part)}
    rest = {name: part for name, part in value.items() if name not in plain}
    rows: dict[str, dict[str, Any]] = {}
    split = {name: _split(part) for name, part in rest.items()}
    cells = [set(row) for row, _ in split.values() if row]
    if title and len(rest) > 1 and cells and set.intersection(*cells):
        rows = {name: row for name, (row, _) in split.items()}
        rest = {name: objects for name, (_, objects) in split.items()}
    if title and (plain or any(rows.values())):
        yield f"## {title}"
    if plain:
        yield "\n".join(f"- {name}: {_cell(part)}" for name, part in plain.items())
    if any(rows.values()):
        yield _table(rows)
    for name, part in rest.items():
        yield from _blocks(f"{title}, {name}" if title else name, _keyed(part))


def _split(part: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the cells of a row, and the objects that do not fit into it."""
    part = _keyed(part)
    objects = {name: value for name, value in part.items() if _nested(value)}
    row = {name: value for name, value in part.items() if name not in objects}
    cells = {
        f"{name}, {key}": cell
        for name, value in objects.items()
        for key, cell in _keyed(value).items()
    }
    if any(map(_nested, cells.values())) or len(row) + len(cells) > MAX_COLUMNS:
        return row, objects
    return row | cells, {}


def _table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    lines = [["", *columns], ["---"] * (len(columns) + 1)]
    lines += [[name, *(_cell(row.get(column)) for column in columns)] for name, row in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _keyed(part: Any) -> dict[str, Any]:
    """Return an object, or the objects of a list, counted from 1."""
    return part if isinstance(part, dict) else {str(i): row for i, row in enumerate(part, 1)}


def _nested(value: Any) -> bool:
    """Return whether a value is an object or a list of objects; an interval is neither."""
    if isinstance(value, list):
        return any(isinstance(part, dict) for part in value)
    return isinstance(value, dict) and "value" not in value


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['value']} [{value['low']}, {value['high']}]"
    if isinstance(value, list):
        short = len(value) <= MAX_LIST and not any(isinstance(part, list) for part in value)
        return "; ".join(map(_cell, value)) if short else f"{len(value):,} values"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}"
    return "–" if value is None else str(value).replace("|", "\\|")


@click.command()
@click.option("--command", help="The command that has written the files.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True))
def main(command: str | None, files: tuple[Path, ...]) -> None:
    """Write the reports of files of measurements."""
    for path in files:
        document = orjson.loads(path.read_bytes())
        if command:
            write(path, {**about(), **document, "command": command})
        else:
            path.with_suffix(".md").write_text(markdown(path.stem, document), "utf-8")


if __name__ == "__main__":
    main()
