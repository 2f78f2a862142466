"""`polyseme senses`: find the senses of a word in files of texts."""

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import click
import numpy as np
import orjson

from polyseme.atomic_files import atomic_files, atomic_write
from polyseme.cli.options import (
    exit_on_signals,
    model_option,
    phrases_option,
    require_unicode,
    with_registry,
)
from polyseme.cli.progress import ConsoleProgress
from polyseme.errors import CommandError, InvalidError, install_command
from polyseme.models.model import Model
from polyseme.models.registry import Registry
from polyseme.operations.clustering import assign
from polyseme.operations.compare import match_forms, word_places
from polyseme.operations.occurrences import encode_occurrences, find_projection, project_occurrences
from polyseme.operations.senses import (
    Matching,
    SenseInventory,
    SensesRequest,
    find_senses,
    senses_of,
)
from polyseme.settings import Settings

MAX_SENTENCES = 2000
"""Maximum number of sentences to cluster; a random sample if more contain the word."""
MAX_CHARACTERS = 2000
"""Maximum characters of a sentence to keep: of a longer one, those around the first occurrence."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_SEED = 1
_SHOWN = 90
"""Characters to show around the word of an example."""
_BATCH_ROWS = 4096
_IMAGES = (".svg", ".png")


@click.command()
@click.argument("word")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--column", default="text", show_default=True, help="The column, or field, of the texts."
)
@click.option(
    "--form",
    "forms",
    multiple=True,
    help="Another form of WORD, such as the plural; several separated by commas.",
)
@click.option("--exact", is_flag=True, help="Count only occurrences in the same case as WORD.")
@click.option(
    "--senses", "count", type=click.IntRange(1, 20), help="Maximum senses; by default estimated."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Output file (.parquet, .csv, .jsonl): file, row, span, sense (from 0), … of each"
    " occurrence.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Output file (.svg, .png) for a map of the occurrences; needs Matplotlib.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the response of /v1/senses.")
@phrases_option
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
    output: Path | None,
    plot: Path | None,
    exact: bool,
    as_json: bool,
    phrases: bool,
) -> None:
    """Find the senses that a WORD has in FILES, without labels.

    A file is .txt (one text per line), .jsonl, .csv, .tsv or .parquet; the first four also with
    .gz, .zst or .bz2. Up to 2,000 sentences with the word are clustered, a sample if there are
    more. Needs pyarrow: pip install 'polyseme[bulk]'.
    """
    del settings
    require_unicode((word, column, *forms))
    if not find_spec("pyarrow"):
        raise CommandError(f"Reading files needs pyarrow: {install_command('bulk')}.")
    if output and output.suffix.lower() not in _WRITERS:
        raise click.UsageError(f"The name of --output must end in {', '.join(_WRITERS)}.")
    if plot and plot.suffix.lower() not in _IMAGES:
        raise click.UsageError("The name of --plot must end in .svg or .png.")
    if plot and not find_spec("matplotlib"):
        raise CommandError(f"--plot needs Matplotlib: {install_command('evaluate')}.")
    forms = tuple(form.strip() for one in forms for form in one.split(",") if form.strip())
    chosen = registry.model(model)
    source = _Source(files, column, (word, *forms), exact=exact)
    texts, total = _sample(source)
    with _explaining_absence((word, *forms), phrases=phrases):
        request = SensesRequest.of(
            word=word,
            texts=texts,
            forms=[*forms],
            case=source.matching,
            senses=count or "auto",
            map=plot is not None,
            phrases=phrases,
        )
        found = find_senses(chosen, request)
    if output:
        with exit_on_signals():
            _write_occurrences(output, source, chosen, found, texts, phrases=phrases)
    if plot:
        with exit_on_signals():
            atomic_write(plot, _picture(found, plot.suffix.lower()[1:]))
    if as_json:
        document = {**vars(senses_of(chosen.manifest.name, found)), "texts": texts}
        click.echo(orjson.dumps(document).decode())
    else:
        click.echo(_table(found, texts, total))


class _Source:
    """The sentences with a word or one of its forms, read from files."""

    def __init__(
        self, paths: tuple[Path, ...], column: str, forms: tuple[str, ...], *, exact: bool
    ) -> None:
        from polyseme.bulk.sources import find_files

        self.files = [file for path in paths for file in find_files(path)]
        self.column, self.forms = column, forms
        self.matching: Matching = "exact" if exact else "any"
        spelled = "|".join(r"\s+".join(map(re.escape, one.split())) for one in sorted(set(forms)))
        flags = 0 if exact else re.IGNORECASE
        self.pattern = re.compile(rf"(?<!\w)(?:{spelled})(?!\w)", flags)

    def sentences(self, stage: str) -> Iterator[tuple[str, int, str]]:
        """Yield the name of the file, the number of the row in it, and the sentence."""
        from polyseme.bulk.sources import TEXTS, read

        with ConsoleProgress().stage(stage, sum(file.bytes for file in self.files)) as bar:
            start = rows = 0
            for file in self.files:
                row = 0
                for chunk in read(file, self.column, ()):
                    for text in chunk.rows.column(TEXTS).to_pylist():
                        for sentence in _sentences_with(text, self.pattern):
                            yield file.name, row, sentence
                        row += 1
                    bar.reach(start + chunk.bytes_read, rows + row)
                start, rows = start + file.bytes, rows + row


def _sample(source: _Source) -> tuple[list[str], int]:
    """Return a random sample of the sentences, and the number of all sentences.

    Reservoir sampling (Vitter 1985) uses the same memory for files of any size.
    """
    rng = np.random.default_rng(_SEED)
    kept: list[str] = []
    total = 0
    for _, _, sentence in source.sentences("reading"):
        total += 1
        if len(kept) < MAX_SENTENCES:
            kept.append(sentence)
        elif (place := int(rng.integers(total))) < MAX_SENTENCES:
            kept[place] = sentence
    return kept, total


def _sentences_with(text: str | list[str] | None, pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield the sentences of a text that match the pattern."""
    if not text:
        return
    whole = text if isinstance(text, str) else " ".join(text)
    if not pattern.search(whole):
        return
    for sentence in _SENTENCE_END.split(whole):
        match = pattern.search(sentence)
        if match:
            end = len(sentence) - MAX_CHARACTERS
            first = max(min(match.start() - MAX_CHARACTERS // 2, end), 0)
            yield sentence[first : first + MAX_CHARACTERS].strip()


@contextmanager
def _explaining_absence(forms: tuple[str, ...], *, phrases: bool) -> Iterator[None]:
    """Name the options of the command if no token of the texts is the word."""
    try:
        yield
    except InvalidError as error:
        # No text of the files has the word, or the word is no token of those that have it.
        if [one.path for one in error.errors] not in ([("texts",)], [("word",)]):
            raise
        message = "The word does not occur in the texts; --form adds other forms."
        if not phrases and any(len(one.split()) > 1 for one in forms):
            message += " --phrases finds phrases of the vocabulary."
        raise CommandError(message) from None


def _write_occurrences(
    path: Path,
    source: _Source,
    model: Model,
    found: SenseInventory,
    texts: list[str],
    *,
    phrases: bool,
) -> None:
    """Write every occurrence of the word in the sentences, with its sense and the confidence.

    Occurrences in the clustered `texts` keep their senses; others get the nearest one.
    """
    import pyarrow as pa

    schema = pa.schema(
        [
            *(("file", pa.string()), ("row", pa.int64()), ("text", pa.string())),
            *(("start", pa.int32()), ("end", pa.int32())),
            *(("sense", pa.int32()), ("confidence", pa.float32())),
        ]
    )
    projection, exact = find_projection(model), source.matching == "exact"
    wanted = match_forms(source.forms, exact=exact)
    senses = zip(found.clusters.labels, found.clusters.confidence, strict=True)
    clustered = {
        (texts[one.text], one.start): sense
        for one, sense in zip(found.occurrences, senses, strict=True)
    }
    with atomic_files(path) as (file,), _WRITERS[path.suffix.lower()](file, schema) as write:
        rows: list[dict[str, Any]] = []
        for name, row, sentence in source.sentences("assigning"):
            tokens = model.tokenizer.tokens(sentence, "auto", MAX_CHARACTERS)
            if phrases:
                tokens = model.tokenizer.join(tokens, "auto", sentence)
            places = word_places([token.text for token in tokens], wanted, exact=exact)
            if not places:
                continue
            occurrences = encode_occurrences(model, tokens, places, 0)
            points = project_occurrences(occurrences, projection)
            labels, confidence = assign(points, found.clusters.centroids)
            for one, *nearest in zip(occurrences, labels, confidence, strict=True):
                label, sure = clustered.get((sentence, one.start), nearest)
                place = {"file": name, "row": row, "text": sentence}
                span = {"start": one.start, "end": one.end}
                rows.append({**place, **span, "sense": int(label), "confidence": float(sure)})
            if len(rows) >= _BATCH_ROWS:
                write(pa.RecordBatch.from_pylist(rows, schema))
                rows = []
        write(pa.RecordBatch.from_pylist(rows, schema))


@contextmanager
def _parquet(file: IO[bytes], schema: Any) -> Iterator[Callable[[Any], None]]:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        yield writer.write_batch


@contextmanager
def _csv(file: IO[bytes], schema: Any) -> Iterator[Callable[[Any], None]]:
    from pyarrow import csv

    with csv.CSVWriter(file, schema) as writer:
        yield writer.write_batch


@contextmanager
def _jsonl(file: IO[bytes], schema: Any) -> Iterator[Callable[[Any], None]]:
    del schema
    yield lambda batch: file.writelines(orjson.dumps(one) + b"\n" for one in batch.to_pylist())


_WRITERS = {".parquet": _parquet, ".csv": _csv, ".jsonl": _jsonl}
"""Writers of record batches, by the suffix of the file."""


def _picture(found: SenseInventory, kind: str) -> bytes:
    """Draw a map of the occurrences by two principal components, with a color per sense."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "polyseme"}):
        # Each sense has a line below the map.
        figure = Figure(figsize=(7, 4.6 + 0.2 * len(found.senses)), layout="constrained")
        axes = figure.subplots()
        positions = np.array(found.positions)
        for number, sense in enumerate(found.senses):
            x, y = positions[found.clusters.labels == number].T
            words = ", ".join(one.word for one in sense.keywords[:4])
            # Ten colors; from the eleventh sense on, the same colors have other markers.
            color, marker = f"C{number % 10}", "osv^DP*Xd<"[(number + number // 10) % 10]
            label = f"{100 * sense.proportion:.0f} %: {words}"
            axes.scatter(x, y, s=14, alpha=0.6, color=color, marker=marker, label=label)
        axes.set_title(f"{found.word}: {len(found.occurrences):,} occurrences")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel("first principal component of the contexts")
        axes.set_ylabel("second")
        figure.legend(loc="outside lower center", frameon=False, fontsize=9)
        buffer = io.BytesIO()
        metadata: dict[str, str | None] = {"Software": None} if kind == "png" else {"Date": None}
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()


def _table(found: SenseInventory, texts: list[str], total: int) -> str:
    """Return the senses as text: share, keywords, neighbors and an example."""
    count = len(found.occurrences)
    sample = f", in a sample of {len(texts):,} of {total:,} sentences" * (total > len(texts))
    head = f"{found.word}: {len(found.senses)} sense{'s' * (len(found.senses) != 1)}"
    head = f"{head} in {count:,} occurrence{'s' * (count != 1)}{sample}"
    lines = [f"{head}; separation {found.clusters.separation:.2f}"]
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
