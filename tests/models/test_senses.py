"""`senses.safetensors`, the file that decides how the senses of a model are found."""

import numpy as np
import pytest
from safetensors.numpy import save

from polyseme.engine.layers import Projection
from polyseme.models.reader import read_model
from polyseme.models.weights import ContextProjection
from polyseme.models.writer import rewrite_model
from tests.models.damage import read_error, replace
from tests.tiny import VECTORS, full_layer, write_tiny

FITTED = ContextProjection(np.arange(5.0), np.arange(10.0).reshape(5, 2), np.array([1.0, 2, 3]))
WIDE = ContextProjection(np.arange(15.0), np.ones((15, 2)), np.array([1.0, 2, 3]))


@pytest.mark.parametrize(("fitted", "dtype"), [(FITTED, "float16"), (WIDE, "float64")])
def test_a_projection_round_trips(tmp_path, fitted, dtype):
    narrow = ContextProjection(*(np.asfortranarray(one, dtype) for one in fitted))
    folder = write_tiny(tmp_path / "tiny", senses=lambda _: narrow)
    for written, read in zip(narrow, read_model(folder).senses, strict=True):
        assert read.dtype == np.float64
        assert np.array_equal(written, read)


TENSORS = {name: one.astype(np.float32) for name, one in FITTED._asdict().items()}
INVALID = {
    "no safetensors file": b"no tensors",
    "no rule": save({name: one for name, one in TENSORS.items() if name != "rule"}),
    "another tensor": save({**TENSORS, "more": np.zeros(1)}),
    "integers": save({**TENSORS, "mean": np.arange(5)}),
    "not a number": save({**TENSORS, "mean": np.full(5, np.nan)}),
    "a mean of another width": save({**TENSORS, "mean": np.zeros(7)}),
    "a mean that is a matrix": save({**TENSORS, "mean": np.zeros((5, 1))}),
    "directions of another width": save({**TENSORS, "directions": np.ones((7, 2))}),
    "no directions": save({**TENSORS, "directions": np.ones((5, 0))}),
    "a vector of directions": save({**TENSORS, "directions": np.ones(5)}),
    "a long rule": save({**TENSORS, "rule": np.ones(5)}),
}


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_file_is_rejected(tmp_path, case):
    folder = write_tiny(tmp_path / "tiny", senses=lambda _: FITTED)
    replace(folder, "senses.safetensors", save(TENSORS))
    read_model(folder)
    replace(folder, "senses.safetensors", INVALID[case])
    assert "senses.safetensors" in read_error(folder, verify=False)


def test_a_rewritten_model_keeps_what_is_not_given(tmp_path):
    folder = write_tiny(
        *(tmp_path / "tiny",),
        layers=[full_layer(1)],
        word_bias=VECTORS[:, 0],
        whitening=Projection(np.eye(5, dtype=np.float32) * 2, np.ones(5, np.float32)),
        source="here",
        languages=["en"],
    )
    before = read_model(folder)
    manifest = rewrite_model(folder, before, senses=lambda _: FITTED, word_bias=VECTORS[:, 1])
    after = read_model(folder)
    assert np.array_equal(after.senses.mean, FITTED.mean)
    assert np.array_equal(after.word_bias, VECTORS[:, 1])
    assert np.array_equal(after.vectors, before.vectors)
    assert after.whitening.weight[0, 0] == 2 and np.array_equal(after.whitening.bias, np.ones(5))
    assert np.array_equal(after.layers[0].query.weight, before.layers[0].query.weight)
    assert (manifest.source, manifest.languages) == ("here", ["en"])
