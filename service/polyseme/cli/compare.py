"""`polyseme compare`: occurrences of words side by side."""

import click
import orjson

from polyseme.cli.options import case_option, model_option, require_unicode, with_registry
from polyseme.encoding.compare import Comparison, Occurrence
from polyseme.encoding.compare import compare as compare_occurrences
from polyseme.encoding.documents import compare_document
from polyseme.encoding.stages import Stages
from polyseme.engine.arrays import Floats
from polyseme.models.registry import Registry
from polyseme.settings import Settings
from polyseme.tokenizer import Case


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
    type=click.IntRange(0, 100),
    default=5,
    show_default=True,
    help="How many neighbours of each vector.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer of /v1/compare.")
@case_option
@model_option
@with_registry
def compare(
    texts: tuple[str, ...],
    words: tuple[str, ...],
    neighbors: int,
    as_json: bool,
    case: Case,
    model: str | None,
    registry: Registry,
    settings: Settings,
) -> None:
    """Show what context makes of a word in each TEXT.

    A word that one TEXT has twice is compared with itself when the TEXT is given twice.
    """
    occurrences = _occurrences(require_unicode(texts), require_unicode(words))
    chosen = registry.model(model)
    result = compare_occurrences(chosen, occurrences, neighbors, case, settings.limits(), Stages())
    if as_json:
        document = compare_document(chosen.manifest, result)
        click.echo(orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY).decode())
    else:
        click.echo(_table(result))


def _occurrences(texts: tuple[str, ...], words: tuple[str, ...]) -> list[Occurrence]:
    """Pair texts with words; a text given again means the next time the word stands in it."""
    if len(texts) == 1:
        raise click.UsageError("There is one text: give two or more to compare.")
    if len(words) not in {1, len(texts)}:
        raise click.UsageError("Give --word once for all texts, or once for each.")
    pairs = list(zip(texts, words * len(texts) if len(words) == 1 else words, strict=True))
    return [
        Occurrence(text, word, nth=pairs[:number].count((text, word)))
        for number, (text, word) in enumerate(pairs)
    ]


def _table(result: Comparison) -> str:
    """The comparison for a person to read."""
    lines = []
    for number, one in enumerate(result.occurrences):
        lines += [
            f"{number}  {one.token.text}  ({one.token.resolution}, shift {one.shift:.2f})",
            f"   looks at    {', '.join(f'{t.text} {w:.2f}' for t, w in one.attends_to[:5])}",
            f"   static      {', '.join(word for word, _ in one.static_neighbours)}",
            f"   contextual  {', '.join(word for word, _ in one.contextual_neighbours)}",
        ]
    lines += ["", "similarity", *_matrix("static", result.static_similarity)]
    lines += _matrix("contextual", result.contextual_similarity)
    return "\n".join([*lines, *(f"note: {note}" for note in result.notes)])


def _matrix(name: str, values: Floats) -> list[str]:
    rows = [" ".join(f"{value:5.2f}" for value in row) for row in values]
    return [f"   {name if not number else '':<11} {row}" for number, row in enumerate(rows)]
