"""The command `polyseme`: help, usage errors, settings, `polyseme keys` and `polyseme serve`."""

import os
import re
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from polyseme import __version__
from polyseme.api_keys import find_key, read_key_file
from polyseme.cli import main
from polyseme.cli.main import polyseme as root
from polyseme.http import create_app
from polyseme.http.server import Server
from polyseme.models import registry
from polyseme.settings import Settings
from tests.cli.conftest import run, run_process, without
from tests.tiny import write_tiny


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


SECRET = "s3cretqx"
USAGE_ERRORS = [
    ("nothing", {}, ""),
    ("models show", {}, ""),
    ("encode --include everything bank", {}, ""),
    ("compare --word bank bank", {}, ""),
    ("compare --word a --word b a b c", {}, ""),
    ("compare --neighbors 101 --word bank bank bank", {}, ""),
    (f"serve --api-keys={SECRET}", {}, ""),
    ("keys new key-1", {}, ""),
    ("serve --port 70000", {"PORT": "http"}, "--port: "),
    ("serve --port http", {"API_KEYS": SECRET}, "--port: "),
    ("serve --model ../tiny", {}, "--model: "),
    ("serve", {"PORT": "http"}, "POLYSEME_PORT: must be an integer"),
    ("models list", {"MODEL": "a b"}, "POLYSEME_MODEL: must match the pattern"),
    ("serve", {"API_KEYS_FILE": "/no/file"}, "POLYSEME_API_KEYS_FILE: must be an existing file"),
    ("serve", {"API_KEYS_FILE": "{file}"}, "POLYSEME_API_KEYS_FILE: Line "),
    ("serve", {"API_KEYS": " , ,"}, "POLYSEME_API_KEYS: the list has no items"),
    *(
        ("serve", {"RATE_LIMIT_STORAGE": url}, f"POLYSEME_RATE_LIMIT_STORAGE: {sentence}")
        for url, sentence in {
            f"x://{SECRET}": "the address must be memory:// or begin",
            f"redis://x:{SECRET}/0": "this is not a valid Redis URL",
        }.items()
    ),
]


@pytest.mark.parametrize(("command", "variables", "message"), USAGE_ERRORS, ids=str)
def test_a_usage_error_exits_with_two_and_shows_no_value(
    polyseme, tmp_path, command, variables, message
):
    file = tmp_path / f"keys-{SECRET}"
    file.write_text(f"alice {SECRET}\n")
    named = {f"POLYSEME_{name}": value.format(file=file) for name, value in variables.items()}
    done = polyseme(*command.split(), **named)
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"Error: {message}" in done.stderr.decode()
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


@pytest.fixture
def mask():
    """Restore the signal mask of this process after the test."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.usefixtures("mask")
def test_the_command_starts_gunicorn_without_reading_the_models(tmp_path, monkeypatch):
    write_tiny(tmp_path / "tiny")
    started = []
    monkeypatch.setattr(registry, "read_model", lambda *_, **__: pytest.fail("a model was read"))
    monkeypatch.setattr(Server, "run", lambda server: started.extend([server]))
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))  # the command replaces it
    environment = {"POLYSEME_MODELS_DIR": str(tmp_path), "POLYSEME_MODEL": "other"}
    arguments = ["serve", "--model", "tiny", "--port", "0", "--threads", "3"]
    done = CliRunner(env=environment).invoke(root, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    (server,) = started
    assert server.settings.model == "tiny"
    assert (server.cfg.bind, server.cfg.threads) == (["127.0.0.1:0"], 3)


def test_the_settings_are_parsed_once(tmp_path, monkeypatch):
    write_tiny(tmp_path / "tiny")
    settings = Settings(models_dir=tmp_path, model="tiny")
    monkeypatch.setattr(Settings, "__init__", lambda *_, **__: pytest.fail("parsed again"))
    service = Server(settings).wsgi().extensions["polyseme"]
    assert service.settings is settings


def error_of(models_dir, *flags):
    """The only line of `polyseme serve` if it fails before gunicorn runs."""
    done = run("serve", "--model", "tiny", *flags, models_dir=models_dir)
    assert (done.returncode, done.stdout) == (1, b"")
    (line,) = done.stderr.decode().splitlines()
    return line.removeprefix("polyseme: ")


def test_an_address_that_cannot_be_used_is_reported_in_one_sentence(models_dir, monkeypatch):
    monkeypatch.setattr(Server, "run", lambda _: pytest.fail("gunicorn was started"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = f"Port {port} of 127.0.0.1 is in use; --port selects another one."
        assert error_of(models_dir, "--port", port) == message
    message = (
        "The service cannot listen on 192.0.2.1, port 8000: Cannot assign requested address;"
        " check --host and --port."
    )
    assert error_of(models_dir, "--host", "192.0.2.1") == message  # RFC 5737
