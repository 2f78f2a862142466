"""The scripts that build models, on small corpora, and the shipped weights of public vectors."""

import json
import os
import subprocess
import sys

import numpy as np
import orjson
import pytest
import zstandard
from click.testing import CliRunner
from safetensors import safe_open
from safetensors.numpy import load, save

pytest.importorskip("sklearn", reason="needs the extra `evaluate`")

from lab.factory.build_weights import serialized, sorted_header
from lab.factory.wiki_layer import fold_values

from polyseme.engine.attention import Scoring, SentenceArrays
from polyseme.engine.layers import Layer, Projection, Residual, contextualize
from polyseme.models.reader import read_model
from polyseme_lab.commands.train import recipe_fields, train
from tests.conftest import ROOT
from tests.importing.conftest import run
from tests.lab.evaluation.test_downstream import pair_line
from tests.models.damage import path
from tests.tiny import WORDS, full_layer, normal, projection, tiny_model

(SHIPPED,) = (ROOT / "models" / "weights").glob("*.safetensors")
DOCUMENT = orjson.loads((ROOT / "lab" / "results" / "weights.json").read_bytes())[SHIPPED.stem]
N, D, H, K = 7, 12, 3, 2
LINES = [
    "The bank of the river didn’t flood; the river's bank held.",
    "German banks lend money, and O'Brien, the bank’s head, grows old in Hawai'i.",
    "GERMANY formula_12 is written german once.",
]
RECIPE = {"steps": 3, "groups": 4, "mix": 0.5, "pseudo_words": 2, "window": 5}
RECIPE |= {"tune_embeddings": True, "held_out": 0.0, "interpolate": 0.5}


def build(folder, name, *options):
    """Run `build_wiki_en.py` on a small corpus; return the folder of the model."""
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    text = "\n".join([*(LINES[i % 2] for i in range(400)), LINES[2]]) + "\n"
    (corpus / "text.txt.zst").write_bytes(zstandard.compress(text.encode()))
    command = [sys.executable, ROOT / "lab" / "factory" / "build_wiki_en.py", "--corpus", corpus]
    command += ["--work", folder / f"work-{name}", "--output", folder / name, *options]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / name


@pytest.mark.slow
def test_the_same_corpus_gives_the_same_model_twice(tmp_path):
    first, second = build(tmp_path, "one"), build(tmp_path, "two")
    for file in ("vocabulary.txt", "vectors.npy", "scales.npy", "attention.safetensors"):
        assert path(first, file).read_bytes() == path(second, file).read_bytes()
    model = read_model(first)
    manifest = model.manifest
    assert (manifest.cased, manifest.dtype, manifest.dimension) == (True, "int8", 300)
    assert manifest.heads == 4
    assert manifest.training["attention"] == "closed form, four heads"
    known = ("the", "bank", "did", "n't", "'s", "O'Brien", "Hawai'i", "German", "is")
    assert None not in [model.vocabulary.row(word) for word in known]
    # The lower-case form of a name is not in the vocabulary.
    unknown = ("didn't", "formula_12", "german")
    assert [model.vocabulary.row(word) for word in unknown] == [None] * 3
    # The most frequent word is first and least informative.
    assert model.vocabulary.word(0) == "bank"
    assert model.word_bias is not None
    assert (np.diff(model.word_bias) >= -1e-6).all()
    assert "CC BY-SA 3.0" in (first / "LICENSE").read_text()

    # Sense tags train the attention and the vectors, from the same start.
    pytest.importorskip("torch", reason="needs PyTorch (extra `train`)")
    tags, recipe = tmp_path / "tags.jsonl", tmp_path / "recipe.json"
    recipe.write_text(json.dumps(RECIPE))
    tag = {"token": 1, "lemma": "river/noun"}
    lines = [
        {"tokens": ["the", "river", "held"], "tags": [{**tag, "sense": f"sense{n % 2}"}]}
        for n in range(8)
    ]
    tags.write_text("\n".join(map(json.dumps, lines)))
    trained = read_model(build(tmp_path, "two", "--tags", tags, "--recipe", recipe))
    assert trained.manifest.training["steps"] == 3
    assert not np.array_equal(model.vectors[:], trained.vectors[:])
    assert "SemCor" in trained.manifest.source


def test_layers_over_the_bundled_vectors_are_trained_from_a_checkpoint(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="needs the extra `train`")
    from lab.factory import train_wiki_en_deep

    from polyseme_lab.training.run import CHECKPOINT

    corpus, work = tmp_path / "corpus", tmp_path / "work"
    corpus.mkdir()
    (corpus / "text.txt.zst").touch()
    (tmp_path / "pairs.jsonl").write_text(pair_line(["River", "flood"], [0, 1] * 2) + "\n")
    commands = []
    monkeypatch.setattr(train_wiki_en_deep, "run_train", lambda *options: commands.append(options))
    options = ("--corpus", corpus, "--pseudowords", tmp_path / "pairs.jsonl", "--work", work)
    for _ in range(2):
        arguments = list(map(str, (*options, "--steps", 3)))
        CliRunner().invoke(train_wiki_en_deep.main, arguments, catch_exceptions=False)
        (work / "checkpoints" / CHECKPOINT).touch()
    first, second = (train.make_context("train", list(map(str, one))).params for one in commands)
    assert (first["resume"], second["resume"]) == (False, True)
    assert (first["name"], first["steps"], first["decay"]) == ("wiki-en", 3, 0)
    assert first["corpus"] == (corpus / "text.txt.zst",)
    assert {"river", "flood", "bank", "java"} <= {*recipe_fields(first)["leave_out"]}


def test_folding_keeps_attention_and_output():
    rng = np.random.default_rng(1)
    vectors, value = normal(rng, N, D), np.eye(D, dtype=np.float32) + 0.3 * normal(rng, D, D)
    query, key = projection(rng, D, H * K), Projection(normal(rng, D, H * K))
    scoring, value = Scoring(scale=False, mask="other-words"), Projection(value, normal(rng, D))
    layer = Layer(H, query, key, value, scoring=scoring, residual=Residual("none"))
    values, folded = fold_values(vectors, layer)
    assert folded.value.weight is None
    before, after = (
        contextualize(SentenceArrays(x, np.ones(N, np.bool_), np.arange(N)), [one], ("weights",))
        for x, one in ((vectors, layer), (values, folded))
    )
    np.testing.assert_allclose(after.records[0]["weights"], before.records[0]["weights"], atol=1e-4)
    np.testing.assert_allclose(after.contextual, before.contextual, atol=1e-4)


def test_the_vectors_become_the_values():
    layer = Layer(
        value=Projection(np.diag([2.0, 4.0]).astype(np.float32), np.array([1, -1], np.float32))
    )
    values, folded = fold_values(np.array([[3, 5]], np.float32), layer)
    assert values.tolist() == [[7, 19]]
    # The queries and keys were the vectors: 3 = (7 − 1)/2, 5 = (19 + 1)/4.
    assert folded.query(values).tolist() == [[3, 5]]
    assert folded.key(values).tolist() == [[3, 5]]


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
