"""A whole model to be damaged."""

import shutil

import numpy as np
import pytest

from polyseme.models.registry import Registry
from tests.models.versions import write_two
from tests.tiny import QUANTIZED, QUANTIZED_SUBWORDS, SUBWORDS, full_layer, write_tiny


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    """The folder of a model with two layers and every file; not to be changed."""
    return write_tiny(
        tmp_path_factory.mktemp("original") / "tiny",
        layers=[full_layer(1), full_layer(2)],
        word_bias=np.arange(11.0),
        subwords=SUBWORDS,
    )


@pytest.fixture(scope="session")
def quantized_original(tmp_path_factory):
    """The folder of such a model whose tables are int8; not to be changed."""
    return write_tiny(
        tmp_path_factory.mktemp("quantized") / "tiny",
        vectors=QUANTIZED,
        layers=[full_layer(1), full_layer(2)],
        word_bias=np.arange(11.0),
        subwords=QUANTIZED_SUBWORDS,
    )


@pytest.fixture
def whole(original, tmp_path):
    """A copy of the first."""
    return shutil.copytree(original, tmp_path / "tiny")


@pytest.fixture
def quantized_whole(quantized_original, tmp_path):
    """A copy of the second."""
    return shutil.copytree(quantized_original, tmp_path / "tiny")


@pytest.fixture
def place(tmp_path):
    """A folder of two models."""
    return write_two(tmp_path / "models")


@pytest.fixture
def registry(place):
    return Registry([place], "one")
