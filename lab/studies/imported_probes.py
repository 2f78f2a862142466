"""Measure what subwords and context add to the tagging features of imported vector files.

    python lab/studies/imported_probes.py --vectors FOLDER --data downstream.tar.xz
        [--output lab/results/imported-probes.json]

Each `*.gz` file in --vectors is imported with subwords, as `polyseme models import` does, and
without. Probes with a hidden layer are trained and measured as by `polyseme evaluate tagging
--hidden`, on the folders `pos/` and `ner/` of the archive. No constant was chosen by these figures.
"""

from pathlib import Path
from typing import Any

import click
from lab.studies.imported import document, downstream_sets, imported

from polyseme.client.local import LocalModel
from polyseme.models.model import Model
from polyseme_lab.commands.evaluate import write_json
from polyseme_lab.evaluation.downstream import measure_tagging, read_tagged_sentences
from polyseme_lab.evaluation.results import document as results_document
from polyseme_lab.training.corpus import sha256

TASKS = ("pos", "ner")


def composed(encoder: LocalModel, data: Path) -> dict[str, float]:
    """Return the percentages of the dev tokens that are composed, and that have no vector."""
    texts = [list(sentence.words) for sentence in read_tagged_sentences(data / "dev.tsv")]
    encoded = encoder.encode_each(texts, include=())
    resolutions = [token.resolution for sentence in encoded for token in sentence.tokens]
    return {
        kind: round(100 * resolutions.count(kind) / len(resolutions), 1)
        for kind in ("subword", "oov")
    }


def probes(model: Model, data: Path) -> dict[str, Any]:
    """Return the figures of each task for one model."""
    encoder, figures = LocalModel(model), {}
    for task in TASKS:
        measured = results_document(measure_tagging(encoder, data / task, hidden=True))
        systems = {name: system["score"] for name, system in measured["systems"].items()}
        figures[task] = {"tokens": composed(encoder, data / task), "systems": systems}
        click.echo(f"{model.manifest.name:<40} {task} {figures[task]}")
    return figures


@click.command()
@click.option("--vectors", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--output", type=click.Path(path_type=Path))
def main(vectors: Path, data: Path, output: Path | None) -> None:
    """Run the benchmark."""
    files: dict[str, dict[str, Any]] = {}
    with downstream_sets(data) as folder:
        for way, subwords in (("without subwords", False), ("with subwords", True)):
            for file, model in imported(vectors, subwords=subwords):
                facts = {
                    "sha256": sha256(file),
                    "words": model.manifest.vocabulary_size,
                    "dimension": model.manifest.dimension,
                    "ways": {},
                }
                figures = probes(model, folder)
                files.setdefault(model.manifest.name, facts)["ways"][way] = figures
    if output:
        write_json(output, document([data], {"files": files}))


if __name__ == "__main__":
    main()
