"""Layers of every kind round-trip array by array."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

from polyseme.engine.attention import Scoring
from polyseme.engine.layers import (
    FeatureProjection,
    FeedForward,
    Layer,
    Projection,
    Residual,
)
from tests.engine.cases import random_layer
from tests.tiny import full_layer, normal, projection, tiny_model

RNG = np.random.default_rng(3)
KINDS = {
    "other orders in memory": [
        Layer(
            query=Projection(np.asfortranarray(normal(RNG, 5, 6)), normal(RNG, 12)[::2]),
            key=Projection(normal(RNG, 5, 12)[:, ::2]),
            scoring=Scoring(position_bias=normal(RNG, 1, 13)[:, ::-1]),
        )
    ],
    "a stack": [full_layer(5), full_layer(6), full_layer(7)],
    "feed-forward network without an outer weight": [
        full_layer(14, feed_forward=FeedForward(projection(RNG, 5, 5), Projection()))
    ],
    "features": [
        Layer(
            residual=Residual("unit", 0.3, 0.1 + 0.2),
            features=FeatureProjection(normal(RNG, 5, 3), projection(RNG, 5, 1)),
        )
    ],
    "word bias by head in one layer alone": [
        Layer(scoring=Scoring(word_bias=True)),
        Layer(scoring=Scoring(word_bias=True, word_bias_scale=normal(RNG, 1))),
    ],
}


def leaves(part, path=""):
    """Every value of nested dataclasses by its path."""
    if is_dataclass(part):
        for field in fields(part):
            yield from leaves(getattr(part, field.name), f"{path}.{field.name}")
    else:
        yield path, part


def assert_same(written, read):
    for (path, a), (other, b) in zip(leaves(written), leaves(read), strict=True):
        assert path == other
        if isinstance(a, np.ndarray):
            assert b.dtype == np.float32, path
            assert np.array_equal(a, b), path
        else:
            assert a == b, path


BIAS = np.linspace(-1, 1, 11, dtype=np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_round_trips_array_by_array(tmp_path, kind):
    model = tiny_model(tmp_path, layers=KINDS[kind], word_bias=BIAS)
    assert len(model.layers) == len(KINDS[kind])
    for written, read in zip(KINDS[kind], model.layers, strict=True):
        assert_same(written, read)


def storable(layer):
    """A layer without the parts that the format cannot represent, such as norms without a use."""
    attention_norm, other = layer.attention_norm, layer.feed_forward_norm
    if layer.norm == "none":
        attention_norm = other = None
    if layer.feed_forward is None:
        other = None
    if attention_norm and other:
        other = replace(other, epsilon=attention_norm.epsilon)
    scoring = layer.scoring
    scale = scoring.word_bias_scale if scoring.word_bias else None
    scoring = replace(scoring, word_bias_scale=scale)
    norms = {"attention_norm": attention_norm, "feed_forward_norm": other}
    return replace(layer, scoring=scoring, **norms)


@pytest.mark.parametrize("seed", range(25))
def test_a_random_layer_round_trips_array_by_array(tmp_path, seed):
    layer = storable(random_layer(np.random.default_rng(seed), 5))
    assert_same(layer, tiny_model(tmp_path, layers=[layer], word_bias=BIAS).layers[0])
