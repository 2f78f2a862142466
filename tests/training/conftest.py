"""The small world, as fixtures."""

from importlib.util import find_spec

import pytest

from tests.training.world import world_model, write_corpus, write_tags


@pytest.fixture(autouse=True)
def _small_held_out_set(monkeypatch):
    """Score fewer pseudo-words than a real training does."""
    if find_spec("torch"):
        monkeypatch.setattr("polyseme.training.held_out.HELD_OUT_GROUPS", 30)


@pytest.fixture
def world(tmp_path):
    """The model."""
    return world_model(tmp_path)


@pytest.fixture
def tags(tmp_path):
    """Its tagged sentences."""
    return write_tags(tmp_path / "tags.jsonl")


@pytest.fixture
def corpus(tmp_path):
    """The same as text."""
    return write_corpus(tmp_path / "corpus.txt")
