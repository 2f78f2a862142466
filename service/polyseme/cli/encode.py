"""`polyseme encode` and `polyseme compare`: encode texts and compare words without a server."""

import io
import sys
from pathlib import Path
from typing import IO, Any, get_args

import click
import orjson

from polyseme.atomic_files import atomic_files
from polyseme.cli.options import (
    choice_option,
    field_option,
    model_option,
    require_unicode,
    with_options,
    with_registry,
)
from polyseme.models.registry import Registry
from polyseme.operations.compare import CompareRequest
from polyseme.operations.compare import compare as compare_occurrences
from polyseme.operations.encode import TokenCounts, encode_each, tokenize
from polyseme.operations.limits import MAX_VALUE_BYTES
from polyseme.operations.schema import EncodeOptions
from polyseme.operations.serialize import Format, encode_json, npz_parts, sentence_parts
from polyseme.settings import Settings
from polyseme.terminal import echo


@click.command()
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@with_options(
    *(
        field_option(EncodeOptions, name)
        for name in ("include", "heads", "oov", "truncate", "share")
    )
)
@choice_option(
    "--format",
    get_args(Format),
    "json",
    "One JSON document, a line of JSON for each sentence, or one NumPy archive.",
    "kind",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    default="-",
    help="Output file; by default standard output.",
)
@field_option(EncodeOptions, "phrases")
@field_option(EncodeOptions, "case")
@model_option
@with_registry
def encode(
    texts: tuple[str, ...],
    kind: Format,
    output: Path,
    model: str | None,
    registry: Registry,
    settings: Settings,
    *,
    include: tuple[str, ...],
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
    loaded = registry.model(model)
    encoding = EncodeOptions.of(include=[*include] or None, **options)
    tokenized = tokenize(
        loaded,
        sentences,
        encoding,
        settings.limits(),
        number_bytes=MAX_VALUE_BYTES["npz" if kind == "npz" else "float"],
        streamed=kind == "ndjson",
    )
    encoded = encode_each(loaded, tokenized, encoding)

    def write(out: IO[bytes] | io.RawIOBase) -> None:
        if kind == "npz":
            out.writelines(npz_parts(loaded.manifest, list(encoded), encoding))
        elif kind == "ndjson":
            for sentence in encoded:
                out.writelines([*sentence_parts(sentence), b"\n"])
        else:
            counts = TokenCounts(tokenized)
            out.writelines(encode_json(loaded, list(encoded), counts, encoding))
            out.write(b"\n")

    if str(output) == "-":
        write(_Terminal() if sys.stdout.isatty() else sys.stdout.buffer)
    elif output.exists() and not output.is_file():
        with output.open("wb") as file:  # a pipe or a device, such as /dev/stdout
            write(file)
    else:
        with atomic_files(output) as (out,):
            write(out)


class _Terminal(io.RawIOBase):
    """The terminal as a file of lines of JSON; a part that is written has whole characters."""

    def write(self, part: Any) -> int:
        text = bytes(part).decode()
        echo(text.removesuffix("\n"), nl=text.endswith("\n"))
        return len(part)


@click.command()
@click.argument("texts", metavar="TEXT TEXT...", nargs=-1, required=True)
@click.option(
    "--word",
    "words",
    multiple=True,
    required=True,
    help="The word to compare: one for all texts, or one for each.",
)
@field_option(CompareRequest, "neighbors")
@click.option("--json", "as_json", is_flag=True, help="Print the response of /v1/compare.")
@field_option(CompareRequest, "share")
@field_option(EncodeOptions, "phrases")
@field_option(CompareRequest, "case")
@model_option
@with_registry
def compare(
    texts: tuple[str, ...],
    words: tuple[str, ...],
    as_json: bool,
    model: str | None,
    registry: Registry,
    settings: Settings,
    **options: Any,
) -> None:
    """Compare a word in the contexts of each TEXT.

    To compare two occurrences of a word in one TEXT, give the TEXT twice.
    """
    require_unicode(texts + words)
    if len(texts) == 1:
        raise click.UsageError("There is only one text: give two or more to compare.")
    if len(words) not in {1, len(texts)}:
        raise click.UsageError("Give --word once for all texts, or once for each.")
    pairs = list(zip(texts, words * len(texts) if len(words) == 1 else words, strict=True))
    # The nth copy of a pair means the nth occurrence in the text.
    occurrences = [
        {"text": text, "word": word, "nth": pairs[:index].count((text, word))}
        for index, (text, word) in enumerate(pairs)
    ]
    loaded = registry.model(model)
    request = CompareRequest.of(occurrences=occurrences, **options)
    result = compare_occurrences(loaded, request, settings.limits())
    if as_json:
        echo(orjson.dumps(result, option=orjson.OPT_SERIALIZE_NUMPY).decode())
        return
    for index, occurrence in enumerate(result.occurrences):
        token = occurrence.token
        attended = [f"{key.text} {key.weight:.2f}" for key in occurrence.attends_to[:5]]
        echo(f"{index}  {token.text}  ({token.resolution}, shift {occurrence.shift:.2f})")
        echo(f"   attends to  {', '.join(attended)}")
        for name in ("static", "contextual"):
            near_words = (near.word for near in getattr(occurrence, f"{name}_neighbors"))
            echo(f"   {name:<11} {', '.join(near_words)}")
    echo()
    echo("similarity")
    for name in ("static", "contextual"):
        for index, row in enumerate(getattr(result, f"{name}_similarity")):
            values = " ".join(f"{value:5.2f}" for value in row)
            echo(f"   {'' if index else name:<11} {values}")
    for note in result.notes:
        echo(f"note: {note}")
