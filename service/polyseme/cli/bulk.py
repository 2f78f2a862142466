"""`polyseme bulk`: files of texts to shards of vectors."""

import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from polyseme import __version__
from polyseme.bulk.refusal import BulkError
from polyseme.cli.interruption import cleaning_up
from polyseme.cli.options import case_option, model_option, require_unicode, with_registry
from polyseme.cli.progress import ConsoleProgress
from polyseme.encoding.choice import Choice, Dtype, Unlisted, chosen_oov
from polyseme.encoding.pooling import Pooling
from polyseme.models.registry import Registry, bundled_models
from polyseme.settings import Settings, usable_cpus

if TYPE_CHECKING:
    from polyseme.bulk.job import Job, Wishes
    from polyseme.bulk.run import Outcome

_ROWS = {"npz": 1024, "parquet": 4096, "vectors": 16_384}
"""Of a shard, where nothing else is said: some 20 to 120 MB, and an archive is held whole."""
_OPTIONS = (
    click.option(
        "--column", default="text", show_default=True, help="The column, or field, of the texts."
    ),
    click.option(
        "--keep", multiple=True, help="A column that is passed through; may be given several times."
    ),
    click.option(
        "--include",
        type=click.Choice(["static", "contextual", "attention", "none"]),
        multiple=True,
        default=["contextual"],
        show_default=True,
        help="An array of each sentence, beside its tokens; may be given several times. `none`"
        " writes no tokens either, for --pooling alone.",
    ),
    click.option(
        "--pooling",
        type=click.Choice(get_args(Pooling)),
        help="Also a vector of each sentence: words weighed by how much they tell, or their mean.",
    ),
    click.option(
        "--heads",
        type=click.Choice(["all", "mean"]),
        default="all",
        show_default=True,
        help="Attention of each head, or their mean.",
    ),
    click.option(
        "--format",
        type=click.Choice(["parquet", "npz"]),
        default="parquet",
        show_default=True,
        help="Parquet, or NumPy archives such as /v1/encode answers with.",
    ),
    click.option(
        "--dtype",
        type=click.Choice(get_args(Dtype)),
        default="float32",
        show_default=True,
        help="How numbers are written; float16 is half as large, and rounded once.",
    ),
    click.option(
        "--compression",
        "packing",
        type=click.Choice(["none", "zstd"]),
        default="none",
        show_default=True,
        help="Of the numbers in Parquet: zstd saves a sixth and takes longer.",
    ),
    click.option(
        "--shard-rows",
        type=click.IntRange(1, 10_000_000),
        help="Rows of each file that is written.  [default: {parquet}; npz: {npz}; --include none:"
        " {vectors}]".format(**_ROWS),
    ),
    click.option(
        "--batch-rows",
        type=click.IntRange(1, 1_000_000),
        default=1024,
        show_default=True,
        help="Rows that a worker holds at once, at most.",
    ),
    click.option(
        "--oov",
        type=click.Choice(get_args(Unlisted)),
        help="For words that the vocabulary lacks, as `polyseme encode` has it.",
    ),
    click.option("--truncate", is_flag=True, help="Cut a sentence that is over the limit."),
    click.option(
        "--workers",
        type=click.IntRange(1, 1024),
        default=usable_cpus,
        help="Processes that encode and write; the default is one for each processor.",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Work on the Dask cluster there, such as tcp://host:8786, in place of --workers.",
    ),
)


def _options(command: Any) -> Any:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path, file_okay=False))
@_options
@case_option
@model_option
@with_registry
def bulk(source: Path, out: Path, registry: Registry, settings: Settings, **options: Any) -> None:
    """Encode the texts of IN into shards in the folder OUT.

    IN is a file, a folder of files or a pattern in quotes: .parquet, or .jsonl, .csv, .tsv or .txt
    (a line a sentence), also with .gz, .zst or .bz2 behind. The same command again goes on where
    one was stopped. Needs pyarrow: pip install 'polyseme[bulk]'.
    """
    _require_extras(options)
    from polyseme.bulk.run import in_processes, on_cluster, run  # noqa: PLC0415 - loads pyarrow
    from polyseme.bulk.sources import sources  # noqa: PLC0415

    require_unicode((options["column"], *options["keep"]))
    scheduler = options["scheduler"]
    job = _job(out, registry, settings, options)
    files = sources(source)
    write = on_cluster(scheduler) if scheduler else in_processes(options["workers"])
    began = time.perf_counter()
    progress = ConsoleProgress()
    with cleaning_up(), progress.stage("encoding", sum(file.bytes for file in files)) as bar:
        outcome = run(job, files, __version__, write, lambda now: bar.reach(now.read, now.rows))
    _tell(outcome, time.perf_counter() - began)


def _require_extras(options: dict[str, Any]) -> None:
    """End where a library or an option that belongs to another is missing."""
    if not find_spec("pyarrow"):
        raise BulkError("Bulk work needs pyarrow: pip install 'polyseme[bulk]'.")
    if options["scheduler"] and not find_spec("distributed"):
        raise BulkError("A cluster needs Dask: pip install 'polyseme[cluster]'.")
    if "none" in options["include"]:
        if len(options["include"]) > 1:
            raise click.UsageError("--include none stands alone.")
        if not options["pooling"]:
            raise click.UsageError("--include none leaves nothing to write without --pooling.")
    if options["format"] == "npz" and options["keep"]:
        raise click.UsageError("--keep is for Parquet: a NumPy archive has no such columns.")


def _job(out: Path, registry: Registry, settings: Settings, options: dict[str, Any]) -> "Job":
    """The job of the options; raise an error of the tree where the model cannot do it."""
    from polyseme.bulk.job import Job, fingerprint  # noqa: PLC0415 - loads threadpoolctl

    name = options["model"] or settings.model
    wishes = _wishes(settings, options)
    chosen_oov(wishes.choice, registry.model(name))
    places = bundled_models(), settings.models_dir.absolute()
    found = fingerprint(registry.folder(name))
    # Workers of this machine map what has just been verified.
    verify = settings.verify_models and bool(options["scheduler"])
    return Job(wishes, out.absolute(), name, places, found, verify=verify)


def _wishes(settings: Settings, options: dict[str, Any]) -> "Wishes":
    from polyseme.bulk.job import Wishes  # noqa: PLC0415

    choice = Choice(
        include=frozenset(options["include"]) - {"none"},
        mean_of_heads=options["heads"] == "mean",
        **{name: options[name] for name in ("oov", "case", "truncate", "dtype")},
    )
    size = "npz" if options["format"] == "npz" else "parquet" if choice.include else "vectors"
    same = ("pooling", "format", "packing", "column", "keep", "batch_rows")
    return Wishes(
        choice,
        most_tokens=settings.max_sentence_tokens,
        shard_rows=options["shard_rows"] or _ROWS[size],
        **{name: options[name] for name in same},
    )


def _tell(outcome: "Outcome", seconds: float) -> None:
    """What was written, and how fast."""
    totals, course = outcome.totals, outcome.course
    click.echo(
        f"{totals.rows:,} rows  {totals.tokens:,} tokens  {totals.unknown:,} unknown "
        f" {totals.truncated:,} words cut off  {totals.missing:,} without a text "
        f" {outcome.shards:,} shards  {outcome.bytes / 1e6:,.0f} MB"
    )
    speed = f"{course.rows / seconds:,.0f} sentences and {course.tokens / seconds:,.0f} tokens"
    click.echo(
        f"polyseme: {speed} a second, {course.found:,} shards were there before; the workers took"
        f" {outcome.peak / 1e6:,.0f} MB at most",
        err=True,
    )
