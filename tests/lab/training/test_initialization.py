"""Initial weights: the closed form in any shape, and random weights."""

import numpy as np
import pytest

from polyseme.engine.arrays import unit
from polyseme.engine.layers import contextualize
from polyseme.errors import CommandError
from polyseme.importing.closed_form import nearness
from polyseme.tokenizer import resolve_all
from polyseme_lab.training.config import TrainingConfig
from polyseme_lab.training.initialization import (
    initial_layers,
    local_bias,
    narrower_key,
    narrower_value,
)
from tests.lab.training.world import vectors, world_model

D = vectors().shape[1]
WORDS_OF_ONE = ["theaa", "bankaa", "riveraa", "theab", "riverab", "bankab"]


@pytest.fixture
def model(tmp_path):
    return world_model(tmp_path)


def contextual(model, layers):
    sentence = model.sentence(resolve_all(WORDS_OF_ONE, model.vocabulary))
    return contextualize(sentence, layers).contextual


def test_the_closed_form_is_that_of_the_importer(model):
    [layer] = initial_layers(model, TrainingConfig(init="closed-form"))
    expected = model.layers[0]
    # The frequencies are computed from the float32 informativeness of the model.
    np.testing.assert_allclose(layer.key.weight, expected.key.weight, rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(layer.value.weight, expected.value.weight)
    np.testing.assert_array_equal(layer.scoring.position_bias, expected.scoring.position_bias)


def test_training_from_the_model_starts_with_its_layers(model):
    assert initial_layers(model, TrainingConfig(init="model")) == list(model.layers)
    with pytest.raises(CommandError, match="do not apply to a model's existing layers"):
        initial_layers(model, TrainingConfig(init="model", heads=2))
    with pytest.raises(CommandError, match="do not apply to a model's existing layers"):
        initial_layers(model, TrainingConfig(init="model", norm="after"))


@pytest.mark.parametrize("shape", [{"heads": 1}, {"heads": 1, "key_width": D + 2},
                                   {"heads": 1, "value_width": D + 3}])  # fmt: skip
def test_one_head_as_wide_as_the_vectors_is_the_closed_form(model, shape):
    layers = initial_layers(model, TrainingConfig(init="closed-form", **shape))
    expected = contextual(model, initial_layers(model, TrainingConfig(init="closed-form")))
    np.testing.assert_allclose(contextual(model, layers), expected, atol=1e-5)


def test_the_output_of_two_heads_is_their_mean(model):
    [layer] = initial_layers(model, TrainingConfig(init="closed-form", heads=2))
    np.testing.assert_array_equal(layer.scoring.position_bias, [nearness()[0], local_bias()[0]])
    np.testing.assert_array_equal(layer.output.weight, np.tile(np.eye(D) / 2, (2, 1)))
    np.testing.assert_array_equal(layer.scoring.word_bias_scale, [1, 1])


def test_a_local_bias_favors_adjacent_words():
    table = local_bias()[0]
    np.testing.assert_allclose(table[14:19], np.log(1.02), rtol=1e-6)
    np.testing.assert_allclose(table[[0, 32]], np.log(0.02 + np.exp(-14)), rtol=1e-6)
    np.testing.assert_allclose(table[13], np.log(0.02 + np.exp(-1)), rtol=1e-6)


@pytest.mark.parametrize("shape", [{"key_width": D - 2}, {"value_width": D - 2}])
def test_a_narrower_head_approximates_the_closed_form(model, shape):
    found = contextual(model, initial_layers(model, TrainingConfig(init="closed-form", **shape)))
    expected = contextual(model, initial_layers(model, TrainingConfig(init="closed-form")))
    cosines = np.einsum("nd,nd->n", unit(found), unit(expected))
    assert cosines.min() > 0.5  # five of seven directions are kept
    assert np.abs(found - expected).max() > 1e-4


def test_added_layers_and_feed_forward_networks_start_as_the_identity(model):
    one = initial_layers(model, TrainingConfig(init="closed-form"))
    config = TrainingConfig(init="closed-form", layers=3, feed_forward=11)
    more = initial_layers(model, config)
    assert [layer.feed_forward is None for layer in more] == [False] * 3
    np.testing.assert_allclose(contextual(model, more), contextual(model, one), atol=1e-6)


def test_a_norm_after_attention_centers_the_vectors(model):
    layers = initial_layers(model, TrainingConfig(init="closed-form", norm="after"))
    np.testing.assert_allclose(contextual(model, layers).mean(axis=1), 0, atol=1e-6)


def test_with_norm_before_it_is_the_closed_form_of_the_normed_vectors(model):
    [layer] = initial_layers(model, TrainingConfig(init="closed-form", norm="before"))
    normed = layer.attention_norm(vectors())
    values = layer.value(normed)
    np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-4)


def test_random_weights_are_reproducible_and_bounded(model):
    def key(seed):
        return initial_layers(
            model, TrainingConfig(init="random", heads=2, key_width=3, seed=seed)
        )[0].key.weight

    assert key(1).shape == (D, 6)
    np.testing.assert_array_equal(key(1), key(1))
    assert not np.array_equal(key(1), key(2))
    bound = np.sqrt(6 / (D + 6))
    assert 0.7 * bound < np.abs(key(1)).max() <= bound


def test_without_informativeness_there_is_no_word_bias(tmp_path):
    model = world_model(tmp_path, weights=False)
    [layer] = initial_layers(model, TrainingConfig(init="closed-form"))
    assert not layer.scoring.word_bias
    [layer] = initial_layers(model, TrainingConfig(init="closed-form", heads=2))
    assert layer.scoring.word_bias_scale is None


def sample_and_weight():
    rng = np.random.default_rng(3)
    weight = rng.standard_normal((D, D)).astype(np.float32)
    return vectors() @ np.diag(np.arange(1, D + 1)).astype(np.float32), weight


@pytest.mark.parametrize("v", [1, 3, D])
def test_narrower_values_lose_as_little_as_possible(v):
    sample, weight = sample_and_weight()
    value, output = narrower_value(weight, sample, v)
    assert (value.shape, output.shape) == ((D, v), (v, D))
    lost = sample @ weight - sample @ value @ output
    lost -= lost.mean(axis=0)
    centered = sample @ weight - (sample @ weight).mean(axis=0)
    singular = np.linalg.svd(centered, compute_uv=False)
    np.testing.assert_allclose(np.sum(lost**2), np.sum(singular[v:] ** 2), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("k", [1, 3, D])
def test_narrower_keys_lose_as_little_as_possible(k):
    sample, weight = sample_and_weight()
    frequencies = np.full(len(sample), 1 / len(sample))
    query, key = narrower_key(weight, sample, frequencies, k)
    lost = sample @ weight - sample @ key @ query.T
    singular = np.linalg.svd(sample @ weight, compute_uv=False)
    np.testing.assert_allclose(np.sum(lost**2), np.sum(singular[k:] ** 2), rtol=1e-3, atol=1e-2)
