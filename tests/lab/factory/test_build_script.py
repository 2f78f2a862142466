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


def tag(number: int) -> dict[str, str | int]:
    return {"token": 1, "lemma": "river/noun", "sense": f"sense{number % 2}"}


def build(folder: Path, name: str, *options: str | Path) -> Path:
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    text = "\n".join([*(LINES[i % 2] for i in range(400)), LINES[2]]) + "\n"
    (corpus / "text.txt.zst").write_bytes(zstandard.compress(text.encode()))
    done = subprocess.run(
        [
            *(sys.executable, ROOT / "lab" / "factory" / "build_wiki_en.py", "--corpus", corpus),
            *("--work", folder / f"work-{name}", "--output", folder / name, *options),
        ],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / name


def test_the_same_corpus_gives_the_same_model_twice(tmp_path: Path) -> None:
    first, second = build(tmp_path, "one"), build(tmp_path, "two")
    for file in ("vocabulary.txt", "vectors.npy", "scales.npy", "attention.safetensors"):
        assert path(first, file).read_bytes() == path(second, file).read_bytes()
    model = read_model(first)
    manifest = model.manifest
    assert (manifest.cased, manifest.dtype, manifest.dimension) == (True, "int8", 300)
    assert manifest.heads == 4
    rows = [model.vocabulary.row(word) for word in ("the", "bank", "didn't", "did", "n't", "'s")]
    assert rows[2] is None
    assert None not in (*rows[:2], *rows[3:])
    assert None not in [model.vocabulary.row(name) for name in ("O'Brien", "Hawai'i")]
    # The lower-case form of a name is not in the vocabulary.
    assert [model.vocabulary.row(word) for word in ("formula_12", "german")] == [None, None]
    assert None not in [model.vocabulary.row(word) for word in ("German", "is")]
    # The most frequent word is first and least informative.
    assert model.vocabulary.word(0) == "bank"
    assert model.word_bias is not None
    assert model.word_bias.argmin() == 0
    assert (np.diff(model.word_bias) >= -1e-6).all()
    assert "CC BY-SA 3.0" in (first / "LICENSE").read_text()


def test_sense_tags_train_the_attention_and_the_vectors(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs PyTorch (extra `train`)")
    tags, recipe = tmp_path / "tags.jsonl", tmp_path / "recipe.json"
    recipe.write_text(json.dumps(RECIPE))
    tags.write_text(
        "\n".join(
            json.dumps({"tokens": ["the", "river", "held"], "tags": [tag(number)]})
            for number in range(8)
        )
    )

    plain = read_model(build(tmp_path, "one"))
    trained = read_model(build(tmp_path, "two", "--tags", tags, "--recipe", recipe))
    assert trained.manifest.training["steps"] == 3
    assert plain.manifest.training["attention"] == "closed form, four heads"
    assert not np.array_equal(plain.vectors[:], trained.vectors[:])
    assert "SemCor" in trained.manifest.source


def test_layers_over_the_bundled_vectors_are_trained_and_written(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra `train`")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "text.txt.zst").write_bytes(zstandard.compress(("\n".join(LINES) * 20).encode()))
    two = [{"sense": sense, "index": 0, "tokens": ["River", "banks"]} for sense in (0, 1)]
    pair = {"words": ["River", "flood"], "occurrences": two * 2}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(pair) + "\n")
    script = [sys.executable, ROOT / "lab/factory/train_wiki_en_deep.py", "--corpus", corpus]
    script += ["--pseudowords", tmp_path / "pairs.jsonl", "--work", tmp_path / "work"]
    for steps in ("2", "3"):
        command = [*script, "--steps", steps]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    training = read_model(tmp_path / "work" / "models" / "deep").manifest.training
    assert (training["base"], training["steps"]) == ("wiki-en", 3)
    assert {"river", "flood", "bank", "java"} <= set(training["recipe"]["leave_out"])
    assert training["recipe"]["decay"] == 0
