"""The contrastive loss: by hand, and against the formula as a loop."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra [train] is not installed")

from polyseme_lab.training.trainer import contrastive_loss  # noqa: E402


def loss(vectors, groups, labels, temperature=1.0):
    numbers = (torch.tensor(vectors, dtype=torch.float64), torch.tensor(groups))
    return float(contrastive_loss(*numbers, torch.tensor(labels), torch.tensor(temperature)))


def loss_by_loops(vectors, groups, labels, temperature):
    """The loss of Khosla et al. 2020, equation 2."""
    c = np.array(vectors, float)
    c /= np.linalg.norm(c, axis=1, keepdims=True)
    losses = []
    for i in range(len(c)):
        others = [a for a in range(len(c)) if a != i and groups[a] == groups[i]]
        same = [p for p in others if labels[p] == labels[i]]
        if same:
            total = sum(math.exp(c[i] @ c[a] / temperature) for a in others)
            parts = [math.log(math.exp(c[i] @ c[p] / temperature) / total) for p in same]
            losses.append(-sum(parts) / len(parts))
    return sum(losses) / len(losses)


def test_the_loss_of_three_occurrences_is_that_by_hand():
    # The two of sense 0 have the cosine 1, and the cosine 0 to the one of sense 1. The probability
    # of each, given the other, is e/(e + 1). The one of sense 1 has no other of its sense.
    vectors = [[2.0, 0], [5, 0], [0, 1]]
    assert loss(vectors, [0, 0, 0], [0, 0, 1]) == pytest.approx(math.log(1 + 1 / math.e))


def test_the_temperature_divides_the_cosines():
    vectors = [[1.0, 0], [1, 0], [0, 1]]
    assert loss(vectors, [0, 0, 0], [0, 0, 1], 0.1) == pytest.approx(math.log1p(math.exp(-10)))


def test_groups_are_not_contrasted_with_each_other():
    one = ([[1.0, 0], [0.6, 0.8], [0, 1]], [0, 0, 0], [0, 0, 1])
    two = (one[0] + one[0], one[1] + [1, 1, 1], one[2] + [2, 2, 3])
    assert loss(*one) == pytest.approx(loss(*two))


@pytest.mark.parametrize("temperature", [0.1, 0.4, 3.0])
def test_the_loss_follows_the_formula(temperature):
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((23, 5))
    groups = rng.integers(0, 4, 23)
    labels = groups * 10 + rng.integers(0, 3, 23)
    expected = loss_by_loops(vectors, groups, labels, temperature)
    assert loss(vectors, groups, labels, temperature) == pytest.approx(expected)


def test_the_loss_is_zero_if_no_label_occurs_twice():
    assert loss([[1.0, 0], [0, 1]], [0, 0], [0, 1]) == 0


def test_the_gradient_of_zero_vectors_is_finite():
    vectors = torch.zeros(3, 2, requires_grad=True)
    contrastive_loss(vectors, torch.zeros(3), torch.tensor([0, 0, 1]), torch.tensor(0.4)).backward()
    assert torch.isfinite(vectors.grad).all()
