"""`polyseme senses`: the senses of a word in files of texts."""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np
import orjson

from polyseme.cli.options import model_option, require_unicode, with_registry
from polyseme.cli.progress import ConsoleProgress
from polyseme.command_error import CommandError
from polyseme.models.registry import Registry
from polyseme.senses.induction import (
    SenseInventory,
    SenseOptions,
    find_senses,
    inventory_document,
)
from polyseme.settings import Settings

MAX_SENTENCES = 2000
"""Sentences with the word that are clustered; a random sample of them if there are more."""
MAX_CHARACTERS = 2000
"""A longer sentence is cut around the word."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_SEED = 1
_SHOWN = 90
"""Characters of an example."""


@click.command()
@click.argument("word")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--column", default="text", show_default=True, help="The column, or field, of the texts."
)
@click.option("--form", "forms", multiple=True, help="Another form, such as the plural.")
@click.option("--exact", is_flag=True, help="Count only occurrences in this case.")
@click.option(
    "--senses", "count", type=click.IntRange(1, 20), help="Number of senses; found when left out."
)
@click.option("--json", "as_json", is_flag=True, help="Print the response of /v1/senses.")
@model_option
@with_registry
def senses(
    word: str,
    files: tuple[Path, ...],
    column: str,
    forms: tuple[str, ...],
    count: int | None,
    model: str | None,
    registry: Registry,
    settings: Settings,
    *,
    exact: bool,
    as_json: bool,
) -> None:
    """Find the senses that a WORD has in FILES, without labels.

    A file is .txt (one text per line), .jsonl, .csv, .tsv or .parquet; the first four also with
    .gz, .zst or .bz2. Up to 2,000 sentences with the word are clustered, a sample if there are
    more. Needs pyarrow: pip install 'polyseme[bulk]'.
    """
    del settings
    require_unicode((word, column, *forms))
    if not find_spec("pyarrow"):
        raise CommandError("Reading files needs pyarrow: pip install 'polyseme[bulk]'.")
    chosen = registry.model(model)
    texts, total = _sample(files, column, {word, *forms}, exact=exact)
    if not texts:
        raise CommandError("The word does not occur in the texts; --form adds other forms.")
    found = find_senses(
        chosen,
        word,
        texts,
        SenseOptions(count),
        forms=forms,
        matching="exact" if exact else "any",
    )
    if as_json:
        document = {**inventory_document(chosen.manifest.name, found), "texts": texts}
        click.echo(orjson.dumps(document).decode())
    else:
        click.echo(_table(found, texts, total))


def _sample(
    paths: tuple[Path, ...], column: str, words: set[str], *, exact: bool
) -> tuple[list[str], int]:
    """Return a random sample of the sentences with one of the words, and their number.

    The sample is a reservoir (Vitter 1985): memory does not grow with the files.
    """
    from polyseme.bulk.sources import TEXTS, find_files, read  # noqa: PLC0415 - loads pyarrow

    files = [file for path in paths for file in find_files(path)]
    spelled = "|".join(re.escape(one) for one in sorted(words))
    pattern = re.compile(rf"(?<!\w)(?:{spelled})(?!\w)", 0 if exact else re.IGNORECASE)
    rng = np.random.default_rng(_SEED)
    kept: list[str] = []
    total = 0
    size = sum(file.bytes for file in files)
    with ConsoleProgress().stage("reading", size) as bar:
        start = 0
        for file in files:
            for chunk in read(file, column, ()):
                for text in chunk.rows.column(TEXTS).to_pylist():
                    for sentence in _sentences_with(text, pattern):
                        total += 1
                        if len(kept) < MAX_SENTENCES:
                            kept.append(sentence)
                        elif (place := int(rng.integers(total))) < MAX_SENTENCES:
                            kept[place] = sentence
                bar.reach(start + chunk.read, total)
            start += file.bytes
    return kept, total


def _sentences_with(text: str | list[str] | None, pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield the sentences of a text in which the pattern occurs."""
    if not text:
        return
    whole = text if isinstance(text, str) else " ".join(text)
    if not pattern.search(whole):
        return
    for sentence in _SENTENCE_END.split(whole):
        match = pattern.search(sentence)
        if match:
            first = max(match.start() - MAX_CHARACTERS // 2, 0)
            yield sentence[first : first + MAX_CHARACTERS].strip()


def _table(found: SenseInventory, texts: list[str], total: int) -> str:
    """The senses as text: share, keywords, neighbors and an example with the word marked."""
    count = len(found.occurrences)
    of = f", a sample of {total:,} sentences" if total > len(texts) else ""
    head = f"{found.word}: {len(found.senses)} sense{'s' * (len(found.senses) != 1)}"
    lines = [f"{head} in {count:,} occurrences{of}; separation {found.clusters.separation:.2f}"]
    for number, sense in enumerate(found.senses, 1):
        lines += [
            "",
            f"{number}  {100 * sense.proportion:.0f} %  ({sense.size:,})",
            f"   keywords   {', '.join(one.word for one in sense.keywords)}",
            f"   neighbors  {', '.join(one.word for one in sense.neighbors)}",
        ]
        for example in sense.examples[:1]:
            one = found.occurrences[example]
            start, end = one.start or 0, one.end or 0
            text = texts[one.text]
            before, after = text[max(start - _SHOWN // 2, 0) : start], text[end : end + _SHOWN // 2]
            lines.append(f"   example    …{before}[{text[start:end]}]{after}…")
    return "\n".join([*lines, *(f"note: {note}" for note in found.notes)])
