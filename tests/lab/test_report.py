"""Reports of measurements."""

import sys

import numpy as np
import orjson
import pytest
from click.testing import CliRunner

from polyseme_lab.report import about, main, markdown, write
from tests.conftest import ROOT

RESULTS = sorted(ROOT.glob("*/results/*.json"))
DOCUMENT = {
    "date": "2026-11-24",
    "machine": {"processor": "A", "cores": 2},
    "rate": 1234567.5,
    "systems": {
        "one": {"title": "x | y", "score": {"value": 60.25, "low": 58, "high": 62}},
        "two": {"right": True, "score": None},
    },
}
REPORT = """\
# engine

2026-11-24; processor A, cores 2

- rate: 1,234,567.5

## systems

|  | title | score | right |
| --- | --- | --- | --- |
| one | x \\| y | 60.25 [58, 62] | – |
| two | – | – | True |
"""


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_report_is_that_of_its_results(file):
    """The tables, lists and facts of every report in the repository."""
    report = file.with_suffix(".md").read_text("utf-8")
    assert markdown(file.stem, orjson.loads(file.read_bytes())) == report


def test_wide_rows_become_tables_of_their_own():
    for count, title, table in (
        (7, "## tokens, with", "|  | ms | mb |\n| --- | --- | --- |\n| 0 | 0 | 0 |"),
        (6, "## tokens", "|  | 0, ms | 0, mb | 1, ms"),
    ):
        rows = {str(n): {"ms": n, "mb": 0} for n in range(count)}
        report = markdown("growth", {"tokens": {"with": rows, "without": rows}})
        assert report.startswith(f"# growth\n\n{title}\n\n{table}")


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
