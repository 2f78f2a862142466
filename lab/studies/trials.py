"""Run short trainings with different options, for the training runs in docs/quality.md.

    python lab/studies/trials.py --corpus FOLDER --tags ARCHIVE --data FOLDER
        [--work FOLDER] [NAME]...

The trials train `wiki-en-start`, the initial model of the bundled model's training, which
`build_wiki_en.py` writes into the work folder; `training_record.py` writes the record of each
trial. All trials take about 15 minutes on one core.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import orjson

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'service'}{os.pathsep}{ROOT / 'lab'}"}
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


def train(name: str, work: Path, texts: list[Path], tags: Path) -> Path:
    """Run a trial; return the folder of its model."""
    kind, changes = TRIALS[name]
    slug = name.replace(",", "").replace(" ", "-")
    recipe = work / "trial.json"
    chosen = {key: value for key, value in (SHORT | changes).items() if value is not None}
    recipe.write_bytes(orjson.dumps(chosen))
    command = [
        *(sys.executable, "-m", "polyseme", "train", "--models-dir", work, "--replace"),
        *("--model", "wiki-en-start", "--output", f"trial-{slug}", "--recipe", recipe),
    ]
    if kind != "text":
        command += ["--tags", tags]
    if kind != "tags":
        command += [part for text in texts for part in ("--corpus", text)]
    environment = {**ENVIRONMENT, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=environment)  # noqa: S603 - our own command
    return work / f"trial-{slug}"


def write_record(name: str, folder: Path, data: Path) -> None:
    """Write the record of a trial."""
    command = [
        sys.executable,
        Path(__file__).with_name("training_record.py"),
        folder,
        "--name",
        name,
    ]
    settings = ["--set", f"corpus={TRIALS[name][0]}", "--evaluate", data]
    subprocess.run([*command, *settings], check=True, env=ENVIRONMENT)  # noqa: S603 - our own


_folder = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command()
@click.option("--corpus", type=_folder, required=True)
@click.option("--tags", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--data", type=_folder, required=True)
@click.option("--work", type=_folder, default=Path("build/wiki-en"))
@click.argument("names", nargs=-1)
def main(corpus: Path, tags: Path, data: Path, work: Path, names: tuple[str, ...]) -> None:
    """Run the named trials, by default all."""
    texts = sorted(corpus.glob("*.txt.zst"))
    for name in names or TRIALS:
        click.echo(name)
        write_record(name, train(name, work, texts, tags), data)


if __name__ == "__main__":
    main()
