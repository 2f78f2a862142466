"""What several commands need: the settings, the model, the case."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click
from pydantic import ValidationError

from polyseme.models.registry import Registry
from polyseme.settings import PREFIX, Settings, default_models_dir
from polyseme.tokenizer import Case


def settings_from(**flags: Any) -> Settings:
    """The settings of the environment under some flags; a usage error where one is wrong."""
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][0])
        flag = f"--{name.replace('_', '-')}"
        said = flag if name in given else f"{PREFIX}{name.upper()}"
        message = first["msg"].removeprefix("Value error, ")
        raise click.UsageError(f"{said}: {message}.") from None


def with_registry(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--models-dir`, and the registry of the models there as `registry`."""

    @click.option(
        "--models-dir",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder of model folders, beside the bundled; by default the user's own.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, models_dir: Path | None, **options: Any) -> Any:
        settings = settings_from(models_dir=models_dir)
        registry = Registry.of(settings.models_dir, settings.model, verify=settings.verify_models)
        return command(*args, registry=registry, settings=settings, **options)

    return wrapped


def require_unicode(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts; a usage error where the terminal or a pipe gave bytes that are no text."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise click.UsageError("A text is not valid UTF-8.") from None
    return texts


model_option = click.option("--model", help="Name of the model; the default one when left out.")
case_option = click.option(
    "--case",
    type=click.Choice(get_args(Case)),
    default="auto",
    show_default=True,
    help="Which spellings of a word are looked up.",
)
destination_option = click.option(
    "--models-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar=f"{PREFIX}MODELS_DIR",
    default=default_models_dir,
    help="Folder that the model's folder goes into; the default is in the user's data folder.",
)
