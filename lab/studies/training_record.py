"""Write the record of a training run for docs/quality.md.

    python lab/studies/training_record.py FOLDER [--name TEXT] [--set KEY=VALUE]... [--evaluate DIR]

FOLDER is a model that `polyseme train` wrote. The record is `lab/results/training-NAME.json`.
`--set` adds or replaces a setting, such as `--set corpus="Wikipedia"`.
"""

import re
from pathlib import Path
from typing import Any

import click
import orjson

from polyseme.models.manifest import Manifest
from polyseme.models.reader import read_model
from polyseme_lab.evaluation.measure import quality

RESULTS = Path(__file__).parents[1] / "results"


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


def _settings(_context: Any, _option: Any, given: tuple[str, ...]) -> dict[str, Any]:
    pairs = [one.partition("=") for one in given]
    if not all(equals for _, equals, _ in pairs):
        raise click.BadParameter("the form is KEY=VALUE.")
    return {key: int(value) if value.isdigit() else value for key, _, value in pairs}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--name", help="Name of the run on the page; by default the model's name.")
@click.option("--set", "settings", multiple=True, callback=_settings, metavar="KEY=VALUE")
@click.option(
    "--evaluate",
    "data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of CoarseWSD-20 and WiC, to measure the model on.",
)
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), default=RESULTS)
def main(
    folder: Path, name: str | None, settings: dict[str, Any], data: Path | None, output: Path
) -> None:
    """Write the record of a trained model."""
    model = read_model(folder)
    if "held_out" not in model.manifest.training:
        raise click.ClickException("`polyseme train` did not write this model.")
    found = record(model.manifest, name or model.manifest.name)
    found["settings"] |= settings
    if data:
        found |= quality(model, data)
    slug = re.sub(r"[^a-z0-9]+", "-", found["name"].lower()).strip("-")
    file = output / f"training-{slug}.json"
    style = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    file.write_bytes(orjson.dumps(found, option=style))
    click.echo(file)


if __name__ == "__main__":
    main()
