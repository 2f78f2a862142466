"""`polyseme bulk`: encode files of texts into shards of vectors."""

import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click

from polyseme.bulk.job import (
    ERRORS,
    BulkOptions,
    Compression,
    Job,
    OnError,
    RowKind,
    ShardFormat,
    fingerprint,
)
from polyseme.cli.options import (
    choice_option,
    column_option,
    exit_on_signals,
    field_option,
    given_fields,
    model_option,
    require_package,
    require_unicode,
    shared_options,
    with_registry,
)
from polyseme.errors import CommandError, InvalidError, counted
from polyseme.models.model import Model
from polyseme.models.reader import bundled_models
from polyseme.models.registry import Registry
from polyseme.operations.embed import Pooling
from polyseme.operations.inventory import (
    ApplySensesRequest,
    SenseInventory,
    apply_senses,
    load_inventory,
)
from polyseme.operations.options import PER_TOKEN, EncodeOptions
from polyseme.progress import ConsoleProgress
from polyseme.settings import Settings, usable_cpus
from polyseme.terminal import echo

_SHARD_ROWS = {"npz": 1024, "tokens": 4096, "few vectors": 16_384}
"""Default number of input rows of a shard. Shards of typical sentences have at most about 120 MB.
All texts and tokens of a .npz shard are in memory."""
_SHARDS, _LEAST_ROWS = 16, 256
"""A small input has about this many shards, or shards of this many rows, so that several workers
have work."""
_ROW_BYTES, _COMPRESSED = 100, 3
"""Typical bytes of a row, and how often larger it is than compressed."""
_LARGE, _TIMES_LARGER = 100e6, 10
"""The estimated size of an output of which the command warns, and its ratio to the input."""


def _parse_words(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    words = tuple(" ".join(word.split()) for text in texts for word in text.split(","))
    if not all(words):
        raise click.BadParameter("give words separated by commas, such as bank,apple.")
    return words


@click.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path, file_okay=False))
@column_option
@click.option(
    "--keep", multiple=True, help="A column to copy to the output; may be given several times."
)
@click.option(
    "--include",
    type=click.Choice(["static", "contextual", "features", "attention", "none"]),
    multiple=True,
    default=["contextual"],
    show_default=True,
    help="An array to write for each sentence, with its tokens; may be given several times."
    " Use `features` for a classifier, and `none` to write only the vectors of --pooling.",
)
@field_option(EncodeOptions, "share")
@choice_option(
    "--rows",
    get_args(RowKind),
    "sentences",
    "A row of the output: a sentence, or a token with one `vector` for a vector store.",
)
@click.option(
    "--words",
    metavar="WORD,WORD...",
    multiple=True,
    callback=_parse_words,
    help="With --rows tokens: only the occurrences of these words, ignoring case.",
)
@click.option("--exact", is_flag=True, help="Only occurrences in the same case as in --words.")
@choice_option(
    "--pooling",
    get_args(Pooling),
    None,
    "Also write a vector of each sentence: the plain or weighted mean of its words.",
)
@click.option(
    "--senses",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    multiple=True,
    help="An inventory of `polyseme senses --save`: also write the senses of its word in each"
    " sentence; may be given several times.",
)
@field_option(EncodeOptions, "heads", "Attention of each head, or the mean of the heads.")
@choice_option(
    "--format",
    get_args(ShardFormat),
    "parquet",
    "Parquet files, lines of JSON, or NumPy archives like those of /v1/encode.",
)
@field_option(EncodeOptions, "dtype", "Data type of the numbers; float16 takes half the space.")
@choice_option(
    "--compression",
    get_args(Compression),
    "none",
    "Compression of the numbers in Parquet; zstd saves a sixth and takes longer.",
)
@click.option(
    "--shard-rows",
    type=click.IntRange(1, 10_000_000),
    help="Rows of the input for an output file.  [default: up to {tokens}; npz: {npz}; --include"
    " none or --words: {few vectors}]".format(**_SHARD_ROWS),
)
@click.option(
    "--batch-rows",
    type=click.IntRange(1, 1_000_000),
    default=1024,
    show_default=True,
    help="Maximum number of rows that a worker encodes at once.",
)
@field_option(EncodeOptions, "oov", "What to do with unknown words, as in `polyseme encode`.")
@field_option(EncodeOptions, "truncate")
@choice_option(
    "--on-error",
    get_args(OnError),
    "null",
    "A row that cannot be encoded gets no vectors (null), is left out (skip) or ends the job"
    f" (fail). {ERRORS} in OUT lists such rows.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    default=usable_cpus,
    help="Number of processes that encode and write; by default one per processor.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Address of a Dask cluster, such as tcp://host:8786, to use instead of --workers.",
)
@shared_options
@field_option(EncodeOptions, "case")
@model_option
@with_registry
def bulk(source: Path, out: Path, registry: Registry, settings: Settings, **options: Any) -> None:
    """Encode the texts of IN into shards in the folder OUT.

    IN is a file, a folder of files or a pattern in quotes: .parquet, or .jsonl, .csv, .tsv or .txt
    (one sentence per line); all but .parquet also with .gz, .zst or .bz2. The same command
    continues a run that was stopped. Needs pyarrow: pip install 'polyseme[bulk]'.
    """
    require_package("pyarrow", "Bulk work needs pyarrow", "bulk")
    if options["scheduler"]:
        require_package("distributed", "A cluster needs Dask", "cluster")
    _check_options(options)
    from polyseme.bulk.run import estimate_bytes, run, write_in_processes, write_on_cluster
    from polyseme.bulk.sources import find_files

    name = options["model"] or registry.default
    model = registry.model(name)
    fields = given_fields(EncodeOptions, options)
    fields["include"] = [part for part in options["include"] if part != "none"]
    encoding = EncodeOptions.of(**fields)
    encoding.oov_policy(model)
    encoding.check_share(model)
    kind = "tokens" if encoding.include and not options["words"] else "few vectors"
    kind = "npz" if options["format"] == "npz" else kind
    files = find_files(source)
    if not options["shard_rows"]:
        compressed = (file.compression or file.kind == "parquet" for file in files)
        texts = sum(
            file.bytes * (_COMPRESSED if small else 1)
            for file, small in zip(files, compressed, strict=True)
        )
        rows = max(texts // _ROW_BYTES // _SHARDS, _LEAST_ROWS)
        options["shard_rows"] = min(1 << (rows.bit_length() - 1), _SHARD_ROWS[kind])
    options["senses"] = tuple(_inventory(path, model) for path in options["senses"])
    unchanged = {k: v for k, v in options.items() if k in BulkOptions.__dataclass_fields__}
    job = Job(
        BulkOptions(encoding, max_sentence_tokens=settings.max_sentence_tokens, **unchanged),
        out.absolute(),
        name,
        (bundled_models(), settings.models_dir.absolute()),
        fingerprint(registry.folder(name)),
    )
    write = partial(write_in_processes, workers=options["workers"])
    if options["scheduler"]:
        write = partial(write_on_cluster, address=options["scheduler"])
    start = time.perf_counter()
    size = sum(file.bytes for file in files)
    if not options["words"]:
        _warn_of_size(estimate_bytes(job, model, files), size, job)
    try:
        with exit_on_signals(), ConsoleProgress().stage("encoding", size) as stage:
            outcome = run(job, files, write, lambda now: stage.reach(int(now.bytes), now.rows))
    except (KeyboardInterrupt, SystemExit) as stop:
        message = (
            "polyseme: Stopped. The finished shards are kept: run the same command again to go on."
        )
        echo(message, err=True)
        raise SystemExit(stop.code if isinstance(stop, SystemExit) else 1) from None
    seconds = time.perf_counter() - start
    totals, progress = outcome.totals, outcome.progress
    echo(
        f"{counted(totals.rows, 'row')}  {counted(totals.tokens, 'token')} "
        f" {totals.unknown:,} unknown "
        f" {counted(totals.truncated, 'word')} cut off  {totals.missing:,} without a text "
        f" {totals.failed:,} with an error  {counted(outcome.shards, 'shard')} "
        f" {outcome.bytes / 1e6:,.0f} MB"
    )
    if totals.failed:
        echo(_described_errors(outcome, out / ERRORS, options["on_error"]), err=True)
    if options["words"] and not totals.tokens:
        echo("polyseme: no token of the texts is one of the --words.", err=True)
    speed = f"{progress.rows / seconds:,.0f} sentences and {progress.tokens / seconds:,.0f} tokens"
    before = counted(progress.found, "shard")
    echo(
        f"polyseme: {speed} per second; {before} existed before; peak memory of"
        f" the workers: {outcome.peak / 1e6:,.0f} MB",
        err=True,
    )


def _warn_of_size(output: int, size: int, job: Job) -> None:
    """Say how large an output will be that is large and far larger than the input, or the disk."""
    folder = next(place for place in (job.out, *job.out.parents) if place.exists())
    free = shutil.disk_usage(folder).free
    if output > _LARGE and output > _TIMES_LARGER * size:
        echo(
            f"polyseme: The output will have about {output / 1e9:,.1f} GB,"
            f" {output / size:,.0f} times the size of the input. --dtype float16 halves it;"
            " --include none --pooling whitened writes one vector for each text.",
            err=True,
        )
    if output > free:
        echo(
            f"polyseme: The disk of the output has {free / 1e9:,.1f} GB free, less than the"
            f" {output / 1e9:,.1f} GB that the output may need.",
            err=True,
        )


def _described_errors(outcome: Any, path: Path, policy: OnError) -> str:
    """Return the sentences about rows with an error."""
    counts = ", ".join(f"{count:,} {code}" for code, count in outcome.errors.most_common())
    failed = counted(outcome.totals.failed, "row")
    fate = "without vectors" if policy == "null" else "left out"
    return (
        f"polyseme: {failed} with an error, {fate} ({counts}); {path} lists"
        " them. The same command with other --truncate, --on-error or"
        " POLYSEME_MAX_SENTENCE_TOKENS writes only their shards again."
    )


def _inventory(path: Path, model: Model) -> SenseInventory:
    """Read an inventory. Raises CommandError if it is none, or of another model."""
    try:
        inventory = load_inventory(path)
        apply_senses(model, ApplySensesRequest.of(inventory=inventory, texts=[""]))
    except InvalidError as error:
        raise CommandError(f"{path.name}: {error}") from None
    return inventory


def _check_options(options: dict[str, Any]) -> None:
    """Raise UsageError for options that do not fit together."""
    include, words, pooling = options["include"], options["words"], options["pooling"]
    if "none" in include:
        if len(include) > 1:
            raise click.UsageError("--include none cannot be combined with arrays.")
        if not pooling and not options["senses"]:
            raise click.UsageError(
                "--include none leaves nothing to write without --pooling or --senses."
            )
    if options["format"] == "npz" and options["keep"]:
        raise click.UsageError("--keep is not for npz: a NumPy archive has no other columns.")
    if options["format"] != "parquet" and options["compression"] != "none":
        raise click.UsageError("--compression is for Parquet.")
    if options["senses"] and (options["rows"] == "tokens" or options["format"] == "npz"):
        raise click.UsageError("--senses is for rows of sentences in Parquet and jsonl.")
    if options["rows"] == "sentences":
        if words:
            raise click.UsageError("--words needs --rows tokens.")
    elif options["format"] == "npz":
        raise click.UsageError("--rows tokens is for Parquet and jsonl.")
    elif pooling:
        raise click.UsageError("--pooling is for rows of sentences, not of tokens.")
    elif len(include) > 1 or include[0] not in PER_TOKEN:
        raise click.UsageError("--rows tokens needs one --include: static, contextual or features.")
    if options["exact"] and not words:
        raise click.UsageError("--exact needs --words.")
    require_unicode((options["column"], *options["keep"], *words))
