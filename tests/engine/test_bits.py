"""A sentence gets the same bits in any batch and memory layout, with little memory."""

import tracemalloc

import numpy as np
import pytest

from polyseme.engine.attention import BLOCK, Scoring, SentenceArrays, sinusoids
from polyseme.engine.layers import Layer, Projection, Residual, contextualize
from tests.engine.cases import random_layer, random_sentence
from tests.tiny import full_layer, normal

EDGES = [1, 2, 65, BLOCK, BLOCK + 1, 2 * BLOCK + 1]
RECORDED = ["queries", "keys", "values", "scores", "weights", "contributions"]


def bits(array):
    assert array.dtype == np.float32
    return np.ascontiguousarray(array).view(np.uint32)


def layer_and_sentence(n, seed=0, d=50):
    """A layer with every part of attention, because each could depend on other sentences."""
    layer = full_layer(seed, d, heads=2, k=7, v=11, residual=Residual("unit", 0.7, 0.3))
    return layer, random_sentence(np.random.default_rng([seed, n]), n, d, unknown=0.1)


@pytest.mark.parametrize("n", EDGES)
def test_recording_changes_no_bit(n):
    layer, sentence = layer_and_sentence(n)
    plain = contextualize(sentence, [layer, layer])
    recorded = contextualize(sentence, [layer, layer], RECORDED)
    assert np.array_equal(bits(plain.contextual), bits(recorded.contextual))
    weights = contextualize(sentence, [layer, layer], ["weights"], of_layers=[1])
    assert np.array_equal(bits(weights.contextual), bits(plain.contextual))
    assert np.array_equal(bits(weights.records[1]["weights"]), bits(recorded.records[1]["weights"]))


@pytest.mark.parametrize("seed", range(50))
def test_a_sentence_gets_the_same_bits_in_a_stack(seed):
    rng = np.random.default_rng(seed)
    d, n = int(rng.choice([7, 29, 50, 101])), int(rng.choice([0, 1, 2, 5, 20, 63, BLOCK + 1]))
    count = 2 if n > BLOCK else int(rng.integers(1, 17))
    layers = [random_layer(rng, d) for _ in range(rng.integers(1, 3))]
    biased = rng.random() < 0.8
    sentences = []
    for _ in range(count):
        sentence = random_sentence(rng, n, d)
        # The lengths of some vectors, and some sums of exponentials, need another path.
        scale = np.float32(rng.choice([1, 1, 1, 100, 1e-20]))
        bias = normal(rng, n) * scale if biased else None
        sentences.append(sentence._replace(vectors=sentence.vectors * scale, word_bias=bias))
    values = zip(*sentences, strict=True)
    stack = SentenceArrays(*(None if v[0] is None else np.stack(v) for v in values))
    found = contextualize(stack, layers, RECORDED)
    for place, sentence in enumerate(sentences):
        alone = contextualize(sentence, layers, RECORDED)
        assert np.array_equal(bits(found.contextual[place]), bits(alone.contextual))
        assert np.array_equal(bits(found.attended[place]), bits(alone.attended))
        for records, expected in zip(found.records, alone.records, strict=True):
            for name in RECORDED:
                assert np.array_equal(bits(records[name][place]), bits(expected[name])), name


@pytest.mark.parametrize("n", [1, 2, 5, 6, 17, 37, 52, 53, 100])
@pytest.mark.parametrize("shape", [(300, 600), (600, 300)])
def test_products_in_parts_are_whole_and_the_same_in_a_stack(n, shape):
    # Wide products of up to 52 rows of 300 numbers are computed in parts of the columns.
    rng = np.random.default_rng(n)
    project, stack = Projection(normal(rng, *shape)), normal(rng, 3, n, shape[0])
    found = project(stack)
    exact = stack.astype(np.float64) @ project.weight.astype(np.float64)
    np.testing.assert_allclose(found, exact, atol=1e-3)
    for place, rows in enumerate(stack):
        assert np.array_equal(bits(project(rows)), bits(found[place]))


def at_odd_address(array):
    """A copy of an array one byte after a multiple of 64."""
    buffer = np.zeros(array.nbytes + 65, np.uint8)
    start = -buffer.ctypes.data % 64 + 1
    copy = buffer[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[:] = array
    return copy


@pytest.mark.parametrize("layout", [np.asfortranarray, at_odd_address])
def test_the_layout_of_memory_changes_no_bit(layout):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        d, n = int(rng.choice([7, 50, 101])), int(rng.choice([1, 2, 5, 20, 63]))
        layer, sentence = random_layer(rng, d), random_sentence(rng, n, d)
        other = sentence._replace(vectors=layout(sentence.vectors))
        expected = bits(contextualize(sentence, [layer]).contextual)
        assert np.array_equal(bits(contextualize(other, [layer]).contextual), expected)


@pytest.mark.parametrize("d", [7, 100])
def test_position_vector_does_not_depend_on_the_length(d):
    long = sinusoids(5000, d)
    for n in (5, 512, 513):
        assert sinusoids(n, d).tobytes() == long[:n].tobytes()


def peak_bytes(n, names=()):
    """The peak memory of a run without its input."""
    rng = np.random.default_rng(n)
    layer = Layer(scoring=Scoring(True, "others", normal(rng, 1, 9), word_bias=True))
    sentence = random_sentence(rng, n, 4, unknown=0.0)._replace(word_bias=normal(rng, n))
    tracemalloc.start()
    try:
        contextualize(sentence, [layer], names)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_grows_linearly_with_the_length_of_a_sentence():
    peaks = {n: peak_bytes(n) for n in (2000, 4000, 8000)}
    assert peaks[4000] < 2.6 * peaks[2000]
    assert peaks[8000] < 2.6 * peaks[4000]
    assert peaks[8000] < 8000 * 8000 * 4 / 5


def test_recorded_attention_is_in_memory_once():
    square = 3000 * 3000 * 4
    assert square <= peak_bytes(3000, ["weights"]) < square + 2 * peak_bytes(3000)
