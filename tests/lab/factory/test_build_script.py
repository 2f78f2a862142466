"""The script that builds the bundled model, run on a small corpus."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from polyseme.models.reader import read_model
from tests.models.damage import path

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
zstandard = pytest.importorskip("zstandard", reason="needs the extra `train`")

LINES = [
    "The bank of the river didn’t flood; the river's bank held.",
    "German banks lend money, and O'Brien, the bank’s head, grows old in Hawai'i.",
    "GERMANY formula_12 is written german once.",
]


RECIPE = {"steps": 3, "groups": 4, "mix": 0.5, "pseudo_words": 2, "window": 5}
RECIPE |= {"tune_embeddings": True, "held_out": 0.0, "interpolate": 0.5}


def script(name: str, *options: str | int | Path) -> None:
    command = [sys.executable, ROOT / "lab" / "factory" / name, *map(str, options)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def build(folder: Path, name: str, *options: str | Path) -> Path:
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    text = "\n".join([*(LINES[i % 2] for i in range(400)), LINES[2]]) + "\n"
    (corpus / "text.txt.zst").write_bytes(zstandard.compress(text.encode()))
    options = ("--work", folder / f"work-{name}", "--output", folder / name, *options)
    script("build_wiki_en.py", "--corpus", corpus, *options)
    return folder / name


def test_the_same_corpus_gives_the_same_model_twice(tmp_path: Path) -> None:
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


def test_layers_over_the_bundled_vectors_are_trained_and_written(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra `train`")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "text.txt.zst").write_bytes(zstandard.compress(("\n".join(LINES) * 20).encode()))
    two = [{"sense": sense, "index": 0, "tokens": ["River", "banks"]} for sense in (0, 1)]
    pair = {"words": ["River", "flood"], "occurrences": two * 2}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(pair) + "\n")
    options = ("--corpus", corpus, "--pseudowords", tmp_path / "pairs.jsonl")
    for steps in (2, 3):
        work = ("--work", tmp_path / "work", "--steps", steps)
        script("train_wiki_en_deep.py", *options, *work)
    training = read_model(tmp_path / "work" / "models" / "deep").manifest.training
    assert (training["base"], training["steps"]) == ("wiki-en", 3)
    assert {"river", "flood", "bank", "java"} <= set(training["recipe"]["leave_out"])
    assert training["recipe"]["decay"] == 0
