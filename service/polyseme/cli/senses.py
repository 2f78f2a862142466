"""`polyseme senses`: find the senses of a word in files of texts."""

import io
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson

from polyseme.atomic_files import atomic_write
from polyseme.cli.options import (
    column_option,
    field_option,
    model_option,
    require_package,
    require_unicode,
    with_registry,
)
from polyseme.cli.sense_files import (
    BEGINNING,
    TABLE,
    TABLES,
    SentenceSource,
    find_many,
    forms_of_lemma,
    matching_forms,
    open_inventory,
    read_words,
    similar_forms,
    tag_sentences,
    write_occurrences,
)
from polyseme.errors import CommandError, InvalidError, counted, listed
from polyseme.importing.texts import StratifiedSample
from polyseme.models.model import Model
from polyseme.models.registry import Registry
from polyseme.operations.compare import WordForms
from polyseme.operations.schema import EncodeOptions
from polyseme.senses.clustering import quality
from polyseme.senses.find import MAX_OTHERS, Senses, SensesRequest, find_senses, require_inventory
from polyseme.senses.inventory import SenseInventory
from polyseme.settings import usable_cpus
from polyseme.single_thread import SINGLE_THREAD
from polyseme.terminal import echo
from polyseme.tokenizer import Text, as_string, hashable

MAX_SENTENCES = 2000
"""Maximum number of sentences to cluster; a random sample if more contain the word."""
_SHOWN = 90
"""Characters to show around the word of an example."""
_RUNNER_UP = 4
"""Keywords of each sense of the runner-up."""
_OF_SEARCH = ("forms", "lemmas", "exact", "count", "plot", "as_json", "phrases")
"""The options that only a search for the senses of one word uses."""


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="[WORD] FILE...")
@column_option
@click.option(
    "--form",
    "forms",
    multiple=True,
    help="Another form of WORD, such as the plural; several separated by commas. One that ends in *"
    " stands for all words with this beginning, one that ends in ~ for words similar to it in"
    " spelling and vector.",
)
@click.option(
    "--lemmas",
    help="Column with the lemma of each word of lists, lemma in .conllu: all words whose lemma is"
    " WORD are its forms.",
)
@click.option("--exact", is_flag=True, help="Count only occurrences in the same case as WORD.")
@click.option(
    "--senses", "count", type=click.IntRange(1, 20), help="Maximum senses; by default estimated."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Output file (.parquet, .csv, .jsonl): file, row, span in the row, sense (from 0),"
    " label, … of each occurrence.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Output file (.svg, .png) for a map of the occurrences; needs Matplotlib.",
)
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    help="Output file for the inventory of the senses, which --apply uses; with --apply and"
    " --labels, for the inventory with these labels.",
)
@click.option(
    "--apply",
    "applied",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="An inventory whose senses are assigned to the occurrences in FILES; without WORD.",
)
@click.option(
    "--words",
    "many",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A file of words, one per line, instead of WORD: --save names a folder for an inventory of"
    " each, and the table words.csv.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=usable_cpus,
    show_default="processors",
    help="Number of processes, with --words.",
)
@click.option(
    "--labels",
    help="Names of the senses, separated by commas, in the order in which they are printed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the response of /v1/senses.")
@field_option(EncodeOptions, "phrases")
@model_option
@with_registry
def senses(
    inputs: tuple[str, ...],
    column: str,
    model: str | None,
    registry: Registry,
    *,
    output: Path | None,
    applied: Path | None,
    labels: str | None,
    many: Path | None,
    workers: int,
    **options: Any,
) -> None:
    """Find the senses that a WORD has in FILES, without labels, or apply those that are known.

    A file is .txt (one text per line), .jsonl, .csv, .tsv, .conllu or .parquet; all but the last
    also with .gz, .zst or .bz2. Up to 2,000 sentences with the word are clustered, a sample if
    there are more. Texts are split into sentences, unlike in the API; a list of words is one. Rows
    that are not readable are left out. Needs pyarrow: pip install 'polyseme[bulk]'.
    """
    require_unicode((*inputs, column, labels or "", *options["forms"]))
    require_package("pyarrow", "Reading files needs pyarrow", "bulk")
    if output and output.suffix.lower() not in TABLES:
        raise click.UsageError(f"The name of --output must end in {', '.join(TABLES)}.")
    names = None if labels is None else [label.strip() for label in labels.split(",")]
    if applied or many:
        of_search = {name: options[name] for name in _OF_SEARCH}
        if many:
            of_search |= {"output": output, "labels": labels, "applied": applied}
        names_of = {one.name: one.opts[0] for one in click.get_current_context().command.params}
        if unused := ", ".join(names_of[name] for name, value in of_search.items() if value):
            mode = "words" if many else "apply"
            raise click.UsageError(f"{unused}: not used with --{mode}.")
        files = tuple(map(Path, inputs))
    if many:
        if not options["save"]:
            raise click.UsageError("--words needs --save, a folder for the inventories.")
        loaded = registry.model(model)
        source = registry.folder(loaded.manifest.name)
        count, without = find_many(
            read_words(many), files, column, loaded, source, options["save"], workers
        )
        verb = "does" if len(without) == 1 else "do"
        absent = f"; {counted(len(without), 'word')} {verb} not occur: {listed(without)}"
        table = options["save"] / TABLE
        echo(f"{counted(count, 'word')} in {table}{absent * bool(without)}")
        return
    if applied:
        if options["save"] and not names:
            raise click.UsageError("--apply with --save needs --labels, which it saves.")
        inventory = open_inventory(applied)
        if names:
            inventory = inventory.with_labels(names)
        if options["save"]:
            inventory.save(options["save"])
        _apply(inventory, files, column, registry, model, output)
        return
    word, *rest = inputs
    if not rest:
        raise click.UsageError("Give a WORD and the FILES to find its senses in.")
    files = tuple(map(Path, rest))
    _find(word, files, column, registry.model(model), output, names, **options)


def _apply(
    inventory: SenseInventory,
    files: tuple[Path, ...],
    column: str,
    registry: Registry,
    model: str | None,
    output: Path | None,
) -> None:
    """Assign the senses of an inventory to the occurrences in files, and print their shares."""
    loaded = registry.model(model or inventory.model)
    source = SentenceSource(files, column, inventory.word_forms, loaded.manifest.languages)
    counts = np.zeros((len(inventory.senses), 2), np.int64)

    def tagged() -> Iterator[list[dict[str, Any]]]:
        for rows in tag_sentences(source, loaded, inventory):
            for row in rows:
                counts[row["sense"]] += 1, row["unsure"]
            yield rows

    if output:
        write_occurrences(output, tagged())
    else:
        deque(tagged(), maxlen=0)
    total, unsure = counts.sum(axis=0).tolist()
    share = f", {unsure / total:.0%} of them unsure" if total else ""
    echo(f"{inventory.word}: {counted(total, 'occurrence')}{share}")
    for index, (sense, (size, _)) in enumerate(
        zip(inventory.senses, counts.tolist(), strict=True), 1
    ):
        echo(f"{index}  {100 * size / max(total, 1):.0f} %  ({size:,})  {sense.label}")


def _find(
    word: str,
    files: tuple[Path, ...],
    column: str,
    model: Model,
    output: Path | None,
    names: list[str] | None,
    *,
    forms: tuple[str, ...],
    lemmas: str | None,
    exact: bool,
    count: int | None,
    plot: Path | None,
    save: Path | None,
    as_json: bool,
    **shared: bool,
) -> None:
    """Find the senses of a word in files, and write and print them."""
    if plot:
        if plot.suffix.lower() not in (".svg", ".png"):
            raise click.UsageError("The name of --plot must end in .svg or .png.")
        require_package("matplotlib", "--plot needs Matplotlib", "evaluate")
    forms = tuple(form.strip() for form in ",".join(forms).split(",") if form.strip())
    forms = _with_similar(model, forms, exact=exact)
    if lemmas:
        forms += _print_forms(forms_of_lemma(files, column, lemmas, word, exact=exact))
    phrases = shared["phrases"]
    word_forms = WordForms((word, *forms), exact, phrases)
    source = SentenceSource(files, column, word_forms, model.manifest.languages)
    sample, others = StratifiedSample(MAX_SENTENCES), StratifiedSample(MAX_OTHERS)
    for sentence, form in source.sentences("reading", others):
        sample.add(form, sentence.text)
    texts, total = sample.texts(), sample.total
    if any(map(BEGINNING.fullmatch, forms)):
        forms = _print_forms(matching_forms(model, texts, source.pattern, exact=exact))
    all_texts = [*texts, *others.texts()]
    try:
        request = SensesRequest.of(
            word=word,
            texts=all_texts,
            forms=[*forms],
            case="exact" if exact else "any",
            senses=count or "auto",
            map=plot is not None,
            divisions=not as_json,
            inventory=True,
            **shared,
        )
        with SINGLE_THREAD:
            result = find_senses(model, request)
    except InvalidError as error:
        # No text of the files has the word, or the word is no token of those that have it.
        if [field.path for field in error.errors] not in ([("texts",)], [("word",)]):
            raise
        message = "The word does not occur in the texts; --form adds other forms."
        if not phrases and any(len(form.split()) > 1 for form in source.word.forms):
            message += " --phrases finds phrases of the vocabulary."
        raise CommandError(message) from None

    # The word may be a token of a text in which it is no word, such as `bank_owned`.
    texts = all_texts[: max([len(texts) - 1, *(one.text for one in result.occurrences)]) + 1]

    def show(labels: list[str] | None) -> None:
        if as_json:
            document = {**vars(result), "inventory": None, "texts": texts}
            echo(orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY).decode())
        else:
            _print_senses(result, texts, total, labels)

    inventory = require_inventory(result)
    if names:
        try:
            inventory = inventory.with_labels(names)
        except InvalidError as error:
            show(None)
            raise CommandError(f"{error} No file is written.") from None
    if save:
        inventory.save(save)
    if output:
        clustered = {
            (hashable(texts[one.text]), one.offset): (one.sense, one.confidence)
            for one in result.occurrences
        }
        write_occurrences(output, tag_sentences(source, model, inventory, clustered))
    if plot:
        atomic_write(plot, _picture(result, plot.suffix.lower()[1:]))
    show(names)


def _with_similar(model: Model, forms: Sequence[str], *, exact: bool) -> tuple[str, ...]:
    """Return forms, with those that are similar to one that ends in a tilde."""
    words = [form[:-1] for form in forms if form.endswith("~")]
    similar = [_print_forms(similar_forms(model, word, exact=exact)) for word in words]
    return (*(form.rstrip("~") for form in forms), *chain.from_iterable(similar))


def _print_forms(counts: Sequence[tuple[str, float]]) -> tuple[str, ...]:
    """Print the forms of a word and their counts or cosines; return the forms."""
    echo(f"Forms: {', '.join(f'{form} {n:,}' for form, n in counts) or 'none'}", err=True)
    return tuple(form for form, _ in counts)


def _picture(result: Senses, kind: str) -> bytes:
    """Draw a map of the occurrences by two principal components, with a color per sense."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "polyseme"}):
        # Each sense has a line below the map.
        figure = Figure(figsize=(7, 4.6 + 0.2 * len(result.senses)), layout="constrained")
        axes = figure.subplots()
        occurrences: Any = result.occurrences  # with positions
        for index, sense in enumerate(result.senses):
            points = [(one.x, one.y) for one in occurrences if one.sense == index]
            x, y = np.array(points).reshape(-1, 2).T
            words = ", ".join(keyword.word for keyword in sense.keywords[:4])
            # Ten colors; from the eleventh sense on, the same colors have other markers.
            color, marker = f"C{index % 10}", "osv^DP*Xd<"[(index + index // 10) % 10]
            label = f"{100 * sense.proportion:.0f} %: {words}"
            axes.scatter(x, y, s=14, alpha=0.6, color=color, marker=marker, label=label)
        axes.set_title(f"{result.word}: {len(result.occurrences):,} occurrences")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel("first principal component of the contexts")
        axes.set_ylabel("second")
        figure.legend(loc="outside lower center", frameon=False, fontsize=9)
        buffer = io.BytesIO()
        metadata: dict[str, str | None] = {"Software": None} if kind == "png" else {"Date": None}
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()


def _print_senses(result: Senses, texts: list[Text], total: int, labels: list[str] | None) -> None:
    """Print the senses: share, keywords, neighbors and an example."""
    senses, count = len(result.senses), len(result.occurrences)
    sample = f", in a sample of {len(texts):,} of {total:,} sentences" * (total > len(texts))
    echo(
        f"{result.word}: {counted(senses, 'sense')} in {counted(count, 'occurrence')}{sample};"
        f" separation {result.separation:.2f};"
        f" probability of several senses {result.several:.2f}"
    )
    for index, sense in enumerate(result.senses, 1):
        echo()
        echo(f"{index}  {100 * sense.proportion:.0f} %  ({sense.size:,})")
        if labels:
            echo(f"   label      {labels[index - 1]}")
        echo(f"   keywords   {', '.join(keyword.word for keyword in sense.keywords)}")
        echo(f"   neighbors  {', '.join(neighbor.word for neighbor in sense.neighbors)}")
        for example in sense.examples[:1]:
            occurrence = result.occurrences[example]
            text, start, end = texts[occurrence.text], occurrence.start or 0, occurrence.end or 0
            if occurrence.index is not None:
                start = len(as_string([*text[: occurrence.index], ""]))
                end = start + len(text[occurrence.index])
                text = as_string(text)
            before, after = text[max(start - _SHOWN // 2, 0) : start], text[end : end + _SHOWN // 2]
            echo(f"   example    …{before}[{text[start:end]}]{after}…")
    others = [one for one in result.alternatives[1:] if len(one.sizes) != senses]
    if others:
        runner_up: Any = max(others, key=lambda one: quality(one.separation, len(one.sizes)))
        words = (
            ", ".join(keyword.word for keyword in sense.keywords[:_RUNNER_UP])
            for sense in runner_up.described
        )
        echo()
        echo(f"as {runner_up.senses}: {' · '.join(words)}")
    for note in result.notes:
        echo(f"note: {note}")
