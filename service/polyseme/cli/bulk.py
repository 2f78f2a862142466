"""`polyseme bulk`: encode files of texts into shards of vectors."""

import resource
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from polyseme.cli.options import (
    choice_option,
    column_option,
    field_option,
    model_option,
    require_package,
    require_unicode,
    with_registry,
)
from polyseme.cli.sense_files import open_inventory
from polyseme.errors import counted, listed
from polyseme.models.registry import Registry
from polyseme.operations.embed import Pooling
from polyseme.operations.schema import EncodeOptions
from polyseme.settings import Settings, usable_cpus
from polyseme.terminal import Progress, echo

if TYPE_CHECKING:
    from polyseme.bulk.read import InputFile
    from polyseme.bulk.run import Outcome

_MANY_VECTORS, _FEW_VECTORS = 4096, 16_384
"""Maximum rows of a shard by default, with arrays of all tokens and without."""
_SHARDS, _LEAST_ROWS = 16, 256
"""A small input has about this many shards, or shards of this many rows, so that several workers
have work."""
_ROW_BYTES, _COMPRESSED = 100, 3
"""Typical bytes of a row, and how often larger it is than compressed."""


def _parse_words(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    words = tuple(" ".join(word.split()) for text in texts for word in text.split(","))
    if not all(words):
        raise click.BadParameter("give words separated by commas, such as bank,apple.")
    return words


@click.command()
@click.argument("source", metavar="IN")
@click.argument("out", metavar="OUT", type=click.Path(file_okay=False))
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
    ("sentences", "tokens"),
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
    ("parquet", "jsonl"),
    "parquet",
    "Parquet files or lines of JSON.",
)
@field_option(EncodeOptions, "dtype", "Data type of the numbers; float16 takes half the space.")
@choice_option(
    "--compression",
    ("none", "zstd"),
    "none",
    "Compression of the numbers in Parquet; zstd saves a sixth and takes longer.",
)
@click.option(
    "--shard-rows",
    type=click.IntRange(1, 10_000_000),
    help=f"Maximum rows of the input for an output file.  [default: up to {_MANY_VECTORS}; with"
    f" --include none or --words {_FEW_VECTORS}]",
)
@field_option(EncodeOptions, "oov", "What to do with unknown words, as in `polyseme encode`.")
@field_option(EncodeOptions, "truncate")
@choice_option(
    "--on-error",
    ("null", "skip", "fail"),
    "null",
    "A row that cannot be encoded gets no vectors (null), is left out (skip) or ends the job"
    " (fail). _errors.jsonl in OUT lists such rows.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    default=usable_cpus,
    help="Number of processes that encode and write; by default one per processor.",
)
@field_option(EncodeOptions, "phrases")
@field_option(EncodeOptions, "case")
@model_option
@with_registry
def bulk(
    source: str, out: str, registry: Registry, settings: Settings, workers: int, **options: Any
) -> None:
    """Encode the texts of IN into shards in the folder OUT.

    IN is a file, a folder of files, an address such as s3://bucket/folder or a pattern in quotes:
    .parquet, or .jsonl, .csv, .tsv, .conllu or .txt (one sentence per line); all but .parquet also
    with .gz, .zst or .bz2. The same command continues a run that was stopped, and encodes new
    files. Needs pyarrow: pip install 'polyseme[bulk]'.
    """
    require_package("pyarrow", "Bulk work needs pyarrow", "bulk")
    from polyseme.arrow import Encoder, open_model
    from polyseme.bulk.read import find_files, is_file, local_folder
    from polyseme.bulk.run import run, with_schema
    from polyseme.bulk.write import Job

    require_unicode((source, out, options["column"], *options["keep"], *options["words"]))
    folder = local_folder(out)
    files = find_files(source)
    include = tuple(part for part in options["include"] if part != "none")
    if "none" in options["include"] and (include or options["rows"] == "tokens"):
        raise click.UsageError("--include none cannot be combined with arrays or rows of tokens.")
    if options["rows"] == "tokens" and options["pooling"]:
        raise click.UsageError("--pooling is for rows of sentences, not of tokens.")
    if options["format"] != "parquet" and options["compression"] != "none":
        raise click.UsageError("--compression is for Parquet.")
    name = options["model"] or registry.default
    models_dir = settings.models_dir.absolute()
    options |= {
        "model": name,
        "models_dir": models_dir,
        "sha256": open_model(name, models_dir, None)[1],
        "include": include,
        "max_sentence_tokens": settings.max_sentence_tokens,
        "senses": tuple(map(open_inventory, options["senses"])),
    }
    names = {one.name for one in fields(Encoder) if one.init} & options.keys()
    encoder = Encoder(**{name: options[name] for name in names})
    few = not include or encoder.words or (encoder.senses and encoder.rows == "tokens")
    most = _FEW_VECTORS if few else _MANY_VECTORS
    job = Job(
        encoder,
        folder,
        options["format"],
        options["compression"],
        options["shard_rows"] or _shard_rows(files, most),
        has_files=not is_file(source),
    )
    start = time.perf_counter()
    job = with_schema(job, files)
    size = sum(file.bytes for file in files)
    try:
        with Progress().stage("encoding", size) as bar:
            outcome = run(job, files, bar, workers)
    except (KeyboardInterrupt, SystemExit) as stop:
        message = "Stopped. The finished shards are kept: run the same command again to go on."
        echo(f"polyseme: {message}", err=True)
        raise SystemExit(stop.code if isinstance(stop, SystemExit) else 1) from None
    seconds = time.perf_counter() - start
    totals = outcome.counts
    echo(
        f"{counted(totals.rows, 'row')}  {counted(totals.tokens, 'token')} "
        f" {totals.unknown:,} unknown "
        f" {counted(totals.truncated, 'word')} cut off  {totals.missing:,} without a text "
        f" {totals.failed:,} with an error  {counted(outcome.shards, 'shard')} "
        f" {outcome.bytes / 1e6:,.0f} MB"
    )
    if totals.failed:
        echo(_described_errors(outcome, folder, options["on_error"]), err=True)
    if totals.rows and outcome.without_values:
        missing = listed(sorted(outcome.without_values))
        echo(f"polyseme: no row has a value of the --keep {missing}.", err=True)
    if encoder.words and not totals.tokens:
        echo("polyseme: no token of the texts is one of the --words.", err=True)
    sentences, tokens = (
        counted(round(count / seconds), noun)
        for count, noun in ((outcome.written.rows, "sentence"), (outcome.written.tokens, "token"))
    )
    before = counted(outcome.existing, "shard")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 * workers
    echo(
        f"polyseme: {sentences} and {tokens} per second; {before} existed before; peak memory of"
        f" the workers: {peak / 1e6:,.0f} MB",
        err=True,
    )


def _shard_rows(files: "list[InputFile]", most: int) -> int:
    """Return the rows of a shard: up to `most`, or fewer so that all workers have work."""
    texts = sum(
        file.bytes * (_COMPRESSED if file.compression or file.kind == "parquet" else 1)
        for file in files
    )
    rows = max(texts // _ROW_BYTES // _SHARDS, _LEAST_ROWS)
    return min(1 << (rows.bit_length() - 1), most)


def _described_errors(outcome: "Outcome", out: Path, policy: str) -> str:
    """Return the sentences about rows with an error."""
    counts = ", ".join(f"{count:,} {code}" for code, count in outcome.errors.most_common())
    failed = counted(outcome.counts.failed, "row")
    fate = "without vectors" if policy == "null" else "left out"
    return (
        f"polyseme: {failed} with an error, {fate} ({counts}); {out / '_errors.jsonl'} lists them."
        " The same command with other --truncate, --on-error or POLYSEME_MAX_SENTENCE_TOKENS writes"
        " only their shards again."
    )
