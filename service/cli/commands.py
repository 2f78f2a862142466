"""`polyseme` and its subcommands."""

import sys
from typing import Any

import click

from service import __version__
from service.cli.compare import compare
from service.cli.encode import encode
from service.cli.models import models
from service.cli.serve import serve
from service.engine.arrays import NonFiniteError
from service.errors import OutOfRangeError, PolysemeError


class _Group(click.Group):
    """A group whose commands end an error of the tree with its sentence and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except NonFiniteError:
            _fail(OutOfRangeError())
        except PolysemeError as error:
            _fail(error)


def _fail(error: PolysemeError) -> None:
    click.echo(f"polyseme: {error.sentence}", err=True)
    for one in error.members().get("errors", ()):
        click.echo(f"  {one['pointer']}: {one['message']}", err=True)
    sys.exit(1)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="polyseme")
def polyseme() -> None:
    """Contextual word vectors from static ones: GloVe, Word2Vec and fastText with attention."""


for command in (serve, encode, compare, models):
    polyseme.add_command(command)
