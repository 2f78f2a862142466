"""The projection of surroundings that is fitted for a model."""

import numpy as np
import pytest

from polyseme.models.reader import read_model
from polyseme.models.registry import bundled_models
from polyseme.senses import projection
from polyseme.senses.projection import ContextProjection, project, read_projection, write_projection
from tests.tiny import VECTORS, full_layer, tiny_model


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


def test_a_projection_belongs_to_the_weights_it_was_fitted_for(model, tmp_path):
    assert read_projection(model) is None
    fitted = ContextProjection(np.full(5, 0.5), np.eye(5, 2), np.arange(7.0))
    write_projection(model, fitted)
    read = read_projection(model)
    assert all(np.array_equal(a, b) for a, b in zip(read, fitted, strict=True))
    other = tiny_model(tmp_path, layers=[full_layer(2)], word_bias=VECTORS[:, 0])
    assert read_projection(other) is None


def test_parameter_free_attention_has_no_projection(tmp_path):
    model = tiny_model(tmp_path)
    assert read_projection(model) is None
    with pytest.raises(ValueError, match="no weights"):
        write_projection(model, ContextProjection(*np.zeros((3, 1))))


def test_the_bundled_model_has_a_projection():
    model = read_model(bundled_models() / "wiki-en")
    fitted = read_projection(model)
    assert fitted.mean.shape == (900,) and fitted.directions.shape == (900, 200)
    assert fitted.rule.shape == (4,)
