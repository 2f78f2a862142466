"""`polyseme bulk`: files of texts to shards of vectors."""

import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from polyseme.cli.options import (
    case_option,
    exit_on_signals,
    model_option,
    require_unicode,
    share_option,
    with_options,
    with_registry,
)
from polyseme.cli.progress import ConsoleProgress
from polyseme.command_error import CommandError
from polyseme.encoding.options import Dtype, EncodeOptions, OovPolicy
from polyseme.encoding.sentences import Pooling
from polyseme.models.registry import Registry, bundled_models
from polyseme.settings import Settings, usable_cpus

if TYPE_CHECKING:
    from polyseme.bulk.job import Job
    from polyseme.bulk.run import Outcome

_SHARD_ROWS = {"npz": 1024, "parquet": 4096, "vectors": 16_384}
"""Default rows of a shard: some 20 to 120 MB, and a .npz archive is in memory as a whole."""
_bulk_options = with_options(
    click.option(
        "--column", default="text", show_default=True, help="The column, or field, of the texts."
    ),
    click.option(
        "--keep", multiple=True, help="A column that is passed through; may be given several times."
    ),
    click.option(
        "--include",
        type=click.Choice(["static", "contextual", "features", "attention", "none"]),
        multiple=True,
        default=["contextual"],
        show_default=True,
        help="An array of each sentence, beside its tokens; may be given several times. Take"
        " `features` for a classifier. `none` writes no tokens either, for --pooling alone.",
    ),
    share_option,
    click.option(
        "--pooling",
        type=click.Choice(get_args(Pooling)),
        help="Also a vector of each sentence: the mean of its words, plain or weighted.",
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
        help="Parquet, or NumPy archives such as /v1/encode returns.",
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
        "compression",
        type=click.Choice(["none", "zstd"]),
        default="none",
        show_default=True,
        help="Compression of the numbers in Parquet: zstd saves a sixth and takes longer.",
    ),
    click.option(
        "--shard-rows",
        type=click.IntRange(1, 10_000_000),
        help="Rows of each output file.  [default: {parquet}; npz: {npz}; --include none:"
        " {vectors}]".format(**_SHARD_ROWS),
    ),
    click.option(
        "--batch-rows",
        type=click.IntRange(1, 1_000_000),
        default=1024,
        show_default=True,
        help="Rows that a worker has in memory at once, at most.",
    ),
    click.option(
        "--oov",
        type=click.Choice(get_args(OovPolicy)),
        help="How unknown words are treated, as in `polyseme encode`.",
    ),
    click.option("--truncate", is_flag=True, help="Cut off sentences that are over the limit."),
    click.option(
        "--workers",
        type=click.IntRange(1, 1024),
        default=usable_cpus,
        help="Processes that encode and write; the default is one for each processor.",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Address of a Dask cluster, such as tcp://host:8786, to use in place of --workers.",
    ),
)


@click.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path, file_okay=False))
@_bulk_options
@case_option
@model_option
@with_registry
def bulk(source: Path, out: Path, registry: Registry, settings: Settings, **options: Any) -> None:
    """Encode the texts of IN into shards in the folder OUT.

    IN is a file, a folder of files or a pattern in quotes: .parquet, or .jsonl, .csv, .tsv or .txt
    (one sentence per line), also with .gz, .zst or .bz2. The same command continues a run that was
    stopped. Needs pyarrow: pip install 'polyseme[bulk]'.
    """
    _check_options(options)
    from polyseme.bulk.cluster import write_on_cluster  # noqa: PLC0415 - loads pyarrow
    from polyseme.bulk.run import run, write_in_processes  # noqa: PLC0415
    from polyseme.bulk.sources import find_files  # noqa: PLC0415

    job = _job(out, registry, settings, options)
    files = find_files(source)
    write = partial(write_in_processes, workers=options["workers"])
    if options["scheduler"]:
        write = partial(write_on_cluster, address=options["scheduler"])
    start = time.perf_counter()
    size = sum(file.bytes for file in files)
    with exit_on_signals(), ConsoleProgress().stage("encoding", size) as stage:
        outcome = run(job, files, write, lambda now: stage.reach(now.read, now.rows))
    _print_summary(outcome, time.perf_counter() - start)


def _check_options(options: dict[str, Any]) -> None:
    """Check that the libraries are installed and that the options go together."""
    if not find_spec("pyarrow"):
        raise CommandError("Bulk work needs pyarrow: pip install 'polyseme[bulk]'.")
    if options["scheduler"] and not find_spec("distributed"):
        raise CommandError("A cluster needs Dask: pip install 'polyseme[cluster]'.")
    if "none" in options["include"]:
        if len(options["include"]) > 1:
            raise click.UsageError("--include none cannot be combined with arrays.")
        if not options["pooling"]:
            raise click.UsageError("--include none leaves nothing to write without --pooling.")
    if options["format"] == "npz" and options["keep"]:
        raise click.UsageError("--keep is for Parquet: a NumPy archive has no such columns.")
    require_unicode((options["column"], *options["keep"]))


def _job(out: Path, registry: Registry, settings: Settings, options: dict[str, Any]) -> "Job":
    """The job of the options. Raises PolysemeError if the model cannot do it."""
    from polyseme.bulk.job import BulkOptions, Job, fingerprint  # noqa: PLC0415 - loads pyarrow

    name = options["model"] or settings.model
    choice = EncodeOptions(
        include=frozenset(options["include"]) - {"none"},
        mean_heads=options["heads"] == "mean",
        **{name: options[name] for name in ("oov", "case", "truncate", "dtype", "share")},
    )
    model = registry.model(name)
    choice.oov_policy(model)
    choice.check_share(model)
    rows = "npz" if options["format"] == "npz" else "parquet" if choice.include else "vectors"
    same = ("pooling", "format", "compression", "column", "keep", "batch_rows")
    bulk_options = BulkOptions(
        choice,
        max_sentence_tokens=settings.max_sentence_tokens,
        shard_rows=options["shard_rows"] or _SHARD_ROWS[rows],
        **{name: options[name] for name in same},
    )
    return Job(
        bulk_options,
        out.absolute(),
        name,
        (bundled_models(), settings.models_dir.absolute()),
        fingerprint(registry.folder(name)),
        # Workers of this machine map a model that has just been verified.
        verify=settings.verify_models and bool(options["scheduler"]),
    )


def _print_summary(outcome: "Outcome", seconds: float) -> None:
    """Print what was written, and how fast."""
    totals, progress = outcome.totals, outcome.progress
    click.echo(
        f"{totals.rows:,} rows  {totals.tokens:,} tokens  {totals.unknown:,} unknown "
        f" {totals.truncated:,} words cut off  {totals.missing:,} without a text "
        f" {outcome.shards:,} shards  {outcome.bytes / 1e6:,.0f} MB"
    )
    speed = f"{progress.rows / seconds:,.0f} sentences and {progress.tokens / seconds:,.0f} tokens"
    click.echo(
        f"polyseme: {speed} per second; {progress.found:,} shards existed before; peak memory of"
        f" the workers: {outcome.peak / 1e6:,.0f} MB",
        err=True,
    )
