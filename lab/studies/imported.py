"""Measure how well imported vector files separate senses, with the closed form and without.

    python lab/studies/imported.py --vectors FOLDER --data FOLDER
        [--output lab/results/imported.json]

Each `*.gz` file in --vectors is imported as by `polyseme models import`, by default and with
`--no-subwords`, and measured as by `polyseme evaluate`, on the words of CoarseWSD-20 and the pairs
of WiC in the vocabulary. No constant was chosen by these figures; see `imported_constants.py`.
"""

import platform
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from polyseme.importing.importer import ImportOptions, import_vectors
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.progress import Progress
from polyseme_lab.commands.evaluate import write_json
from polyseme_lab.evaluation.coarsewsd import known_words
from polyseme_lab.evaluation.datasets import Files, read_archive
from polyseme_lab.evaluation.measure import part_figures
from polyseme_lab.evaluation.sources import LocalSource
from polyseme_lab.evaluation.wic import known_pairs
from polyseme_lab.training.corpus import sha256

PACKAGES = ("gensim", "numpy", "scikit-learn")
DEFAULT = "default import"
"""The row of the contextual vectors with subwords."""


def imported(folder: Path, *, subwords: bool = False) -> Iterator[tuple[Path, Model]]:
    """Yield each `*.gz` file of a folder with its imported model."""
    for file in sorted(folder.glob("*.gz")):
        with tempfile.TemporaryDirectory() as models:
            model = Path(models) / file.name.removesuffix(".gz")
            import_vectors(file, model, ImportOptions(subwords=subwords), Progress())
            yield file, read_model(model)


@contextmanager
def downstream_sets(archive: Path) -> Iterator[Path]:
    """Extract downstream.tar.xz for the time of the block; yield its folder."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
        yield Path(folder) / "downstream"


def document(data: list[Path], results: dict[str, Any]) -> dict[str, Any]:
    """Return the results with the date, versions and the SHA-256 of the data."""
    versions = {package: version(package) for package in PACKAGES}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {"python": platform.python_version(), **versions},
        "data": {path.name: sha256(path) for path in data},
        **results,
    }


def coverage(model: Model, coarse: Files, in_context: Files) -> dict[str, Any]:
    """Return the size of a model, and the words and numbers of pairs that are measured."""
    words = {Path(name).parent.name for name in coarse if name.endswith("test.data.txt")}
    pairs = {
        split: next(len(lines) for name, lines in in_context.items() if f"{split}.gold" in name)
        for split in ("train", "dev")
    }
    return {
        "words": model.manifest.vocabulary_size,
        "dimension": model.manifest.dimension,
        "coarsewsd_words": sorted(words),
        "wic_pairs": pairs,
    }


@click.command()
@click.option("--vectors", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--output", type=click.Path(path_type=Path))
def main(vectors: Path, data: Path, output: Path | None) -> None:
    """Run the benchmark."""
    archives = [data / "coarsewsd.tar.xz", data / "wic.tar.xz"]
    coarse, in_context = map(read_archive, archives)
    files = {}
    models = zip(imported(vectors), imported(vectors, subwords=True), strict=True)
    for (file, model), (_, default) in models:
        knows = LocalSource(model).knows
        words, pairs = known_words(coarse, knows), known_pairs(in_context, knows)
        systems = {}
        for name, figures in part_figures(model, words, pairs):
            systems[name] = figures
            click.echo(f"{model.manifest.name:<32} {name:<28} {figures}")
        ((_, systems[DEFAULT]),) = part_figures(default, words, pairs, ["model"])
        click.echo(f"{model.manifest.name:<32} {DEFAULT:<28} {systems[DEFAULT]}")
        about = coverage(model, words, pairs)
        files[model.manifest.name] = {"sha256": sha256(file), **about, "systems": systems}
    if output:
        write_json(output, document(archives, {"files": files}))


if __name__ == "__main__":
    main()
