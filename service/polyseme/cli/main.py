"""The command `polyseme`: its subcommands, and the messages of errors."""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from polyseme import __version__
from polyseme.api_keys import generate_key, is_valid_name, key_file_line
from polyseme.engine import NonFiniteError
from polyseme.errors import (
    CommandError,
    OutOfRangeError,
    PolysemeError,
    TooLargeError,
    install_command,
)
from polyseme.settings import PREFIX, unknown_variables
from polyseme.terminal import echo

_COMMANDS = {
    "bulk": "polyseme.cli.bulk:bulk",
    "compare": "polyseme.cli.encode:compare",
    "encode": "polyseme.cli.encode:encode",
    "evaluate": "polyseme_lab.commands.evaluate:evaluate",
    "evaluate pseudowords": "polyseme_lab.commands.evaluate:pseudowords",
    "evaluate senses": "polyseme_lab.commands.evaluate:senses",
    "evaluate sentences": "polyseme_lab.commands.evaluate:sentences",
    "evaluate tagging": "polyseme_lab.commands.evaluate:tagging",
    "keys": "polyseme.cli.main:keys",
    "models": "polyseme.cli.models:models",
    "senses": "polyseme.cli.senses:senses",
    "serve": "polyseme.cli.serve:serve",
    "train": "polyseme_lab.commands.train:train",
}
"""The module and function of each command. The container image does not have `polyseme_lab`."""

_HINTS = {
    "invalid": "`--help` describes the options.",
    "unknown_model": "`polyseme models import` and `polyseme models pull` add models.",
    "unknown_word": "`--oov zero` gives such words a zero vector.",
    "broken_model": "`polyseme models verify` reports the problem of each model.",
}
"""Hints that differ on the command line from those of the HTTP API."""


class _Commands(click.Group):
    """The subcommands.

    A command that fails prints one message and exits with code 1, or 2 for a usage error.

    A command is imported when it is called, which halves the startup time of `polyseme serve`.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the installed commands, sorted."""
        del ctx
        return sorted(name for name in _COMMANDS if _is_installed(name))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; raise CommandError if it is not installed."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        if not _is_installed(cmd_name):
            extra = cmd_name.split(maxsplit=1)[0]
            raise CommandError(
                f"This installation does not have `polyseme {cmd_name}`. A wheel has it, and so has"
                f" a checkout: {install_command(extra)}."
            )
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; its name may have two words, as in `evaluate senses`."""
        name = " ".join(args[:2])
        if len(args) > 1 and name in _COMMANDS:
            return name, self.get_command(ctx, name), args[2:]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except NonFiniteError:
            message = _message(OutOfRangeError())
        except PolysemeError as error:
            message = _message(error)
        except CommandError as error:
            message = str(error)
        except BrokenPipeError:
            raise  # click ends silently: nobody reads the output any more
        except OSError as error:
            file = f" ({error.filename})" if error.filename else ""
            message = f"{error.strerror or type(error).__name__}{file}."
        echo(f"polyseme: {message}", err=True)
        sys.exit(1)


def _is_installed(name: str) -> bool:
    return find_spec(_COMMANDS[name].partition(".")[0]) is not None


def _message(error: PolysemeError) -> str:
    """Return what is wrong, and what to do on the command line."""
    hint = _HINTS.get(error.code) if error.hint == type(error).hint else None
    if isinstance(error, TooLargeError):
        variable = f"{PREFIX}{error.extra['setting']}".upper()
        hint = f"Shorten the input, or raise the limit with {variable}."
        if error.extra["setting"] == "max_sentence_tokens":
            hint += " `polyseme encode --truncate` truncates sentences."
    return error.message(hint)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="polyseme")
@click.pass_context
def polyseme(context: click.Context) -> None:
    """Contextual word vectors from static GloVe, Word2Vec and fastText vectors by attention."""
    if context.invoked_subcommand != "serve":  # the service logs the warnings and handles signals
        from polyseme.cli.options import exit_on_signals

        context.with_resource(exit_on_signals())
        for warning in unknown_variables():
            echo(f"polyseme: Warning: {warning}", err=True)


@click.group()
def keys() -> None:
    """Generate API keys for the service."""


@keys.command()
@click.argument("name")
def new(name: str) -> None:
    """Generate a key of 256 random bits.

    The line for the key file, a name and a hash, is written to standard output. The key itself is
    written to standard error and is not stored. Example: polyseme keys new alice >> keys
    """
    if not is_valid_name(name):
        raise click.UsageError(
            "A name has 1 to 64 letters A-Z and a-z, digits, `.`, `_` and `-`. Names of the form"
            " `key-1` are reserved for the keys of POLYSEME_API_KEYS."
        )
    key = generate_key()
    # The line comes first: a key whose line cannot be written is useless.
    echo(key_file_line(name, key))
    echo("The key is not stored and is shown only once:", err=True)
    echo(key, err=True)
