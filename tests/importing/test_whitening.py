"""The whitening of sentence vectors, against a sample of random sentences."""

import numpy as np
import pytest

from polyseme.engine.arrays import unit
from polyseme.engine.layers import IDENTITY
from polyseme.importing.importer import ImportOptions, import_vectors
from polyseme.importing.whitening import sentence_whitening
from polyseme.models.reader import read_model
from tests.importing.files import VECTORS
from tests.models.damage import manifest_of

V, D = 300, 5


@pytest.fixture(scope="module")
def table():
    """Vectors that spread more along the first axes, and frequencies. -> [V, d], [V]"""
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((V, D)) * [4, 3, 2, 1, 1] + [3, 0, 0, 0, 0]
    frequencies = 1 / np.arange(1, V + 1)
    return vectors.astype(np.float32), frequencies / frequencies.sum()


def test_whitening_is_that_of_random_sentences(table):
    vectors, p = table
    bias = np.log(1e-3 / (1e-3 + p)).astype(np.float32)
    found = sentence_whitening(vectors, bias)
    rng = np.random.default_rng(1)
    drawn = rng.choice(V, (40_000, 60), p=p)
    weights = 1e-4 / (1e-4 + p[drawn])
    sentences = (weights[..., None] * unit(vectors)[drawn]).sum(axis=1)
    sentences /= weights.sum(axis=1, keepdims=True)
    mean = sentences.mean(axis=0)
    eigenvalues, axes = np.linalg.eigh(np.cov(sentences.T))
    weight = (axes * eigenvalues**-0.375) @ axes.T
    size = np.linalg.norm(found.weight) / np.linalg.norm(weight)
    np.testing.assert_allclose(found.weight, size * weight, rtol=0.05, atol=0.02)
    # The mean of random sentences becomes zero.
    assert np.linalg.norm(found(mean[None].astype(np.float32))) < 0.02


def test_equal_vectors_and_words_without_frequencies_are_finite():
    same = np.ones((7, 3), np.float32)
    for vectors, bias in ((same, np.zeros(7)), (VECTORS, np.full(len(VECTORS), 9.0))):
        found = sentence_whitening(vectors, bias.astype(np.float32))
        assert np.isfinite(found.weight).all() and np.isfinite(found.bias).all()


@pytest.mark.parametrize("ordered", [True, False])
def test_an_import_stores_the_whitening_if_frequencies_are_known(tmp_path, table, ordered):
    vectors, _ = table
    lines = (f"word{place} {' '.join(map(str, row))}\n" for place, row in enumerate(vectors))
    file = tmp_path / "v.txt"
    file.write_text("".join(lines))
    import_vectors(file, tmp_path / "v", ImportOptions(format="glove", sorted=ordered))
    model, tensors = read_model(tmp_path / "v"), manifest_of(tmp_path / "v")["tensors"]
    assert ("sentence_whitening" in tensors) == ordered
    if ordered:
        expected = sentence_whitening(model.rows, model.word_bias)
        assert np.array_equal(model.whitening.weight, expected.weight)
        assert np.array_equal(model.whitening.bias, expected.bias)
    else:
        assert model.whitening == IDENTITY
