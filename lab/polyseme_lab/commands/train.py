"""`polyseme train`: train attention weights over the vectors of a model."""

import json
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
from pydantic import ValidationError

from polyseme.cli.options import destination_option, exit_on_signals, with_options
from polyseme.engine.layers import NormPlace
from polyseme.errors import CommandError, install_command
from polyseme.importing.closed_form import frequencies_by_rank, informativeness
from polyseme.importing.importer import check_name
from polyseme.importing.weights import sorted_by_frequency
from polyseme.models.manifest import Manifest
from polyseme.models.model import Model
from polyseme.models.registry import Registry, bundled_models
from polyseme.settings import BUNDLED, PREFIX
from polyseme.validation import validation_message
from polyseme_lab.commands.progress import SCORES, TrainingProgress, format_score
from polyseme_lab.training.config import HiddenWordsConfig, Init, Keep, Objective, TrainingConfig

DEFAULT_STEPS = 400
"""The number of steps if neither --steps nor --minutes is given."""

_Config = TypeVar("_Config", TrainingConfig, HiddenWordsConfig)
_SHAPE = ("heads", "key_width", "value_width", "layers", "feed_forward", "norm")
_file = click.Path(path_type=Path, exists=True)


def _recipe_option(name: str, help_: str, kind: Any = float) -> Callable[[Any], Any]:
    """Return an option for a field of the recipe; its help shows the field's default."""
    own, other = TrainingConfig.model_fields, HiddenWordsConfig.model_fields
    default = own[name].default if name in own else other[name].default
    shown = [] if default is None else [str(default)]
    if name in other and other[name].default not in {None, default}:
        shown.append(f"hidden-words: {other[name].default}")
    default = f"  [default: {'; '.join(shown)}]" if shown else ""
    return click.option(f"--{name.replace('_', '-')}", name, type=kind, help=f"{help_}{default}")


_recipe_options = with_options(
    _recipe_option("heads", "Number of attention heads.", int),
    _recipe_option("key_width", "Width of the queries and keys of a head.", int),
    _recipe_option("value_width", "Width of the values of a head.", int),
    _recipe_option("layers", "Number of layers.", int),
    _recipe_option("norm", "Position of layer norm.", click.Choice(get_args(NormPlace))),
    _recipe_option(
        "feed_forward", "Inner width of the feed-forward network; by default there is none.", int
    ),
    click.option(
        "--tune-embeddings", is_flag=True, default=None, help="Train the static vectors too."
    ),
    _recipe_option("hidden", "Share of the words of a sentence that hidden-words hides."),
    _recipe_option("sentences", "Mean number of sentences in a step of hidden-words.", int),
    _recipe_option(
        "negatives", "Number of words that hidden-words distinguishes hidden words from.", int
    ),
    _recipe_option("decay", "Share of hidden-words at whose end the learning rate falls to 0."),
    _recipe_option("interpolate", "t in the resulting weights initial·(1 − t) + trained·t."),
    _recipe_option("seed", "Seed of the random number generators.", int),
    _recipe_option("learning_rate", "Learning rate."),
    _recipe_option(
        "schedule", "Schedule of the learning rate.", click.Choice(["constant", "cosine"])
    ),
    _recipe_option("anchor", "Factor of the L2 penalty towards the initial weights."),
    _recipe_option("key_dropout", "Probability that a context word is masked."),
    _recipe_option("cut", "Share of the contexts that are truncated."),
    _recipe_option("hide", "Share of the tagged words that are masked."),
    _recipe_option("lower", "Share of the contexts that are lower-cased."),
    _recipe_option("window", "Maximum number of context words on each side.", int),
    _recipe_option("groups", "Number of lemmas or pseudo-words in a step.", int),
    _recipe_option("occurrences", "Maximum number of occurrences per lemma in a step.", int),
    _recipe_option("pseudo_words", "Number of words in a pseudo-word.", int),
    _recipe_option(
        "word_occurrences", "Maximum number of occurrences per word of a pseudo-word.", int
    ),
    _recipe_option(
        "commonest_words",
        "Number of most frequent corpus words in pseudo-words; by default all.",
        int,
    ),
    _recipe_option("mix", "Share of the groups from --corpus if there are --tags too."),
    _recipe_option("corpus_words", "Number of words sampled from --corpus.", int),
    _recipe_option("temperature", "Initial value of the learned temperatures of the loss."),
    _recipe_option(
        "held_out", "Share of the lemmas, or of the words of a corpus, that are held out."
    ),
    _recipe_option("score_every", "Number of steps between two scores and checkpoints.", int),
    _recipe_option("keep", "Weights to keep.", click.Choice(get_args(Keep))),
    _recipe_option("threads", "Number of threads, which affects the last bits of results.", int),
)


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
@click.option("--minutes", type=float, help="Stop after this time; the result is not reproducible.")
@click.option("--steps", type=int, help=f"Stop after this many steps.  [default: {DEFAULT_STEPS}]")
@click.option(
    "--init",
    type=click.Choice(get_args(Init)),
    help="Initial weights: those of the model (the default if it has weights and no option changes"
    " their shape), the closed form, or random ones.",
)
@click.option(
    "--recipe", "recipe_file", type=_file, help="A JSON file of options; flags override it."
)
@click.option(
    "--leave-out",
    help="Words that are never targets, separated by commas, or a file with one word per line; by"
    " default those of CoarseWSD-20.",
)
@click.option(
    "--checkpoints",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for checkpoints.",
)
@click.option("--resume", is_flag=True, help="Continue from the newest checkpoint.")
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
    """Train attention weights over the static vectors of a model, and write a new model.

    The training data is sentences with sense tags (--tags), plain text (--corpus), or both.
    Training needs PyTorch: pip install 'polyseme[train]'.
    """
    if not corpus and not tags:
        raise click.UsageError("There is no training data; use --tags, --corpus or both.")
    output = f"{name}-trained" if output is None else output
    with exit_on_signals(), _explaining_errors():
        _require_free(models_dir, output, replacing=replacing)
        if not all(find_spec(name) for name in ("torch", "sklearn")):
            raise CommandError(
                f"Training needs PyTorch and scikit-learn: {install_command('train')}."
            )
        from polyseme_lab.training.data import TrainingFiles
        from polyseme_lab.training.hidden_words_run import HiddenWordsRun
        from polyseme_lab.training.run import TrainingRun, write_trained_model

        model = Registry.of(models_dir if models_dir.is_dir() else None, name).model(name)
        given = _given_options(options)
        files = TrainingFiles(corpus, tags)
        training: TrainingRun | HiddenWordsRun
        if given.get("objective") == "hidden-words":
            if tags:
                raise click.UsageError("--tags: does not apply to the objective hidden-words.")
            hidden_words = _config(HiddenWordsConfig, given, options)
            training = HiddenWordsRun(model, files, hidden_words, checkpoints, resume)
        else:
            recipe = _config(TrainingConfig, _with_initial_weights(given, model), options)
            if recipe.init != "model":
                model = _with_informativeness(model)
            training = TrainingRun(model, files, recipe, checkpoints, resume)
        with TrainingProgress() as progress:
            result = training.run(progress, progress.step)
        manifest = write_trained_model(models_dir / output, model, result, replacing=replacing)
    _print_summary(manifest)


def _require_free(models_dir: Path, name: str, *, replacing: bool) -> None:
    """Raise CommandError if the name is taken; a bundled model is never replaced."""
    check_name(name, "; --output sets it")
    if (bundled_models() / name).exists():
        raise CommandError("A bundled model has this name; choose another one with --output.")
    if (models_dir / name).is_symlink():
        raise CommandError(
            "The model's folder is a symbolic link; choose another name with --output."
        )
    if (models_dir / name).exists() and not replacing:
        raise CommandError(
            "A model of this name already exists; choose another one with --output, or --replace."
        )


def _given_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the recipe file, overridden by the options; remove what is no field."""
    file, left_out = options.pop("recipe_file"), options.pop("leave_out")
    if left_out is not None:
        options["leave_out"] = _read_words(left_out)
    for name in [name for name, value in options.items() if value is None]:
        del options[name]
    given = (_read_recipe(file) if file else {}) | options
    if given.get("steps") is None and given.get("minutes") is None:
        given["steps"] = DEFAULT_STEPS
    return given


def _with_initial_weights(given: dict[str, Any], model: Model) -> dict[str, Any]:
    """Return the fields of a recipe with the default of `init`."""
    given = dict(given)
    if given.get("init") is None:
        shaped = any(given.get(name) not in {None, "none"} for name in _SHAPE)
        given["init"] = "closed-form" if shaped or not model.manifest.tensors else "model"
    if given["init"] == "random":
        given.setdefault("interpolate", 1.0)  # no interpolation with random weights
    return given


def _config(kind: type[_Config], given: dict[str, Any], flags: Container[str]) -> _Config:
    """Return a recipe; raise click.UsageError if a field is invalid or of another objective."""
    try:
        return kind(**given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        problem = f"{validation_message(first)}."
        if first["type"] == "extra_forbidden" and first["loc"][0] in flags:
            problem = f"does not apply to the objective {kind().objective}."
        for field in map(str, first["loc"][:1]):  # empty if several fields contradict each other
            named = f"--{field.replace('_', '-')}:" if field in flags else f"--recipe: {field!r}"
            problem = f"{named} {problem}"
        raise click.UsageError(problem) from None


def _read_recipe(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, OSError):
        found = None
    if not isinstance(found, dict):
        raise click.UsageError("--recipe: the file is not a JSON object.")
    return found


def _read_words(given: str) -> tuple[str, ...]:
    """Return words separated by commas, or the lines of a file."""
    try:
        text = Path(given).read_text("utf-8") if Path(given).is_file() else None
    except (OSError, ValueError):
        text = None
    parts = given.split(",") if text is None else text.splitlines()
    return tuple(part.strip() for part in parts if part.strip())


def _with_informativeness(model: Model) -> Model:
    """Return the model with the word bias that an import computes from ranks.

    A model that has a word bias, or is not known to be sorted by frequency, is returned unchanged.
    """
    if model.word_bias is not None:
        return model
    size = model.manifest.vocabulary_size
    if not sorted_by_frequency(model.vocabulary.word(row) for row in range(size)):
        return model
    return replace(model, word_bias=informativeness(frequencies_by_rank(size)))


def _print_summary(manifest: Manifest) -> None:
    held_out = manifest.training["held_out"]
    scores = ", ".join(
        f"{label} {format_score(held_out['before'][key])} to {format_score(held_out['kept'][key])}"
        for key, label in SCORES.items()
        if key in held_out["kept"]
    )
    click.echo(
        f"{manifest.name}  {manifest.training['steps']} steps  {len(manifest.layers)} layers "
        f" {manifest.heads} heads  held out: {scores}"
    )


@contextmanager
def _explaining_errors() -> Iterator[None]:
    """Raise CommandError for a lack of memory."""
    try:
        yield
    except MemoryError:
        raise CommandError(
            "There is not enough memory; smaller --corpus-words, --groups or --window use less."
        ) from None
