"""`polyseme evaluate`: measure how vectors separate senses and how attention explains vectors."""

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import click
import orjson
from pydantic import ValidationError

from polyseme.atomic_files import atomic_write
from polyseme.cli.options import exit_on_signals, model_option, with_registry
from polyseme.errors import CommandError, install_command
from polyseme.models.model import Model
from polyseme.models.registry import Registry
from polyseme.progress import ConsoleProgress
from polyseme.settings import PREFIX, Settings
from polyseme_lab.evaluation.systems import (
    DEFAULT,
    MINILM,
    MOST_FREQUENT,
    NAMES,
    SERVED_NAMES,
    EvaluationConfig,
    Task,
)
from polyseme_lab.training.config import COARSEWSD, TrainingConfig
from polyseme_lab.training.tags import is_lemma_held_out, read_tagged, tag_files, word_of_lemma

if TYPE_CHECKING:
    from polyseme_lab.evaluation.explanation import Explanation

_EXTRA = ("sklearn", "scipy", "matplotlib", "httpx")
_TASKS = ("coarsewsd", "wic", "similarity")
_SYSTEMS = (MOST_FREQUENT, *NAMES, MINILM)
IMAGES: dict[str, Literal["png", "svg"]] = {".png": "png", ".svg": "svg"}
API_KEY = f"{PREFIX}API_KEY"
"""The environment variable with the key of a service. It has no flag, because every user of the
machine can read the command line."""


def _parse_systems(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not set(names) <= set(_SYSTEMS):
        raise click.BadParameter(f"the systems are {', '.join(_SYSTEMS)}.")
    return names


def _check_output(
    _context: click.Context, option: click.Parameter, file: Path | None
) -> Path | None:
    """Return an output file; raise BadParameter for a missing folder, a device or a bad suffix."""
    if file and not file.parent.is_dir():
        raise click.BadParameter("there is no such folder.")
    if file and file.exists() and not file.is_file():
        raise click.BadParameter("the path exists and is not a regular file.")
    if file and option.name == "plot" and file.suffix.lower() not in IMAGES:
        raise click.BadParameter("the name must end in .png or .svg.")
    return file


json_option = click.option(
    "--json",
    "document",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_check_output,
    help="Output file for the results as JSON.",
)
plot_option = click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_check_output,
    help="Output file for a plot of the results, .png or .svg.",
)


@click.command()
@click.argument("task", type=click.Choice(_TASKS))
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--url", help="Measure a running service, such as http://127.0.0.1:8000.")
@click.option(
    "--split", type=click.Choice(["dev", "test"]), help="The split of WiC; by default dev."
)
@click.option(
    "--systems",
    "names",
    metavar="NAME,NAME...",
    callback=_parse_systems,
    help=f"The systems to measure: {', '.join(_SYSTEMS)}.",
)
@click.option("--controls/--no-controls", default=True, help="Measure the baselines too.")
@click.option("--compare", is_flag=True, help="Measure all-MiniLM-L6-v2 too (polyseme[compare]).")
@json_option
@plot_option
@model_option
@with_registry
def evaluate(
    task: Task, directory: Path, registry: Registry, settings: Settings, **options: Any
) -> None:
    """Evaluate a model and its baselines on CoarseWSD-20, WiC or word similarity.

    DIRECTORY contains the archive coarsewsd.tar.xz or wic.tar.xz, or its extracted files; or
    wordsim353.tsv, simlex999.txt, or both. The key of a service is read from POLYSEME_API_KEY.
    """
    del settings
    names = _system_names(task, options)
    config = EvaluationConfig(task, directory, names, options["split"] or "dev", ConsoleProgress())
    measure = import_measure()
    if options["url"]:
        service = measure.ServiceSource(options["url"], options["model"], os.environ.get(API_KEY))
        results = measure.measure_service(service, config)
    else:
        results = measure.measure_model(registry.model(options["model"]), config)
    click.echo(measure.table(results))
    with exit_on_signals():
        if options["document"]:
            write_json(options["document"], measure.document(results))
        if options["plot"]:
            kind = IMAGES[options["plot"].suffix.lower()]
            plots = import_module("polyseme_lab.evaluation.plots")
            atomic_write(options["plot"], plots.plot_results(results, kind))


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document as indented JSON."""
    style = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    atomic_write(path, orjson.dumps(document, option=style))


def import_measure() -> ModuleType:
    """Import the code that needs the packages of the extra `evaluate`."""
    if missing := [name for name in _EXTRA if find_spec(name) is None]:
        raise CommandError(
            f"`polyseme evaluate` needs {', '.join(missing)}: {install_command('evaluate')}."
        )
    return import_module("polyseme_lab.evaluation.measure")


def _system_names(task: str, options: dict[str, Any]) -> list[str]:
    """Return the names of the systems to measure; raise click.UsageError for invalid options."""
    if options["split"] and task != "wic":
        raise click.UsageError("--split applies only to WiC, which has two splits to measure.")
    names = options["names"]
    if task == "similarity":
        if names or options["compare"] or not options["controls"]:
            raise click.UsageError("Similarity is measured for static vectors only.")
        return []
    if names and not options["controls"]:
        raise click.UsageError("Give --systems or --no-controls, not both.")
    if task == "wic" and MOST_FREQUENT in (names or ()):
        raise click.UsageError("WiC consists of pairs of sentences and has no most frequent sense.")
    if names is None:
        systems = SERVED_NAMES if options["url"] else DEFAULT
        names = [MOST_FREQUENT, *systems] if options["controls"] else ["model"]
    return [*names, *([MINILM] if options["compare"] else [])]


_RANKINGS = {
    "The model's decision: how removing a word changes the margin, or flips the sense": {
        "drop_correlation": "corr. drop",
        "change_correlation": "corr. change",
        "flip_auc": "AUC flips",
        "flip_at_1": "P@1",
        "flip_at_3": "P@3",
    },
    "Evidence for the sense, by naive Bayes on the words of other occurrences": {
        "evidence_correlation": "corr.",
        "evidence_auc": "AUC",
        "evidence_at_1": "P@1",
        "evidence_at_3": "P@3",
    },
    "Margin (cosine) lost when the k words with the largest weights are removed": {
        f"removed_{k}": f"k = {k}" for k in (1, 2, 3)
    },
    "Margin (cosine) lost when only the k words with the largest weights are left": {
        f"kept_{k}": f"k = {k}" for k in (1, 2, 3)
    },
}
_QUERY_COLUMNS = {
    "change_correlation": "corr. change",
    "flip_auc": "AUC flips",
    "evidence_auc": "AUC Bayes",
    "removed_1": "k = 1 removed",
    "kept_1": "k = 1 left",
}
_QUALITY_COLUMNS = {"pairs_auc": "pairs, AUC", "macro_f1": "centroids, F1"}
_EXAMPLE_WORDS = 5
"""Number of words shown for each attention row of an example."""


@click.command("evaluate attention")
@click.argument("archive", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--occurrences",
    type=click.IntRange(1, 1_000_000),
    default=500,
    show_default=True,
    help="Maximum number of tagged words to measure.",
)
@click.option(
    "--lemmas",
    type=click.Choice(["held-out", "all"]),
    default="held-out",
    show_default=True,
    help="Lemmas to measure: held out of training, or all. CoarseWSD-20's words are excluded.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, (1 << 32) - 1),
    default=1,
    show_default=True,
    help="Seed of the random number generators.",
)
@json_option
@model_option
@with_registry
def attention(
    archive: Path, registry: Registry, settings: Settings, lemmas: str, **options: Any
) -> None:
    """Measure how well each attention head explains the vectors of a model, with baselines.

    ARCHIVE contains sentences with sense tags, in a format of `polyseme train --tags`.
    """
    del settings
    import_measure()
    from polyseme_lab.evaluation.explanation import explain
    from polyseme_lab.evaluation.senses import collect_senses
    from polyseme_lab.evaluation.sources import LocalSource

    model = registry.model(options["model"])
    seed = options["seed"]
    progress = ConsoleProgress()
    size = sum(file.stat().st_size for file in tag_files(archive))
    with progress.stage("reading tags", size) as bar:
        sentences = read_tagged(archive, bar.advance)
        wanted = _lemma_filter(model, lemmas)
        found = collect_senses(sentences, wanted, LocalSource(model).knows, seed)
    explained = explain(model, found, options["occurrences"], seed, progress)
    click.echo(_explanation_table(explained))
    if options["document"]:
        with exit_on_signals():
            write_json(options["document"], {**explained.document(), "chosen_lemmas": lemmas})


def _lemma_filter(model: Model, lemmas: str) -> Callable[[str], bool]:
    """Return a function that tells whether to measure a lemma, by the split of the training."""
    recipe = model.manifest.training.get("recipe")
    fields = recipe if isinstance(recipe, dict) else {}
    try:
        split = TrainingConfig(
            **{name: fields[name] for name in ("held_out", "split") if name in fields}
        )
    except ValidationError:  # the model was trained by another program
        split = TrainingConfig()
    if lemmas != "all" and not split.held_out:
        raise CommandError("The model's training held out no lemma; use --lemmas all.")

    def wanted(lemma: str) -> bool:
        if word_of_lemma(lemma) in COARSEWSD:
            return False
        return lemmas == "all" or is_lemma_held_out(lemma, split.held_out, split.split)

    return wanted


def _explanation_table(found: "Explanation") -> str:
    """Return the results as text."""
    facts = found.facts
    right, judged = facts["right_sense"], facts["judge_right_sense"]
    count = facts["lemmas"]
    size = f"{facts['occurrences']:,} tagged words of {count} lemma{'s' * (count != 1)}"
    lines = [
        f"Attention as an explanation: {facts['model']}; {size}. All figures × 100, ± their",
        "standard errors (1,000 bootstrap resamples of the lemmas). The nearest centroid gets",
        f"{right:.1f} % of the words right, naive Bayes without vectors {judged:.1f} %.",
    ]
    for title, columns in _RANKINGS.items():
        lines += ["", title, *_rows(found.rankings, columns)]
    lines += ["", "Effect of the query: the figures of each head minus those with Wq = 0"]
    lines += _rows(found.by_query, _QUERY_COLUMNS)
    swaps = {head: {"swap": one} for head, one in found.swaps.items()}
    lines += ["", "Change of the attention if a similar word replaces the word (0: none)"]
    lines += _rows(swaps, {"swap": "swap"})
    lines += ["", "Sense quality, and its loss without queries"]
    quality = {"unchanged": found.quality}
    quality |= {f"lost, Wq = 0: {head}": one for head, one in found.cost.items()}
    lines += _rows(quality, _QUALITY_COLUMNS)
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
    """Return the words that a word attends to most, by layer and head."""
    tokens, word = example["tokens"], example["word"]
    lines = [f"{tokens[word]} in “{example['text']}”"]
    layers = example["attention"]
    for place, layer in enumerate(layers, 1):
        title = f"layer {place} " if len(layers) > 1 else ""
        for number, head in enumerate(layer, 1):
            best = sorted(zip(head[word], tokens, strict=True), key=lambda pair: -pair[0])
            shown = ", ".join(f"{token} {weight:.2f}" for weight, token in best[:_EXAMPLE_WORDS])
            lines.append(f"  {title}head {number}: {shown}")
    return lines
