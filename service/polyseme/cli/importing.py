"""`polyseme models import` and `pull`: from files of pretrained vectors to models."""

import codecs
import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import click

from polyseme.cli.interruption import cleaning_up
from polyseme.cli.options import destination_option, require_unicode
from polyseme.cli.progress import ConsoleProgress
from polyseme.command_error import CommandError
from polyseme.importing.download import download_vectors
from polyseme.importing.formats import Format
from polyseme.importing.importer import ImportOptions, check_name, check_place, import_vectors
from polyseme.importing.weights import Convention
from polyseme.settings import usable_cpus
from polyseme.store.manifest import Dtype, Manifest

_SUFFIXES = re.compile(r"(?:\.(?:gz|bz2|xz|zip|txt|vec|bin|w2v|word2vec))+$", re.IGNORECASE)


def _encoding(_context: click.Context, _option: click.Parameter, name: str) -> str:
    try:
        b"\xff".decode(name, "backslashreplace")  # one of domain names cannot do so
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        raise click.BadParameter("Python knows no such encoding of text.") from None


_OPTIONS = (
    click.option(
        "--weights",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="A .safetensors file of projection weights, in place of the closed form.",
    ),
    click.option("--no-weights", is_flag=True, help="Parameter-free attention: Q = K = V = X."),
    click.option(
        "--convention",
        type=click.Choice(get_args(Convention)),
        help="Whether the weights are used as x·W (row, the default) or as W·x (column).",
    ),
    click.option("--heads", type=click.IntRange(1, 1024), help="How many heads the weights have."),
    click.option(
        "--sorted/--unsorted",
        "by_frequency",
        default=None,
        help="Whether the words stand in the order of their frequency; tested when left out.",
    ),
    click.option("--limit", type=click.IntRange(1), help="Read so many words at most."),
    click.option(
        "--dtype",
        type=click.Choice(get_args(Dtype)),
        default="float32",
        show_default=True,
        help="How numbers are kept; int8 with a scale for each word.",
    ),
    click.option(
        "--encoding",
        default="utf-8",
        show_default=True,
        callback=_encoding,
        help="The encoding of the words.",
    ),
    click.option("--skip-bad-rows", is_flag=True, help="Leave out rows that cannot be used."),
    click.option("--replace", is_flag=True, help="Put the model in the place of one of its name."),
    click.option("--licence", help="The licence of the vectors, for the manifest."),
    click.option("--language", "languages", multiple=True, help="A language of the words."),
    click.option(
        "--processes",
        type=click.IntRange(1, 64),
        default=lambda: min(usable_cpus(), 16),
        help="How many processes convert numbers; the default is one for each processor.",
    ),
    destination_option,
)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command what `import` and `pull` have in common."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--format", "kind", type=click.Choice(get_args(Format)), help="Guessed if left out.")
@click.option("--name", help="The model's name; the file's, without its endings, if left out.")
@click.option("--member", help="Which file of a .zip, where it has several.")
@_options
def import_file(
    file: Path, kind: Format | None, name: str | None, member: str | None, **options: Any
) -> None:
    """Make a model of a FILE of GloVe, Word2Vec or fastText vectors.

    The FILE may be compressed (.gz, .bz2, .xz, .zip). The model appears whole, or not at all, and
    has attention weights at once.
    """
    if name is None:
        name = _SUFFIXES.sub("", Path(member or file).name)
    destination, wishes = _wishes(options, format=kind, member=member)
    folder = _folder(destination, name)
    with cleaning_up(), _explained():
        _tell(import_vectors(file, folder, wishes, ConsoleProgress()))


@click.command("pull")
@click.argument("dataset", metavar="NAME")
@click.option("--name", help="The model's name; the dataset's if left out.")
@click.option(
    "--mirror",
    metavar="URL",
    help="Where list.json and NAME/NAME.gz are, in place of gensim-data's own place.",
    envvar="POLYSEME_MIRROR",
)
@_options
def pull(dataset: str, name: str | None, mirror: str | None, **options: Any) -> None:
    """Download the vectors of NAME, such as glove-wiki-gigaword-100, and import them.

    The names are those of gensim-data; what is downloaded stays in gensim's folder of data.
    """
    progress = ConsoleProgress()
    destination, wishes = _wishes(options)
    folder = _folder(destination, dataset if name is None else name)
    check_place(folder, replace=wishes.replace)
    with cleaning_up(), _explained():
        file, facts = download_vectors(dataset, mirror, progress)
        wishes = replace(wishes, facts={**facts, **wishes.facts})
        _tell(import_vectors(file, folder, wishes, progress))


def _folder(destination: Path, name: str) -> Path:
    """Where a model goes; a name that would lead elsewhere is none that a model can have."""
    check_name(name)
    return destination / name


def _wishes(options: dict[str, Any], **more: Any) -> tuple[Path, ImportOptions]:
    """Where models go, and how this one is to be imported."""
    if options["weights"] and options["no_weights"]:
        raise click.UsageError("Give --weights or --no-weights, not both.")
    if not options["weights"] and (options["heads"] or options["convention"]):
        raise click.UsageError("--heads and --convention say what --weights are; give those too.")
    require_unicode((options["licence"] or "", *options["languages"]))
    facts = {"licence": options["licence"], "languages": list(options["languages"])}
    wishes = ImportOptions(
        limit=options["limit"],
        dtype=options["dtype"],
        encoding=options["encoding"],
        skip=options["skip_bad_rows"],
        sorted=options["by_frequency"],
        weights=options["weights"],
        attention=not options["no_weights"],
        convention=options["convention"] or "row",
        heads=options["heads"],
        replace=options["replace"],
        processes=options["processes"],
        facts={name: fact for name, fact in facts.items() if fact},
        **more,
    )
    return options["models_dir"], wishes


def _tell(manifest: Manifest) -> None:
    attention = manifest.training["attention"]
    click.echo(
        f"{manifest.name}  {manifest.vocabulary_size} words  {manifest.dimension} wide "
        f" {manifest.dtype}  {'cased' if manifest.cased else 'lower-case'}  {attention}"
    )


@contextmanager
def _explained() -> Iterator[None]:
    """Say what a lack of room means here."""
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT, None}:  # NumPy tells no number
            raise
        raise CommandError(
            "The disk of the models is full, or that of temporary files (TMPDIR); --limit or"
            " --dtype int8 takes less."
        ) from None
    except MemoryError:
        raise CommandError(
            "There is not enough memory; --limit, --dtype int8 or --processes 1 takes less."
        ) from None
