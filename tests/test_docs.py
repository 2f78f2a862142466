"""The docs: their links, tables and figures agree with the code and with what was measured."""

import importlib.util
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import click
import jinja2
import pytest
from docs.results import goal, wrap

import polyseme
from polyseme import errors
from polyseme.cli.main import polyseme as program
from polyseme.errors import PolysemeError
from polyseme.settings import Settings
from tests.test_readme import require_fragments

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
API = (DOCS / "api.md").read_text(encoding="utf-8")
BENCHMARKS = ROOT / "benchmarks"
LAB = ROOT / "lab"
FOLDERS = (DOCS, ROOT / "models", LAB, BENCHMARKS)
PAGES = sorted([*ROOT.glob("*.md"), *(page for one in FOLDERS for page in one.rglob("*.md"))])


def generator():
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", list(generator().PAGES))
def test_a_generated_page_is_up_to_date(name: str) -> None:
    made = generator().PAGES[name]()
    assert (ROOT / name).read_text(encoding="utf-8") == made, "run `make docs`"


def test_a_figure_that_was_not_measured_is_not_rendered() -> None:
    environment = generator().ENVIRONMENT
    for figure in ("result('wic').nothing", "result('wic').systems.nothing.accuracy", "nothing"):
        with pytest.raises(jinja2.UndefinedError):
            environment.from_string(f"{{{{ {figure} }}}}").render()


def test_paragraphs_and_items_are_wrapped_and_other_lines_are_not() -> None:
    long = " ".join(["word"] * 25)
    first, rest = " ".join(["word"] * 20), " ".join(["word"] * 5)
    kept = f"# {long}\n| {long} |\n![{long}](a.svg)\n"
    assert wrap(f"# {long}\nword\n{long}\n") == f"# {long}\n{first}\n{rest} word\n"
    assert wrap(f"- {first}\n- {rest}\n  {rest}\n\n{rest}\n") == (
        f"- {first[:-5]}\n  word\n- {rest} {rest}\n\n{rest}\n"
    )
    assert wrap(kept) == kept


def test_every_setting_and_every_error_code_is_documented() -> None:
    settings, page = (DOCS / "settings.md").read_text(), (DOCS / "errors.md").read_text()
    for name in Settings.model_fields:
        assert f"POLYSEME_{name.upper()}`" in settings
    for error in generator().error_tree():
        assert issubclass(error, PolysemeError)
        assert f"| {error.status} | `{error.code}` |" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_targets_of_links_exist(page: Path) -> None:
    text = page.read_text()
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', text)
    for target in [*re.findall(r"\]\(([^)#\s]+)[^)]*\)", text), *pictures]:
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_named_in_the_docs_exist(page: Path) -> None:
    roots = (ROOT, ROOT / "service" / "polyseme", LAB / "polyseme_lab", page.parent)
    named = re.findall(r"`((?:[\w-]+/)+[\w.-]+\.(?:py|md|json|toml|yml))`", page.read_text())
    for name in named:
        assert any((root / name).exists() for root in roots), name


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_request_of_the_api_page_gets_its_response(client):
    ((command, response),) = re.findall(
        r"```sh\n(curl .*?)```\n\n```json\n(.*?)```", API, re.DOTALL
    )
    done = subprocess.run(
        ["sh", "-ec", command.replace("http://localhost:8000", str(client.base_url).rstrip("/"))],
        capture_output=True,
        text=True,
        check=True,
    )
    require_fragments(response, done.stdout)


def test_the_programs_of_the_page_on_senses_print_their_output(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "senses.md").read_text("utf-8")
    names: dict[str, object] = {}
    programs = re.findall(r"```python\n([^`]*)```\n\n```text\n([^`]*)```", page)
    assert len(programs) == 2
    for code, output in programs:
        exec(code, names)
        assert capsys.readouterr().out == output


CHECKED_BY = {
    "README.md": "tests/test_readme.py",
    "docs/api.md": "tests/http/test_documented.py",
    "docs/client.md": "tests/client/test_page.py",
    "docs/evaluation.md": "docs/generate.py",
    "docs/inference.md": "tests/http/test_client_pages.py",
    "docs/integrations.md": "tests/integrations/test_page.py",
    "docs/keys.md": "tests/http/test_keys_page.py",
    "docs/openai.md": "tests/http/test_client_pages.py",
    "docs/tour.md": "tests/test_tour.py",
    "docs/pipeline.md": "tests/test_pipeline.py",
    "docs/senses.md": "docs/generate.py",
    "docs/training.md": "tests/lab/training/test_page.py",
    "docs/vector-stores.md": "tests/bulk/test_vector_stores.py",
}
"""The pages with JSON or the output of a program, and the file that makes or checks it."""


def test_every_output_on_a_page_is_generated_or_tested():
    found = set()
    for page in PAGES:
        blocks = re.findall(
            r"^ *```(\w*)\n(?:.*\n)*?^ *```$", page.read_text("utf-8"), re.MULTILINE
        )
        if {"", "json", "text"} & set(blocks):
            found.add(page.relative_to(ROOT).as_posix())
    assert found == CHECKED_BY.keys()
    for page, file in CHECKED_BY.items():
        assert Path(page).stem in (ROOT / file).read_text("utf-8"), file


COMMANDS = re.compile(r"^(?:    |\$ )?(?:[A-Z_]+=\S+ )*polyseme ([a-z][^|>&#\\\n]*)", re.MULTILINE)


def options_of(arguments: list[str]) -> set[str]:
    """The options of the command that arguments call."""
    command: click.Command = program
    context = click.Context(command, **command.context_settings)
    while isinstance(command, click.Group):
        _, command, arguments = command.resolve_command(context, arguments)
    parameters = command.get_params(context)
    return {name for one in parameters for name in (*one.opts, *one.secondary_opts)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_have_the_documented_options(page: Path) -> None:
    for line in COMMANDS.findall(page.read_text("utf-8")):
        arguments = line.split()
        named = {one.partition("=")[0] for one in arguments if one.startswith("--")}
        assert named <= options_of(arguments), line


def test_the_index_names_every_page():
    index = (DOCS / "index.md").read_text("utf-8")
    for page in DOCS.glob("*.md"):
        assert page.name == "index.md" or f"]({page.name})" in index, page.name


def test_the_installation_page_has_every_extra_and_every_named_extra_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].keys()
    page = (DOCS / "install.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == extras
    assert f"polyseme-{polyseme.__version__}-py3-none-any.whl" in page
    for file in [*PAGES, *(ROOT / "service").rglob("*.py"), *LAB.rglob("*.py")]:
        text = file.read_text("utf-8")
        named = re.findall(r"polyseme\[([\w,]+)\]", text)
        named += re.findall(r"install_command\([\"'](\w+)", text)
        assert {name for names in named for name in names.split(",")} <= extras, file.name
        # This form also adds extras to a Polyseme that is not installed from an index.
        for command in re.findall(r"pip install[^`\n]*polyseme[^`\n]*", text):
            assert re.match(r"pip install ('polyseme\[[\w,]+\]'|polyseme-[\d.]+-py3)", command)


def test_every_decision_is_numbered_without_a_gap() -> None:
    numbers = [int(page.name[:4]) for page in sorted((DOCS / "decisions").glob("0*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_drawn_tree_of_errors_is_that_of_the_classes() -> None:
    def lines(error: type[PolysemeError], depth: int) -> list[tuple[int, str, int]]:
        below = [line for sub in error.__subclasses__() for line in lines(sub, depth + 1)]
        return [(depth, error.__name__, error.status), *below]

    drawn = re.findall(r"^( +)(\w+Error) +(\d{3})$", errors.__doc__, re.MULTILINE)
    assert [(len(i) // 4, name, int(s)) for i, name, s in drawn] == lines(PolysemeError, 1)


def test_a_goal_is_met_at_its_bound_and_on_the_better_side():
    for figure, verdict in [(0.69, "**missed**"), (0.7, "met"), (0.71, "met")]:
        assert goal("more", figure, least=0.7) == f"| more | ≥ 0.7 | {figure} | {verdict} |"
    for figure, verdict in [(1.9, "met"), (2, "met"), (2.1, "**missed**")]:
        assert goal("less", figure, most=2) == f"| less | ≤ 2 | {figure} | {verdict} |"


def test_every_benchmark_has_a_row_and_every_result_a_script():
    readme = (BENCHMARKS / "README.md").read_text("utf-8")
    scripts = {file.name for file in BENCHMARKS.glob("*.py") if "__main__" in file.read_text()}
    assert set(re.findall(r"^\| `(\w+\.py)` \|", readme, re.MULTILINE)) == scripts
    assert all(f"`{file.name}`" in readme for file in BENCHMARKS.glob("*.py"))
    for file in (BENCHMARKS / "results").glob("*.json"):
        assert {"date", "versions"} <= json.loads(file.read_text("utf-8")).keys(), file.name
        assert f"{file.stem.replace('-', '_')}.py" in scripts


def test_every_script_of_the_laboratory_has_a_row():
    readme = (LAB / "README.md").read_text("utf-8")
    files = list(LAB.glob("factory/*.py"))
    scripts = [file for file in files if "__main__" in file.read_text("utf-8")]
    rows = re.findall(r"^\| `(\w+/\w+\.py)` \|", readme, re.MULTILINE)
    assert set(rows) == {f"{file.parent.name}/{file.name}" for file in scripts}
    assert all(f"{file.name}`" in readme for file in files)
    for script in scripts:
        result = LAB / "results" / f"{script.stem.replace('_', '-')}.json"
        if result.exists():
            assert {"date", "versions"} <= json.loads(result.read_text("utf-8")).keys(), result.name
