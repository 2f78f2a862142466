"""Values that are folded into the vectors, which does not change the output of attention."""

import numpy as np
from lab.factory.wiki_layer import fold_values

from polyseme.engine.attention import Scoring, SentenceArrays
from polyseme.engine.layers import Layer, Projection, Residual, contextualize
from tests.tiny import normal, projection

N, D, H, K = 7, 12, 3, 2


def test_folding_keeps_attention_and_output() -> None:
    rng = np.random.default_rng(1)
    vectors, value = normal(rng, N, D), np.eye(D, dtype=np.float32) + 0.3 * normal(rng, D, D)
    query, key = projection(rng, D, H * K), Projection(normal(rng, D, H * K))
    scoring, value = Scoring(scale=False, mask="other-words"), Projection(value, normal(rng, D))
    layer = Layer(H, query, key, value, scoring=scoring, residual=Residual("none"))
    values, folded = fold_values(vectors, layer)
    assert folded.value.weight is None
    before, after = (
        contextualize(SentenceArrays(x, np.ones(N, np.bool_), np.arange(N)), [one], ("weights",))
        for x, one in ((vectors, layer), (values, folded))
    )
    np.testing.assert_allclose(after.records[0]["weights"], before.records[0]["weights"], atol=1e-4)
    np.testing.assert_allclose(after.contextual, before.contextual, atol=1e-4)


def test_the_vectors_become_the_values() -> None:
    layer = Layer(
        value=Projection(np.diag([2.0, 4.0]).astype(np.float32), np.array([1, -1], np.float32))
    )
    values, folded = fold_values(np.array([[3, 5]], np.float32), layer)
    assert values.tolist() == [[7, 19]]
    # The queries and keys were the vectors: 3 = (7 − 1)/2, 5 = (19 + 1)/4.
    assert folded.query(values).tolist() == [[3, 5]]
    assert folded.key(values).tolist() == [[3, 5]]
