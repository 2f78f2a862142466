"""`polyseme evaluate tagging | sentences | pseudowords | senses`: downstream tasks and senses."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from polyseme.atomic_files import atomic_write
from polyseme.cli.options import exit_on_signals, model_option, with_options, with_registry
from polyseme.models.registry import Registry
from polyseme.progress import ConsoleProgress
from polyseme.settings import Settings
from polyseme_lab.commands.evaluate import (
    API_KEY,
    IMAGES,
    import_measure,
    json_option,
    plot_option,
    write_json,
)

if TYPE_CHECKING:
    from polyseme.client.encoder import Encoder
    from polyseme_lab.evaluation.results import Results

_options = with_options(
    click.option("--url", help="Measure a running service, such as http://127.0.0.1:8000."),
    click.option(
        "--compare", is_flag=True, help="Measure all-MiniLM-L6-v2 too (polyseme[compare])."
    ),
    json_option,
    plot_option,
    model_option,
)
_file = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("evaluate tagging")
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--hidden",
    is_flag=True,
    help="Use a classifier with one hidden layer of 256 units instead of a linear one.",
)
@_options
@with_registry
def tagging(
    directory: Path, registry: Registry, settings: Settings, *, hidden: bool, **options: Any
) -> None:
    """Train a classifier of tokens on each kind of vectors, and on windows of static vectors.

    DIRECTORY has train.tsv and dev.tsv: a token, a tab and a tag in each line, an empty line after
    each sentence. The score is the accuracy, or the F1 of spans for BIO tags.
    """
    del settings
    import_measure()
    from polyseme_lab.evaluation.downstream import measure_tagging

    encoder, progress = _encoder(registry, options), ConsoleProgress()
    compare = options["compare"]
    _report(
        measure_tagging(encoder, directory, hidden=hidden, compare=compare, progress=progress),
        options,
    )


@click.command("evaluate sentences")
@click.argument("file", type=_file)
@_options
@with_registry
def sentences(file: Path, registry: Registry, settings: Settings, **options: Any) -> None:
    """Compare the cosines of sentence vectors with people's similarity ratings.

    FILE has a score and two sentences in each line, separated by tabs, as in the STS benchmark.
    """
    del settings
    import_measure()
    from polyseme_lab.evaluation.downstream import measure_sentences

    encoder = _encoder(registry, options)
    compare = options["compare"]
    _report(measure_sentences(encoder, file, compare=compare, progress=ConsoleProgress()), options)


@click.command("evaluate pseudowords")
@click.argument("file", type=_file)
@_options
@with_registry
def pseudowords(file: Path, registry: Registry, settings: Settings, **options: Any) -> None:
    """Measure how well contexts tell apart two words that one pseudo-word replaces.

    FILE is JSONL, or .xz of it. Each line has a pair of `words`, and their `occurrences`, each with
    `sense`, `index` and `tokens`.
    """
    del settings
    import_measure()
    from polyseme_lab.evaluation.downstream import measure_pseudowords

    encoder = _encoder(registry, options)
    compare = options["compare"]
    found = measure_pseudowords(encoder, file, compare=compare, progress=ConsoleProgress())
    _report(found, options)


@click.command("evaluate senses")
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--compare", is_flag=True, help="Measure all-MiniLM-L6-v2 too (polyseme[compare]).")
@json_option
@model_option
@with_registry
def senses(directory: Path, registry: Registry, settings: Settings, **options: Any) -> None:
    """Find the senses of words without the labels, and compare them with the labels.

    DIRECTORY has coarsewsd.tar.xz or its extracted files, pseudowords.jsonl.xz, or the folder
    SemEval-2013-Task-13-test-data; each set that is there is measured.
    """
    del settings
    import_measure()
    from polyseme_lab.evaluation.results import document, table
    from polyseme_lab.evaluation.sense_induction import measure_senses

    model, compare = registry.model(options["model"]), options["compare"]
    found = measure_senses(model, directory, compare=compare, progress=ConsoleProgress())
    click.echo("\n\n".join(map(table, found.values())))
    if options["document"]:
        sets = {name: document(one) for name, one in found.items()}
        with exit_on_signals():
            facts = {"task": "senses", "model": model.manifest.name}
            write_json(options["document"], {**facts, "sets": sets})


def _encoder(registry: Registry, options: dict[str, Any]) -> "Encoder":
    """Return the model in this process, or a client of the service at the URL."""
    if options["url"]:
        from polyseme.client.client import Client

        return Client(options["url"], os.environ.get(API_KEY) or "", model=options["model"])
    from polyseme.client.local import LocalModel

    return LocalModel(registry.model(options["model"]))


def _report(results: "Results", options: dict[str, Any]) -> None:
    """Print the table and write the requested files."""
    from polyseme_lab.evaluation.plots import plot_results
    from polyseme_lab.evaluation.results import document, table

    click.echo(table(results))
    with exit_on_signals():
        if options["document"]:
            write_json(options["document"], document(results))
        if options["plot"]:
            kind = IMAGES[options["plot"].suffix.lower()]
            atomic_write(options["plot"], plot_results(results, kind))
