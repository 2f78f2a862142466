"""The projection of surroundings: fitted for a model, or estimated from random sentences."""

import numpy as np
import pytest

from polyseme.engine.arrays import unit
from polyseme.engine.attention import Scoring
from polyseme.engine.layers import Layer
from polyseme.models.reader import read_model
from polyseme.models.registry import bundled_models
from polyseme.senses import projection
from polyseme.senses.clustering import DEFAULT_RULE
from polyseme.senses.induction import find_senses
from polyseme.senses.projection import (
    ContextProjection,
    estimate_projection,
    find_projection,
    project,
    write_projection,
)
from tests.tiny import VECTORS, WORDS, full_layer, tiny_model


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model with weights, and no projection."""
    monkeypatch.setattr(projection, "FOLDER", tmp_path / "projections")
    return tiny_model(tmp_path, layers=[full_layer(1)], word_bias=VECTORS[:, 0])


def test_surroundings_are_centered_projected_and_scaled():
    surroundings = np.array([[3.0, 4, 0], [0, 0, 0]])
    fitted = ContextProjection(
        np.array([0.6, 0, 0]), np.array([[1.0, 0], [0, 2], [0, 0]]), np.zeros(7)
    )
    # (0.6, 0.8, 0) less the mean is (0, 0.8, 0); a zero row stays zero.
    assert project(surroundings, fitted).tolist() == [[0, 1], [0, 0]]


def test_as_many_columns_are_projected_as_the_mean_has():
    surroundings = np.array([[3.0, 4, 7, 7, 7, 7]])
    first = ContextProjection(np.array([0, 0.8]), np.eye(2), np.zeros(3))
    assert project(surroundings, first) == pytest.approx(np.array([[1, 0]]))


def is_fitted(model):
    return not np.array_equal(find_projection(model).rule, DEFAULT_RULE)


def test_a_projection_belongs_to_the_weights_it_was_fitted_for(model, tmp_path):
    assert not is_fitted(model)
    fitted = ContextProjection(np.full(5, 0.5), np.eye(5, 2), np.arange(7.0))
    write_projection(model, fitted)
    read = find_projection(model)
    assert all(np.array_equal(a, b) for a, b in zip(read, fitted, strict=True))
    other = tiny_model(tmp_path, layers=[full_layer(2)], word_bias=VECTORS[:, 0])
    assert not is_fitted(other)


def test_no_projection_is_fitted_for_parameter_free_attention(tmp_path):
    model = tiny_model(tmp_path)
    assert not is_fitted(model)
    with pytest.raises(ValueError, match="no weights"):
        write_projection(model, ContextProjection(*np.zeros((3, 1))))


def test_the_bundled_model_has_a_fitted_projection():
    model = read_model(bundled_models() / "wiki-en")
    fitted = find_projection(model)
    assert fitted.mean.shape == (900,) and fitted.directions.shape == (900, 200)
    assert fitted.rule.shape == (3,) and is_fitted(model)


def test_a_projection_is_estimated_once_for_each_model(tmp_path):
    one = tiny_model(tmp_path)
    assert find_projection(one) is find_projection(one)
    other = tiny_model(tmp_path, vectors=VECTORS[::-1].copy())
    assert not np.allclose(find_projection(other).mean, find_projection(one).mean)


def test_random_sentences_give_the_mean_and_the_whitening(tmp_path):
    # A word without a vector attends to all words equally, so its context is their mean.
    drawn = np.random.default_rng(5).integers(0, len(WORDS), (20_000, 20))
    contexts = unit(VECTORS[drawn].mean(axis=1).astype(np.float64))
    covariance = np.cov(contexts.T)
    found = estimate_projection(tiny_model(tmp_path))
    np.testing.assert_allclose(found.mean, contexts.mean(axis=0), atol=0.03)
    shrunk = covariance + np.trace(covariance) / 5 * np.eye(5)
    np.testing.assert_allclose(found.directions @ shrunk @ found.directions, np.eye(5), atol=0.15)


def test_the_words_of_random_sentences_are_drawn_by_their_frequency(tmp_path):
    frequencies = np.zeros(len(WORDS))
    frequencies[[WORDS.index("river"), WORDS.index("money")]] = 0.5
    bias = np.log(1e-3 / (1e-3 + frequencies)).astype(np.float32)
    layer = Layer(scoring=Scoring(scale=False, word_bias=True))
    found = estimate_projection(tiny_model(tmp_path, layers=[layer], word_bias=bias))
    # The vectors of the two words: (0, 1, 0, 2, 0) and (1, 0, 0, 0, 2).
    assert found.mean[2] == 0
    assert found.mean / np.linalg.norm(found.mean) == pytest.approx(
        np.array([1, 1, 0, 2, 2]) / 10**0.5, abs=0.05
    )


def test_the_projection_of_equal_contexts_is_finite(tmp_path):
    model = tiny_model(tmp_path, vectors=np.ones_like(VECTORS))
    found = estimate_projection(model)
    assert np.isfinite(found.directions).all()
    texts = ["the river bank", "bank of money"] * 10
    assert len(find_senses(model, "bank", texts).senses) == 1


def test_vectors_of_width_1_have_a_projection(tmp_path):
    found = estimate_projection(tiny_model(tmp_path, vectors=VECTORS[:, :1]))
    assert found.directions.shape == (1, 1) and np.isfinite(found.directions).all()


def test_what_all_vectors_have_in_common_does_not_hide_the_senses(tmp_path):
    model = tiny_model(tmp_path, vectors=VECTORS + 3)
    texts = ["the river bank", "bank of money"] * 10
    assert len(find_senses(model, "bank", texts).senses) == 2
    assert len(find_senses(model, "bank", texts[::2]).senses) == 1
