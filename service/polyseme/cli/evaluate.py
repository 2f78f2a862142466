"""`polyseme evaluate`: how well a model's vectors separate senses, beside its controls."""

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import orjson

from polyseme.cli.interruption import cleaning_up
from polyseme.cli.options import model_option, with_registry
from polyseme.cli.progress import ConsoleProgress
from polyseme.command_error import CommandError
from polyseme.evaluation.systems import (
    DEFAULT,
    MINILM,
    MOST_FREQUENT,
    NAMES,
    SERVED_NAMES,
    EvaluationConfig,
    Task,
)
from polyseme.settings import PREFIX, Settings
from polyseme.store.registry import Registry
from polyseme.whole_files import write_whole

_EXTRA = ("sklearn", "scipy", "matplotlib", "httpx")
_TASKS = ("coarsewsd", "wic", "similarity")
_ALL = (MOST_FREQUENT, *NAMES, MINILM)
_IMAGES = {".png": "png", ".svg": "svg"}
_KEY = f"{PREFIX}API_KEY"
"""The variable with a service's key; a flag could be read by every user of the machine."""


def _names(_context: click.Context, _option: click.Parameter, text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not set(names) <= set(_ALL):
        raise click.BadParameter(f"the systems are {', '.join(_ALL)}.")
    return names


def output_place(
    _context: click.Context, option: click.Parameter, file: Path | None
) -> Path | None:
    """Refuse a file to be written where there is no folder for it, before anything is measured."""
    if file and not file.parent.is_dir():
        raise click.BadParameter("there is no such folder.")
    if file and file.exists() and not file.is_file():
        raise click.BadParameter("something else than a file is there.")
    if file and option.name == "plot" and file.suffix.lower() not in _IMAGES:
        raise click.BadParameter("the name has to end in .png or .svg.")
    return file


@click.command()
@click.argument("task", type=click.Choice(_TASKS))
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--url", help="Measure a running service, such as http://127.0.0.1:8000.")
@click.option(
    "--split", type=click.Choice(["dev", "test"]), help="Which part of WiC; dev when left out."
)
@click.option(
    "--systems",
    "names",
    metavar="NAME,NAME...",
    callback=_names,
    help=f"What is measured: {', '.join(_ALL)}.",
)
@click.option("--controls/--no-controls", default=True, help="Measure what the model has to beat.")
@click.option("--compare", is_flag=True, help="Measure all-MiniLM-L6-v2 too (polyseme[compare]).")
@click.option(
    "--json",
    "document",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=output_place,
    help="A file for the results as JSON.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=output_place,
    help="A file for the results as a picture, .png or .svg.",
)
@model_option
@with_registry
def evaluate(
    task: Task, directory: Path, registry: Registry, settings: Settings, **options: Any
) -> None:
    """Measure a model on CoarseWSD-20, WiC or word similarity, beside its controls.

    DIRECTORY holds coarsewsd.tar.xz, wic.tar.xz, or wordsim353.tsv and simlex999.txt; or the
    unpacked files of the set. The key of a service is read from POLYSEME_API_KEY.
    """
    del settings
    wish = EvaluationConfig(
        task, directory, _wanted(task, options), options["split"] or "dev", ConsoleProgress()
    )
    measuring = require_extra()
    if options["url"]:
        service = measuring.ServiceSource(options["url"], options["model"], os.environ.get(_KEY))
        results = measuring.measure_service(service, wish)
    else:
        results = measuring.measure_model(registry.model(options["model"]), wish)
    click.echo(measuring.table(results))
    with cleaning_up():
        if options["document"]:
            style = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
            write_whole(
                options["document"], orjson.dumps(measuring.document(results), option=style)
            )
        if options["plot"]:
            kind = _IMAGES[options["plot"].suffix.lower()]
            drawing = import_module("polyseme.evaluation.plots")
            write_whole(options["plot"], drawing.plot_results(results, kind))


def require_extra() -> ModuleType:
    """What needs the extra `evaluate`, which is heavy: imported when it is used."""
    if missing := [name for name in _EXTRA if find_spec(name) is None]:
        raise CommandError(
            f"`polyseme evaluate` needs {', '.join(missing)}: pip install 'polyseme[evaluate]'."
        )
    return import_module("polyseme.evaluation.measure")


def _wanted(task: str, options: dict[str, Any]) -> list[str]:
    """The names of the systems that are measured; a usage error where they make no sense."""
    if options["split"] and task != "wic":
        raise click.UsageError("--split says which part of WiC; the other sets have one.")
    names = options["names"]
    if task == "similarity":
        if names or options["compare"] or not options["controls"]:
            raise click.UsageError("Similarity is measured of static vectors alone.")
        return []
    if names and not options["controls"]:
        raise click.UsageError("Give --systems or --no-controls, not both.")
    if task == "wic" and MOST_FREQUENT in (names or ()):
        raise click.UsageError("WiC is about pairs: there is no most frequent sense to guess.")
    if names is None:
        beside = [*SERVED_NAMES] if options["url"] else [*DEFAULT]
        names = [MOST_FREQUENT, *beside] if options["controls"] else ["model"]
    return [*names, *([MINILM] if options["compare"] else [])]
