"""`polyseme serve`: gunicorn, with the settings."""

import os
import sys
from collections.abc import Callable
from typing import Any

import click

from service.cli.options import settings_from
from service.errors import ModelFolderError
from service.settings import PREFIX, Settings
from service.store.registry import Registry

_SECRET = ("api_keys",)
"""Settings without a flag: every user of the machine can read a command line."""


def _flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command one option for each setting."""
    for name, field in reversed(Settings.model_fields.items()):
        if name not in _SECRET:
            default = "" if field.default in {None, ""} or field.default_factory else field.default
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
    registry.folder(settings.model)
    try:
        registry.model()
    except ModelFolderError as error:
        click.echo(f"polyseme: {settings.model} is broken: {error.sentence}", err=True)
    given = {PREFIX + name.upper(): value for name, value in flags.items() if value is not None}
    os.environ.update(given)
    click.echo(f"polyseme: http://{settings.host}:{settings.port}", err=True)
    arguments = ["-m", "gunicorn", "--config", "python:service.http.serving"]
    os.execv(sys.executable, [sys.executable, *arguments, "service.http.app:create_app()"])  # noqa: S606
