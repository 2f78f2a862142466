"""`polyseme keys`: keys for whoever may ask the service."""

import click

from polyseme.keyring import is_name, line_of, new_key


@click.group()
def keys() -> None:
    """Make keys for the service."""


@keys.command()
@click.argument("name")
def new(name: str) -> None:
    """Make a key of 256 random bits.

    Its line for the file of keys, a name and a hash, goes to standard output; the key itself, which
    is kept nowhere, to standard error: polyseme keys new alice >> keys
    """
    if not is_name(name):
        raise click.UsageError(
            "A name has 1 to 64 of the letters A-Z and a-z, digits, `.`, `_` and `-`, and is not"
            " `key-` and a number, which are the names of keys in the environment."
        )
    key = new_key()
    click.echo(line_of(name, key))
    # After the line: a key whose line could not be written is of no use.
    click.echo("The key, which is kept nowhere and shown this once:", err=True)
    click.echo(key, err=True)
