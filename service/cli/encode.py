"""`polyseme encode`: the answer of /v1/encode without a server."""

import sys
from typing import Any, get_args

import click
import orjson

from service.cli.options import case_option, model_option, require_unicode, with_registry
from service.encoding.documents import encode_document
from service.encoding.encoder import Choice, Part, Unlisted
from service.encoding.encoder import encode as encode_sentences
from service.encoding.npz import npz_bytes
from service.encoding.stages import Stages
from service.settings import Settings
from service.store.registry import Registry


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
    type=click.Choice(["json", "npz"]),
    default="json",
    show_default=True,
    help="One JSON document, or one NumPy archive.",
)
@click.option("--output", type=click.File("wb", lazy=True), default="-", help="A file.")
@case_option
@model_option
@with_registry
def encode(
    texts: tuple[str, ...],
    kind: str,
    output: Any,
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
    encoded = encode_sentences(model, sentences, choice, settings.limits(), Stages())
    if kind == "npz":
        output.write(npz_bytes(encoded))
        return
    document = encode_document(model.manifest, encoded)
    written = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
    output.write(written)
