"""Random sentences and layers with every combination of parts, from seeds."""

from dataclasses import fields, is_dataclass
from typing import NamedTuple

import numpy as np

from polyseme.engine.attention import Scoring, SentenceArrays
from polyseme.engine.layers import FeedForward, Layer, LayerNorm, Projection, Residual
from tests.tiny import normal

LENGTHS = (0, 1, 2, 3, 5, 7, 11, 17, 23, 29, 41)
WIDTHS = (3, 5, 7, 11, 13)
HEAD_WIDTHS = (2, 3, 5, 7)


class Case(NamedTuple):
    """A sentence and the layers to apply to it."""

    sentence: SentenceArrays
    layers: list


def sentence(vectors, known=None, words=None, word_bias=None):
    """The arrays of a sentence, by default of known and different words. [n, d]"""
    vectors = np.array(vectors) * 1.0  # integers become float64
    n = len(vectors)
    return SentenceArrays(
        vectors,
        np.ones(n, np.bool_) if known is None else np.array(known, np.bool_),
        np.arange(n) if words is None else np.array(words),
        None if word_bias is None else np.array(word_bias, vectors.dtype),
    )


def arrays_of(part):
    """Every array of nested dataclasses, lists and tuples."""
    if isinstance(part, np.ndarray):
        return [part]
    parts = part if isinstance(part, list | tuple) else []
    if is_dataclass(part):
        parts = [getattr(part, field.name) for field in fields(part)]
    return [array for one in parts for array in arrays_of(one)]


def random_case(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.choice(WIDTHS))
    layers = [random_layer(rng, d) for _ in range(rng.integers(1, 4))]
    return Case(random_sentence(rng, int(rng.choice(LENGTHS)), d), layers)


def random_sentence(rng, n, d, unknown=None):
    """A sentence with repeated words and, in about half the cases, unknown tokens."""
    share = rng.choice([0.0, 0.0, 0.2, 0.5, 1.0]) if unknown is None else unknown
    known = rng.random(n) >= share
    words = rng.integers(0, max(1, n // 2 + 1), n)
    vectors = normal(rng, max(1, n) * 2, d)[words] if n else normal(rng, 0, d)
    vectors[~known] = 0
    word_bias = None if rng.random() < 0.2 else normal(rng, n)
    return SentenceArrays(vectors, known, np.where(known, words, -1), word_bias)


def random_layer(rng, d):
    parts = {}
    if rng.random() < 0.2:  # Q = K = V = X, with one head or, as all widths are prime, d
        heads = int(rng.choice([1, d]))
    else:
        heads = int(rng.integers(1, 4))
        k, v = (int(w) for w in rng.choice(HEAD_WIDTHS, 2))
        parts = {
            "query": projection(rng, d, heads * k),
            "key": projection(rng, d, heads * k),
            "value": projection(rng, d, heads * v),
            "output": projection(rng, heads * v, d),
        }
    parts |= {"scoring": random_scoring(rng, heads), "residual": random_residual(rng)}
    return Layer(heads, **parts, **norms_and_feed_forward(rng, d))


def random_scoring(rng, heads):
    reach = int(rng.choice([0, 1, 2, 5, 50]))
    bias = normal(rng, heads, 2 * reach + 1)
    return Scoring(
        scale=bool(rng.random() < 0.7),
        mask=str(rng.choice(["all", "others", "other-words"])),
        position_bias=bias if rng.random() < 0.6 else None,
        word_bias=bool(rng.random() < 0.6),
        word_bias_scale=normal(rng, heads) if rng.random() < 0.5 else None,
    )


def random_residual(rng):
    kind = str(rng.choice(["none", "add", "unit"]))
    share, position_share = (float(s) for s in rng.uniform(0.2, 1.5, 2))
    return Residual(kind, share, position_share if rng.random() < 0.6 else 0.0)


def norms_and_feed_forward(rng, d):
    position = str(rng.choice(["none", "before", "after"]))
    norms = [layer_norm(rng, d) if rng.random() < 0.8 else None for _ in range(2)]
    parts = {"norm": position, "attention_norm": norms[0], "feed_forward_norm": norms[1]}
    if rng.random() < 0.6:
        width = int(rng.choice([2, 17, 19]))
        activation = str(rng.choice(["relu", "gelu"]))
        parts["feed_forward"] = FeedForward(
            projection(rng, d, width), projection(rng, width, d), activation
        )
    return parts


def layer_norm(rng, d):
    return LayerNorm(normal(rng, d), normal(rng, d), float(rng.choice([1e-5, 0.1])))


def projection(rng, rows, columns):
    """A weight [in, out] that about keeps the norm of vectors and, in half the cases, a bias."""
    weight = normal(rng, rows, columns) / np.float32(rows**0.5)
    return Projection(weight, normal(rng, columns) if rng.random() < 0.5 else None)
