"""The docs: their links, commands, tables and figures agree with the code and the results."""

import json
import re
import tomllib

import click
import pytest
from docs.generate import pages

import polyseme
from polyseme.cli.main import polyseme as program
from tests.conftest import ROOT

DOCS = ROOT / "docs"
FOLDERS = (DOCS, ROOT / "models", ROOT / "lab", ROOT / "benchmarks")
PAGES = sorted([*ROOT.glob("*.md"), *(page for one in FOLDERS for page in one.rglob("*.md"))])
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def test_generated_tables_are_up_to_date():
    for path, text in pages().items():
        assert path.read_text("utf-8") == text, f"{path.name}: run `make docs`"


def test_programs_of_the_senses_page_print_their_output(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "senses.md").read_text("utf-8")
    names: dict[str, object] = {}
    programs = re.findall(r"```python\n([^`]*)```\n\n```text\n([^`]*)```", page)
    assert len(programs) == 2
    for code, output in programs:
        exec(code, names)
        assert capsys.readouterr().out == output


COMMANDS = re.compile(r"^(?:    |\$ )?(?:[A-Z_]+=\S+ )*polyseme ([a-z][^|>&#\\\n]*)", re.MULTILINE)


def options_of(arguments: list[str]) -> set[str]:
    """The options of the command that arguments call."""
    command: click.Command = program
    context = click.Context(command, **command.context_settings)
    while isinstance(command, click.Group):
        _, command, arguments = command.resolve_command(context, arguments)
    parameters = command.get_params(context)
    return {name for one in parameters for name in (*one.opts, *one.secondary_opts)}


@each_page
def test_commands_have_the_documented_options(page):
    for line in COMMANDS.findall(page.read_text("utf-8")):
        arguments = line.split()
        named = {one.partition("=")[0] for one in arguments if one.startswith("--")}
        assert named <= options_of(arguments), line


def test_every_command_is_documented():
    text = "".join((DOCS / name).read_text("utf-8") for name in ("cli.md", "training.md"))
    context = click.Context(program)
    for path in program.list_commands(context):
        command = program.get_command(context, path)
        names = command.commands if isinstance(command, click.Group) else path.split()[-1:]
        for name in names:
            assert re.search(rf"`(?:[a-z ]+ )?{name}`", text), name


def test_installation_page_has_every_extra_and_commands_name_existing_ones():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].keys()
    page = (DOCS / "install.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == extras
    assert f"polyseme-{polyseme.__version__}-py3-none-any.whl" in page
    for file in [*PAGES, *(ROOT / "service").rglob("*.py")]:
        named = re.findall(
            r"(?:polyseme\[|install_command\([\"'])([\w,]+)", file.read_text("utf-8")
        )
        assert {name for names in named for name in names.split(",")} <= extras, file.name


def test_screenshots_show_the_bundled_model():
    shown = json.loads((DOCS / "page/model.json").read_text("utf-8"))["files"]
    manifest = json.loads((ROOT / "models/wiki-en/manifest.json").read_text("utf-8"))
    files = {name: entry["sha256"] for name, entry in manifest["files"].items()}
    assert shown == files, "run `python docs/screenshots.py`"
