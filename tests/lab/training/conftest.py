"""Fixtures of the toy model and its training data."""

import pytest

from tests.lab.training.world import world_model, write_corpus, write_tags

for package in ("torch", "sklearn", "defusedxml"):
    pytest.importorskip(package, reason="needs the extra `train`")


@pytest.fixture(autouse=True)
def _small_held_out_set(monkeypatch):
    """Score fewer pseudo-words, which is faster."""
    monkeypatch.setattr("polyseme_lab.training.held_out.HELD_OUT_GROUPS", 30)


@pytest.fixture
def world(tmp_path):
    """The toy model."""
    return world_model(tmp_path)


@pytest.fixture
def tags(tmp_path):
    """A file of sentences with sense tags."""
    return write_tags(tmp_path / "tags.jsonl")


@pytest.fixture
def corpus(tmp_path):
    """A file of the same sentences as plain text."""
    return write_corpus(tmp_path / "corpus.txt")


@pytest.fixture(params=["contrastive", "hidden-words"])
def both(request, tags, corpus):
    """Short trainings with each objective: the files and the recipe."""
    if request.param == "hidden-words":
        return {"corpus": corpus, "objective": request.param}
    return {"tags": tags, "corpus": corpus}
