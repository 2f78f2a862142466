"""The stack in PyTorch agrees with the engine."""

import numpy as np
import pytest

from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import contextualize

torch = pytest.importorskip("torch", reason="the extra [train] is not installed")

from polyseme.models.weights import layer_entry, layers_from_tensors  # noqa: E402
from polyseme_lab.training.stack import REACH, Stack, initial_stack, stack_tensors  # noqa: E402

D, LAYERS, HEADS, INNER = 15, 3, 5, 11
CLOSE = {"rtol": 0, "atol": 1e-5}


@pytest.fixture(scope="module")
def tensors():
    """Tensors of a stack, all of them random, so that none is neutral."""
    rng = np.random.default_rng(3)
    found = stack_tensors(initial_stack(D, LAYERS, HEADS, INNER, rng))
    return {
        name: tensor + 0.1 * torch.from_numpy(rng.standard_normal(tensor.shape).astype(np.float32))
        for name, tensor in found.items()
    }


def layers_of(tensors):
    entries = [layer_entry(one) for one in initial_stack(D, LAYERS, HEADS, INNER, rng())]
    return layers_from_tensors({n: t.numpy() for n, t in tensors.items()}, entries, HEADS, D)


def rng():
    return np.random.default_rng(7)


def sentences(n, count=4, unknown=0.3):
    """Vectors and known tokens of sentences; the last sentence has no known token."""
    known = rng().random((count, n)) >= unknown
    known[-1] = False
    vectors = rng().standard_normal((count, n, D)).astype(np.float32) * known[:, :, None]
    return vectors, known


@pytest.mark.parametrize("n", [1, 2, REACH + 1, 2 * REACH + 7])
def test_the_stack_agrees_with_the_engine(tensors, n):
    vectors, known = sentences(n)
    stack = Stack(tensors, LAYERS, HEADS, torch.float32)
    found = stack(torch.from_numpy(vectors), torch.from_numpy(known)).numpy()
    for number, contextual in enumerate(found):
        sentence = SentenceArrays(vectors[number], known[number], np.arange(n))
        expected = contextualize(sentence, layers_of(tensors)).contextual
        np.testing.assert_allclose(contextual, expected, **CLOSE)


def test_padding_changes_no_other_token(tensors):
    vectors, known = map(torch.from_numpy, sentences(9))
    stack = Stack(tensors, LAYERS, HEADS, torch.float32)
    padded = stack(
        torch.nn.functional.pad(vectors, (0, 0, 0, 4)), torch.nn.functional.pad(known, (0, 4))
    )
    np.testing.assert_allclose(padded[:, :9], stack(vectors, known), **CLOSE)


def test_the_chosen_rows_are_those_of_all_rows(tensors):
    vectors, known = map(torch.from_numpy, sentences(9))
    rows = torch.tensor([[8, 0], [3, 4], [5, 5], [1, 2]])
    stack = Stack(tensors, LAYERS, HEADS, torch.float32)
    every = stack(vectors, known)
    expected = every[torch.arange(4)[:, None], rows]
    np.testing.assert_allclose(stack(vectors, known, rows), expected, **CLOSE)


def test_products_in_bfloat16_are_close(tensors):
    vectors, known = map(torch.from_numpy, sentences(9))
    exact, rounded = (
        Stack(tensors, LAYERS, HEADS, dtype)(vectors, known)
        for dtype in (torch.float32, torch.bfloat16)
    )
    assert rounded.dtype == torch.float32
    difference = (exact - rounded).norm() / exact.norm()
    assert 1e-4 < difference < 0.05


def test_a_hidden_word_begins_with_the_mean_of_its_context():
    """The first layer's values and outputs are the identity plus small random weights."""
    first = initial_stack(300, 2, 6, 600, rng())[0]
    for projection in (first.value, first.output):
        assert projection.weight.diagonal().mean() == pytest.approx(1, abs=0.02)
        assert np.abs(projection.weight - np.eye(300)).max() < 0.11
