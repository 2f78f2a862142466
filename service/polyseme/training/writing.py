"""Writing what a training gave as a model beside the one it started from."""

from pathlib import Path
from typing import Any

import numpy as np

from polyseme.engine.quantization import QuantizedRows, Rows, quantize
from polyseme.models.manifest import Manifest
from polyseme.models.model import Model
from polyseme.models.writer import write_model
from polyseme.training.course import Trained


def write(folder: Path, model: Model, trained: Trained, *, replacing: bool) -> Manifest:
    """Write the model folder: words, vectors and facts of the base, and what was learned."""
    said = model.manifest
    words = [model.vocabulary.word(row) for row in range(said.vocabulary_size)]
    uses_bias = any(layer.scoring.word_bias for layer in trained.layers)
    return write_model(
        folder,
        words,
        _rows(model, trained),
        trained.layers,
        model.word_bias if uses_bias else None,
        subwords=model.subwords,
        replace=replacing,
        cased=said.cased,
        languages=list(said.languages),
        licence=said.licence,
        source=said.source,
        training={**trained.facts, "of_base": _without_curve(said.training)},
    )


def _without_curve(training: dict[str, Any]) -> dict[str, Any]:
    """What a manifest says of its training, without what is only of interest there."""
    return {name: fact for name, fact in training.items() if name != "history"}


def _rows(model: Model, trained: Trained) -> Rows:
    """The vectors: those of the base, but for the rows that were learned. -> [V, d]"""
    if not len(trained.rows):
        return model.rows
    vectors = np.array(model.vectors)
    vectors[trained.rows] = trained.vectors.astype(vectors.dtype)
    return quantize(vectors) if isinstance(model.rows, QuantizedRows) else vectors
