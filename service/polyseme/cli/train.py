"""`polyseme train`: attention weights learned over the vectors of a model."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import click
from pydantic import ValidationError

from polyseme.cli.interruption import cleaning_up
from polyseme.cli.options import destination_option
from polyseme.cli.progress import ConsoleProgress
from polyseme.cli.telling import Telling, shown
from polyseme.command_error import CommandError
from polyseme.engine.layer import NormPlace
from polyseme.importing.importer import check_name
from polyseme.importing.weights import sorted_by_frequency
from polyseme.settings import BUNDLED, PREFIX
from polyseme.store.manifest import Manifest
from polyseme.store.model import Model
from polyseme.store.registry import Registry, bundled_models
from polyseme.training.closed_form import frequencies_by_rank, informativeness
from polyseme.training.config import Init, Keep, TrainingConfig

DEFAULT_STEPS = 400
"""where neither --steps nor --minutes is given"""

_SHAPE = ("heads", "key_width", "value_width", "layers", "feed_forward", "norm")
_file = click.Path(path_type=Path, exists=True)


def _number(name: str, help_: str, kind: Any = float) -> Callable[[Any], Any]:
    """An option of the recipe, whose default and bounds the recipe has."""
    field = TrainingConfig.model_fields[name]
    shown = f"  [default: {field.default}]" if field.default is not None else ""
    return click.option(f"--{name.replace('_', '-')}", name, type=kind, help=f"{help_}{shown}")


_OPTIONS = (
    _number("heads", "Heads of attention.", int),
    _number("key_width", "Width of a head's queries and keys.", int),
    _number("value_width", "Width of a head's values.", int),
    _number("layers", "Layers.", int),
    _number("norm", "Where layer norm stands.", click.Choice(get_args(NormPlace))),
    _number("feed_forward", "Width of a feed-forward network inside; none when left out.", int),
    click.option("--tune-embeddings", is_flag=True, default=None, help="Learn the vectors, too."),
    _number("interpolate", "How much of the trained weights: start·(1 − t) + trained·t."),
    _number("seed", "Of all that is random.", int),
    _number("learning_rate", "How large the steps are."),
    _number("schedule", "Of the learning rate.", click.Choice(["constant", "cosine"])),
    _number("anchor", "How much weights are pulled to where they started."),
    _number("key_dropout", "The part of a context's words that is hidden at random."),
    _number("cut", "The part of the contexts that is cut short."),
    _number("hide", "The part of the tagged words that are hidden themselves."),
    _number("lower", "The part of the contexts that is read in lower case."),
    _number("window", "Words of a context on either side, at most.", int),
    _number("groups", "Lemmas or pseudo-words that a step compares.", int),
    _number("occurrences", "Occurrences of each, at most.", int),
    _number("pseudo_words", "Words that make a pseudo-word.", int),
    _number("word_occurrences", "Occurrences of each of them in a step, at most.", int),
    _number("commonest_words", "Only so many of the corpus's commonest words are targets.", int),
    _number("mix", "The part of the groups that is of --corpus, where there are --tags as well."),
    _number("corpus_words", "Words of --corpus that are sampled.", int),
    _number("temperature", "Where the learned temperature of the loss starts."),
    _number("held_out", "The part of the lemmas that is never trained on."),
    _number("score_every", "Steps between two measurements and checkpoints.", int),
    _number("keep", "Which weights are kept.", click.Choice(get_args(Keep))),
    _number("threads", "Threads; the result depends on it in its last bits.", int),
)


def _recipe_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.option(
    "--model",
    "name",
    default=BUNDLED,
    show_default=True,
    envvar=f"{PREFIX}MODEL",
    help="Where it starts.",
)
@click.option("--corpus", multiple=True, type=_file, help="Text, one paragraph a line.")
@click.option("--tags", multiple=True, type=_file, help="Sentences with tagged senses.")
@click.option("--output", help="The new model's name; NAME-trained when left out.")
@click.option(
    "--replace", "replacing", is_flag=True, help="Put it in the place of one of its name."
)
@click.option("--minutes", type=float, help="End after so long; no two such runs are the same.")
@click.option("--steps", type=int, help=f"End after so many steps.  [default: {DEFAULT_STEPS}]")
@click.option(
    "--init",
    type=click.Choice(get_args(Init)),
    help="Start from the model's weights (the default where it has some and no option of shape is"
    " given), from the closed form of its vectors, or at random.",
)
@click.option("--recipe", "recipe_file", type=_file, help="JSON of such options; a flag wins.")
@click.option(
    "--leave-out",
    help="Words that are never targets, with commas between, or a file of them, one a line;"
    " CoarseWSD-20's when left out.",
)
@click.option(
    "--checkpoints", type=click.Path(path_type=Path, file_okay=False), help="A folder for them."
)
@click.option("--resume", is_flag=True, help="Go on from the newest of --checkpoints.")
@_recipe_options
@destination_option
def train(
    name: str,
    corpus: tuple[Path, ...],
    tags: tuple[Path, ...],
    output: str | None,
    models_dir: Path,
    checkpoints: Path | None,
    replacing: bool,
    resume: bool,
    **options: Any,
) -> None:
    """Learn attention weights over the static vectors of a model, and write a new model.

    It learns from words tagged with senses (--tags), from plain text (--corpus), or both. Needs
    PyTorch: pip install 'polyseme[train]'.
    """
    if not corpus and not tags:
        raise click.UsageError("There is nothing to learn from: give --tags, --corpus or both.")
    output = output or f"{name}-trained"
    with cleaning_up(), _explained():
        _require_free(models_dir, output, replacing=replacing)
        _require_torch()
        model = _model(models_dir, name)
        recipe = _recipe(options, model)
        if recipe.init != "model":
            model = _with_informativeness(model)
        from polyseme.training.data import TrainingFiles  # noqa: PLC0415 - only where it is used
        from polyseme.training.run import TrainingRun, write_trained_model  # noqa: PLC0415 - loads PyTorch

        run = TrainingRun(model, TrainingFiles(corpus, tags), recipe, checkpoints, resume)
        with Telling() as telling:
            trained = run.run(ConsoleProgress(), telling.step)
        manifest = write_trained_model(models_dir / output, model, trained, replacing=replacing)
    _tell(manifest)


def _require_free(models_dir: Path, name: str, *, replacing: bool) -> None:
    """Refuse a name before anything is trained; a bundled model is never replaced."""
    check_name(name)
    if (bundled_models() / name).exists() or (models_dir / name).is_symlink():
        raise CommandError("A bundled model has this name: give another one by --output.")
    if (models_dir / name).exists() and not replacing:
        raise CommandError(
            "A model of this name is there already: give another one by --output, or --replace."
        )


def _require_torch() -> None:
    if not all(find_spec(name) for name in ("torch", "sklearn")):
        raise CommandError(
            "Training needs PyTorch and scikit-learn: pip install 'polyseme[train]'."
        )


def _model(models_dir: Path, name: str) -> Model:
    return Registry.of(models_dir if models_dir.is_dir() else None, name).model(name)


def _recipe(options: dict[str, Any], model: Model) -> TrainingConfig:
    """The recipe of the options, over that of a file."""
    file, left_out = options.pop("recipe_file"), options.pop("leave_out")
    given = _from_file(file) if file else {}
    given |= {name: value for name, value in options.items() if value is not None}
    if left_out is not None:
        given["leave_out"] = _words(left_out)
    if given.get("steps") is None and given.get("minutes") is None:
        given["steps"] = DEFAULT_STEPS
    if given.get("init") is None:
        shaped = any(given.get(name) not in {None, "none"} for name in _SHAPE)
        given["init"] = "closed-form" if shaped or not model.manifest.tensors else "model"
    if given["init"] == "random":
        given.setdefault("interpolate", 1.0)  # halfway to noise is no place to be
    try:
        return TrainingConfig(**given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        flag = "".join(f"--{str(part).replace('_', '-')}: " for part in first["loc"][:1])
        raise click.UsageError(f"{flag}{first['msg']}.") from None


def _from_file(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, OSError):
        found = None
    if not isinstance(found, dict):
        raise click.UsageError("--recipe: the file is not a JSON object.")
    return found


def _words(given: str) -> tuple[str, ...]:
    """Words with commas between, or the lines of a file."""
    try:
        text = Path(given).read_text("utf-8") if Path(given).is_file() else None
    except (OSError, ValueError):
        text = None
    parts = given.split(",") if text is None else text.splitlines()
    return tuple(part.strip().casefold() for part in parts if part.strip())


def _with_informativeness(model: Model) -> Model:
    """The model with the word bias that an import would give it, where it has none."""
    if model.word_bias is not None:
        return model
    size = model.manifest.vocabulary_size
    if not sorted_by_frequency(model.vocabulary.word(row) for row in range(size)):
        return model
    return replace(model, word_bias=informativeness(frequencies_by_rank(size)))


def _tell(manifest: Manifest) -> None:
    held_out = manifest.training["held_out"]
    scores = ", ".join(
        f"{label} {shown(held_out['before'][key])} to {shown(held_out['kept'][key])}"
        for key, label in (("auc", "AUC"), ("macro_f1", "macro-F1"))
    )
    click.echo(
        f"{manifest.name}  {manifest.training['steps']} steps  {len(manifest.layers)} layers "
        f" {manifest.heads} heads  held out: {scores}"
    )


@contextmanager
def _explained() -> Iterator[None]:
    """Explain a lack of memory."""
    try:
        yield
    except MemoryError:
        raise CommandError(
            "There is not enough memory: --corpus-words, --groups or --window takes less."
        ) from None
