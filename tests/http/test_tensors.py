"""Tensors as bytes and as JSON: what is written is read back, and whatever comes is no crash."""

import tracemalloc

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polyseme.encoding.arrays import PIECE
from polyseme.http.tensors import (
    ElementsError,
    binary_pieces,
    element_bytes,
    elements,
    json_pieces,
    texts,
)

APPLE = b"\x05\x00\x00\x00Apple"
ZOE = b"\x04\x00\x00\x00Zo\xc3\xab"
EMPTY = b"\x00\x00\x00\x00"


def test_an_element_is_its_length_in_four_bytes_and_what_it_holds():
    assert elements(APPLE + EMPTY + ZOE, 3) == [b"Apple", b"", "Zoë".encode()]
    assert texts(APPLE + EMPTY + ZOE, 3) == ["Apple", "", "Zoë"]
    assert b"".join(binary_pieces([["Apple", ""], [], ["Zoë"]])) == APPLE + EMPTY + ZOE
    assert element_bytes(["Apple", "", "Zoë"]) == len(APPLE + EMPTY + ZOE)


@pytest.mark.parametrize(
    ("data", "number", "why"),
    [
        (b"", 1, "fewer elements"),
        (APPLE, 2, "fewer elements"),
        (APPLE + EMPTY, 1, "more bytes"),
        (APPLE + b"\x00", 1, "more bytes"),
        (APPLE[:-1], 1, "over the end"),
        (APPLE[:3], 1, "over the end"),
        (b"\x00\x00\x00", 1, "over the end"),
        (b"\x05", 1, "over the end"),
        (b"\x06" + APPLE[1:], 1, "over the end"),
        (b"\xff\xff\xff\xff", 1, "over the end"),
        (b"\x00\x00\x00\x80Apple", 1, "over the end"),
        (APPLE[::-1], 1, "over the end"),
    ],
)
def test_lengths_that_lie_are_refused(data, number, why):
    with pytest.raises(ElementsError, match=why):
        elements(data, number)


def test_bytes_that_are_not_utf_8_are_refused_and_not_quoted():
    with pytest.raises(ElementsError) as caught:
        texts(APPLE + b"\x02\x00\x00\x00\xc3\x28", 2)
    assert str(caught.value) == "element 1 is not UTF-8"


def test_a_length_or_a_number_that_is_claimed_takes_no_memory():
    tracemalloc.start()
    try:
        for number in (1, 1 << 31):
            with pytest.raises(ElementsError):
                elements(b"\xff\xff\xff\x7f", number)
            with pytest.raises(ElementsError):
                elements(b"\x00" * 4096, 1)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_what_the_format_says_is_read(held):
    data = b"".join(len(one).to_bytes(4, "little") + one for one in held)
    assert elements(data, len(held)) == held


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=12))
def test_texts_are_read_as_they_were_written(held):
    data = b"".join(binary_pieces([held]))
    assert texts(data, len(held)) == held
    assert element_bytes(held) == len(data)


_SHORT = st.binary(max_size=3).map(lambda b: len(b).to_bytes(4, "little") + b)


@given(
    st.one_of(st.binary(max_size=64), st.lists(_SHORT | st.binary(max_size=6)).map(b"".join)),
    st.integers(0, 12),
)
def test_any_bytes_are_elements_or_refused(data, number):
    try:
        found = elements(data, number)
    except ElementsError:
        return
    assert len(found) == number
    assert b"".join(len(one).to_bytes(4, "little") + one for one in found) == data


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [[]],
        [["a", 'quote " and \\'], [], ["Zoë"]],
        [np.array([1.5, -0.1, 3e-42], np.float32), np.array([], np.float32)],
        [np.array([], np.int64), np.array([0, 1 << 40], np.int64)],
        [np.linspace(0, 1, 2 * PIECE + 3, dtype=np.float32), np.ones(2, np.float32)],
    ],
    ids=["none", "empty", "texts", "numbers", "integers", "many"],
)
def test_runs_of_values_become_one_flat_list(runs):
    found = orjson.loads(b"".join(json_pieces(runs)))
    expected = [value for run in runs for value in run]
    if runs and isinstance(runs[0], np.ndarray):
        np.testing.assert_array_equal(np.array(found, runs[0].dtype), np.array(expected))
        data = b"".join(binary_pieces(runs))
        little = runs[0].dtype.newbyteorder("<")
        np.testing.assert_array_equal(np.frombuffer(data, little), np.array(expected))
    else:
        assert found == expected
