"""Arrays as JSON in pieces: joined they are what orjson and base64 make of the whole."""

import base64
import json

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from polyseme.encoding.arrays import PIECE, base64_pieces, number_pieces

SMALL = np.arange(6, dtype=np.float32).reshape(2, 3)
ANY = arrays.arrays(
    st.sampled_from([np.float32, np.float16]),
    arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=7),
    elements={"allow_nan": False, "allow_infinity": False},
)


def joined(pieces):
    return b"".join(pieces)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(array=ANY, most=st.integers(1, 50))
def test_numbers_in_pieces_are_those_of_the_whole(array, most):
    whole = orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)
    assert joined(number_pieces(array, most)) == whole


@settings(max_examples=300, deadline=None, derandomize=True)
@given(array=ANY, most=st.integers(1, 50))
def test_base64_in_pieces_is_that_of_the_whole(array, most):
    document = json.loads(joined(base64_pieces(array, most)))
    assert document == {
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "data": base64.b64encode(array.tobytes()).decode(),
    }


@pytest.mark.parametrize("shape", [(2, 3, 300, 300), (1, 70_000), (70_000, 1), (1, 1, 2, 66_000)])
def test_no_piece_has_more_numbers_than_it_may(shape):
    array = np.full(shape, 0.5, np.float32)
    for pieces in (number_pieces(array), base64_pieces(array)):
        assert max(map(len, pieces)) <= 6 * PIECE
    assert json.loads(joined(number_pieces(array))) == array.tolist()


def test_base64_is_little_endian_in_c_order_whatever_the_array_is():
    expected = b'{"shape":[2,3],"dtype":"float32","data":"AAAAAAAAgD8AAABAAABAQAAAgEAAAKBA"}'
    for view in (
        SMALL,
        np.asfortranarray(SMALL),
        SMALL.astype(">f4"),
        np.repeat(SMALL, 2, 1)[:, ::2],
    ):
        assert joined(base64_pieces(view)) == expected


def test_numbers_are_written_whatever_the_array_is(tmp_path):
    np.save(tmp_path / "array.npy", SMALL)
    mapped = np.load(tmp_path / "array.npy", mmap_mode="r")
    for view in (np.asfortranarray(SMALL), SMALL[::-1][::-1], mapped, mapped[:, :3]):
        for most in (1, 100):
            assert joined(number_pieces(view, most)) == b"[[0.0,1.0,2.0],[3.0,4.0,5.0]]"
