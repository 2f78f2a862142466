"""Parts shared by several commands: settings, models, options, output files and signals."""

import functools
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn, get_args

import click

from polyseme.atomic_files import atomic_files
from polyseme.models.registry import Registry
from polyseme.operations.schema import MAX_SHARE
from polyseme.settings import PREFIX, SettingError, Settings, default_models_dir
from polyseme.tokenizer import Case

model_option = click.option("--model", help="Name of the model; by default POLYSEME_MODEL.")
case_option = click.option(
    "--case",
    type=click.Choice(get_args(Case)),
    default="auto",
    show_default=True,
    help="How words are looked up. auto: as written, else in lower case, capitalized or in upper"
    " case; exact: only as written; lower: only in lower case.",
)
phrases_option = click.option(
    "--phrases",
    is_flag=True,
    help="Make consecutive words one token if the vocabulary has their phrase, such as New_York.",
)
share_option = click.option(
    "--share",
    type=click.FloatRange(0, MAX_SHARE),
    help="Share of the unit static vector that is added to the unit context in contextual vectors;"
    " by default the model's share.",
)
destination_option = click.option(
    "--models-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar=f"{PREFIX}MODELS_DIR",
    default=default_models_dir,
    help="Folder in which the model's folder is created; by default in the user's data folder.",
)
output_option = click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    default="-",
    help="Output file; by default standard output.",
)


def settings_from(**flags: Any) -> Settings:
    """Return the settings of the environment, which flags override.

    Raises click.UsageError for an invalid setting.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**given)
    except SettingError as error:
        flag, variable = f"--{error.name.replace('_', '-')}", f"{PREFIX}{error.name.upper()}"
        where = flag if error.name in given else variable
        raise click.UsageError(f"{where}: {error.message}.") from None


def with_registry(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--models-dir` to a command, and pass it the registry and the settings."""

    @click.option(
        "--models-dir",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder of model folders, in addition to the bundled models; by default in the user's"
        " data folder.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, models_dir: Path | None, **options: Any) -> Any:
        settings = settings_from(models_dir=models_dir)
        registry = Registry.of(settings.models_dir, settings.model, verify=settings.verify_models)
        return command(*args, registry=registry, settings=settings, **options)

    return wrapped


def with_options(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Add several options to a command; its help lists them in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def require_unicode(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts; raise click.UsageError if one has bytes that are not UTF-8."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise click.UsageError("A text is not valid UTF-8.") from None
    return texts


@contextmanager
def open_output(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing; `-` is standard output. A regular file is replaced at the end."""
    if str(path) == "-":
        yield sys.stdout.buffer
    elif path.exists() and not path.is_file():
        with path.open("wb") as file:  # a pipe or a device, such as /dev/stdout
            yield file
    else:
        with exit_on_signals(), atomic_files(path) as (file,):
            yield file


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise SystemExit on SIGTERM and SIGHUP, so that cleanup runs as it does after Ctrl-C.

    A signal that is ignored, such as SIGHUP under `nohup`, stays ignored.
    """
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, _exit) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)
