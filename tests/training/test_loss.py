"""The contrastive loss: by hand, and against the formula as a loop."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra [train] is not installed")

from polyseme.training.trainer import contrastive_loss  # noqa: E402


def loss(vectors, groups, labels, temperature=1.0):
    numbers = (torch.tensor(vectors, dtype=torch.float64), torch.tensor(groups))
    return float(contrastive_loss(*numbers, torch.tensor(labels), torch.tensor(temperature)))


def by_loops(vectors, groups, labels, temperature):
    """Khosla et al. 2020, equation 2, one occurrence after the other."""
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


def test_by_hand():
    # Two of sense 0 at right angles to one of sense 1: for the first, e/(e + 1) is the part of the
    # second, likewise for the second; the third has nobody.
    vectors = [[2.0, 0], [5, 0], [0, 1]]
    assert loss(vectors, [0, 0, 0], [0, 0, 1]) == pytest.approx(math.log(1 + 1 / math.e))


def test_a_low_temperature_makes_it_sharp():
    vectors = [[1.0, 0], [1, 0], [0, 1]]
    assert loss(vectors, [0, 0, 0], [0, 0, 1], 0.1) == pytest.approx(math.log1p(math.exp(-10)))


def test_groups_do_not_see_each_other():
    one = ([[1.0, 0], [0.6, 0.8], [0, 1]], [0, 0, 0], [0, 0, 1])
    two = (one[0] + one[0], one[1] + [1, 1, 1], one[2] + [2, 2, 3])
    assert loss(*one) == pytest.approx(loss(*two))


@pytest.mark.parametrize("temperature", [0.1, 0.4, 3.0])
def test_it_is_the_formula(temperature):
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((23, 5))
    groups = rng.integers(0, 4, 23)
    labels = groups * 10 + rng.integers(0, 3, 23)
    expected = by_loops(vectors, groups, labels, temperature)
    assert loss(vectors, groups, labels, temperature) == pytest.approx(expected)


def test_without_two_of_a_label_it_is_zero():
    assert loss([[1.0, 0], [0, 1]], [0, 0], [0, 1]) == 0


def test_a_vector_without_a_direction_leaves_the_gradient_finite():
    vectors = torch.zeros(3, 2, requires_grad=True)
    contrastive_loss(vectors, torch.zeros(3), torch.tensor([0, 0, 1]), torch.tensor(0.4)).backward()
    assert torch.isfinite(vectors.grad).all()
