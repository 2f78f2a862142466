"""`polyseme train`: train attention weights over the vectors of a model."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, get_args, get_origin

import click
from pydantic import ValidationError

from polyseme.cli.options import destination_option, exit_on_signals, require_package, with_options
from polyseme.errors import CommandError, counted, validation_message
from polyseme.importing.importer import check_name
from polyseme.models.reader import bundled_models
from polyseme.models.registry import Registry
from polyseme.models.weights import tensors_from_layers
from polyseme.settings import BUNDLED, PREFIX
from polyseme.terminal import Progress, ProgressBar, echo
from polyseme_lab.training.config import HiddenWordsConfig, Objective, TrainingConfig

DEFAULT_STEPS = 400
"""The number of steps if neither --steps nor --minutes is given."""
SCORES = {"auc": "AUC", "macro_f1": "macro-F1", "held_out_loss": "loss", "named": "named"}
"""The labels of held-out scores."""
RECIPE_OPTIONS = (
    *("heads", "key_width", "value_width", "layers", "feed_forward", "tune_embeddings"),
    *("hidden", "sentences", "negatives", "decay", "interpolate", "seed", "learning_rate"),
    *("schedule", "anchor", "key_dropout", "cut", "hide", "lower", "window", "groups"),
    *("occurrences", "pseudo_words", "word_occurrences", "commonest_words", "mix"),
    *("corpus_words", "temperature", "held_out", "score_every", "keep", "threads"),
)
"""The fields of recipes that have an option of their own, in the order of the help."""
_RESOLUTION = 1_000_000
"""The total of a stage with the unit `share`, which counts millionths of the work."""
_Config = TypeVar("_Config", TrainingConfig, HiddenWordsConfig)
_file = click.Path(path_type=Path, exists=True)


class TrainingProgress(Progress):
    """Progress of training: the stages of reading the files, then the training steps."""

    def __init__(self) -> None:
        super().__init__()
        self._steps: ProgressBar | None = None
        self._scores = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._steps is not None:
            self._steps.close()

    def step(self, done: float, metrics: dict[str, Any]) -> None:
        """Show a step; `done` is the completed share, from 0 to 1.

        New scores also get a line of their own. Without a terminal, the loss is written every ten
        seconds.
        """
        if self._steps is None:
            self._steps = ProgressBar("training", _RESOLUTION, "share")
        scores = [
            f"{label} {format_score(metrics[key])}"
            for key, label in SCORES.items()
            if key in metrics
        ]
        if scores:
            self._scores = f", held out: {', '.join(scores)}"
        loss = f", loss {metrics['loss']:.3f}" if "loss" in metrics else ""
        note = f"step {metrics['step']:,}{loss}{self._scores}"
        self._steps.show(round(done * _RESOLUTION), note, line=bool(scores))


def format_score(score: float | None) -> str:
    """Return a score with two decimals, or a dash."""
    return "–" if score is None else f"{score:.2f}"


def recipe_option(name: str) -> Callable[[Any], Any]:
    """Return the option of a field of the recipes; its help shows the field's default."""
    own, other = TrainingConfig.model_fields, HiddenWordsConfig.model_fields
    field = own.get(name) or other[name]
    flag, help_ = f"--{name.replace('_', '-')}", field.description
    kind: Any = field.annotation
    if kind is bool:
        return click.option(flag, is_flag=True, default=None, help=help_)
    if get_origin(kind) is Literal:
        kind = click.Choice(get_args(kind))
    elif get_args(kind):  # a number or None
        kind = get_args(kind)[0]
    shown = [] if field.default is None else [str(field.default)]
    if name in other and other[name].default not in {None, field.default}:
        shown.append(f"hidden-words: {other[name].default}")
    default = f"  [default: {'; '.join(shown)}]" if shown else ""
    return click.option(flag, name, type=kind, help=f"{help_}{default}")


@click.command()
@click.option(
    "--model",
    "name",
    default=BUNDLED,
    show_default=True,
    envvar=f"{PREFIX}MODEL",
    help="The model to start from.",
)
@click.option("--corpus", multiple=True, type=_file, help="Plain text, one paragraph per line.")
@click.option("--tags", multiple=True, type=_file, help="Sentences with sense tags.")
@click.option(
    "--objective",
    type=click.Choice(get_args(Objective)),
    help="contrastive: separate the senses of tags, or words that are treated as one (the default);"
    " hidden-words: name hidden words of a corpus, with new layers.",
)
@click.option("--output", help="The trained model's name; by default NAME-trained.")
@click.option(
    "--replace", "replacing", is_flag=True, help="Replace an existing model of the same name."
)
@click.option(
    "--keep-worse",
    is_flag=True,
    help="Write the model even if it is worse than the model it started from, or than a baseline.",
)
@click.option("--minutes", type=float, help="Stop after this time; the result is not reproducible.")
@click.option("--steps", type=int, help=f"Stop after this many steps.  [default: {DEFAULT_STEPS}]")
@click.option(
    "--recipe", "recipe_file", type=_file, help="A JSON file of options; flags override it."
)
@click.option(
    "--leave-out",
    help="Words that are never targets, separated by commas, or a file with one word per line; by"
    " default those of CoarseWSD-20 if the model is English or of no known language.",
)
@click.option(
    "--checkpoints",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the checkpoint.",
)
@click.option("--resume", is_flag=True, help="Continue from the checkpoint.")
@with_options(*map(recipe_option, RECIPE_OPTIONS))
@destination_option
def train(
    name: str,
    corpus: tuple[Path, ...],
    tags: tuple[Path, ...],
    output: str | None,
    models_dir: Path,
    checkpoints: Path | None,
    replacing: bool,
    keep_worse: bool,
    resume: bool,
    **options: Any,
) -> None:
    """Train attention weights over the static vectors of a model, and write a new model.

    The training data is sentences with sense tags (--tags), plain text (--corpus), or both.
    Training needs PyTorch: pip install 'polyseme[train]'.
    """
    if not corpus and not tags:
        raise click.UsageError("There is no training data; use --tags, --corpus or both.")
    output = f"{name}-trained" if output is None else output
    with exit_on_signals():
        check_name(output, "; --output sets it")
        if (bundled_models() / output).exists():
            raise CommandError("A bundled model has this name; choose another one with --output.")
        if (models_dir / output).is_symlink():
            raise CommandError(
                "The model's folder is a symbolic link; choose another name with --output."
            )
        if (models_dir / output).exists() and not replacing:
            raise CommandError(
                "A model of this name already exists; choose another one with --output, or"
                " --replace."
            )
        for package in ("torch", "sklearn"):
            require_package(package, "Training needs PyTorch and scikit-learn", "train")
        from polyseme_lab.evaluation.results import table
        from polyseme_lab.evaluation.systems import with_closed_form
        from polyseme_lab.training.data import TrainingFiles
        from polyseme_lab.training.run import HiddenWordsRun, TrainingRun, write_trained_model

        fields = recipe_fields(options)
        files = TrainingFiles(corpus, tags)
        training: TrainingRun | HiddenWordsRun
        try:
            model = Registry.of(models_dir if models_dir.is_dir() else None, name).model(name)
            if model.manifest.languages and "en" not in model.manifest.languages:
                fields.setdefault("leave_out", ())  # the default words are English
            if fields.get("objective") == "hidden-words":
                if tags:
                    raise click.UsageError("--tags: does not apply to the objective hidden-words.")
                hidden_words = _config(HiddenWordsConfig, fields, options)
                training = HiddenWordsRun(model, files, hidden_words, checkpoints, resume)
            else:
                recipe = _config(TrainingConfig, fields, options)
                if not tensors_from_layers(list(model.layers)):
                    model = with_closed_form(model)
                training = TrainingRun(model, files, recipe, checkpoints, resume)
            with TrainingProgress() as progress:
                result = training.run(progress, progress.step)
            comparison = training.compare(result, progress)
            if comparison is not None:
                for line in table(comparison.results()).split("\n"):
                    echo(line)
                if comparison.better and not keep_worse:
                    raise CommandError(
                        f"The result is worse than {' and '.join(comparison.better)}, so it was not"
                        " written. Train on more text; --keep-worse writes it all the same, with"
                        " --resume from the checkpoint."
                    )
                result.facts["pseudo_words"] = comparison.facts()
            manifest = write_trained_model(models_dir / output, model, result, replacing=replacing)
        except MemoryError:
            raise CommandError(
                "There is not enough memory; smaller --corpus-words, --groups or --window use less."
            ) from None
    held_out = manifest.training["held_out"]
    scores = ", ".join(
        f"{label} {format_score(held_out['before'][key])} to {format_score(held_out['kept'][key])}"
        for key, label in SCORES.items()
        if key in held_out["kept"]
    )
    echo(
        f"{manifest.name}  {manifest.training['steps']} steps "
        f" {counted(len(manifest.layers), 'layer')} "
        f" {counted(manifest.heads, 'head')}  held out: {scores}"
    )


def recipe_fields(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the recipe file, overridden by the options; remove what is no field."""
    file, left_out = options.pop("recipe_file"), options.pop("leave_out")
    if left_out is not None:  # words separated by commas, or the lines of a file
        try:
            text = Path(left_out).read_text("utf-8") if Path(left_out).is_file() else None
        except (OSError, ValueError):
            text = None
        parts = left_out.split(",") if text is None else text.splitlines()
        options["leave_out"] = tuple(part.strip() for part in parts if part.strip())
    for name in [name for name, value in options.items() if value is None]:
        del options[name]
    recipe: Any = {}
    if file:
        try:
            recipe = json.loads(file.read_bytes())
        except (ValueError, OSError):
            recipe = None
        if not isinstance(recipe, dict):
            raise click.UsageError("--recipe: the file is not a JSON object.")
    fields: dict[str, Any] = recipe | options
    if fields.get("steps") is None and fields.get("minutes") is None:
        fields["steps"] = DEFAULT_STEPS
    return fields


def _config(kind: type[_Config], fields: dict[str, Any], flags: Container[str]) -> _Config:
    """Return a recipe; raise click.UsageError if a field is invalid or of another objective."""
    try:
        return kind(**fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        problem = f"{validation_message(first)}."
        if first["type"] == "extra_forbidden" and first["loc"][0] in flags:
            problem = f"does not apply to the objective {kind().objective}."
        for field in map(str, first["loc"][:1]):  # empty if several fields contradict each other
            named = f"--{field.replace('_', '-')}:" if field in flags else f"--recipe: {field!r}"
            problem = f"{named} {problem}"
        raise click.UsageError(problem) from None


def run_train(*arguments: object) -> None:
    """Run `polyseme train` in a process of its own, with one thread in NumPy.

    The scripts that call this measure the model.
    """
    command = [sys.executable, "-m", "polyseme", "train", "--keep-worse", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=environment)  # noqa: S603 - our own command


def corpus_options(folder: Path) -> list[object]:
    """Return the options for every `*.txt.zst` of a folder."""
    return [part for file in sorted(folder.glob("*.txt.zst")) for part in ("--corpus", file)]
