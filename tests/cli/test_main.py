"""The command `polyseme`: help, usage errors, settings, and `polyseme keys`."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from polyseme import __version__
from polyseme.api_keys import find_key, read_key_file
from polyseme.cli import main
from polyseme.cli.main import polyseme as root
from polyseme.http import create_app
from polyseme.settings import Settings
from tests.cli.conftest import run, run_process, without


def commands(group, path=()):
    """Every command, after the words that call it."""
    yield path, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            yield from commands(group.get_command(context, name), (*path, name))


@pytest.mark.parametrize(
    ("path", "command"), list(commands(root)), ids=[" ".join(path) for path, _ in commands(root)]
)
def test_every_command_and_option_has_help(path, command):
    done = run(*path, "--help")
    assert (done.returncode, done.stderr) == (0, b"")
    usage, text, *_ = done.stdout.decode().split("\n\n")
    assert usage.startswith("Usage: ")
    assert text.strip().endswith((".", ":"))
    assert "-h, --help" in done.stdout.decode()
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert [option.opts[-1] for option in options if not option.help] == []


def test_commands_that_are_not_installed_say_what_to_install(polyseme, monkeypatch):
    found = find_spec
    monkeypatch.setattr(
        main, "find_spec", lambda name: None if name == "polyseme_lab" else found(name)
    )
    for arguments, extra in ((("train",), "train"), (("evaluate", "senses", "x"), "evaluate")):
        done = polyseme(*arguments)
        assert (done.returncode, done.stdout) == (1, b"")
        message = done.stderr.decode()
        assert message.startswith(f"polyseme: This installation does not have `polyseme {extra}")
        assert message.endswith(f" install 'polyseme[{extra}]'.\n") and message.count("\n") == 1
    listed = re.findall(r"^  (\w+)", polyseme("--help").stdout.decode(), re.MULTILINE)
    assert {"models", "serve"} <= set(listed) and not {"train", "evaluate"} & set(listed)
    assert __version__ in run("--version").stdout.decode()


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["models", "show"],
        ["encode", "--include", "everything", "bank"],
        ["compare", "--word", "bank", "bank"],
        ["compare", "--word", "a", "--word", "b", "a", "b", "c"],
        ["compare", "--neighbors", "101", "--word", "bank", "bank", "bank"],
        ["serve", "--api-keys=secret"],
        ["keys", "new", "key-1"],
        ["serve", "--port", "70000"],
        ["serve", "--model", "../tiny"],
    ],
    ids=" ".join,
)
def test_a_usage_error_exits_with_two_and_prints_no_result(polyseme, arguments):
    done = polyseme(*arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    name = arguments[1] if arguments[0] == "serve" and len(arguments) == 3 else ""
    assert f"Error: {name}" in done.stderr.decode()


SECRET = "s3cretqx"


@pytest.mark.parametrize(
    ("command", "name", "value", "sentence"),
    [
        ("serve", "PORT", "http", "must be an integer"),
        ("models list", "MODEL", "a b", "must match the pattern"),
        ("serve", "API_KEYS_FILE", "/no/such/file", "must be an existing file"),
        ("serve", "API_KEYS_FILE", "", "Line "),
        ("serve", "API_KEYS", " , ,", "the list has no items"),
        ("serve", "RATE_LIMIT_STORAGE", f"x://{SECRET}", "the address must be memory:// or begin"),
        ("serve", "RATE_LIMIT_STORAGE", f"redis://x:{SECRET}/0", "this is not a valid Redis URL"),
    ],
)
def test_a_bad_variable_is_named_and_not_shown(
    models_dir, tmp_path, command, name, value, sentence
):
    file = tmp_path / f"keys-{SECRET}"
    file.write_text(f"alice {SECRET}\n")
    value = value or str(file)
    done = run(*command.split(), models_dir=models_dir, **{f"POLYSEME_{name}": value})
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"Error: POLYSEME_{name}: {sentence}" in done.stderr.decode()
    assert SECRET.encode() not in done.stderr


def test_a_variable_that_is_no_setting_is_warned_of(models_dir, caplog):
    warning = "POLYSEME_MODLES_DIR is not a setting; did you mean `POLYSEME_MODELS_DIR`?"
    done = run("models", "list", models_dir=models_dir, POLYSEME_MODLES_DIR="x")
    assert done.returncode == 0
    assert done.stderr.decode().splitlines() == [f"polyseme: Warning: {warning}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_MODLES_DIR", "x")
        create_app(Settings(models_dir=models_dir, model="tiny"))
    assert caplog.messages.count(f"polyseme: {warning}") == 1


def test_a_flag_wins_over_a_variable(polyseme):
    done = polyseme("serve", "--port", "70000", POLYSEME_PORT="http")
    assert "Error: --port: " in done.stderr.decode()
    done = polyseme("serve", "--port", "http", POLYSEME_API_KEYS=SECRET)
    assert SECRET.encode() not in done.stdout + done.stderr
    done = polyseme("serve", "--port", "8000", "--model", "nobody", POLYSEME_PORT="http")
    assert (done.returncode, done.stdout) == (1, b"")


def test_an_interruption_while_modules_are_imported_leaves_no_traceback():
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'polyseme.settings':\n"
        "            raise KeyboardInterrupt\n"
        "from polyseme.__main__ import main\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "main()"
    )
    done = run_process("models", "list", python=("-c", code))
    assert (done.returncode, done.stdout, done.stderr.strip()) == (1, b"", b"Aborted!")


def test_a_new_key_is_on_standard_error_and_its_line_on_output(tmp_path):
    file = tmp_path / "keys"
    keys = {}
    for name in ("alice", "bob"):
        done = run("keys", "new", name)
        assert done.returncode == 0
        with file.open("ab") as out:
            out.write(done.stdout)
        note, key = done.stderr.decode().splitlines()
        assert note == "The key is not stored and is shown only once:"
        assert key not in done.stdout.decode()
        keys[name] = key
    read = read_key_file(file)
    assert list(read) == ["alice", "bob"]
    assert {name: find_key(read, key) for name, key in keys.items()} == {n: n for n in keys}


def test_output_that_nobody_reads_ends_the_command_silently():
    read_end, write_end = os.pipe()
    os.close(read_end)
    with Path("/dev/full").open("wb") as full, os.fdopen(write_end, "wb") as closed:
        for out, arguments in ((full, ("keys", "new", "alice")), (closed, ("models", "list"))):
            command = [sys.executable, "-m", "polyseme", *arguments]
            done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=False)
            assert done.returncode == 1
            assert b"polyseme_" not in done.stderr  # the key
    assert done.stderr == b""


def test_redis_without_its_package_is_an_error_that_names_the_extra():
    storage = {"POLYSEME_RATE_LIMIT_STORAGE": "redis://127.0.0.1"}
    done = run_process("serve", python=without("redis"), **storage)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"pip install 'polyseme[redis]'" in done.stderr.splitlines()[-1]
