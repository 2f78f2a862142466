"""`polyseme senses`: find the senses of a word in files of texts."""

import io
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson

from polyseme.atomic_files import atomic_files, atomic_write
from polyseme.cli.options import (
    column_option,
    exit_on_signals,
    model_option,
    require_package,
    require_unicode,
    shared_options,
    with_registry,
)
from polyseme.errors import CommandError, InvalidError
from polyseme.importing.texts import draw_sample
from polyseme.models.model import Model
from polyseme.models.registry import Registry
from polyseme.operations.clustering import assign
from polyseme.operations.compare import match_forms, word_places
from polyseme.operations.encode import tokenize
from polyseme.operations.occurrences import encode_occurrences, find_projection, project_occurrences
from polyseme.operations.options import EncodeOptions, Limits
from polyseme.operations.senses import SenseInventory, SensesRequest, find_senses, senses_of
from polyseme.progress import ConsoleProgress

MAX_SENTENCES = 2000
"""Maximum number of sentences to cluster; a random sample if more contain the word."""
MAX_CHARACTERS = 2000
"""Maximum characters of a sentence to keep: of a longer one, those around the first occurrence."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_SHOWN = 90
"""Characters to show around the word of an example."""
_BATCH_ROWS = 4096
_TABLES = (".parquet", ".csv", ".jsonl")


@click.command()
@click.argument("word")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@column_option
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
@shared_options
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
    *,
    output: Path | None,
    plot: Path | None,
    exact: bool,
    as_json: bool,
    **shared: bool,
) -> None:
    """Find the senses that a WORD has in FILES, without labels.

    A file is .txt (one text per line), .jsonl, .csv, .tsv or .parquet; the first four also with
    .gz, .zst or .bz2. Up to 2,000 sentences with the word are clustered, a sample if there are
    more. Needs pyarrow: pip install 'polyseme[bulk]'.
    """
    require_unicode((word, column, *forms))
    require_package("pyarrow", "Reading files needs pyarrow", "bulk")
    if output and output.suffix.lower() not in _TABLES:
        raise click.UsageError(f"The name of --output must end in {', '.join(_TABLES)}.")
    if plot:
        if plot.suffix.lower() not in (".svg", ".png"):
            raise click.UsageError("The name of --plot must end in .svg or .png.")
        require_package("matplotlib", "--plot needs Matplotlib", "evaluate")
    forms = tuple(form.strip() for form in ",".join(forms).split(",") if form.strip())
    loaded = registry.model(model)
    source = _Source(files, column, (word, *forms), exact=exact)
    texts, total = draw_sample(
        (sentence for _, _, sentence in source.sentences("reading")), MAX_SENTENCES
    )
    try:
        request = SensesRequest.of(
            word=word,
            texts=texts,
            forms=[*forms],
            case="exact" if exact else "any",
            senses=count or "auto",
            map=plot is not None,
            **shared,
        )
        inventory = find_senses(loaded, request)
    except InvalidError as error:
        # No text of the files has the word, or the word is no token of those that have it.
        if [field.path for field in error.errors] not in ([("texts",)], [("word",)]):
            raise
        message = "The word does not occur in the texts; --form adds other forms."
        if not shared["phrases"] and any(len(form.split()) > 1 for form in source.forms):
            message += " --phrases finds phrases of the vocabulary."
        raise CommandError(message) from None
    if output:
        encoding = EncodeOptions(**request.shared())
        with exit_on_signals():
            _write_occurrences(output, source, loaded, inventory, texts, encoding)
    if plot:
        with exit_on_signals():
            atomic_write(plot, _picture(inventory, plot.suffix.lower()[1:]))
    if as_json:
        document = {**vars(senses_of(loaded.manifest.name, inventory)), "texts": texts}
        click.echo(orjson.dumps(document).decode())
    else:
        _print_senses(inventory, texts, total)


class _Source:
    """The sentences with a word or one of its forms, read from files."""

    def __init__(
        self, paths: tuple[Path, ...], column: str, forms: tuple[str, ...], *, exact: bool
    ) -> None:
        from polyseme.bulk.sources import find_files

        self.files = [file for path in paths for file in find_files(path)]
        self.column, self.forms, self.exact = column, forms, exact
        spelled = "|".join(r"\s+".join(map(re.escape, form.split())) for form in sorted(set(forms)))
        flags = 0 if exact else re.IGNORECASE
        self.pattern = re.compile(rf"(?<!\w)(?:{spelled})(?!\w)", flags)

    def sentences(self, stage: str) -> Iterator[tuple[str, int, str]]:
        """Yield the name of the file, the number of the row in it, and the sentence."""
        from polyseme.bulk.sources import read_texts

        texts = read_texts(self.files, self.column, ConsoleProgress(), stage)
        for name, row, text in texts:
            if not self.pattern.search(text):
                continue
            for sentence in _SENTENCE_END.split(text):
                match = self.pattern.search(sentence)
                if match:
                    end = len(sentence) - MAX_CHARACTERS
                    first = max(min(match.start() - MAX_CHARACTERS // 2, end), 0)
                    yield name, row, sentence[first : first + MAX_CHARACTERS].strip()


def _write_occurrences(
    path: Path,
    source: _Source,
    model: Model,
    inventory: SenseInventory,
    texts: list[str],
    encoding: EncodeOptions,
) -> None:
    """Write every occurrence of the word in the sentences, with its sense and the confidence.

    Occurrences in the clustered `texts` keep their senses; others get the nearest one.
    """
    import pyarrow as pa
    from pyarrow import csv
    from pyarrow import parquet as pq

    integers = [(name, pa.int32()) for name in ("start", "end", "sense")]
    columns = [("file", pa.string()), ("row", pa.int64()), ("text", pa.string()), *integers]
    schema = pa.schema([*columns, ("confidence", pa.float32())])
    projection, clusters = find_projection(model), inventory.clusters
    forms = match_forms(source.forms, exact=source.exact)
    clustered = {
        (texts[occurrence.text], occurrence.start): sense
        for occurrence, *sense in zip(
            inventory.occurrences, clusters.labels, clusters.confidence, strict=True
        )
    }
    with atomic_files(path) as (file,), ExitStack() as stack:
        if path.suffix.lower() == ".jsonl":

            def write(batch: Any) -> None:
                file.writelines(orjson.dumps(row) + b"\n" for row in batch.to_pylist())

        elif path.suffix.lower() == ".csv":
            write = stack.enter_context(csv.CSVWriter(file, schema)).write_batch
        else:
            writer = pq.ParquetWriter(file, schema, compression="zstd")
            write = stack.enter_context(writer).write_batch
        rows: list[dict[str, Any]] = []
        for name, row, sentence in source.sentences("assigning"):
            (tokenized,) = tokenize(model, [sentence], encoding, Limits())
            words = [token.text for token in tokenized.words]
            places = word_places(words, forms, exact=source.exact)
            if not places:
                continue
            tokens = tokenized.tokens
            occurrences = encode_occurrences(model, [tokens], [places])
            points = project_occurrences(occurrences, projection)
            nearest = zip(*assign(points, clusters.centroids), strict=True)
            for occurrence, sense in zip(occurrences, nearest, strict=True):
                label, confidence = clustered.get((sentence, occurrence.start), sense)
                place = {"file": name, "row": row, "text": sentence}
                span = {"start": occurrence.start, "end": occurrence.end}
                confidence = float(confidence)
                rows.append({**place, **span, "sense": int(label), "confidence": confidence})
            if len(rows) >= _BATCH_ROWS:
                write(pa.RecordBatch.from_pylist(rows, schema))
                rows = []
        write(pa.RecordBatch.from_pylist(rows, schema))


def _picture(inventory: SenseInventory, kind: str) -> bytes:
    """Draw a map of the occurrences by two principal components, with a color per sense."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "polyseme"}):
        # Each sense has a line below the map.
        figure = Figure(figsize=(7, 4.6 + 0.2 * len(inventory.senses)), layout="constrained")
        axes = figure.subplots()
        positions = np.array(inventory.positions)
        for number, sense in enumerate(inventory.senses):
            x, y = positions[inventory.clusters.labels == number].T
            words = ", ".join(keyword.word for keyword in sense.keywords[:4])
            # Ten colors; from the eleventh sense on, the same colors have other markers.
            color, marker = f"C{number % 10}", "osv^DP*Xd<"[(number + number // 10) % 10]
            label = f"{100 * sense.proportion:.0f} %: {words}"
            axes.scatter(x, y, s=14, alpha=0.6, color=color, marker=marker, label=label)
        axes.set_title(f"{inventory.word}: {len(inventory.occurrences):,} occurrences")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel("first principal component of the contexts")
        axes.set_ylabel("second")
        figure.legend(loc="outside lower center", frameon=False, fontsize=9)
        buffer = io.BytesIO()
        metadata: dict[str, str | None] = {"Software": None} if kind == "png" else {"Date": None}
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()


def _print_senses(inventory: SenseInventory, texts: list[str], total: int) -> None:
    """Print the senses: share, keywords, neighbors and an example."""
    senses, count = len(inventory.senses), len(inventory.occurrences)
    sample = f", in a sample of {len(texts):,} of {total:,} sentences" * (total > len(texts))
    click.echo(
        f"{inventory.word}: {senses} sense{'s' * (senses != 1)} in {count:,}"
        f" occurrence{'s' * (count != 1)}{sample};"
        f" separation {inventory.clusters.separation:.2f}"
    )
    for number, sense in enumerate(inventory.senses, 1):
        click.echo(f"\n{number}  {100 * sense.proportion:.0f} %  ({sense.size:,})")
        click.echo(f"   keywords   {', '.join(keyword.word for keyword in sense.keywords)}")
        click.echo(f"   neighbors  {', '.join(neighbor.word for neighbor in sense.neighbors)}")
        for example in sense.examples[:1]:
            occurrence = inventory.occurrences[example]
            start, end = occurrence.start or 0, occurrence.end or 0
            text = texts[occurrence.text]
            before, after = text[max(start - _SHOWN // 2, 0) : start], text[end : end + _SHOWN // 2]
            click.echo(f"   example    …{before}[{text[start:end]}]{after}…")
    for note in inventory.notes:
        click.echo(f"note: {note}")
