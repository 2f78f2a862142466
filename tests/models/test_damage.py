"""A damaged file is rejected with a one-sentence error, or the model is still valid."""

import re
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme.errors import ModelFolderError
from polyseme.models.reader import read_model
from tests.models.damage import FILES, MANIFEST, path, replace

DAMAGE = st.tuples(
    st.sampled_from(["flip", "cut", "insert", "double"]), st.floats(0, 1), st.binary(max_size=9)
)


def damaged(content, kind, place, extra):
    """Damage a file at a place from 0, its start, to 1, its end."""
    at = round(place * (len(content) - 1))
    if kind == "flip":
        return content[:at] + extra + content[at + len(extra) :]
    if kind == "cut":
        return content[:at] + content[at + 1 + len(extra) :]
    return content[:at] + (extra if kind == "insert" else content[at:]) + content[at:]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        *(("original", name) for name in ("vectors.npy", "subwords.npy")),
        *(("quantized_original", name) for name in (MANIFEST, *FILES)),
    ],
)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(damages=st.lists(DAMAGE, min_size=1, max_size=3), early=st.booleans())
def test_a_damaged_file_is_rejected_or_the_model_is_valid(request, source, name, damages, early):
    """`early` puts the damage near the file's start, where the headers are."""
    original = request.getfixturevalue(source)
    content = path(original, name).read_bytes()
    for kind, place, extra in damages:
        content = damaged(content, kind, place * (128 / len(content) if early else 1), extra)
    with tempfile.TemporaryDirectory() as parent:
        folder = shutil.copytree(original, Path(parent) / "tiny")
        if name == MANIFEST:
            (folder / name).write_bytes(content)
        else:
            replace(folder, name, content)
        try:
            model = read_model(folder, verify=True)
        except ModelFolderError as error:
            model, message = None, error.detail
    if model is None:
        assert re.fullmatch(r".+\.", message)  # a single line
        return
    size, d = len(model.vocabulary), model.manifest.dimension
    assert (model.vectors.shape, model.subwords.table.shape[1]) == ((size, d), d)
    assert np.isfinite(model.vectors).all()
    assert np.isfinite(model.subwords.table[:]).all()
    for row in range(size):
        assert model.vocabulary.row(model.vocabulary.word(row)) == row
