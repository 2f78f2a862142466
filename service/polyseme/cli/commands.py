"""`polyseme` and its subcommands."""

import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from polyseme import __version__
from polyseme.bulk.refusal import BulkError
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
    **{name: name for name in ("serve", "encode", "compare", "models", "train", "evaluate")},
    **{name: name for name in ("bulk", "keys")},
    "evaluate attention": "attention",
}
"""Each command and its module, which has the same name as the function in it."""


class _Group(click.Group):
    """A group whose commands end an error of the tree with its sentence and exit code 1.

    A command is imported when it is called: serving takes half as long to start without the others.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of the alphabet."""
        del ctx
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        name = _COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f"polyseme.cli.{name}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, also one whose name is two words: `evaluate attention`."""
        both = " ".join(args[:2])
        if len(args) > 1 and both in _COMMANDS:
            return both, self.get_command(ctx, both), args[2:]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except NonFiniteError:
            _fail(OutOfRangeError())
        except PolysemeError as error:
            _fail(error)
        except (CommandError, BulkError) as error:
            _end(error.sentence)
        except OSError as error:
            _end(_of_system(error))


_ADVICE = {
    "unknown_model": "`polyseme models list` names those there are.",
    "unknown_word": "`--oov zero` gives such words a zero vector.",
    "broken_model": "`polyseme models verify` says what is wrong with each model.",
}
"""What to do at a terminal, where that is something else than over HTTP."""


def _fail(error: PolysemeError) -> NoReturn:
    """End with one sentence on what is wrong and one on what to do."""
    advice = _ADVICE.get(error.code, error.advice)
    if isinstance(error, TooLargeError):
        name = f"{PREFIX}{error.extra['setting']}".upper()
        advice = f"Give less, or raise the limit by {name}."
    if isinstance(error, UnknownWordError):
        sentence = f"{error.sentence[:-1]}: {', '.join(error.words)}."
    elif isinstance(error, InvalidError):
        sentence, advice = "; ".join(f"{e.message} ({e.pointer})" for e in error.errors) + ".", ""
    else:
        sentence = error.sentence
    _end(f"{sentence} {advice}".rstrip())


def _of_system(error: OSError) -> str:
    """What the system refused, such as a full disk; the person at the terminal may see paths."""
    place = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or type(error).__name__}{place}."


def _end(sentence: str) -> NoReturn:
    click.echo(f"polyseme: {sentence}", err=True)
    sys.exit(1)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="polyseme")
def polyseme() -> None:
    """Contextual word vectors from static ones: GloVe, Word2Vec and fastText with attention."""
