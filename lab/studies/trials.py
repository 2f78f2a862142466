"""Run short trainings with different options, for the training runs in docs/quality.md.

    python lab/studies/trials.py --corpus FOLDER --tags ARCHIVE --data FOLDER
        [--work FOLDER] [NAME]...

The trials train `wiki-en-start`, the initial model of the bundled model's training, which
`build_wiki_en.py` writes into the work folder. The record of a trial is
`lab/results/training-NAME.json`. All trials take about 15 minutes on one core.
"""

from pathlib import Path
from typing import Any

import click
import orjson

from polyseme.models.manifest import Manifest
from polyseme.models.reader import read_model
from polyseme_lab.commands.evaluate import write_json
from polyseme_lab.commands.train import corpus_options, run_train
from polyseme_lab.evaluation.measure import quality

RESULTS = Path(__file__).parents[1] / "results"
SHORT: dict[str, Any] = {"init": "model", "steps": 300, "learning_rate": 0.002, "score_every": 50}
MANY: dict[str, Any] = {"pseudo_words": 160, "word_occurrences": 4, "commonest_words": 20_000}
SHAPED: dict[str, Any] = {"init": "closed-form", "heads": None}
TRIALS: dict[str, tuple[str, dict[str, Any]]] = {
    "tags": ("tags", {}),
    "tags, another seed": ("tags", {"seed": 2}),
    "text, three words a group": ("text", {}),
    "text, all words against all": ("text", {**MANY, "groups": 1}),
    "tags and text": ("both", {**MANY, "groups": 25, "mix": 0.04}),
    "tags and text, vectors tuned": (
        "both",
        {
            **MANY,
            "groups": 25,
            "mix": 0.04,
            "tune_embeddings": True,
            "embedding_rate": 0.006,
            "embedding_anchor": 0.0,
            "interpolate": 0.5,
        },
    ),
    "tags, one head from the closed form": ("tags", SHAPED),
    "tags, two heads from the closed form": ("tags", {**SHAPED, "heads": 2, "key_width": 32}),
    "tags, two layers": ("tags", {**SHAPED, "layers": 2}),
    "tags, feed-forward": ("tags", {**SHAPED, "feed_forward": 256}),
    "tags, at random": ("tags", {"init": "random", "heads": 4, "interpolate": 1.0}),
}
"""The training data and the differences from `SHORT` of each trial."""


def record(manifest: Manifest, name: str) -> dict[str, Any]:
    """Return the record of the training that a manifest describes."""
    training = manifest.training
    recipe, data, held_out = (training[key] for key in ("recipe", "data", "held_out"))
    return {
        "name": name,
        "settings": {
            "start": recipe["init"],
            "tags": data["tags"],
            "paragraphs": data["paragraphs"],
            "dimension": manifest.dimension,
            "heads": manifest.heads,
            "layers": len(manifest.layers),
            "feed_forward": recipe["feed_forward"] or 0,
            "vectors_tuned": "yes" if recipe["tune_embeddings"] else "no",
            "interpolate": recipe["interpolate"],
            "steps": training["steps"],
            "seed": training["seed"],
        },
        "recipe": recipe,
        "before": held_out["before"],
        "after": held_out["kept"],
        "seconds": training["seconds"],
        "history": training["history"],
    }


def run(name: str, work: Path, texts: list[object], tags: Path, data: Path) -> None:
    """Run a trial, and write its record."""
    kind, changes = TRIALS[name]
    slug = name.replace(",", "").replace(" ", "-")
    recipe, output = work / "trial.json", f"trial-{slug}"
    chosen = {key: value for key, value in (SHORT | changes).items() if value is not None}
    recipe.write_bytes(orjson.dumps(chosen))
    sources = [*(["--tags", tags] if kind != "text" else []), *(texts if kind != "tags" else [])]
    model = ("--models-dir", work, "--replace", "--model", "wiki-en-start", "--output", output)
    run_train(*model, "--recipe", recipe, *sources)
    trained = read_model(work / output)
    document = record(trained.manifest, name)
    document["settings"]["corpus"] = kind
    write_json(RESULTS / f"training-{slug}.json", document | quality(trained, data))


_folder = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command()
@click.option("--corpus", type=_folder, required=True)
@click.option("--tags", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--data", type=_folder, required=True)
@click.option("--work", type=_folder, default=Path("build/wiki-en"))
@click.argument("names", nargs=-1)
def main(corpus: Path, tags: Path, data: Path, work: Path, names: tuple[str, ...]) -> None:
    """Run the named trials, by default all."""
    for name in names or TRIALS:
        click.echo(name)
        run(name, work, corpus_options(corpus), tags, data)


if __name__ == "__main__":
    main()
