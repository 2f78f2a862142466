"""`polyseme bulk`: encode files of texts into shards of vectors."""

import time
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from polyseme.cli.options import (
    case_option,
    exit_on_signals,
    model_option,
    phrases_option,
    require_unicode,
    share_option,
    with_options,
    with_registry,
)
from polyseme.cli.progress import ConsoleProgress
from polyseme.errors import CommandError, install_command
from polyseme.models.registry import Registry, bundled_models
from polyseme.operations.embed import Pooling
from polyseme.operations.options import PER_TOKEN, Dtype, EncodeOptions, OovPolicy
from polyseme.settings import Settings, usable_cpus

if TYPE_CHECKING:
    from polyseme.bulk.job import Job
    from polyseme.bulk.run import Outcome

_SHARD_ROWS = {"npz": 1024, "tokens": 4096, "few vectors": 16_384}
"""Default number of input rows of a shard. Shards of typical sentences have at most about 120 MB.
All texts and tokens of a .npz shard are in memory."""


def _parse_words(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    words = tuple(" ".join(word.split()) for text in texts for word in text.split(","))
    if not all(words):
        raise click.BadParameter("give words separated by commas, such as bank,apple.")
    return words


_bulk_options = with_options(
    click.option(
        "--column", default="text", show_default=True, help="The column, or field, of the texts."
    ),
    click.option(
        "--keep", multiple=True, help="A column to copy to the output; may be given several times."
    ),
    click.option(
        "--include",
        type=click.Choice(["static", "contextual", "features", "attention", "none"]),
        multiple=True,
        default=["contextual"],
        show_default=True,
        help="An array to write for each sentence, with its tokens; may be given several times."
        " Use `features` for a classifier, and `none` to write only the vectors of --pooling.",
    ),
    share_option,
    click.option(
        "--rows",
        type=click.Choice(["sentences", "tokens"]),
        default="sentences",
        show_default=True,
        help="A row of the output: a sentence, or a token with one `vector` for a vector store.",
    ),
    click.option(
        "--words",
        metavar="WORD,WORD...",
        multiple=True,
        callback=_parse_words,
        help="With --rows tokens: only the occurrences of these words, ignoring case.",
    ),
    click.option("--exact", is_flag=True, help="Only occurrences in the same case as in --words."),
    click.option(
        "--pooling",
        type=click.Choice(get_args(Pooling)),
        help="Also write a vector of each sentence: the plain or weighted mean of its words.",
    ),
    click.option(
        "--heads",
        type=click.Choice(["all", "mean"]),
        default="all",
        show_default=True,
        help="Attention of each head, or the mean of the heads.",
    ),
    click.option(
        "--format",
        type=click.Choice(["parquet", "jsonl", "npz"]),
        default="parquet",
        show_default=True,
        help="Parquet files, lines of JSON, or NumPy archives like those of /v1/encode.",
    ),
    click.option(
        "--dtype",
        type=click.Choice(get_args(Dtype)),
        default="float32",
        show_default=True,
        help="Data type of the numbers; float16 takes half the space.",
    ),
    click.option(
        "--compression",
        "compression",
        type=click.Choice(["none", "zstd"]),
        default="none",
        show_default=True,
        help="Compression of the numbers in Parquet; zstd saves a sixth and takes longer.",
    ),
    click.option(
        "--shard-rows",
        type=click.IntRange(1, 10_000_000),
        help="Rows of the input for an output file.  [default: {tokens}; npz: {npz}; --include none"
        " or --words: {few vectors}]".format(**_SHARD_ROWS),
    ),
    click.option(
        "--batch-rows",
        type=click.IntRange(1, 1_000_000),
        default=1024,
        show_default=True,
        help="Maximum number of rows that a worker encodes at once.",
    ),
    click.option(
        "--oov",
        type=click.Choice(get_args(OovPolicy)),
        help="What to do with unknown words, as in `polyseme encode`.",
    ),
    click.option("--truncate", is_flag=True, help="Truncate sentences that exceed the limit."),
    click.option(
        "--workers",
        type=click.IntRange(1, 1024),
        default=usable_cpus,
        help="Number of processes that encode and write; by default one per processor.",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Address of a Dask cluster, such as tcp://host:8786, to use instead of --workers.",
    ),
)


@click.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path, file_okay=False))
@_bulk_options
@phrases_option
@case_option
@model_option
@with_registry
def bulk(source: Path, out: Path, registry: Registry, settings: Settings, **options: Any) -> None:
    """Encode the texts of IN into shards in the folder OUT.

    IN is a file, a folder of files or a pattern in quotes: .parquet, or .jsonl, .csv, .tsv or .txt
    (one sentence per line); all but .parquet also with .gz, .zst or .bz2. The same command
    continues a run that was stopped. Needs pyarrow: pip install 'polyseme[bulk]'.
    """
    _check_options(options)
    from polyseme.bulk.cluster import write_on_cluster
    from polyseme.bulk.run import run, write_in_processes
    from polyseme.bulk.sources import find_files

    job = _job(out, registry, settings, options)
    files = find_files(source)
    write = partial(write_in_processes, workers=options["workers"])
    if options["scheduler"]:
        write = partial(write_on_cluster, address=options["scheduler"])
    start = time.perf_counter()
    size = sum(file.bytes for file in files)
    with exit_on_signals(), ConsoleProgress().stage("encoding", size) as stage:
        outcome = run(job, files, write, lambda now: stage.reach(now.bytes_read, now.rows))
    _print_summary(outcome, time.perf_counter() - start, options["words"])


def _check_options(options: dict[str, Any]) -> None:
    """Raise CommandError for a missing library, UsageError for options that do not fit together."""
    if not find_spec("pyarrow"):
        raise CommandError(f"Bulk work needs pyarrow: {install_command('bulk')}.")
    if options["scheduler"] and not find_spec("distributed"):
        raise CommandError(f"A cluster needs Dask: {install_command('cluster')}.")
    if "none" in options["include"]:
        if len(options["include"]) > 1:
            raise click.UsageError("--include none cannot be combined with arrays.")
        if not options["pooling"]:
            raise click.UsageError("--include none leaves nothing to write without --pooling.")
    if options["format"] == "npz" and options["keep"]:
        raise click.UsageError("--keep is not for npz: a NumPy archive has no other columns.")
    if options["format"] != "parquet" and options["compression"] != "none":
        raise click.UsageError("--compression is for Parquet.")
    _check_rows(options)
    require_unicode((options["column"], *options["keep"], *options["words"]))


def _check_rows(options: dict[str, Any]) -> None:
    """Raise UsageError for options that do not fit the kind of rows."""
    if options["rows"] == "sentences":
        if options["words"]:
            raise click.UsageError("--words needs --rows tokens.")
    elif options["format"] == "npz":
        raise click.UsageError("--rows tokens is for Parquet and jsonl.")
    elif options["pooling"]:
        raise click.UsageError("--pooling is for rows of sentences, not of tokens.")
    elif len(options["include"]) > 1 or options["include"][0] not in PER_TOKEN:
        raise click.UsageError("--rows tokens needs one --include: static, contextual or features.")
    if options["exact"] and not options["words"]:
        raise click.UsageError("--exact needs --words.")


def _job(out: Path, registry: Registry, settings: Settings, options: dict[str, Any]) -> "Job":
    """Return the job.

    Raises PolysemeError if the model cannot be used or does not support the options.
    """
    from polyseme.bulk.job import BulkOptions, Job, fingerprint

    name = options["model"] or settings.model
    encoding = EncodeOptions(
        include=[part for part in options["include"] if part != "none"],
        **{
            name: options[name]
            for name in ("heads", "oov", "case", "phrases", "truncate", "dtype", "share")
        },
    )
    model = registry.model(name)
    encoding.oov_policy(model)
    encoding.check_share(model)
    kind = "tokens" if encoding.include and not options["words"] else "few vectors"
    kind = "npz" if options["format"] == "npz" else kind
    unchanged = (
        *("pooling", "format", "compression", "column", "keep", "rows", "words", "exact"),
        "batch_rows",
    )
    bulk_options = BulkOptions(
        encoding,
        max_sentence_tokens=settings.max_sentence_tokens,
        shard_rows=options["shard_rows"] or _SHARD_ROWS[kind],
        **{name: options[name] for name in unchanged},
    )
    return Job(
        bulk_options,
        out.absolute(),
        name,
        (bundled_models(), settings.models_dir.absolute()),
        fingerprint(registry.folder(name)),
        # `registry.model` has just verified the files that workers on this machine map.
        verify=settings.verify_models and bool(options["scheduler"]),
    )


def _print_summary(outcome: "Outcome", seconds: float, words: Sequence[str]) -> None:
    """Print the size of the output to standard output, and the speed to standard error."""
    totals, progress = outcome.totals, outcome.progress
    click.echo(
        f"{totals.rows:,} rows  {totals.tokens:,} tokens  {totals.unknown:,} unknown "
        f" {totals.truncated:,} words cut off  {totals.missing:,} without a text "
        f" {outcome.shards:,} shards  {outcome.bytes / 1e6:,.0f} MB"
    )
    if words and not totals.tokens:
        click.echo("polyseme: no token of the texts is one of the --words.", err=True)
    speed = f"{progress.rows / seconds:,.0f} sentences and {progress.tokens / seconds:,.0f} tokens"
    click.echo(
        f"polyseme: {speed} per second; {progress.found:,} shards existed before; peak memory of"
        f" the workers: {outcome.peak / 1e6:,.0f} MB",
        err=True,
    )
