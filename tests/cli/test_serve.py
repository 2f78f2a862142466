"""`polyseme serve` checks models, and the serving process reads them."""

import runpy
import signal
import sys

import pytest
from click.testing import CliRunner

from polyseme.cli.main import polyseme
from polyseme.models import registry
from tests.tiny import write_tiny


@pytest.fixture
def mask():
    """Restore the signal mask of this process after the test."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.usefixtures("mask")
def test_the_server_reads_the_models_once(tmp_path, monkeypatch):
    write_tiny(tmp_path / "tiny")
    started = []
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(registry, "read_model", lambda *_, **__: pytest.fail("it was read"))
    monkeypatch.setattr(runpy, "run_module", lambda *names, **_: started.append((names, sys.argv)))
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))  # the command replaces it
    environment = {"POLYSEME_MODELS_DIR": str(tmp_path), "POLYSEME_MODEL": "tiny"}
    done = CliRunner(env=environment).invoke(polyseme, ["serve"], catch_exceptions=False)
    assert done.exit_code == 0
    (((name,), arguments),) = started
    assert name == arguments[0] == "gunicorn"
    assert arguments[1:3] == ["--config", "python:polyseme.server.config"]
