"""Measure the closed form with other spreads and forms of association.

    python lab/studies/imported_constants.py --vectors FOLDER --senses FOLDER [--output FILE.json]

The vectors are those of the bundled model and of each `*.gz` file in --vectors. As in
`lab/studies/ablation.py`, the text is SemCor and MASC. The tagged words in the vocabulary are
measured, except those of CoarseWSD-20.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from lab.studies.ablation import known, read, run
from lab.studies.imported import document, imported

from polyseme.engine.arrays import Floats
from polyseme.engine.layers import Layer, Projection
from polyseme.importing.closed_form import (
    FREQUENT,
    SPREAD,
    association,
    closed_form,
    frequencies_by_rank,
    informativeness,
)
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme_lab.commands.evaluate import write_json
from polyseme_lab.training.corpus import sha256

BUNDLED = Path(__file__).parents[2] / "models" / "wiki-en"
SPREADS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6)
SKIP_GRAM = 0.2
"""The factor of the unscaled products, from a prototype with skip-gram vectors."""


def variants(vectors: Floats) -> dict[str, Layer]:
    """Return the closed form with several spreads and forms of association. [V, d] -> layers"""
    p = frequencies_by_rank(len(vectors))
    key = association(vectors, p)
    layer = closed_form(vectors, key)
    sizes = {
        f"spread {s}": replace(layer, key=Projection(key.weight * np.float32(s / SPREAD)))
        for s in SPREADS
    }
    return {
        **sizes,
        **{name: replace(layer, **parts) for name, parts in _forms(vectors, p).items()},
        "without informativeness": replace(layer, scoring=replace(layer.scoring, word_bias=False)),
        "without half-whitening": replace(layer, value=Layer().value),
        "parameter-free": Layer(),
    }


def _forms(vectors: Floats, p: Floats) -> dict[str, dict[str, Projection]]:
    """Return other forms of association; all but the first have the spread SPREAD. [V, d], [V]"""
    sample, identity = vectors[:FREQUENT].astype(np.float64), np.eye(vectors.shape[1])
    weights = (p * np.exp(informativeness(p)))[:FREQUENT]
    weights /= weights.sum()
    mean = weights @ sample
    centered = (sample - mean) * np.sqrt(weights)[:, None]
    covariance = centered.T @ centered
    values, directions = np.linalg.eigh(covariance)
    whitening = (directions * values**-0.5) @ directions.T
    from_mean = Projection(bias=-mean.astype(np.float32))
    products = _key(identity, covariance, covariance)
    return {
        "products, no scale": {"key": Projection((SKIP_GRAM * identity).astype(np.float32))},
        "products": {"key": _key(identity, covariance, covariance + np.outer(mean, mean))},
        "products from the mean": {"key": products, "query": from_mean},
        "whitened, from the mean": {
            "key": _key(whitening, covariance, covariance),
            "query": from_mean,
        },
    }


def _key(weight: Floats, of_keys: Floats, of_queries: Floats) -> Projection:
    """Scale key weights so that the mean variance of a row of scores is SPREAD². -> [d, d]"""
    spread = np.sqrt(np.trace(weight @ of_keys @ weight.T @ of_queries))
    return Projection((SPREAD / spread * weight).astype(np.float32))


def models(vectors: Path) -> Iterator[tuple[str, Model]]:
    """Yield the bundled model and each imported file by name."""
    yield BUNDLED.name, read_model(BUNDLED)
    yield from ((model.manifest.name, model) for _, model in imported(vectors))


@click.command()
@click.option("--vectors", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--senses", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--output", type=click.Path(path_type=Path))
def main(vectors: Path, senses: Path, output: Path | None) -> None:
    """Run the benchmark."""
    archive = senses / "google_wsd.tar.xz"
    texts, tagged = read(archive)
    results = {}
    for name, model in models(vectors):
        in_vocabulary = known(texts, tagged, model)
        by_variant = {}
        for variant, figures in run(model, texts, in_vocabulary, variants(model.vectors)):
            by_variant[variant] = figures
            click.echo(f"{name:<32} {variant:<26} {figures}")
        results[name] = {"tagged": len(in_vocabulary), "variants": by_variant}
    if output:
        sums = {file.name: sha256(file) for file in sorted(vectors.glob("*.gz"))}
        write_json(output, document([archive], {"vectors": sums, "files": results}))


if __name__ == "__main__":
    main()
