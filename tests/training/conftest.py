"""The small world, as fixtures."""

import pytest

from tests.training.world import world_model, write_corpus, write_tags


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
