"""Folders of models, complete and undamaged."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from polyseme.models.registry import Registry
from tests.models.damage import write
from tests.tiny import QUANTIZED, QUANTIZED_SUBWORDS, SUBWORDS, full_layer, write_tiny

KNOWN_NGRAMS = replace(
    QUANTIZED_SUBWORDS, ngrams=np.array([7, 4_000_000_000], np.uint32), coverage=0.5, own_rows=True
)

WEIGHTS = {"layers": [full_layer(1), full_layer(2)], "word_bias": np.arange(11.0)}


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    """The folder of a model with two layers and every file. Read-only: tests share it."""
    return write_tiny(tmp_path_factory.mktemp("original") / "tiny", subwords=SUBWORDS, **WEIGHTS)


@pytest.fixture(scope="session")
def quantized_original(tmp_path_factory):
    """The folder of such a model with int8 tables and known n-grams. Read-only: tests share it."""
    folder = tmp_path_factory.mktemp("quantized") / "tiny"
    return write_tiny(folder, vectors=QUANTIZED, subwords=KNOWN_NGRAMS, **WEIGHTS)


@pytest.fixture
def model_folder(original, tmp_path):
    """A copy of `original` that a test may damage."""
    return shutil.copytree(original, tmp_path / "tiny")


@pytest.fixture
def quantized_folder(quantized_original, tmp_path):
    """A copy of `quantized_original` that a test may damage."""
    return shutil.copytree(quantized_original, tmp_path / "tiny")


@pytest.fixture
def models_dir(tmp_path):
    """A folder with the models `one` and `two`, both of version 1."""
    for name in ("one", "two"):
        write(tmp_path / "models" / name, 1)
    return tmp_path / "models"


@pytest.fixture
def registry(models_dir):
    return Registry([models_dir], "one")
