"""`polyseme encode` and `polyseme compare`: encode texts and compare words without a server."""

import sys
from pathlib import Path
from typing import Any, get_args

import click
import orjson

from polyseme.cli.options import (
    case_option,
    model_option,
    open_output,
    output_option,
    phrases_option,
    require_unicode,
    share_option,
    with_registry,
)
from polyseme.models.registry import Registry
from polyseme.operations.compare import CompareRequest, Comparison
from polyseme.operations.compare import compare as compare_occurrences
from polyseme.operations.encode import (
    TokenCounts,
    encode_each,
    tokenize,
)
from polyseme.operations.options import DEFAULT_PARTS, MAX_LISTED, EncodeOptions, OovPolicy, Part
from polyseme.operations.serialize import (
    Format,
    json_document,
    npz_archive,
    number_cost,
    sentence_document,
    sentence_json,
)
from polyseme.operations.work import encode_cost
from polyseme.settings import Settings
from polyseme.tokenizer import Case


@click.command()
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@click.option(
    "--include",
    type=click.Choice(get_args(Part)),
    multiple=True,
    help="An array to return; may be given several times.",
)
@click.option(
    "--heads",
    type=click.Choice(["all", "mean"]),
    default="all",
    show_default=True,
    help="Attention and scores of each head, or the mean of the heads.",
)
@click.option(
    "--oov",
    type=click.Choice(get_args(OovPolicy)),
    help="What to do with unknown words: use a zero vector, compose a vector from subwords, or"
    " fail. The default is subword if the model has subword vectors, else zero.",
)
@click.option("--truncate", is_flag=True, help="Truncate sentences that exceed the limit.")
@share_option
@click.option(
    "--format",
    "kind",
    type=click.Choice(get_args(Format)),
    default="json",
    show_default=True,
    help="One JSON document, a line of JSON for each sentence, or one NumPy archive.",
)
@output_option
@phrases_option
@case_option
@model_option
@with_registry
def encode(
    texts: tuple[str, ...],
    kind: Format,
    output: Path,
    registry: Registry,
    settings: Settings,
    **options: Any,
) -> None:
    """Print static vectors, contextual vectors and attention of each TEXT.

    Without a TEXT, each line of standard input is a sentence.
    """
    if kind == "npz" and output == Path("-") and sys.stdout.isatty():
        raise click.UsageError("An .npz is not for a terminal: give --output, or redirect it.")
    sentences = require_unicode(texts or tuple(line.rstrip("\n") for line in sys.stdin))
    if not sentences:
        raise click.UsageError("There is no text: give texts as arguments or on standard input.")
    model = registry.model(options["model"])
    encoding = EncodeOptions(
        include=[*(options["include"] or DEFAULT_PARTS)],
        heads=options["heads"],
        oov=options["oov"],
        case=options["case"],
        phrases=options["phrases"],
        truncate=options["truncate"],
        share=options["share"],
    )
    limits = settings.limits()
    cost = encode_cost(model, encoding, number_cost(kind), streamed=kind == "ndjson")
    tokenized = tokenize(model, sentences, encoding, limits, cost=cost)
    encoded = encode_each(model, tokenized, encoding)
    with open_output(output) as out:
        if kind == "npz":
            out.write(npz_archive(model.manifest, list(encoded), encoding))
        elif kind == "ndjson":
            out.writelines(sentence_json(one) + b"\n" for one in encoded)
        else:
            results = [sentence_document(one) for one in encoded]
            out.write(json_document(model.manifest, results, TokenCounts(tokenized)) + b"\n")


@click.command()
@click.argument("texts", metavar="TEXT TEXT...", nargs=-1, required=True)
@click.option(
    "--word",
    "words",
    multiple=True,
    required=True,
    help="The word to compare: one for all texts, or one for each.",
)
@click.option(
    "--neighbors",
    type=click.IntRange(0, MAX_LISTED),
    default=5,
    show_default=True,
    help="Number of neighbors of each vector.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the response of /v1/compare.")
@share_option
@phrases_option
@case_option
@model_option
@with_registry
def compare(
    texts: tuple[str, ...],
    words: tuple[str, ...],
    neighbors: int,
    share: float | None,
    as_json: bool,
    phrases: bool,
    case: Case,
    model: str | None,
    registry: Registry,
    settings: Settings,
) -> None:
    """Compare a word in the contexts of each TEXT.

    To compare two occurrences of a word in one TEXT, give the TEXT twice.
    """
    occurrences = _occurrences(require_unicode(texts), require_unicode(words))
    chosen = registry.model(model)
    request = CompareRequest.of(
        occurrences=occurrences, neighbors=neighbors, case=case, share=share, phrases=phrases
    )
    result = compare_occurrences(chosen, request, settings.limits())
    if as_json:
        click.echo(orjson.dumps(result, option=orjson.OPT_SERIALIZE_NUMPY).decode())
    else:
        click.echo(_table(result))


def _occurrences(texts: tuple[str, ...], words: tuple[str, ...]) -> list[dict[str, Any]]:
    """Pair texts with words; the nth copy of a pair means the nth occurrence in the text."""
    if len(texts) == 1:
        raise click.UsageError("There is only one text: give two or more to compare.")
    if len(words) not in {1, len(texts)}:
        raise click.UsageError("Give --word once for all texts, or once for each.")
    pairs = list(zip(texts, words * len(texts) if len(words) == 1 else words, strict=True))
    return [
        {"text": text, "word": word, "nth": pairs[:number].count((text, word))}
        for number, (text, word) in enumerate(pairs)
    ]


def _table(result: Comparison) -> str:
    """Return the comparison as text."""
    lines = []
    for number, one in enumerate(result.occurrences):
        attended = [f"{key.text} {key.weight:.2f}" for key in one.attends_to[:5]]
        lines += [
            f"{number}  {one.token.text}  ({one.token.resolution}, shift {one.shift:.2f})",
            f"   attends to  {', '.join(attended)}",
            f"   static      {', '.join(near.word for near in one.static_neighbors)}",
            f"   contextual  {', '.join(near.word for near in one.contextual_neighbors)}",
        ]
    lines += ["", "similarity"]
    similarities = {
        "static": result.static_similarity,
        "contextual": result.contextual_similarity,
    }
    for name, matrix in similarities.items():
        for number, row in enumerate(matrix):
            values = " ".join(f"{value:5.2f}" for value in row)
            lines.append(f"   {'' if number else name:<11} {values}")
    return "\n".join([*lines, *(f"note: {note}" for note in result.notes)])
