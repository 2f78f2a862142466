"""Measure contextual vectors by their share of the static vector.

    python benchmarks/share.py --data FOLDER [--output results/share.json]

FOLDER has `pseudowords.jsonl.xz` and `downstream.tar.xz`. For each share, pseudo-words are measured
as by `polyseme evaluate pseudowords`, and part-of-speech tags as by `polyseme evaluate tagging`
with a linear probe. The share of the bundled model was not chosen by the tags.
"""

import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

import click
from imported import document, write
from sentences import bundled

from polyseme.client.local import LocalModel
from polyseme.evaluation.downstream import measure_pseudowords, measure_tagging
from polyseme.evaluation.results import document as results_document
from polyseme.models.model import Model

SHARES = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 4.0)


def with_share(model: Model, share: float) -> Model:
    """Return the model with another share in its last residual."""
    *before, last = model.layers
    residual = replace(last.residual, share=share)
    return replace(model, layers=[*before, replace(last, residual=residual)])


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--output", type=click.Path(path_type=Path))
def main(data: Path, output: Path | None) -> None:
    """Run the benchmark."""
    model, found = bundled(), {}
    pseudowords, downstream = data / "pseudowords.jsonl.xz", data / "downstream.tar.xz"
    with tempfile.TemporaryDirectory() as folder, tarfile.open(downstream) as archive:
        archive.extractall(folder, filter="data")
        for share in SHARES:
            encoder = LocalModel(with_share(model, share))
            words = results_document(measure_pseudowords(encoder, pseudowords))["systems"]["model"]
            pos = Path(folder) / "downstream" / "pos"
            tags = results_document(measure_tagging(encoder, pos, names=("contextual",)))
            found[str(share)] = {
                "balanced": words["balanced"],
                "imbalanced": words["imbalanced"],
                "tags": tags["systems"]["contextual"]["score"],
            }
            click.echo(f"{share} {found[str(share)]}")
    if output:
        facts = {"share": model.layers[-1].residual.share, "shares": found}
        write(document([pseudowords, downstream], facts), output)


if __name__ == "__main__":
    main()
