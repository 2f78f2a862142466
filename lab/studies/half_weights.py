"""Measure what float16 weights change in a model.

    python lab/studies/half_weights.py FOLDER --output FOLDER --pseudowords FILE --corpus FILE

The output is the model with float16 weights; it keeps its senses and its licence. The differences
are those of the contextual vectors of the first lines of a corpus, compressed or not, relative to
their lengths. Pseudo-words are measured as by `polyseme evaluate pseudowords`.
"""

import shutil
from itertools import islice
from pathlib import Path

import click
import numpy as np

from polyseme.client.local import LocalModel
from polyseme.models.reader import read_model
from polyseme.models.writer import rewrite_model
from polyseme_lab.evaluation.downstream import measure_pseudowords
from polyseme_lab.training.corpus import read_lines

LINES = 2000
"""Number of lines of the corpus."""
_path = click.Path(path_type=Path, exists=True)


@click.command()
@click.argument("folder", type=_path)
@click.option("--output", type=click.Path(path_type=Path), required=True)
@click.option("--pseudowords", type=_path, help="Measure these as well, which takes minutes.")
@click.option("--corpus", type=_path, required=True)
def main(folder: Path, output: Path, pseudowords: Path | None, corpus: Path) -> None:
    """Run the study."""
    model, output = read_model(folder), output.absolute()
    senses = model.senses
    keep = None if senses is None else lambda _: senses
    rewrite_model(output, model, senses=keep, weights_dtype="float16")
    if (folder / "LICENSE").exists():
        shutil.copy(folder / "LICENSE", output)
    wide, half = LocalModel(model), LocalModel(read_model(output))
    lines = [line.strip() for line in islice(read_lines(corpus), LINES)]
    of_both = (encoder.encode_each(lines, include=["contextual"]) for encoder in (wide, half))
    differences = np.concatenate(
        [
            np.linalg.norm(one.contextual - other.contextual, axis=1)
            / np.maximum(np.linalg.norm(one.contextual, axis=1), 1e-30)
            for one, other in zip(*of_both, strict=True)
        ]
    )
    click.echo(
        f"{len(differences)} contextual vectors: relative difference {np.median(differences):.1e}"
        f" (median), {differences.max():.1e} (largest)"
    )
    for name, encoder in {"float32": wide, "float16": half}.items() if pseudowords else ():
        figures = measure_pseudowords(encoder, pseudowords).rows[1].figures
        click.echo(f"{name}: " + ", ".join(f"{key} {one}" for key, one in figures.items()))


if __name__ == "__main__":
    main()
