"""A file of weights and a file of vectors for the tests of `--weights`.

The axes have different lengths, so that no wrong transpose passes.
"""

import numpy as np
from safetensors.numpy import save_file

from tests.importing import files
from tests.tiny import VECTORS, WORDS, normal

RNG = np.random.default_rng(11)
D, H, K, V = 5, 3, 2, 7
ROW = {
    "query": normal(RNG, D, H * K),
    "key": normal(RNG, D, H * K),
    "value": normal(RNG, D, H * V),
    "output": normal(RNG, H * V, D),
}
"""Weights of three heads, to be used as x·W."""
BIASES = {f"{name}_bias": normal(RNG, weight.shape[1]) for name, weight in ROW.items()}
SQUARE = normal(RNG, D, D)
HEADS = ("--heads", H)
LACKING = (
    "The weights have no tensor word_bias. It can only be computed if the words are sorted by"
    " frequency; --sorted declares this."
)
"""The error if a layer uses the missing tensor."""


def tiny_vectors(importer):
    """The tiny model's words and vectors as a GloVe file."""
    return importer.file(files.rows(WORDS, VECTORS), "tiny.txt")


def save(importer, tensors, metadata=None):
    """Write a safetensors file beside the file of vectors."""
    return written(importer.place / "given.safetensors", tensors, metadata)


def written(path, tensors, metadata=None):
    """Write a safetensors file, which has to get contiguous arrays."""
    save_file({name: np.ascontiguousarray(t) for name, t in tensors.items()}, path, metadata)
    return path
