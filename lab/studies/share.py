"""Measure contextual vectors as features of a tagger, by their share of the static vector.

    python lab/studies/share.py --data downstream.tar.xz [--output lab/results/share.json]

For each share, part-of-speech tags are measured as by `polyseme evaluate tagging` with a linear
probe. `lab/studies/ablation.py` measures what the share does to senses. The share of the bundled
model was not chosen by the tags.
"""

from dataclasses import replace
from pathlib import Path

import click
from benchmarks.sentences import bundled
from lab.studies.imported import document, downstream_sets

from polyseme.client.local import LocalModel
from polyseme.models.model import Model
from polyseme_lab.commands.evaluate import write_json
from polyseme_lab.evaluation.downstream import measure_tagging

SHARES = (0.0, 0.2, 0.4, 0.8, 1.6, 4.0)


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
    model, scores = bundled(), {}
    with downstream_sets(data) as folder:
        for share in SHARES:
            encoder = LocalModel(with_share(model, share))
            (row,) = measure_tagging(encoder, folder / "pos", names=("contextual",)).rows
            scores[str(share)] = row.figures["score"]._asdict()
            click.echo(f"{share} {scores[str(share)]}")
    if output:
        results = {"share": model.layers[-1].residual.share, "shares": scores}
        write_json(output, document([data], results))


if __name__ == "__main__":
    main()
