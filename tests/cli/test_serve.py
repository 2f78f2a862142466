"""`polyseme serve` checks the models and the address, and starts gunicorn."""

import signal
import socket

import pytest
from click.testing import CliRunner

from polyseme.cli.main import polyseme
from polyseme.http.server import Server
from polyseme.models import registry
from polyseme.settings import Settings
from tests.cli.conftest import run
from tests.tiny import write_tiny


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
    done = CliRunner(env=environment).invoke(polyseme, arguments, catch_exceptions=False)
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
