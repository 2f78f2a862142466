"""The `.npz` of an answer, which NumPy reads without pickle."""

import io
import json
import zipfile

import numpy as np
import pytest

from polyseme.encoding.serialize import sentence_document
from tests.encoding.asking import EVERY, STREAMED, arrays_of, ask, written

TEXTS = ["Bank zebra didn't", "", "river", "apple bank"]
COUNTS = [4, 0, 1, 2]


def test_the_arrays_are_those_of_the_contract(deep):
    arrays = arrays_of(deep, TEXTS)
    numbers = range(len(TEXTS))
    expected = {"offsets", "tokens", "static", "contextual", *(f"attention_{n}" for n in numbers)}
    assert set(arrays) == expected
    assert arrays["offsets"].dtype == np.int64
    assert arrays["offsets"].tolist() == [0, 4, 4, 5, 7]
    for part in ("static", "contextual"):
        assert (arrays[part].shape, arrays[part].dtype) == ((7, 5), np.float32)
    for number, count in enumerate(COUNTS):
        assert arrays[f"attention_{number}"].shape == (2, 3, count, count)


def test_offsets_lead_to_the_rows_of_each_sentence(deep):
    encoded = ask(deep, TEXTS, include=EVERY)
    arrays = arrays_of(deep, TEXTS, include=EVERY)
    offsets = arrays["offsets"]
    for number, one in enumerate(encoded):
        rows = slice(offsets[number], offsets[number + 1])
        for part, array in one.arrays.items():
            found = arrays[part][rows] if part in arrays else arrays[f"{part}_{number}"]
            assert found.dtype == array.dtype
            assert found.tobytes() == array.tobytes()


def test_tokens_are_the_json_of_what_is_not_an_array(deep):
    encoded = ask(deep, TEXTS)
    tokens = arrays_of(deep, TEXTS)["tokens"]
    assert (tokens.dtype, tokens.ndim) == (np.uint8, 1)
    assert json.loads(tokens.tobytes().decode()) == [sentence_document(one) for one in encoded]


@pytest.mark.parametrize("part", sorted(EVERY))
def test_an_array_that_was_not_asked_for_is_absent(deep, part):
    names = set(arrays_of(deep, TEXTS, include=EVERY - {part}))
    assert not {name for name in names if name.rstrip("_0123") == part}
    assert {"offsets", "tokens"} <= names


def test_the_mean_of_heads_has_one_axis_less(deep):
    arrays = arrays_of(deep, TEXTS, mean_of_heads=True)
    assert arrays["attention_0"].shape == (2, 4, 4)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_answer_is_what_numpy_would_write(deep, dtype):
    arrays = arrays_of(deep, TEXTS, include=EVERY, dtype=dtype)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    own = zipfile.ZipFile(io.BytesIO(written(deep, TEXTS, "npz", include=EVERY, dtype=dtype)))
    numpys = zipfile.ZipFile(buffer)
    assert own.testzip() is None
    assert own.namelist() == numpys.namelist()
    assert [own.read(name) for name in own.namelist()] == [
        numpys.read(name) for name in numpys.namelist()
    ]
    assert {one.compress_type for one in own.infolist()} == {zipfile.ZIP_STORED}


def test_the_same_answer_is_the_same_bytes_made_at_once_or_array_by_array(deep):
    first, second = (written(deep, TEXTS, "npz", include=EVERY) for _ in range(2))
    assert first == second == written(deep, TEXTS, "npz", limits=STREAMED, include=EVERY)


def test_no_text_has_a_token(deep):
    arrays = arrays_of(deep, ["", []], include=EVERY)
    assert arrays["offsets"].tolist() == [0, 0, 0]
    assert arrays["static"].shape == (0, 5) and arrays["attention_1"].shape == (2, 3, 0, 0)
