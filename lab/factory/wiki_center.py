"""Step 6 of `build_wiki_en.py`: most of the mean context is subtracted from each context.

    python lab/factory/wiki_center.py --corpus FOLDER    (for a model without this step)

Contexts share a component that is due to frequent words. The step stores −CENTERED times the mean
output of attention as the bias of the values, which leaves the static vectors and the zero values
of unknown words as they are.
"""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import click
import numpy as np
from wiki_text import paragraphs

from polyseme.engine.arrays import Floats
from polyseme.engine.layers import Layer, Projection, contextualize
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.models.writer import write_model
from polyseme_lab.evaluation.measure import quality

CENTERED = 0.75
"""The factor of the mean context; the scores with 0.5 to 1 differ by less than their noise."""
STEP, TOKENS = 400, 40
"""The mean is taken over the first 40 tokens of every 400th paragraph of the corpus."""


def mean_context(model: Model, corpus: Path) -> Floats:
    """Return the mean output of attention over a corpus. -> [d], float64"""
    total, count = np.zeros(model.manifest.dimension), 0
    for paragraph in islice(paragraphs(corpus), 0, None, STEP):
        tokens = model.tokenizer.tokens(paragraph, "auto", TOKENS)[:TOKENS]
        if tokens:
            contexts = contextualize(model.sentence(tokens), model.layers).attended
            total += contexts.sum(axis=0, dtype=np.float64)
            count += len(contexts)
    return total / max(count, 1)


def centered(model: Model, corpus: Path) -> Layer:
    """Return the layer of a model with −CENTERED · mean context as the bias of the values."""
    (layer,) = model.layers
    bias = (-CENTERED * mean_context(model, corpus)).astype(np.float32)
    return replace(layer, value=Projection(layer.value.weight, bias))


@click.command()
@click.option("--corpus", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--data", type=click.Path(path_type=Path, exists=True), help="Evaluation sets.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path(__file__).parents[2] / "models" / "wiki-en",
)
def main(corpus: Path, data: Path | None, folder: Path) -> None:
    """Center the contexts of the model in a folder."""
    model = read_model(folder)
    if model.layers[0].value.bias is not None:
        raise click.ClickException(f"{folder} is centered already.")
    words = [model.vocabulary.word(row) for row in range(len(model.vocabulary))]
    fields = {"cased", "languages", "licence", "source", "training", "quality"}
    facts = model.manifest.model_dump(include=fields)
    facts["training"]["centered"] = CENTERED
    layers, licence = [centered(model, corpus)], (folder / "LICENSE").read_bytes()

    def write() -> None:
        given = {"subwords": model.subwords, "whitening": model.whitening, "replace": True, **facts}
        write_model(folder, words, model.rows, layers, model.word_bias, **given)
        (folder / "LICENSE").write_bytes(licence)

    write()
    if data:
        facts["quality"] = quality(read_model(folder), data)
        write()


if __name__ == "__main__":
    main()
