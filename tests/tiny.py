"""A model that is small enough to compute by hand.

Its axes have different prime lengths, so that no wrong transpose passes: 11 words, vectors of width
5, and in layers with weights, 3 heads, queries and keys of width 2, and values of width 7.
"""

import numpy as np

from polyseme.engine.attention import Scoring
from polyseme.engine.layers import FeedForward, Layer, LayerNorm, Projection, Residual
from polyseme.engine.quantization import quantize
from polyseme.engine.subwords import Subwords
from polyseme.models.reader import read_model
from polyseme.models.writer import write_model
from polyseme.operations.limits import Limits

WORDS = ("apple", "Apple", "APPLE", "bank", "river", "money", "did", "n't", "high", "-", "end")
VECTORS = np.array(
    [
        [1, 0, 0, 0, 0],  # apple
        [0, 1, 0, 0, 0],  # Apple
        [0, 0, 1, 0, 0],  # APPLE
        [1, 1, 0, 0, 0],  # bank
        [0, 1, 0, 2, 0],  # river
        [1, 0, 0, 0, 2],  # money
        [0, 0, 0, 1, 0],  # did
        [0, 0, 0, 0, 1],  # n't
        [1, 0, 1, 0, 0],  # high
        [0, 0, 0, 1, 1],  # -
        [0, 2, 1, 0, 0],  # end
    ],
    np.float32,
)
PLAIN = Layer(scoring=Scoring(scale=False))
"""Parameter-free attention whose scores are the dot products themselves."""
SUBWORDS = Subwords(np.array([[3, 0, 0, 0, 0], [0, 0, 0, 0, 3]], np.float32), 3, 3)
"""Trigrams in two buckets. FNV's offset and prime are odd, so the first bucket has the trigrams
with an odd number of odd bytes: a, c, e, … are odd; b, d, f, …, `<` and `>` are even. Of `gnu`,
these are `<gn` and `nu>` but not `gnu`, so its vector is [2, 0, 0, 0, 1]."""
QUANTIZED = quantize(VECTORS * np.linspace(0.5, 3, 11, dtype=np.float32)[:, None])
QUANTIZED_SUBWORDS = Subwords(quantize(SUBWORDS.table), 3, 3)
LIMITS = Limits(1000, 1000, 10_000, 64, max_trace_bytes=128 << 20, max_answer_bytes=1 << 30)


def write_tiny(folder, *, words=WORDS, vectors=VECTORS, layers=(PLAIN,), word_bias=None, **facts):
    """Write the model to a folder and return the folder."""
    write_model(folder, words, vectors, layers, word_bias, **{"cased": True, **facts})
    return folder


def tiny_model(folder, **changes):
    """The model, written to a folder called `tiny` in `folder` and read back."""
    return read_model(write_tiny(folder / "tiny", **changes))


def deep_model(folder, **changes):
    """The model with two layers that have every part, and a bias for each word."""
    rng = np.random.default_rng(7)
    bias = rng.standard_normal(len(WORDS)).astype(np.float32)
    layers = [full_layer(1), full_layer(2, norm="after", residual=Residual("unit", 0.5, 0.25))]
    return tiny_model(folder, **{"layers": layers, "word_bias": bias, **changes})


def full_layer(seed=0, d=5, heads=3, k=2, v=7, **changes):
    """A layer with every part; k and v are the widths of one head."""
    rng = np.random.default_rng(seed)
    factors = np.linspace(0.5, 2, heads, dtype=np.float32)
    parts = {
        "heads": heads,
        "query": projection(rng, d, heads * k),
        "key": projection(rng, d, heads * k),
        "value": projection(rng, d, heads * v),
        "output": projection(rng, heads * v, d),
        "scoring": Scoring(
            True, "other-words", normal(rng, heads, 13), word_bias=True, word_bias_scale=factors
        ),
        "residual": Residual("add"),
        "norm": "before",
        "attention_norm": LayerNorm(normal(rng, d), normal(rng, d), 1e-3),
        "feed_forward": FeedForward(projection(rng, d, 17), projection(rng, 17, d), "gelu"),
        "feed_forward_norm": LayerNorm(normal(rng, d), normal(rng, d), 1e-3),
        "final": projection(rng, d, d),
        "skip": normal(rng, d, d) / np.float32(d**0.5),
    }
    return Layer(**{**parts, **changes})


def projection(rng, rows, columns):
    """A weight [in, out] and its bias [out]."""
    return Projection(normal(rng, rows, columns) / np.float32(rows**0.5), normal(rng, columns))


def normal(rng, *shape):
    """Normally distributed float32 numbers."""
    return rng.standard_normal(shape).astype(np.float32)
