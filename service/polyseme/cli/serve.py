"""`polyseme serve`: gunicorn, with the settings."""

import os
import runpy
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import click
import orjson

from polyseme.cli.options import settings_from
from polyseme.models.registry import Registry
from polyseme.settings import PREFIX, Settings

_STANDARD_ERROR = 2
_APPLICATION = "polyseme.api.app:create_app()"
SECRET = ("api_keys", "rate_limit_storage")
"""Settings without a flag: every user of the machine can read a command line."""


def _flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command one option for each setting."""
    for name, field in reversed(Settings.model_fields.items()):
        if name not in SECRET:
            default = "" if field.default == "" or field.default_factory else field.default
            note = f"  [default: {default}]" if default != "" else ""
            text = f"{field.description}{note}"
            flag = f"--{name.replace('_', '-')}"
            command = click.option(flag, name, metavar="VALUE", help=text)(command)
    return command


def _announce(settings: Settings) -> None:
    """Say where the service will be, as the log of what serves would say it."""
    said = f"polyseme: http://{settings.host}:{settings.port}"
    if settings.log_format == "json" or (
        settings.log_format == "auto" and not os.isatty(_STANDARD_ERROR)
    ):
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": now, "level": "info", "message": said, "pid": os.getpid()}
        said = orjson.dumps(line).decode()
    # Past Python's buffer: what it cannot write now, it would try again at the end, and fail then.
    with suppress(OSError):
        os.write(_STANDARD_ERROR, f"{said}\n".encode())


@click.command()
@_flags
def serve(**flags: str | None) -> None:
    """Serve the models over HTTP.

    Every option can also be set by an environment variable: POLYSEME_ and its name in upper case.
    """
    settings = settings_from(**flags)
    registry = Registry.of(settings.models_dir, settings.model, verify=settings.verify_models)
    registry.folder(settings.model)  # gunicorn reads it, and says what is wrong with it
    given = {PREFIX + name.upper(): value for name, value in flags.items() if value is not None}
    os.environ.update(given)
    # It would end the process until gunicorn's master takes it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    _announce(settings)
    # `python -m gunicorn`, in this process: what both import is imported once.
    sys.argv = ["gunicorn", "--config", "python:polyseme.server.config", _APPLICATION]
    runpy.run_module("gunicorn", run_name="__main__", alter_sys=True)
