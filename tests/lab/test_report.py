"""Reports of measurements."""

import sys

import numpy as np
import orjson
from click.testing import CliRunner

from polyseme_lab.report import about, main, markdown, write

FIGURE = {"value": 60.25, "low": 58, "high": 62}
DOCUMENT = {
    "command": "engine.py --rounds 7",
    "date": "2026-11-24",
    "machine": {"processor": "A", "cores": 2},
    "versions": {"python": "3.11"},
    "rounds": 7,
    "words": ["a", "b"],
    "samples": [[1, 2], [3, 4]],
    "missing": None,
    "rate": 1234567.5,
    "systems": {
        "one": {"title": "x | y", "score": FIGURE, "error": {"value": 5, "error": 0.5}},
        "two": {"title": "z", "sizes": {"mean": 3}, "right": True},
    },
    "cases": {"only": {"runs": [{"ms": 1}, {"ms": 2}], "n": 3}},
}
REPORT = """\
# engine

`engine.py --rounds 7`; 2026-11-24; processor A, cores 2; python 3.11

- rounds: 7
- words: a; b
- samples: 2 values
- missing: –
- rate: 1,234,567.5

## systems

|  | title | score | error | right | sizes, mean |
| --- | --- | --- | --- | --- | --- |
| one | x \\| y | 60.25 [58, 62] | 5 ± 0.5 | – | – |
| two | z | – | – | True | 3 |

## cases, only

- n: 3

## cases, only, runs

|  | ms |
| --- | --- |
| 1 | 1 |
| 2 | 2 |
"""


def test_report_has_facts_lists_and_tables():
    assert markdown("engine", DOCUMENT) == REPORT


def test_wide_rows_become_tables_of_their_own():
    for count, title, table in (
        (7, "## tokens, with", "|  | ms | mb |\n| --- | --- | --- |\n| 0 | 0 | 0 |"),
        (6, "## tokens", "|  | 0, ms | 0, mb | 1, ms"),
    ):
        rows = {str(n): {"ms": n, "mb": 0} for n in range(count)}
        report = markdown("growth", {"tokens": {"with": rows, "without": rows}})
        assert report.startswith(f"# growth\n\n{title}\n\n{table}")


def test_objects_without_a_common_column_are_lists():
    report = markdown("weights", {"one": {"file": {"name": "x"}, "tensors": {"key": 3}}})
    assert report == "# weights\n\n## one, file\n\n- name: x\n\n## one, tensors\n\n- key: 3\n"


def test_files_are_written_and_reports_made_again(tmp_path):
    file, report = tmp_path / "engine.json", tmp_path / "engine.md"
    write(file, DOCUMENT)
    assert orjson.loads(file.read_bytes()) == DOCUMENT
    assert report.read_text("utf-8") == REPORT
    report.unlink()
    CliRunner().invoke(main, [str(file)])
    assert report.read_text("utf-8") == REPORT
    # Facts of a command are added to its results.
    file.write_bytes(orjson.dumps({"task": "wic", "versions": {"numpy": "2"}}))
    CliRunner().invoke(main, ["--command", "polyseme evaluate wic sets", str(file)])
    found = orjson.loads(file.read_bytes())
    assert (found["task"], found["versions"]) == ("wic", {"numpy": "2"})
    assert found["command"] == "polyseme evaluate wic sets"
    assert f"`polyseme evaluate wic sets`; {found['date']}; " in report.read_text("utf-8")


def test_facts_name_the_command_without_the_folder_of_its_program(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/home/me/bin/polyseme", "evaluate", "wic", "data"])
    facts = about(["numpy"])
    assert facts["command"] == "polyseme evaluate wic data"
    assert facts["versions"]["numpy"] == np.__version__
    assert facts["machine"].keys() == {"processor", "cores", "memory_gb"}
