"""`polyseme serve`: gunicorn, with the settings."""

import os
import runpy
import signal
import sys
from collections.abc import Callable
from typing import Any

import click

from service.cli.options import settings_from
from service.settings import PREFIX, Settings
from service.store.registry import Registry

_APPLICATION = "service.http.app:create_app()"
_SECRET = ("api_keys",)
"""Settings without a flag: every user of the machine can read a command line."""


def _flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command one option for each setting."""
    for name, field in reversed(Settings.model_fields.items()):
        if name not in _SECRET:
            default = "" if field.default == "" or field.default_factory else field.default
            note = f"  [default: {default}]" if default != "" else ""
            text = f"{field.description}{note}"
            flag = f"--{name.replace('_', '-')}"
            command = click.option(flag, name, metavar="VALUE", help=text)(command)
    return command


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
    click.echo(f"polyseme: http://{settings.host}:{settings.port}", err=True)
    # `python -m gunicorn`, in this process: what both import is imported once.
    sys.argv = ["gunicorn", "--config", "python:service.http.serving", _APPLICATION]
    runpy.run_module("gunicorn", run_name="__main__", alter_sys=True)
