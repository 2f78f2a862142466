"""`polyseme evaluate`: how well vectors separate senses, and their uses."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from polyseme.cli.options import (
    exit_on_signals,
    model_option,
    require_package,
    with_options,
    with_registry,
)
from polyseme.models.registry import Registry
from polyseme.terminal import Progress, echo
from polyseme_lab.evaluation.systems import MINILM, MOST_FREQUENT, NAMES, Split
from polyseme_lab.report import write_json

if TYPE_CHECKING:
    from polyseme_lab.evaluation.results import Results

_SYSTEMS = (MOST_FREQUENT, *NAMES, MINILM)


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
    _context: click.Context, _option: click.Parameter, file: Path | None
) -> Path | None:
    """Return an output file; raise BadParameter for a missing folder or a device."""
    if file and not file.parent.is_dir():
        raise click.BadParameter("there is no such folder.")
    if file and file.exists() and not file.is_file():
        raise click.BadParameter("the path exists and is not a regular file.")
    return file


_directory = click.argument(
    "directory", type=click.Path(path_type=Path, exists=True, file_okay=False)
)
_file = click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
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
_downstream_options = with_options(_json, model_option, with_registry)


@click.command()
@click.argument("task", type=click.Choice(["coarsewsd", "wic"]))
@_directory
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
@model_option
@with_registry
def evaluate(task: Any, directory: Path, registry: Registry, **options: Any) -> None:
    """Evaluate a model and its baselines on CoarseWSD-20 or WiC.

    DIRECTORY contains the archive coarsewsd.tar.xz or wic.tar.xz, or its extracted files.

    Other measures are commands of their own, with --help: `polyseme evaluate tagging`,
    `sentences`, `pseudowords` and `senses`.
    """
    names = options["names"]
    if options["split"] and task != "wic":
        raise click.UsageError("--split applies only to WiC, which has two splits to measure.")
    if names and not options["controls"]:
        raise click.UsageError("Give --systems or --no-controls, not both.")
    if task == "wic" and MOST_FREQUENT in (names or ()):
        raise click.UsageError("WiC consists of pairs of sentences and has no most frequent sense.")
    if names is None:
        names = [MOST_FREQUENT, *NAMES] if options["controls"] else ["model"]
    if options["compare"]:
        names = [*names, MINILM]
    require_package("sklearn", "`polyseme evaluate` needs scikit-learn", "evaluate")
    from polyseme_lab.evaluation.measure import measure_model

    model, progress = registry.model(options["model"]), Progress()
    split: Split = options["split"] or "dev"
    _report(measure_model(model, task, directory, names, split=split, progress=progress), options)


def _print(lines: str) -> None:
    for line in lines.split("\n"):
        echo(line)


def _report(results: "Results", options: Mapping[str, Any]) -> None:
    """Print the table and write the requested file."""
    from polyseme_lab.evaluation.results import document, table

    _print(table(results))
    with exit_on_signals():
        if options["document"]:
            write_json(options["document"], document(results))


@click.command("evaluate tagging")
@_directory
@click.option(
    "--hidden",
    is_flag=True,
    help="Use a classifier with one hidden layer of 256 units instead of a linear one.",
)
@_downstream_options
def tagging(directory: Path, registry: Registry, *, hidden: bool, **options: Any) -> None:
    """Train a classifier of tokens on each kind of vectors, and on windows of static vectors.

    DIRECTORY has train.tsv and dev.tsv: a token, a tab and a tag in each line, an empty line after
    each sentence. The score is the accuracy, or the F1 of spans for BIO tags.
    """
    _report_downstream("measure_tagging", directory, registry, options, hidden=hidden)


@click.command("evaluate sentences")
@_file
@_downstream_options
def sentences(file: Path, registry: Registry, **options: Any) -> None:
    """Compare the cosines of sentence vectors with people's similarity ratings.

    FILE has a score and two sentences in each line, separated by tabs, as in the STS benchmark.
    """
    _report_downstream("measure_sentences", file, registry, options)


@click.command("evaluate pseudowords")
@_file
@_downstream_options
def pseudowords(file: Path, registry: Registry, **options: Any) -> None:
    """Measure how well contexts tell apart two words that one pseudo-word replaces.

    FILE is JSONL, or .xz of it. Each line has a pair of `words`, and their `occurrences`, each with
    `sense`, 0 or 1 for the word of the pair that stood there, `index` and `tokens`.
    """
    _report_downstream("measure_pseudowords", file, registry, options)


@click.command("evaluate senses")
@_directory
@_downstream_options
def senses(directory: Path, registry: Registry, **options: Any) -> None:
    """Find the senses of words without the labels, and compare them with the labels.

    DIRECTORY has coarsewsd.tar.xz or its extracted files, or pseudowords.jsonl.xz; each set that is
    there is measured.
    """
    require_package("sklearn", "`polyseme evaluate` needs scikit-learn", "evaluate")
    from polyseme_lab.evaluation.results import document, table
    from polyseme_lab.evaluation.sense_induction import measure_senses

    model = registry.model(options["model"])
    results = measure_senses(model, directory, Progress())
    _print("\n\n".join(map(table, results.values())))
    if options["document"]:
        sets = {name: document(of_set) for name, of_set in results.items()}
        with exit_on_signals():
            facts = {"task": "senses", "model": model.manifest.name}
            write_json(options["document"], {**facts, "sets": sets})


def _report_downstream(
    measure: str, path: Path, registry: Registry, options: Mapping[str, Any], **how: Any
) -> None:
    """Measure the model, and report the results."""
    require_package("sklearn", "`polyseme evaluate` needs scikit-learn", "evaluate")
    from polyseme_lab.evaluation import downstream

    model = registry.model(options["model"])
    _report(getattr(downstream, measure)(model, path, Progress(), **how), options)
