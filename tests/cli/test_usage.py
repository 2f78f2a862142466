"""Help, usage errors and settings that are wrong."""

import subprocess
import sys

import click
import pytest

from polyseme import __version__
from polyseme.cli.main import polyseme as root
from tests.cli.conftest import run


def commands(group, path=()):
    """Every command with the words that call it."""
    yield path, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            yield from commands(group.get_command(context, name), (*path, name))


@pytest.mark.parametrize("path", [path for path, _ in commands(root)], ids=" ".join)
def test_every_command_has_help(path):
    done = run(*path, "--help")
    assert (done.returncode, done.stderr) == (0, b"")
    usage, text, *_ = done.stdout.decode().split("\n\n")
    assert usage.startswith("Usage: ")
    assert text.strip().endswith((".", ":"))
    assert "-h, --help" in done.stdout.decode()


@pytest.mark.parametrize(("path", "command"), list(commands(root)), ids=lambda x: str(x)[:30])
def test_every_option_has_help(path, command):
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert [option.opts[-1] for option in options if not option.help] == [], path


def test_the_version_is_said():
    done = run("--version")
    assert (done.returncode, done.stderr) == (0, b"")
    assert __version__ in done.stdout.decode()


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["models", "show"],
        ["encode", "--nothing", "bank"],
        ["encode", "--include", "everything", "bank"],
        ["serve", "--api-keys", "secret"],
    ],
    ids=" ".join,
)
def test_a_usage_error_exits_with_two_and_prints_no_result(polyseme, arguments):
    done = polyseme(*arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert "Error: " in done.stderr.decode()


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--port", "70000"),
        ("--verify-models", "maybe"),
        ("--model", "../tiny"),
    ],
)
def test_a_bad_flag_of_serve_is_named(polyseme, flag, value):
    done = polyseme("serve", flag, value)
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"Error: {flag}: " in done.stderr.decode()


@pytest.mark.parametrize(
    ("command", "variable", "value"),
    [
        ("serve", "POLYSEME_PORT", "http"),
        ("serve", "POLYSEME_MAX_TOKENS", "0"),
        ("models list", "POLYSEME_MODEL", "a b"),
    ],
)
def test_a_bad_variable_is_named(models_dir, command, variable, value):
    done = run(*command.split(), models_dir=models_dir, **{variable: value})
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"Error: {variable}: " in done.stderr.decode()


def test_a_flag_wins_over_a_variable(polyseme):
    done = polyseme("serve", "--port", "70000", POLYSEME_PORT="http")
    assert "Error: --port: " in done.stderr.decode()
    done = polyseme("serve", "--port", "8000", "--model", "nobody", POLYSEME_PORT="http")
    assert (done.returncode, done.stdout) == (1, b"")


def test_keys_of_the_environment_are_never_shown(polyseme):
    done = polyseme("serve", "--port", "http", POLYSEME_API_KEYS="hunter2")
    assert b"hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize("module", ["polyseme.settings", "polyseme.cli.models"])
def test_an_interruption_while_modules_are_imported_leaves_no_traceback(module):
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == '{module}':\n"
        "            raise KeyboardInterrupt\n"
        "from polyseme.__main__ import main\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "models", "list"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.strip()) == (1, "", "Aborted!")
