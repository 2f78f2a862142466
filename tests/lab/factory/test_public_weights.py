"""The shipped weights for public vectors, and the script that trains them."""

import json

import numpy as np
import orjson
import pytest
from safetensors import safe_open
from safetensors.numpy import load, save

pytest.importorskip("sklearn", reason="needs the extra `evaluate`")

from lab.factory.build_weights import serialized, sorted_header

from polyseme.models.reader import read_model
from tests.conftest import ROOT
from tests.importing.comparison import GENUINE
from tests.importing.conftest import run
from tests.operations.calls import ask
from tests.tiny import WORDS, full_layer, tiny_model

(SHIPPED,) = (ROOT / "models" / "weights").glob("*.safetensors")
DOCUMENT = orjson.loads((ROOT / "lab" / "results" / "weights.json").read_bytes())[SHIPPED.stem]
VECTORS = GENUINE / DOCUMENT["file"]["name"]


@pytest.mark.skipif(not VECTORS.exists(), reason="needs vectors (POLYSEME_TEST_DATA)")
def test_shipped_weights_fit_any_part_of_their_vectors(tmp_path):
    options = ["--name", "made", "--models-dir", str(tmp_path), "--weights", str(SHIPPED)]
    done = run("models", "import", str(VECTORS), *options, "--limit", "2000")
    assert done.code == 0, done.err
    model = read_model(tmp_path / "made")
    p = 1 / (np.arange(1, len(model.vocabulary) + 1) + 2.7)
    expected = np.log(1e-3 / (1e-3 + p / p.sum()))
    np.testing.assert_allclose(model.word_bias, expected, rtol=1e-5)
    for one in ask(model, ["He sat on the bank of the river.", "bank bank", "qq"]):
        assert all(np.isfinite(array).all() for array in one.arrays.values())
        np.testing.assert_allclose(one.arrays["attention"].sum(axis=-1), 1, rtol=0, atol=1e-5)


def test_shipped_weights_are_measured_and_do_not_depend_on_the_words():
    assert DOCUMENT["shipped"]
    with safe_open(SHIPPED, "numpy") as content:
        metadata = content.metadata()
    assert all(entry["word_bias"] for entry in json.loads(metadata["layers"]))
    assert "CC BY 4.0" in metadata["licence"]
    tensors = load(SHIPPED.read_bytes())
    assert "word_bias" not in tensors
    assert {array.dtype for array in tensors.values()} == {np.dtype(np.float32)}
    assert {name: list(array.shape) for name, array in tensors.items()} == DOCUMENT["tensors"]


def test_import_restores_the_shipped_parts_of_a_model(tmp_path):
    bias = np.linspace(-2, 0, len(WORDS)).astype(np.float32)
    model = tiny_model(tmp_path / "tiny", layers=[full_layer(3)], word_bias=bias)
    weights = tmp_path / "one.safetensors"
    weights.write_bytes(serialized(model))
    rows = [[model.vocabulary.word(row), *model.vectors[row].tolist()] for row in range(len(WORDS))]
    vectors = tmp_path / "rows.txt"
    vectors.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows), "utf-8")
    options = ["--name", "again", "--models-dir", str(tmp_path), "--weights", str(weights)]
    done = run("models", "import", str(vectors), *options, "--sorted")
    assert done.code == 0, done.err
    assert serialized(read_model(tmp_path / "again")) == weights.read_bytes()


def test_header_of_a_file_of_weights_is_sorted():
    tensors = {"b": np.ones((2, 3), np.float32), "a": np.zeros(5, np.float32)}
    # The order of safetensors varies.
    contents = {sorted_header(save(tensors, {"x": "1", "y": "2", "z": "3"})) for _ in range(20)}
    (content,) = contents
    assert all(np.array_equal(load(content)[name], tensor) for name, tensor in tensors.items())
