"""A sentence gets the same bits in any batch and memory layout, with little memory."""

import hashlib
import multiprocessing
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from polyseme.engine.attention import BLOCK, Scoring, SentenceArrays, sinusoids
from polyseme.engine.layers import Layer, Projection, Residual, contextualize
from tests.engine.cases import normal, projection, random_case, random_layer, random_sentence

EDGES = [1, 2, 65, BLOCK, BLOCK + 1, 2 * BLOCK + 1]
RECORDED = ["queries", "keys", "values", "scores", "weights", "contributions"]


def bits(array):
    assert array.dtype == np.float32
    return np.ascontiguousarray(array).view(np.uint32)


def layer_and_sentence(n, seed=0, d=50):
    """A layer with every part of attention, because each could depend on other sentences."""
    rng = np.random.default_rng([seed, n])
    heads, k, v = 2, 7, 11
    layer = Layer(
        heads,
        projection(rng, d, heads * k),
        projection(rng, d, heads * k),
        projection(rng, d, heads * v),
        projection(rng, heads * v, d),
        Scoring(True, "other-words", normal(rng, heads, 11), True, normal(rng, heads)),
        Residual("unit", 0.7, 0.3),
    )
    return layer, random_sentence(rng, n, d, unknown=0.1)


@pytest.mark.parametrize("n", EDGES)
def test_recording_changes_no_bit(n):
    layer, sentence = layer_and_sentence(n)
    plain = contextualize(sentence, [layer, layer])
    recorded = contextualize(sentence, [layer, layer], RECORDED)
    assert np.array_equal(bits(plain.contextual), bits(recorded.contextual))
    weights = contextualize(sentence, [layer, layer], ["weights"], of_layers=[1])
    assert np.array_equal(bits(weights.contextual), bits(plain.contextual))
    assert np.array_equal(bits(weights.records[1]["weights"]), bits(recorded.records[1]["weights"]))


@pytest.mark.parametrize("seed", range(80))
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


def at_offset(array, offset):
    """A copy of an array at an address `offset` bytes after a multiple of 64."""
    buffer = np.zeros(array.nbytes + 64 + offset, np.uint8)
    start = -buffer.ctypes.data % 64 + offset
    copy = buffer[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[:] = array
    assert copy.ctypes.data % 64 == offset
    return copy


def with_vectors(sentence, vectors):
    return SentenceArrays(vectors, sentence.known, sentence.words, sentence.word_bias)


LAYOUTS = {
    "columns first": np.asfortranarray,
    "every second column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "every second row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "an odd address": lambda x: at_offset(x, 1),
    "rows of a batch": lambda x: np.concatenate([x, x, x])[len(x) : 2 * len(x)],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_of_memory_changes_no_bit(layout):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        d, n = int(rng.choice([7, 50, 101])), int(rng.choice([1, 2, 5, 20, 63]))
        layer, sentence = random_layer(rng, d), random_sentence(rng, n, d)
        expected = contextualize(sentence, [layer]).contextual
        other = with_vectors(sentence, LAYOUTS[layout](sentence.vectors))
        other = contextualize(other, [layer]).contextual
        assert np.array_equal(bits(other), bits(expected)), f"seed {seed}, n {n}, d {d}"


def digests(lengths):
    """The SHA-256 of the contextual vectors of a sentence of each length."""
    found = []
    # One BLAS thread as in the service, because two threads sum in another order.
    with threadpool_limits(1, "blas"):
        for n in lengths:
            layer, sentence = layer_and_sentence(n)
            found.append(hashlib.sha256(contextualize(sentence, [layer]).contextual).hexdigest())
    return found


def test_other_processes_give_the_same_bits():
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(digests, EDGES[::-1]).result()[::-1] == digests(EDGES)


@pytest.mark.parametrize("n", [513, 1024, 5000])
@pytest.mark.parametrize("d", [7, 16, 100])
def test_the_position_vector_of_a_token_does_not_depend_on_the_length(n, d):
    long = np.ascontiguousarray(sinusoids(n, d)[:512])
    assert np.array_equal(sinusoids(512, d).view(np.uint64), long.view(np.uint64))
    assert np.array_equal(sinusoids(5, d), long[:5])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_type_stays_that_of_the_vectors(dtype):
    for seed in range(100):
        case = random_case(seed)
        sentence = case.sentence
        bias = None if sentence.word_bias is None else sentence.word_bias.astype(dtype)
        vectors = sentence.vectors.astype(dtype)
        sentence = SentenceArrays(vectors, sentence.known, sentence.words, bias)
        layers = [layer.astype(dtype) for layer in case.layers]
        result = contextualize(sentence, layers, RECORDED)
        assert result.contextual.dtype == dtype, case.describe()
        for record in result.records:
            for name, array in record.items():
                assert array.dtype == dtype, f"{name}\n{case.describe()}"


def arrays_of(part):
    """Every array of nested dataclasses."""
    if isinstance(part, np.ndarray):
        return [part]
    inner = [getattr(part, f.name) for f in fields(part)] if is_dataclass(part) else []
    return [array for child in inner for array in arrays_of(child)]


def test_astype_changes_the_type_of_every_array_of_a_layer_and_nothing_else():
    for seed in range(30):
        for layer in random_case(seed).layers:
            wide = layer.astype(np.float64)
            assert {array.dtype for array in arrays_of(wide)} <= {np.dtype(np.float64)}
            assert {array.dtype for array in arrays_of(layer)} <= {np.dtype(np.float32)}
            for one, other in zip(arrays_of(wide), arrays_of(layer), strict=True):
                assert np.array_equal(one, other)
            assert repr(wide.astype(np.float32)) == repr(layer)


def peak_bytes(n, names=()):
    """The peak memory of a run without its input."""
    rng = np.random.default_rng(n)
    layer = Layer(scoring=Scoring(True, "others", normal(rng, 1, 9), word_bias=True))
    sentence = random_sentence(rng, n, 4, unknown=0.0)
    sentence = SentenceArrays(sentence.vectors, sentence.known, sentence.words, normal(rng, n))
    tracemalloc.start()
    try:
        contextualize(sentence, [layer], names)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_grows_with_the_length_of_a_sentence_and_not_with_its_square():
    peaks = {n: peak_bytes(n) for n in (2000, 4000, 8000)}
    assert peaks[4000] < 2.6 * peaks[2000]
    assert peaks[8000] < 2.6 * peaks[4000]
    assert peaks[8000] < 8000 * 8000 * 4 / 5


def test_recorded_attention_is_in_memory_once():
    square = 3000 * 3000 * 4
    assert square <= peak_bytes(3000, ["weights"]) < square + 2 * peak_bytes(3000)
