"""The network in PyTorch agrees with the engine for every kind of layer; the contrastive loss."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from polyseme.engine.attention import Scoring, SentenceArrays
from polyseme.engine.layers import IDENTITY, Layer, Projection, Residual, contextualize
from polyseme.errors import CommandError
from polyseme_lab.training.network import Network, TrainingBatch, unit
from polyseme_lab.training.trainer import contrastive_loss
from tests.engine.cases import norms_and_feed_forward, random_residual, random_scoring
from tests.tiny import full_layer, normal

D, HEADS = 5, 3
CLOSE = {"rtol": 0, "atol": 1e-5}


def sentences(lengths, *, seed=3, d=D, unknown=0.3, bias=True):
    """Sentences for the engine, with unknown tokens and repeated words."""
    rng = np.random.default_rng(seed)
    found = []
    for n in lengths:
        known = rng.random(n) >= unknown
        vectors = normal(rng, n, d) * known[:, None]
        words = np.where(known, rng.integers(0, max(2, n // 2), n), -1)
        found.append(SentenceArrays(vectors, known, words, normal(rng, n) if bias else None))
    return found


def padded(sentence_list, targets):
    """The sentences as one batch for the network, with a target position in each."""

    def stack(name, fill):
        arrays = [torch.from_numpy(getattr(one, name)) for one in sentence_list]
        return torch.nn.utils.rnn.pad_sequence(arrays, True, fill)

    return TrainingBatch(
        stack("vectors", 0),
        stack("known", 0),
        stack("words", -1),
        torch.tensor(targets).reshape(len(targets), -1),
        None if sentence_list[0].word_bias is None else stack("word_bias", 0),
    )


def require_agreement(layers, sentence_list, d=D):
    """Require that both methods of the network, for all rows and for the targets, agree."""
    network = Network.from_layers(layers, d)
    middle = [len(one.known) // 2 for one in sentence_list]
    for targets in (middle, [[place, 0, place] for place in middle]):
        batch = padded(sentence_list, targets)
        with torch.no_grad():
            *_, rows = network.results(batch)
            selected = network.contextual_targets(batch)
        for one, target, *results in zip(
            sentence_list, batch.targets.numpy(), rows, selected, strict=True
        ):
            expected = contextualize(one, layers).contextual
            np.testing.assert_allclose(results[0][: len(expected)], expected, **CLOSE)
            np.testing.assert_allclose(results[1], expected[target], **CLOSE)


@pytest.mark.parametrize("seed", range(60))
def test_layer_of_any_parts_agrees(seed):
    rng, d, names = np.random.default_rng(seed), 6, ("query", "key", "value", "output")
    heads = int(rng.choice([1, 2, 3]))
    others = {"scoring": random_scoring(rng, heads), "residual": random_residual(rng)}
    others |= norms_and_feed_forward(rng, d)
    layer = full_layer(seed, d, heads, d // heads, d // heads, **others)
    for name in names:  # may be absent, or without a bias
        whole = getattr(layer, name)
        part = (IDENTITY, Projection(whole.weight), whole)[rng.integers(3)]
        layer = replace(layer, **{name: part})
    if layer.attention_norm and layer.feed_forward_norm:  # the format has one epsilon
        norm = replace(layer.feed_forward_norm, epsilon=layer.attention_norm.epsilon)
        layer = replace(layer, feed_forward_norm=norm)
    require_agreement([layer], sentences([1, 7, 4], d=d, bias=seed % 5), d)


THREE = [full_layer(1), full_layer(2, norm="after", residual=Residual("unit", 0.2, 0.01))]
THREE.append(full_layer(3, feed_forward=replace(full_layer(3).feed_forward, activation="relu")))
"""Layers with different norms, residuals and activations."""


SCALES = replace(full_layer().scoring, word_bias_scale=np.array([0, 1, -2], np.float32))


@pytest.mark.parametrize(
    ("layers", "texts"),
    [
        (THREE, sentences([6, 2])),
        ([full_layer(5)], sentences([300], unknown=0.1)),  # longer than a block of the engine
        ([full_layer(6), full_layer(7)], sentences([4], unknown=1.1)),  # only unknown words
        ([full_layer(8, scoring=Scoring(True, "all"))], sentences([4, 9], bias=False)),
        ([full_layer(13, scoring=SCALES)], sentences([5, 3])),
        ([Layer()], sentences([4, 9])),  # parameter-free
    ],
)
def test_stacks_and_sentences_of_any_kind_agree(layers, texts):
    require_agreement(layers, texts)
    back = Network.from_layers(layers, D).to_layers()
    for text in texts:
        expected = contextualize(text, layers).contextual
        np.testing.assert_array_equal(contextualize(text, back).contextual, expected)


def test_unit_vectors_have_length_one_at_any_scale():
    x = torch.tensor([[3e30, 4e30], [3e-30, 4e-30], [0.0, 0.0]], requires_grad=True)
    y = unit(x)
    np.testing.assert_allclose(y.detach(), [[0.6, 0.8], [0.6, 0.8], [0, 0]], rtol=1e-6)
    y.sum().backward()
    assert torch.isfinite(x.grad[2]).all()


def test_a_non_finite_network_is_rejected():
    network = Network.from_layers([full_layer(22)], D)
    network.tensors["layers.0.key"][0, 0] = torch.nan
    with pytest.raises(CommandError, match="smaller learning rate"):
        network.to_layers()


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


def test_the_loss_by_hand():
    # The two of sense 0 have the cosine 1, and the cosine 0 to the one of sense 1. The probability
    # of each, given the other, is e/(e + 1). The one of sense 1 has no other of its sense.
    vectors = [[2.0, 0], [5, 0], [0, 1]]
    assert loss(vectors, [0, 0, 0], [0, 0, 1]) == pytest.approx(math.log(1 + 1 / math.e))
    assert loss(vectors, [0, 0, 0], [0, 1, 2]) == 0  # no label occurs twice


def test_the_loss_follows_the_formula():
    rng = np.random.default_rng(1)
    vectors, groups = rng.standard_normal((23, 5)), rng.integers(0, 4, 23)
    labels = groups * 10 + rng.integers(0, 3, 23)
    expected = loss_by_loops(vectors, groups, labels, 0.4)
    assert loss(vectors, groups, labels, 0.4) == pytest.approx(expected)


def test_the_gradient_of_zero_vectors_is_finite():
    vectors = torch.zeros(3, 2, requires_grad=True)
    contrastive_loss(vectors, torch.zeros(3), torch.tensor([0, 0, 1]), torch.tensor(0.4)).backward()
    assert torch.isfinite(vectors.grad).all()
