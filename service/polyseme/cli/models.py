"""`polyseme models`: list, show, verify, import, pull, export, rename and remove models."""

import codecs
import errno
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import click
import orjson

from polyseme.atomic_files import atomic_write
from polyseme.cli.options import (
    choice_option,
    destination_option,
    require_package,
    require_unicode,
    with_options,
    with_registry,
)
from polyseme.errors import CommandError, ModelFolderError, counted
from polyseme.importing import Convention, ImportOptions, ImportProblem
from polyseme.importing.download import download_vectors
from polyseme.importing.importer import READERS, check_destination, check_name, import_vectors
from polyseme.importing.importer import tune as tune_model
from polyseme.importing.texts import TextSample
from polyseme.importing.weights import weights_file
from polyseme.models.manifest import Manifest, TableDtype
from polyseme.models.reader import bundled_models, read_model
from polyseme.models.registry import Registry
from polyseme.models.writer import export_word2vec, remove_model, rename_model
from polyseme.operations.serialize import manifest_document
from polyseme.terminal import Progress, echo

_HINTS = {
    "name": "--name sets the name",
    "replace": "--replace replaces it",
    "format": "--format names the format",
    "member": "--member selects one",
    "encoding": "--encoding names another encoding",
    "skip": "--skip-bad-rows skips such rows",
    "strip": "--strip sets the pattern",
    "limit": "--limit reads fewer words",
    "dtype": "--dtype int8 stores smaller vectors",
    "sorted": "--sorted declares this",
    "convention": "--convention transposes them",
    "subwords": "--no-subwords does without",
    "mirror": "--mirror names another server",
}
"""What to do on the command line, for each option of an import that may help."""
_SUFFIXES = re.compile(r"(?:\.(?:gz|bz2|xz|zip|txt|vec|bin|w2v|word2vec))+$", re.IGNORECASE)


@click.group()
def models() -> None:
    """Import, pull, list, show, verify, export, rename and remove models."""


@models.command("list")
@with_registry
def list_models(registry: Registry) -> None:
    """List the models: name, words, width, dtype, heads and layers."""
    for name in registry.names:
        mark = "*" if name == registry.default else " "  # the default model
        try:
            manifest = registry.manifest(name)
        except ModelFolderError as error:
            echo(f"{mark} {name}  broken: {error.detail}")
            continue
        shape = f"{manifest.vocabulary_size} words  {manifest.dimension} wide  {manifest.dtype}"
        heads = f"{counted(manifest.heads, 'head')}  {counted(len(manifest.layers), 'layer')}"
        note = f"  tables of {manifest.base}" if manifest.base else ""
        echo(f"{mark} {name}  {shape}  {heads}{note}")
    if registry.default not in registry.names:
        warning = f"no model is named {registry.default}, the default (POLYSEME_MODEL)"
        echo(f"polyseme: Warning: {warning}: set another one.", err=True)


@models.command()
@click.argument("name")
@with_registry
def show(name: str, registry: Registry) -> None:
    """Show the main fields of a model's manifest."""
    document = {"name": name, **manifest_document(registry.manifest(name))}
    for line in orjson.dumps(document, option=orjson.OPT_INDENT_2).decode().split("\n"):
        echo(line)


@models.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@with_registry
def verify(names: tuple[str, ...], registry: Registry) -> None:
    """Check the shapes, checksums and values of models, by default of all models."""
    broken = False
    for name in names or registry.names:
        try:
            read_model(registry.folder(name), verify=True)
        except ModelFolderError as error:
            broken = True
            echo(f"{name}: {error.detail}")
        else:
            echo(f"{name}: ok")
    sys.exit(1 if broken else 0)


@models.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@with_registry
def remove(name: str, yes: bool, registry: Registry) -> None:
    """Remove a model and its files.

    In a running service, requests in progress finish; later ones get a 404, or the bundled model of
    the same name.
    """
    folder = _own_folder(registry, name, "removed")
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("Standard input is not a terminal, so --yes is required.")
        click.confirm(f"Remove the model {name} in {folder.parent}?", abort=True, err=True)
    remove_model(folder)
    echo(f"{name}: removed")
    _warn_of_default(name, registry)


@models.command()
@click.argument("old")
@click.argument("new")
@with_registry
def rename(old: str, new: str, registry: Registry) -> None:
    """Rename the model OLD to NEW, also for a running service."""
    folder = _own_folder(registry, old, "renamed")
    check_name(new)
    if new in registry.names:
        raise CommandError(f"A model {new} already exists; `polyseme models remove` removes it.")
    rename_model(folder, new)
    echo(f"{old}: renamed to {new}")
    _warn_of_default(old, registry)


def _own_folder(registry: Registry, name: str, done: str) -> Path:
    """Return the folder of a model; raise CommandError if it is bundled."""
    folder = registry.folder(name)
    if folder.parent == bundled_models():
        raise CommandError(
            f"{name} is part of the installed package and cannot be {done}; POLYSEME_MODEL sets"
            " another default model."
        )
    return folder


def _warn_of_default(name: str, registry: Registry) -> None:
    """Warn if the default model has gone and no bundled model of its name takes its place."""
    if name == registry.default and not (bundled_models() / name).is_dir():
        echo(
            f"polyseme: Warning: {name} is the default model (POLYSEME_MODEL): set another one.",
            err=True,
        )


def _encoding(_context: click.Context, _option: click.Parameter, name: str) -> str:
    try:
        b"\xff".decode(name, "backslashreplace")  # excludes codecs of domain names
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        raise click.BadParameter("Python has no such text encoding.") from None


def _patterns(
    _context: click.Context, _option: click.Parameter, patterns: tuple[str, ...]
) -> tuple[str, ...]:
    try:
        for pattern in require_unicode(patterns):
            re.compile(pattern)
    except re.error:
        raise click.BadParameter("This is not a regular expression.") from None
    return patterns


class _WeightsFile(click.Path):
    """A file of weights, or the name of bundled ones."""

    def convert(self, value: Any, *where: Any) -> Any:
        return super().convert(weights_file(value), *where)


_column_option = click.option(
    "--column", default="text", show_default=True, help="The column, or field, of --texts."
)
_import_options = with_options(
    click.option(
        "--weights",
        type=_WeightsFile(path_type=Path, exists=True, dir_okay=False),
        help="A .safetensors file of attention weights, or the name of bundled ones, instead of the"
        " closed form.",
    ),
    click.option("--no-weights", is_flag=True, help="Parameter-free attention: Q = K = V = X."),
    choice_option(
        "--convention",
        get_args(Convention),
        None,
        "Layout of the weights: x·W (row, the default) or W·x (column).",
    ),
    click.option("--heads", type=click.IntRange(1, 1024), help="Number of heads of the weights."),
    click.option(
        "--sorted/--unsorted",
        default=None,
        help="Whether the words are sorted by frequency; by default this is detected.",
    ),
    click.option("--limit", type=click.IntRange(1), help="Maximum number of words to read."),
    click.option(
        "--texts",
        type=click.Path(path_type=Path),
        multiple=True,
        help="A file, folder or pattern of texts (.txt, .jsonl, .csv, .tsv, .parquet) that tell the"
        " frequencies of words and how senses are found; a random sample is used. Needs pyarrow.",
    ),
    _column_option,
    click.option(
        "--subwords/--no-subwords",
        default=None,
        help="Compose unknown words from vectors of character n-grams, fitted to the words of the"
        " file or read from a fastText .bin file; by default for 1,000 words or more.",
    ),
    choice_option(
        "--dtype",
        get_args(TableDtype),
        "float32",
        "Data type of the stored vectors; int8 has a scale for each row.",
    ),
    click.option(
        "--encoding",
        default="utf-8",
        show_default=True,
        callback=_encoding,
        help="The encoding of the words.",
    ),
    click.option("--skip-bad-rows", "skip", is_flag=True, help="Skip rows that cannot be used."),
    click.option(
        "--strip",
        metavar="PATTERN",
        multiple=True,
        callback=_patterns,
        help="Remove what a regular expression matches from each word, such as '_[A-Z]+$' from"
        " bank_NOUN. Of words that become equal, the most frequent or else the first remains.",
    ),
    click.option("--replace", is_flag=True, help="Replace an existing model of the same name."),
    click.option("--licence", help="The license of the vectors, for the manifest."),
    click.option(
        "--language",
        "languages",
        multiple=True,
        help="A language of the words; found by itself where it is clear.",
    ),
    destination_option,
)


@models.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@choice_option("--format", tuple(READERS), None, "Format of the file; by default detected.")
@click.option("--name", help="The model's name; by default the file's name without extensions.")
@click.option("--member", help="File to read in a .zip with several files.")
@_import_options
def import_file(file: Path, name: str | None, **options: Any) -> None:
    """Create a model from a FILE of GloVe, Word2Vec or fastText vectors.

    The FILE may be compressed (.gz, .bz2, .xz, .zip). By default, the attention weights are
    computed in closed form. An import that fails creates no folder.
    """
    if name is None:
        name = _SUFFIXES.sub("", Path(options["member"] or file).name)
    destination, parsed = _parse_options(options)
    with _importing():
        check_name(name)
        _print_summary(import_vectors(file, destination / name, parsed, Progress()))


@models.command("pull")
@click.argument("dataset", metavar="NAME")
@click.option("--name", help="The model's name; by default that of the data set.")
@click.option(
    "--mirror",
    metavar="URL",
    help="The URL of a mirror of gensim-data, which has list.json and NAME/NAME.gz.",
    envvar="POLYSEME_MIRROR",
)
@_import_options
def pull(dataset: str, name: str | None, mirror: str | None, **options: Any) -> None:
    """Download the vectors of NAME, such as glove-wiki-gigaword-100, and import them.

    The names are those of gensim-data. The downloaded file is kept in gensim's data folder.
    """
    progress = Progress()
    destination, parsed = _parse_options(options)
    name = dataset if name is None else name
    folder = destination / name
    with _importing():
        check_destination(folder, replace=parsed.replace)
        file, facts = download_vectors(dataset, mirror, progress)
        parsed = replace(parsed, facts={**facts, **parsed.facts})
        _print_summary(import_vectors(file, folder, parsed, progress))


@models.command()
@click.argument("name")
@click.option(
    "--texts",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    help="A file, folder or pattern of texts (.txt, .jsonl, .csv, .tsv, .parquet); a random sample"
    " is used. Needs pyarrow.",
)
@_column_option
@with_registry
def tune(name: str, texts: tuple[Path, ...], column: str, registry: Registry) -> None:
    """Adapt the model NAME to texts: frequencies of words, and how senses are found.

    This takes minutes and no training. Trained weights remain as they are. A running service
    notices the change within seconds.
    """
    folder = _own_folder(registry, name, "tuned")
    with _importing():
        sample = _sample_texts(texts, column)
        _print_summary(tune_model(folder, sample, registry.model(name), Progress()))


def _sample_texts(paths: Sequence[Path], column: str) -> TextSample:
    """Read a random sample of texts from files."""
    require_package("pyarrow", "Reading files needs pyarrow", "bulk")
    from polyseme.bulk.read import find_files, read_texts

    require_unicode((column,))
    files = [file for path in paths for file in find_files(path)]
    rows = read_texts(files, column, Progress(), "reading texts")
    sample = TextSample.of((text for _, _, text in rows), files=[file.name for file in files])
    if not sample.texts:
        raise CommandError("--texts has no text.")
    return sample


def _parse_options(options: dict[str, Any]) -> tuple[Path, ImportOptions]:
    """Return the folder of models and the options of the import."""
    destination, without_weights = options.pop("models_dir"), options.pop("no_weights")
    texts, column = options.pop("texts"), options.pop("column")
    facts = {"licence": options.pop("licence"), "languages": [*options.pop("languages")]}
    if options["weights"] and without_weights:
        raise click.UsageError("Give --weights or --no-weights, not both.")
    if not options["weights"] and (options["heads"] or options["convention"]):
        raise click.UsageError("--heads and --convention require --weights.")
    require_unicode((facts["licence"] or "", *facts["languages"]))
    return destination, ImportOptions(
        attention=not without_weights,
        texts=_sample_texts(texts, column) if texts else None,
        facts={name: fact for name, fact in facts.items() if fact},
        **{name: value for name, value in options.items() if value is not None},
    )


def _print_summary(manifest: Manifest) -> None:
    attention = manifest.training["attention"]
    echo(
        f"{manifest.name}  {manifest.vocabulary_size} words  {manifest.dimension} wide "
        f" {manifest.dtype}  {'cased' if manifest.cased else 'lower-case'}  {attention}"
    )


@contextmanager
def _importing() -> Iterator[None]:
    """Raise CommandError with the flags that help."""
    try:
        yield
    except ImportProblem as problem:
        hints = ", and ".join(_HINTS[option] for option in problem.options)
        sentence = f"{str(problem).removesuffix('.')}; {hints}." if hints else str(problem)
        raise CommandError(sentence) from None
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT, None}:  # NumPy sets no errno
            raise
        raise CommandError(
            "The disk of the models is full; --limit or --dtype int8 uses less."
        ) from None
    except MemoryError:
        raise CommandError(
            "There is not enough memory; --limit or --dtype int8 uses less."
        ) from None


@models.command("export")
@click.argument("name")
@choice_option(
    "--format",
    ("word2vec-text", "onnx"),
    "word2vec-text",
    "The vectors as one text file, or the layers as a graph for ONNX Runtime.",
    "kind",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Output file, replaced if it exists.",
)
@click.option("--limit", type=click.IntRange(1), help="Maximum number of words to write.")
@click.option("--quantize", is_flag=True, help="With `onnx`, store the weights as 8-bit integers.")
@with_registry
def export(
    name: str, kind: str, output: Path, limit: int | None, registry: Registry, *, quantize: bool
) -> None:
    """Export the static vectors or the layers of a model for other programs."""
    if limit if kind == "onnx" else quantize:
        option = "--limit" if limit else "--quantize"
        raise click.UsageError(f"{option} does not belong to --format {kind}.")
    for package in ("onnx", "onnxruntime") if kind == "onnx" else ():
        require_package(package, "The graph needs ONNX", "onnx")
    skipped, model = 0, registry.model(name)
    if kind == "onnx":
        from polyseme.models.onnx_graph import onnx_graph, quantized

        graph = onnx_graph(model.layers, model.manifest.dimension, name)
        atomic_write(output, quantized(graph) if quantize else graph.SerializeToString())
    else:
        skipped = export_word2vec(model, output, limit)
    if skipped:
        words = counted(skipped, "word")
        echo(f"polyseme: Skipped {words} with white space.", err=True)
