"""`polyseme encode`: the answer of /v1/encode without a server."""

import sys
from pathlib import Path
from typing import Any, get_args

import click

from polyseme.cli.options import case_option, model_option, require_unicode, with_registry
from polyseme.cli.output import output_option, written_to
from polyseme.encoding.answers import Kind, answer, number_bytes
from polyseme.encoding.choice import Choice, Part, Unlisted
from polyseme.encoding.encoder import Batch
from polyseme.encoding.stages import Stages
from polyseme.models.registry import Registry
from polyseme.settings import Settings


@click.command()
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@click.option(
    "--include",
    type=click.Choice(get_args(Part)),
    multiple=True,
    help="An array of the answer; may be given several times.",
)
@click.option(
    "--heads",
    type=click.Choice(["all", "mean"]),
    default="all",
    show_default=True,
    help="Attention and scores of each head, or their mean.",
)
@click.option(
    "--oov",
    type=click.Choice(get_args(Unlisted)),
    help="For words that the vocabulary lacks a zero vector, one composed from their subwords, or"
    " an error; when left out, subword where the model has subword vectors, else zero.",
)
@click.option("--truncate", is_flag=True, help="Cut a sentence that is over the limit.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(get_args(Kind)),
    default="json",
    show_default=True,
    help="One JSON document, a line of JSON for each sentence, or one NumPy archive.",
)
@output_option
@case_option
@model_option
@with_registry
def encode(
    texts: tuple[str, ...],
    kind: Kind,
    output: Path,
    registry: Registry,
    settings: Settings,
    **options: Any,
) -> None:
    """Print static vectors, contextual vectors and attention of each TEXT.

    Without a TEXT, each line of standard input is a sentence.
    """
    sentences = require_unicode(texts or tuple(line.rstrip("\n") for line in sys.stdin))
    if not sentences:
        raise click.UsageError("There is no text: give one, or lines on standard input.")
    model = registry.model(options["model"])
    choice = Choice(
        include=frozenset(options["include"]) or Choice().include,
        mean_of_heads=options["heads"] == "mean",
        oov=options["oov"],
        case=options["case"],
        truncate=options["truncate"],
    )
    batch = Batch(model, sentences, choice, settings.limits(), Stages(), number_bytes(kind))
    if not batch.large:
        batch.hold()
    with written_to(output) as out:
        out.writelines(answer(batch, kind))
        if kind == "json":
            out.write(b"\n")
