"""`polyseme evaluate attention`: how far attention rows say what a contextual vector rests on."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson
from pydantic import ValidationError

from polyseme.cli.evaluate import output_place, require_extra
from polyseme.cli.interruption import cleaning_up
from polyseme.cli.options import model_option, with_registry
from polyseme.cli.progress import ConsoleProgress
from polyseme.command_error import CommandError
from polyseme.progress import Progress
from polyseme.settings import Settings
from polyseme.store.model import Model
from polyseme.store.registry import Registry
from polyseme.training.config import COARSEWSD, TrainingConfig
from polyseme.whole_files import write_whole

if TYPE_CHECKING:
    from polyseme.evaluation.explanation import Explanation

_PARTS = {
    "What the model's own decision rests on: a word's removal changes its margin, or flips it": {
        "drop_correlation": "corr. drop",
        "change_correlation": "corr. change",
        "flip_auc": "AUC flips",
        "flip_at_1": "P@1",
        "flip_at_3": "P@3",
    },
    "What tells the sense to naive Bayes on the other occurrences' words": {
        "evidence_correlation": "corr.",
        "evidence_auc": "AUC",
        "evidence_at_1": "P@1",
        "evidence_at_3": "P@3",
    },
    "Margin (cosine) lost where the k highest words are removed": {
        f"removed_{k}": f"k = {k}" for k in (1, 2, 3)
    },
    "Margin (cosine) lost where only the k highest words are left": {
        f"kept_{k}": f"k = {k}" for k in (1, 2, 3)
    },
}
_BY_QUERY = {
    "change_correlation": "corr. change",
    "flip_auc": "AUC flips",
    "evidence_auc": "AUC Bayes",
    "removed_1": "k = 1 removed",
    "kept_1": "k = 1 left",
}
_QUALITY = {"pairs_auc": "pairs, AUC", "macro_f1": "centroids, F1"}
_SHOWN = 5
"""Words of an example's row."""


@click.command("evaluate attention")
@click.argument("archive", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--occurrences",
    type=click.IntRange(1, 1_000_000),
    default=500,
    show_default=True,
    help="How many tagged words are looked at one by one.",
)
@click.option(
    "--lemmas",
    type=click.Choice(["held-out", "all"]),
    default="held-out",
    show_default=True,
    help="Those that training never sees, or every one (but the words of CoarseWSD-20).",
)
@click.option(
    "--seed", type=click.IntRange(0, (1 << 32) - 1), default=1, show_default=True, help="Of draws."
)
@click.option(
    "--json",
    "document",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=output_place,
    help="A file for the results as JSON.",
)
@model_option
@with_registry
def attention(
    archive: Path, registry: Registry, settings: Settings, lemmas: str, **options: Any
) -> None:
    """Measure how well a model's attention explains its vectors, head by head, beside controls.

    ARCHIVE holds sentences tagged with senses, as `polyseme train --tags` takes them.
    """
    del settings
    require_extra()
    from polyseme.evaluation.explanation import explain  # noqa: PLC0415 - loads scikit-learn
    from polyseme.evaluation.senses import collect_senses  # noqa: PLC0415 - loads scikit-learn
    from polyseme.evaluation.sources import LocalSource  # noqa: PLC0415 - likewise

    model = registry.model(options["model"])
    seed = options["seed"]
    progress = ConsoleProgress()
    with _read(archive, progress) as sentences:
        found = collect_senses(sentences, _wanted(model, lemmas), LocalSource(model).knows, seed)
    explained = explain(model, found, options["occurrences"], seed, progress)
    click.echo(table(explained))
    if options["document"]:
        style = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        said = {**explained.document(), "chosen_lemmas": lemmas}
        with cleaning_up():
            write_whole(options["document"], orjson.dumps(said, option=style))


@contextmanager
def _read(archive: Path, progress: Progress) -> Iterator[Iterable[Any]]:
    """The tagged sentences of an archive, with a progress bar."""
    from polyseme.training.tags import read_tagged, tag_files  # noqa: PLC0415 - only where it is used

    size = sum(file.stat().st_size for file in tag_files(archive))
    with progress.stage("reading tags", size) as bar:
        yield read_tagged(archive, bar.advance)


def _wanted(model: Model, lemmas: str) -> Callable[[str], bool]:
    """Whether a lemma is measured: of those held out, by the split the model was trained with."""
    from polyseme.training.tags import is_lemma_held_out, word_of_lemma  # noqa: PLC0415 - only where it is used

    recipe = model.manifest.training.get("recipe")
    said = recipe if isinstance(recipe, dict) else {}
    try:
        split = TrainingConfig(
            **{name: said[name] for name in ("held_out", "split") if name in said}
        )
    except ValidationError:  # of another program's making
        split = TrainingConfig()
    if lemmas != "all" and not split.held_out:
        raise CommandError("The model's training held no lemma out: give --lemmas all.")

    def wanted(lemma: str) -> bool:
        if word_of_lemma(lemma) in COARSEWSD:
            return False
        return lemmas == "all" or is_lemma_held_out(lemma, split.held_out, split.split)

    return wanted


def table(found: "Explanation") -> str:
    """The results for a person to read."""
    facts = found.facts
    right, judged = facts["right_sense"], facts["judge_right_sense"]
    size = f"{facts['occurrences']:,} tagged words of {facts['lemmas']} lemmas"
    lines = [f"How attention explains: {facts['model']}, {size}. All figures × 100, ± their"]
    lines += [
        "standard errors (1,000 bootstrap resamples of the lemmas). Of these words the nearest"
    ]
    lines += [f"centroid gets {right:.1f} % right, naive Bayes without vectors {judged:.1f} %."]
    for title, columns in _PARTS.items():
        lines += ["", title, *_rows(found.rankings, columns)]
    lines += ["", "What the query adds: each head less itself with Wq = 0"]
    lines += _rows(found.by_query, _BY_QUERY)
    swaps = {head: {"swap": one} for head, one in found.swaps.items()}
    lines += ["", "Distance between the rows of two words in one place (0: the same rows)"]
    lines += _rows(swaps, {"swap": "swap"})
    lines += ["", "Sense quality, and what of it is lost without queries"]
    quality = {"as it is": found.quality}
    quality |= {f"lost, Wq = 0: {who}": one for who, one in found.cost.items()}
    lines += _rows(quality, _QUALITY)
    for example in found.examples:
        lines += ["", *_example(example)]
    return "\n".join(lines)


def _rows(figures: Mapping[str, Mapping[str, Any]], columns: Mapping[str, str]) -> list[str]:
    width = max(map(len, figures))
    head = "  ".join([" " * width, *(f"{title:>13}" for title in columns.values())])
    return [
        head,
        *(
            "  ".join([f"{name:<{width}}", *(_cell(one[column]) for column in columns)])
            for name, one in figures.items()
        ),
    ]


def _cell(one: Any) -> str:
    return f"{'–' if one is None else f'{one.value:.1f} ± {one.error:.1f}':>13}"


def _example(example: Mapping[str, Any]) -> list[str]:
    """The words that one word looks at most, by layer and head."""
    tokens, word = example["tokens"], example["word"]
    lines = [f"{tokens[word]} in “{example['text']}”"]
    for layer in example["attention"]:
        for number, head in enumerate(layer, 1):
            best = sorted(zip(head[word], tokens, strict=True), key=lambda pair: -pair[0])
            shown = ", ".join(f"{token} {weight:.2f}" for weight, token in best[:_SHOWN])
            lines.append(f"  head {number}: {shown}")
    return lines
