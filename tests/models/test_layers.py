"""Layers of every kind round-trip array by array."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from polyseme.engine.attention import Scoring
from polyseme.engine.layers import FeatureProjection, FeedForward, Layer, Projection, Residual
from tests.engine.cases import arrays_of, random_layer
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


def assert_round_trip(tmp_path, layers):
    read = tiny_model(tmp_path, layers=layers, word_bias=np.linspace(-1, 1, 11)).layers
    np.testing.assert_equal([*map(asdict, read)], [*map(asdict, layers)])
    assert {array.dtype for array in arrays_of(read)} <= {np.dtype(np.float32)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_round_trips_array_by_array(tmp_path, kind):
    assert_round_trip(tmp_path, KINDS[kind])


@pytest.mark.parametrize("seed", range(25))
def test_a_random_layer_round_trips_array_by_array(tmp_path, seed):
    layer = random_layer(np.random.default_rng(seed), 5)
    # The format cannot represent norms without a use, and has one epsilon.
    norms = [layer.attention_norm, layer.feed_forward_norm]
    if layer.norm == "none":
        norms = [None, None]
    if layer.feed_forward is None:
        norms[1] = None
    if all(norms):
        norms[1] = replace(norms[1], epsilon=norms[0].epsilon)
    scale = layer.scoring.word_bias_scale if layer.scoring.word_bias else None
    scoring = replace(layer.scoring, word_bias_scale=scale)
    parts = {"scoring": scoring, "attention_norm": norms[0], "feed_forward_norm": norms[1]}
    assert_round_trip(tmp_path, [replace(layer, **parts)])
