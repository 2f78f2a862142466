"""The tiny model, plain and deep, read once."""

import pytest

from tests.tiny import deep_model, tiny_model


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """Parameter-free attention without scaling: every number can be found on paper."""
    return tiny_model(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="session")
def deep(tmp_path_factory):
    """Two layers with every part, 3 heads, queries and keys 2 wide, values 7 wide."""
    return deep_model(tmp_path_factory.mktemp("deep"))
