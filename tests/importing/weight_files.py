"""Weight files and a vector file for the tests of `polyseme models import --weights`.

The axes have different lengths, so that a wrong transpose fails.
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
"""The weights of a layer of three heads, in the row convention: x·W."""
BIASES = {f"{name}_bias": normal(RNG, weight.shape[1]) for name, weight in ROW.items()}
SQUARE = normal(RNG, D, D)
HEADS = ("--heads", H)
LACKING = (
    "The weights have no tensor word_bias. It can only be computed if the words are sorted by"
    " frequency; --sorted declares this."
)
"""The error for a layer that uses the missing tensor."""


def tiny_vectors(importer):
    """Write the tiny model's words and vectors as a GloVe file."""
    return importer.file(files.rows(WORDS, VECTORS), "tiny.txt")


def save(importer, tensors, metadata=None):
    """Write a safetensors file beside the vector file."""
    return written(importer.place / "given.safetensors", tensors, metadata)


def written(path, tensors, metadata=None):
    """Write a safetensors file; `save_file` writes wrong values of non-contiguous arrays."""
    save_file({name: np.ascontiguousarray(t) for name, t in tensors.items()}, path, metadata)
    return path
