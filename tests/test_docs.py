"""The docs: their links, commands, programs, tables and figures agree with the code."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from docs.generate import pages

import polyseme
from polyseme.cli.main import polyseme as program
from tests.conftest import COMMAND, ROOT, output_of, printed, start
from tests.environments import python_of
from tests.pages import section, value_of

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


@pytest.mark.slow
def test_the_site_has_every_page_and_a_search(tmp_path):
    pytest.importorskip("sphinx", reason="needs the extra [site]")
    options = ["-q", "-n", "-W", "--keep-going", "-c", "docs", ".", tmp_path]
    command = [sys.executable, "-m", "sphinx", *options]
    assert output_of(*command, stderr=subprocess.STDOUT) == ""
    for page in DOCS.glob("**/*.md"):
        assert (tmp_path / page.relative_to(ROOT)).with_suffix(".html").is_file()
    index = (tmp_path / "searchindex.js").read_text("utf-8")
    assert "polysem" in index and "docs/senses" in index
    assert [file.name for file in tmp_path.glob("_downloads/*/bass.txt")] == ["bass.txt"]


NUMBER = r"(?:e\^|√)?\d+(?:\.\d+)?"
SIDE = rf"{NUMBER}(?:\s*[·+/]\s*{NUMBER})*"


def test_the_arithmetic_by_hand_is_right():
    page = (DOCS / "worked-examples.md").read_text("utf-8")
    equations = re.findall(rf"{SIDE}(?:\s*=\s*{SIDE})+", page)
    assert len(equations) > 12
    for equation in equations:
        first, *others = map(str.strip, equation.split("="))
        for side in others:
            digits = len(re.search(r"(?:\.(\d+))?$", side)[1] or "")
            assert abs(value_of(side) - value_of(first)) <= 0.51 * 10**-digits, equation


@pytest.mark.slow
def test_the_blocks_of_the_tour_print_the_documented_output(tmp_path):
    pytest.importorskip("sklearn", reason="needs the extra [sklearn]")
    page = (DOCS / "tour.md").read_text("utf-8")
    blocks = re.findall(r"```(sh|python|text)\n(.*?)```", page, re.DOTALL)
    (download,) = re.findall(r"\]\((\S+\.txt)\)", page)
    shutil.copy(DOCS / download, tmp_path)
    (tmp_path / "models").mkdir()
    process, address = start(tmp_path / "log")
    environment = {
        **os.environ,
        "POLYSEME_MODELS_DIR": str(tmp_path / "models"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    program = ["import subprocess"]
    for kind, block in blocks[1:]:
        if kind == "sh":
            done = f"subprocess.run({block!r}, shell=True, check=True, stdout=subprocess.DEVNULL)"
            program.append(done)
        elif kind == "python":
            program.append(block)
    source = "\n".join(program).replace("http://localhost:8000", address)
    output = printed(source, process, cwd=tmp_path, env=environment)
    assert output == "".join(block for kind, block in blocks if kind == "text")


@pytest.mark.slow
def test_the_blocks_of_importing_print_the_documented_output(tmp_path):
    for module in ("sklearn", "spacy"):
        pytest.importorskip(module, reason=f"needs the extra [{module}]")
    vectors = ROOT.parent / "shared/data/vectors"
    if not vectors.is_dir():
        pytest.skip("needs the vectors in shared/data")
    page = section("importing.md", "An example")
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    commands = [line.split() for line in re.findall(r"^polyseme .*$", page, re.MULTILINE)]
    (_, *importing), (_, _, *serving) = commands
    models = {**os.environ, "POLYSEME_MODELS_DIR": str(tmp_path)}
    file = importing.index("glove.6B.50d.9k.txt.gz")
    importing[file] = str(vectors / importing[file])
    output_of(*COMMAND, *importing, env=models)
    process, address = start(tmp_path / "log", models_dir=tmp_path, model=serving[1])
    program = "".join(block for block, _ in blocks).replace("http://localhost:8001", address)
    output = printed(program, process, env={**models, "POLYSEME_URL": address})
    assert output == "".join(text for _, text in blocks)


@pytest.mark.clients
def test_russian_vectors_are_imported_as_the_page_says(tmp_path):
    page = section("importing.md", "Another language")
    write, show = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (line,) = re.findall(r"^polyseme (.*)$", page, re.MULTILINE)
    environment = {**os.environ, "POLYSEME_MODELS_DIR": str(tmp_path)}
    options = {"cwd": tmp_path, "env": environment}
    output_of(python_of("navec"), "-c", write, **options)
    output_of(*COMMAND, *line.split(), **options)
    assert f"```text\n{output_of(sys.executable, '-c', show, **options)}```" in page
