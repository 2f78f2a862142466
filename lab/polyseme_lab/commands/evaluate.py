"""`polyseme evaluate`: how well vectors separate senses, and their uses."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click
import orjson

from polyseme.atomic_files import atomic_write
from polyseme.cli.options import exit_on_signals, model_option, with_options, with_registry
from polyseme.errors import CommandError, PolysemeError, UnauthorisedError, install_command
from polyseme.models.registry import Registry
from polyseme.progress import ConsoleProgress
from polyseme.settings import PREFIX
from polyseme.terminal import echo
from polyseme_lab.evaluation.systems import (
    DEFAULT,
    MINILM,
    MOST_FREQUENT,
    NAMES,
    SERVED_NAMES,
    EvaluationConfig,
    Task,
)

if TYPE_CHECKING:
    from polyseme.client.client import Client
    from polyseme.client.encoder import Encoder
    from polyseme_lab.evaluation.results import Results

_EXTRA = ("sklearn", "scipy", "matplotlib", "httpx")
_SYSTEMS = (MOST_FREQUENT, *NAMES, MINILM)
_RETRIES = 5
"""Number of further attempts of a request to a service."""
IMAGES: dict[str, Literal["png", "svg"]] = {".png": "png", ".svg": "svg"}
API_KEY = f"{PREFIX}API_KEY"
"""The environment variable with the key of a service. It has no flag, because every user of the
machine can read the command line."""


def _parse_systems(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not set(names) <= set(_SYSTEMS):
        raise click.BadParameter(f"the systems are {', '.join(_SYSTEMS)}.")
    return names


def _check_output(
    _context: click.Context, option: click.Parameter, file: Path | None
) -> Path | None:
    """Return an output file; raise BadParameter for a missing folder, a device or a bad suffix."""
    if file and not file.parent.is_dir():
        raise click.BadParameter("there is no such folder.")
    if file and file.exists() and not file.is_file():
        raise click.BadParameter("the path exists and is not a regular file.")
    if file and option.name == "plot" and file.suffix.lower() not in IMAGES:
        raise click.BadParameter("the name must end in .png or .svg.")
    return file


_directory = click.argument(
    "directory", type=click.Path(path_type=Path, exists=True, file_okay=False)
)
_file = click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
_url = click.option("--url", help="Measure a running service, such as http://127.0.0.1:8000.")
_compare = click.option(
    "--compare", is_flag=True, help="Measure all-MiniLM-L6-v2 too (polyseme[compare])."
)
_json = click.option(
    "--json",
    "document",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_check_output,
    help="Output file for the results as JSON.",
)
_plot = click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_check_output,
    help="Output file for a plot of the results, .png or .svg.",
)
_downstream_options = with_options(_url, _compare, _json, _plot, model_option)


@click.command()
@click.argument("task", type=click.Choice(get_args(Task)))
@_directory
@_url
@click.option(
    "--split", type=click.Choice(["dev", "test"]), help="The split of WiC; by default dev."
)
@click.option(
    "--systems",
    "names",
    metavar="NAME,NAME...",
    callback=_parse_systems,
    help=f"The systems to measure: {', '.join(_SYSTEMS)}.",
)
@click.option("--controls/--no-controls", default=True, help="Measure the baselines too.")
@_compare
@_json
@_plot
@model_option
@with_registry
def evaluate(task: Task, directory: Path, registry: Registry, **options: Any) -> None:
    """Evaluate a model and its baselines on CoarseWSD-20, WiC or word similarity.

    DIRECTORY contains the archive coarsewsd.tar.xz or wic.tar.xz, or its extracted files; or
    wordsim353.tsv, simlex999.txt, or both. The key of a service is read from POLYSEME_API_KEY.

    Other measures are commands of their own, with --help: `polyseme evaluate tagging`,
    `sentences`, `pseudowords` and `senses`.
    """
    names = options["names"]
    if options["split"] and task != "wic":
        raise click.UsageError("--split applies only to WiC, which has two splits to measure.")
    if task == "similarity":
        if names or options["compare"] or not options["controls"]:
            raise click.UsageError("Similarity is measured for static vectors only.")
        names = []
    elif names and not options["controls"]:
        raise click.UsageError("Give --systems or --no-controls, not both.")
    elif task == "wic" and MOST_FREQUENT in (names or ()):
        raise click.UsageError("WiC consists of pairs of sentences and has no most frequent sense.")
    elif names is None:
        systems = SERVED_NAMES if options["url"] else DEFAULT
        names = [MOST_FREQUENT, *systems] if options["controls"] else ["model"]
    if options["compare"]:
        names = [*names, MINILM]
    config = EvaluationConfig(task, directory, names, options["split"] or "dev", ConsoleProgress())
    require_extra()
    from polyseme_lab.evaluation.measure import measure_model, measure_service
    from polyseme_lab.evaluation.sources import ServiceSource

    if options["url"]:
        with _service(options) as client:
            results = measure_service(ServiceSource(client), config)
    else:
        results = measure_model(registry.model(options["model"]), config)
    _report(results, options)


@contextmanager
def _service(options: Mapping[str, Any]) -> Iterator["Client"]:
    """Yield the client of a service; raise CommandError for its errors and the service's."""
    from polyseme.client.client import Client
    from polyseme.client.errors import ClientError

    url, key, model = options["url"], os.environ.get(API_KEY) or "", options["model"]
    try:
        with Client(url, key, model, timeout=120, retries=_RETRIES, longest_wait=120) as client:
            yield client
    except PolysemeError as error:
        hint = "POLYSEME_API_KEY sets the key." if isinstance(error, UnauthorisedError) else None
        message = f"The service responds with {error.status}: {error.message(hint)}"
        raise CommandError(message) from None
    except (ClientError, ValueError) as error:
        raise CommandError(str(error)) from None


def require_extra() -> None:
    """Raise CommandError unless the packages of the extra `evaluate` are installed."""
    if missing := [name for name in _EXTRA if find_spec(name) is None]:
        raise CommandError(
            f"`polyseme evaluate` needs {', '.join(missing)}: {install_command('evaluate')}."
        )


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document as indented JSON."""
    style = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    atomic_write(path, orjson.dumps(document, option=style))


def _print(lines: str) -> None:
    for line in lines.split("\n"):
        echo(line)


def _report(results: "Results", options: Mapping[str, Any]) -> None:
    """Print the table and write the requested files."""
    from polyseme_lab.evaluation.results import document, plot_results, table

    _print(table(results))
    with exit_on_signals():
        if options["document"]:
            write_json(options["document"], document(results))
        if options["plot"]:
            kind = IMAGES[options["plot"].suffix.lower()]
            atomic_write(options["plot"], plot_results(results, kind))


@click.command("evaluate tagging")
@_directory
@click.option(
    "--hidden",
    is_flag=True,
    help="Use a classifier with one hidden layer of 256 units instead of a linear one.",
)
@_downstream_options
@with_registry
def tagging(directory: Path, registry: Registry, *, hidden: bool, **options: Any) -> None:
    """Train a classifier of tokens on each kind of vectors, and on windows of static vectors.

    DIRECTORY has train.tsv and dev.tsv: a token, a tab and a tag in each line, an empty line after
    each sentence. The score is the accuracy, or the F1 of spans for BIO tags.
    """
    _report_downstream("measure_tagging", directory, registry, options, hidden=hidden)


@click.command("evaluate sentences")
@_file
@_downstream_options
@with_registry
def sentences(file: Path, registry: Registry, **options: Any) -> None:
    """Compare the cosines of sentence vectors with people's similarity ratings.

    FILE has a score and two sentences in each line, separated by tabs, as in the STS benchmark.
    """
    _report_downstream("measure_sentences", file, registry, options)


@click.command("evaluate pseudowords")
@_file
@_downstream_options
@with_registry
def pseudowords(file: Path, registry: Registry, **options: Any) -> None:
    """Measure how well contexts tell apart two words that one pseudo-word replaces.

    FILE is JSONL, or .xz of it. Each line has a pair of `words`, and their `occurrences`, each with
    `sense`, 0 or 1 for the word of the pair that stood there, `index` and `tokens`.
    """
    _report_downstream("measure_pseudowords", file, registry, options)


@click.command("evaluate senses")
@_directory
@_compare
@_json
@model_option
@with_registry
def senses(directory: Path, registry: Registry, **options: Any) -> None:
    """Find the senses of words without the labels, and compare them with the labels.

    DIRECTORY has coarsewsd.tar.xz or its extracted files, or pseudowords.jsonl.xz; each set that is
    there is measured.
    """
    require_extra()
    from polyseme_lab.evaluation.results import document, table
    from polyseme_lab.evaluation.sense_induction import measure_senses

    model, compare = registry.model(options["model"]), options["compare"]
    results = measure_senses(model, directory, compare=compare, progress=ConsoleProgress())
    _print("\n\n".join(map(table, results.values())))
    if options["document"]:
        sets = {name: document(of_set) for name, of_set in results.items()}
        with exit_on_signals():
            facts = {"task": "senses", "model": model.manifest.name}
            write_json(options["document"], {**facts, "sets": sets})


def _report_downstream(
    measure: str, path: Path, registry: Registry, options: Mapping[str, Any], **how: Any
) -> None:
    """Measure the model in this process, or the service at the URL, and report the results."""
    require_extra()
    from polyseme.client.local import LocalModel
    from polyseme_lab.evaluation import downstream

    how = {"compare": options["compare"], "progress": ConsoleProgress(), **how}
    with ExitStack() as stack:
        encoder: Encoder
        if options["url"]:
            encoder = stack.enter_context(_service(options))
        else:
            encoder = LocalModel(registry.model(options["model"]))
        results = getattr(downstream, measure)(encoder, path, **how)
    _report(results, options)
