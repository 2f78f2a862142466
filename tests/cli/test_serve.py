"""`polyseme serve` looks, and leaves reading to the process that serves."""

import os
import signal
import sys

import pytest
from click.testing import CliRunner

from service.cli.commands import polyseme
from service.store import slot
from tests.tiny import write_tiny


@pytest.fixture
def mask():
    """What this process blocks, as it was, after the test."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.usefixtures("mask")
def test_the_models_are_read_by_the_process_that_serves_alone(tmp_path, monkeypatch):
    write_tiny(tmp_path / "tiny")
    started = []
    monkeypatch.setattr(slot, "read_model", lambda *_, **__: pytest.fail("it was read"))
    monkeypatch.setattr(os, "execv", lambda *arguments: started.append(arguments))
    environment = {"POLYSEME_MODELS_DIR": str(tmp_path), "POLYSEME_MODEL": "tiny"}
    done = CliRunner(env=environment).invoke(polyseme, ["serve"], catch_exceptions=False)
    assert done.exit_code == 0
    ((program, arguments),) = started
    assert program == arguments[0] == sys.executable
    assert arguments[1:3] == ["-m", "gunicorn"]
