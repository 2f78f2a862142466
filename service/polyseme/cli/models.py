"""`polyseme models`: what is there, what it is, whether it is whole."""

import sys

import click
import orjson

from polyseme.cli.exporting import export
from polyseme.cli.importing import import_file, pull
from polyseme.cli.options import with_registry
from polyseme.encoding.documents import model_document
from polyseme.errors import ModelFolderError
from polyseme.models.reader import read_model
from polyseme.models.registry import Registry
from polyseme.settings import Settings


@click.group()
def models() -> None:
    """Import, pull, list, show, verify and export models."""


@models.command("list")
@with_registry
def list_models(registry: Registry, settings: Settings) -> None:
    """List the models: name, words, width, dtype, heads and layers."""
    for name in registry.names:
        mark = "*" if name == settings.model else " "
        try:
            one = registry.manifest(name)
        except ModelFolderError as error:
            click.echo(f"{mark} {name}  broken: {error.sentence}")
            continue
        shape = f"{one.vocabulary_size} words  {one.dimension} wide  {one.dtype}"
        click.echo(f"{mark} {name}  {shape}  {one.heads} heads  {len(one.layers)} layers")


@models.command()
@click.argument("name")
@with_registry
def show(name: str, registry: Registry, settings: Settings) -> None:  # noqa: ARG001
    """Show what a model's manifest says."""
    document = {"name": name, **model_document(registry.manifest(name))}
    click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())


@models.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@with_registry
def verify(names: tuple[str, ...], registry: Registry, settings: Settings) -> None:  # noqa: ARG001
    """Read models whole: shapes, checksums, finite numbers. All of them when none is named."""
    broken = False
    for name in names or registry.names:
        try:
            read_model(registry.folder(name), verify=True)
        except ModelFolderError as error:
            broken = True
            click.echo(f"{name}: {error.sentence}")
        else:
            click.echo(f"{name}: whole")
    sys.exit(1 if broken else 0)


for command in (import_file, pull, export):
    models.add_command(command)
