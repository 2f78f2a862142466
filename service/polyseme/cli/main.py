"""The command `polyseme`: its subcommands, and how errors are reported."""

import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from polyseme import __version__
from polyseme.api_keys import generate_key, is_valid_name, key_file_line
from polyseme.command_error import CommandError
from polyseme.engine.arrays import NonFiniteError
from polyseme.errors import (
    InvalidError,
    OutOfRangeError,
    PolysemeError,
    TooLargeError,
    UnknownWordError,
)
from polyseme.settings import PREFIX

_COMMANDS = {
    "bulk": "polyseme.cli.bulk:bulk",
    "compare": "polyseme.cli.encode:compare",
    "encode": "polyseme.cli.encode:encode",
    "evaluate": "polyseme.cli.evaluate:evaluate",
    "evaluate attention": "polyseme.cli.evaluate:attention",
    "keys": "polyseme.cli.main:keys",
    "models": "polyseme.cli.models:models",
    "serve": "polyseme.cli.serve:serve",
    "train": "polyseme.cli.train:train",
}
"""The module and the function of each command."""

_HINTS = {
    "unknown_model": "`polyseme models list` lists the models.",
    "unknown_word": "`--oov zero` gives such words a zero vector.",
    "broken_model": "`polyseme models verify` reports the problem of each model.",
}
"""What to do at a terminal, if that differs from HTTP."""


class _Commands(click.Group):
    """The subcommands; an error ends each of them with one sentence and exit code 1.

    A command is imported when it is called, which halves the start of `polyseme serve`.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, sorted."""
        del ctx
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, which may have a name of two words: `evaluate attention`."""
        both = " ".join(args[:2])
        if len(args) > 1 and both in _COMMANDS:
            return both, self.get_command(ctx, both), args[2:]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except NonFiniteError:
            _fail(_sentence(OutOfRangeError()))
        except PolysemeError as error:
            _fail(_sentence(error))
        except CommandError as error:
            _fail(error.sentence)
        except OSError as error:
            place = f" ({error.filename})" if error.filename else ""
            _fail(f"{error.strerror or type(error).__name__}{place}.")


def _sentence(error: PolysemeError) -> str:
    """What is wrong, and what to do."""
    if isinstance(error, InvalidError) and not isinstance(error, UnknownWordError):
        return "; ".join(f"{one.message} ({one.pointer})" for one in error.errors) + "."
    sentence, hint = error.detail, _HINTS.get(error.code, error.hint)
    if isinstance(error, UnknownWordError):
        sentence = f"{sentence[:-1]}: {', '.join(error.words)}."
    if isinstance(error, TooLargeError):
        variable = f"{PREFIX}{error.extra['setting']}".upper()
        hint = f"Send less, or raise the limit with {variable}."
    return f"{sentence} {hint}".rstrip()


def _fail(sentence: str) -> NoReturn:
    click.echo(f"polyseme: {sentence}", err=True)
    sys.exit(1)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="polyseme")
def polyseme() -> None:
    """Contextual word vectors from static ones: GloVe, Word2Vec and fastText with attention."""


@click.group()
def keys() -> None:
    """Make API keys for the service."""


@keys.command()
@click.argument("name")
def new(name: str) -> None:
    """Make a key of 256 random bits.

    Its line for the key file, a name and a hash, goes to standard output. The key itself goes to
    standard error and is stored nowhere: polyseme keys new alice >> keys
    """
    if not is_valid_name(name):
        raise click.UsageError(
            "A name has 1 to 64 of the letters A-Z and a-z, digits, `.`, `_` and `-`, and is not"
            " `key-` and a number, which are the names of keys in the environment."
        )
    key = generate_key()
    # The line comes first: a key whose line could not be written is of no use.
    click.echo(key_file_line(name, key))
    click.echo("The key, which is stored nowhere and shown only once:", err=True)
    click.echo(key, err=True)
