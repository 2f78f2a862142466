"""Values that are folded into the vectors, which does not change the output of attention."""

import numpy as np
import pytest
from lab.factory.wiki_layer import fold_values

from polyseme.engine.attention import Scoring, SentenceArrays
from polyseme.engine.layers import Layer, Projection, Residual, contextualize

N, D, H, K = 7, 12, 3, 2


def layer_of(rng: np.random.Generator) -> Layer:
    def drawn(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    return Layer(
        heads=H,
        query=Projection(drawn(D, H * K), drawn(H * K)),
        key=Projection(drawn(D, H * K)),
        value=Projection(np.eye(D, dtype=np.float32) + 0.3 * drawn(D, D), drawn(D)),
        scoring=Scoring(scale=False, mask="other-words"),
        residual=Residual("none"),
    )


def sentence_of(vectors: np.ndarray) -> SentenceArrays:
    return SentenceArrays(vectors.astype(np.float32), np.ones(N, np.bool_), np.arange(N))


@pytest.mark.parametrize("seed", range(5))
def test_folding_keeps_attention_and_output(seed: int) -> None:
    rng = np.random.default_rng(seed)
    layer, vectors = layer_of(rng), rng.standard_normal((N, D)).astype(np.float32)
    values, folded = fold_values(vectors, layer)
    assert folded.value.weight is None
    before = contextualize(sentence_of(vectors), [layer], ("weights",))
    after = contextualize(sentence_of(values), [folded], ("weights",))
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
