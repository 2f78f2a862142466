"""Parts shared by several commands: settings, models, options and signals."""

import functools
import inspect
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import click
from pydantic import BaseModel

from polyseme.errors import CommandError, install_command
from polyseme.models.registry import Registry
from polyseme.settings import PREFIX, SettingError, Settings, default_models_dir

Option: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""A decorator that adds an option to a command."""

_HELP = {
    "case": "How words are looked up. auto: as written, else in lower case, capitalized or in upper"
    " case; exact: only as written; lower: only in lower case.",
    "heads": "Attention and scores of each head, or the mean of the heads.",
    "include": "An array to return; may be given several times.",
    "neighbors": "Number of neighbors of each vector.",
    "oov": "What to do with unknown words: use a zero vector, compose a vector from subwords, or"
    " fail. The default is subword if the model has subword vectors, else zero.",
    "phrases": "Make consecutive words one token if the vocabulary has their phrase, such as"
    " New_York.",
    "share": "Share of the unit static vector that is added to the unit context in contextual"
    " vectors; by default the model's share.",
    "truncate": "Truncate sentences that exceed the limit.",
}
"""The help of options that are fields of requests."""

model_option = click.option("--model", help="Name of the model; by default POLYSEME_MODEL.")
column_option = click.option(
    "--column", default="text", show_default=True, help="The column, or field, of the texts."
)
destination_option = click.option(
    "--models-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar=f"{PREFIX}MODELS_DIR",
    default=default_models_dir,
    help="Folder in which the model's folder is created; by default in the user's data folder.",
)


def with_options(*options: Option) -> Option:
    """Add several options to a command; its help lists them in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def choice_option(
    flag: str, values: Sequence[str], default: str | None, text: str, *name: str, **more: Any
) -> Option:
    """Return an option with one of several values; `name` is that of the argument if it differs."""
    return click.option(
        flag,
        *name,
        type=click.Choice(values),
        default=default,
        show_default=True,
        help=text,
        **more,
    )


def field_option(request: type[BaseModel], name: str, text: str = "") -> Option:
    """Return the option of an optional field: its name, type, bounds, default and help."""
    field = request.model_json_schema()["properties"][name]
    schema = field["anyOf"][0]  # the other one is null
    several = schema["type"] == "array"
    schema = schema["items"] if several else schema
    flag, text = f"--{name.replace('_', '-')}", text or _HELP[name]
    if schema["type"] == "boolean":
        return click.option(flag, is_flag=True, help=text)
    default = None if several else field["default"]
    if "enum" in schema:
        return choice_option(flag, schema["enum"], default, text, multiple=several)
    kinds = {"number": click.FloatRange, "integer": click.IntRange}
    kind = kinds[schema["type"]](schema["minimum"], schema["maximum"])
    return click.option(flag, type=kind, default=default, show_default=True, help=text)


def settings_from(**flags: Any) -> Settings:
    """Return the settings of the environment, which flags override.

    Raises click.UsageError for an invalid setting.
    """
    values = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**values)
    except SettingError as error:
        flag, variable = f"--{error.name.replace('_', '-')}", f"{PREFIX}{error.name.upper()}"
        where = flag if error.name in values else variable
        raise click.UsageError(f"{where}: {error.message}.") from None


def with_registry(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--models-dir`, and pass the registry and, if requested, the settings."""

    @click.option(
        "--models-dir",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder of model folders, in addition to the bundled models; by default in the user's"
        " data folder.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, models_dir: Path | None, **options: Any) -> Any:
        settings = settings_from(models_dir=models_dir)
        registry = Registry.of(settings.models_dir, settings.model)
        if "settings" in inspect.signature(command).parameters:
            options["settings"] = settings
        return command(*args, registry=registry, **options)

    return wrapped


def require_package(package: str, purpose: str, extra: str) -> None:
    """Raise CommandError if a package is not installed."""
    if not find_spec(package):
        raise CommandError(f"{purpose}: {install_command(extra)}.")


def require_unicode(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts; raise click.UsageError if one has bytes that are not UTF-8."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise click.UsageError("A text is not valid UTF-8.") from None
    return texts


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise SystemExit on SIGTERM and SIGHUP, so that cleanup runs as it does after Ctrl-C.

    A signal that is ignored, such as SIGHUP under `nohup`, stays ignored.
    """

    def leave(signum: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + signum)

    signals = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    before = {one: signal.signal(one, leave) for one in signals}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
