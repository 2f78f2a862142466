"""A tiny model with the words of the tiny evaluation sets."""

import pytest

from polyseme.importing.closed_form import closed_form, frequencies_by_rank, informativeness
from tests.tiny import VECTORS, WORDS, tiny_model

pytest.importorskip("sklearn", reason="needs the extra `evaluate`")


@pytest.fixture
def model(tmp_path):
    """The tiny model with the closed-form layer of its vectors."""
    p = frequencies_by_rank(len(WORDS))
    layer = closed_form(VECTORS, p)
    return tiny_model(tmp_path, layers=[layer], word_bias=informativeness(p))
