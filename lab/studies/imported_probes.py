"""Measure what subwords and context add to the tagging features of imported vector files.

    python lab/studies/imported_probes.py --vectors FOLDER --data downstream.tar.xz
        [--output lab/results/imported-probes.json]

Each `*.gz` file in --vectors is imported with subwords, as `polyseme models import` does, and
without. Probes with a hidden layer are trained and measured as by `polyseme evaluate tagging
--hidden`, on the folders `pos/` and `ner/` of the archive. No constant was chosen by these figures.
"""

import tarfile
import tempfile
from pathlib import Path
from typing import Any

import click
from lab.studies.imported import document, sha256, write

from polyseme.client.local import LocalModel
from polyseme.importing.importer import ImportOptions, import_vectors
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.progress import Progress
from polyseme_lab.evaluation.downstream import measure_tagging, read_tagged_sentences
from polyseme_lab.evaluation.results import document as results_document

TASKS = ("pos", "ner")


def imported(file: Path, folder: Path, *, subwords: bool) -> Model:
    """Import a vector file and read the model."""
    model = folder / f"{file.name.removesuffix('.gz')}-{'subwords' if subwords else 'words'}"
    import_vectors(file, model, ImportOptions(subwords=subwords), Progress())
    return read_model(model)


def composed(encoder: LocalModel, data: Path) -> dict[str, float]:
    """Return the percentages of the dev tokens that are composed, and that have no vector."""
    texts = [list(one.words) for one in read_tagged_sentences(data / "dev.tsv")]
    resolutions = [
        token.resolution for one in encoder.encode_each(texts, include=()) for token in one.tokens
    ]
    return {
        kind: round(100 * resolutions.count(kind) / len(resolutions), 1)
        for kind in ("subword", "oov")
    }


def probes(model: Model, data: Path) -> dict[str, Any]:
    """Return the figures of each task for one model."""
    encoder, found = LocalModel(model), {}
    for task in TASKS:
        measured = results_document(measure_tagging(encoder, data / task, hidden=True))
        systems = {name: one["score"] for name, one in measured["systems"].items()}
        found[task] = {"tokens": composed(encoder, data / task), "systems": systems}
        click.echo(f"{model.manifest.name:<40} {task} {found[task]}")
    return found


@click.command()
@click.option("--vectors", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--output", type=click.Path(path_type=Path))
def main(vectors: Path, data: Path, output: Path | None) -> None:
    """Run the benchmark."""
    files = {}
    with tempfile.TemporaryDirectory() as name, tarfile.open(data) as archive:
        folder = Path(name)
        archive.extractall(folder, filter="data")
        for file in sorted(vectors.glob("*.gz")):
            ways = {}
            for way, subwords in (("without subwords", False), ("with subwords", True)):
                model = imported(file, folder, subwords=subwords)
                ways[way] = probes(model, folder / "downstream")
            files[file.name.removesuffix(".gz")] = {
                "sha256": sha256(file),
                "words": model.manifest.vocabulary_size,
                "dimension": model.manifest.dimension,
                "ways": ways,
            }
    if output:
        write(document([data], {"files": files}), output)


if __name__ == "__main__":
    main()
