"""Attacks on `attention.safetensors`."""

import numpy as np
import pytest

from polyseme.models.reader import read_model
from tests.models.damage import (
    ATTENTION,
    change_manifest,
    change_tensors,
    replace,
    safetensors,
    said_of,
    zeros,
)

BOTH = pytest.mark.parametrize("verify", [True, False])
NO_FILE = "attention.safetensors is not a safetensors file."


def entry(dtype="F32", shape=(11,), offsets=(0, 44)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def one(data=None, length=None, **changes):
    return safetensors({"word_bias": entry(**changes)}, zeros(11) if data is None else data, length)


TWICE = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32",'
ATTACKS = {
    "a header for every atom": one(length=2**63),
    "a header of all bits": one(length=2**64 - 1),
    "a header of a hundred megabytes": one(length=100_000_001),
    "a header longer than the file": one(length=10_000),
    "no header": one(length=0),
    "overlapping tensors": safetensors(
        {"a": entry(shape=[2], offsets=[0, 8]), "b": entry(shape=[2], offsets=[4, 12])}, zeros(3)
    ),
    "the same bytes twice": safetensors({"a": entry(), "b": entry()}, zeros(11)),
    "a gap": safetensors(
        {"a": entry(shape=[1], offsets=[0, 4]), "b": entry(shape=[1], offsets=[8, 12])}, zeros(3)
    ),
    "offsets beyond the end": one(offsets=[0, 4400], shape=[1100]),
    "offsets backwards": one(offsets=[44, 0]),
    "negative offsets": one(offsets=[-44, 0]),
    "negative shape": one(shape=[-11]),
    "another length than the shape's": one(shape=[13]),
    "a shape that overflows": one(shape=[2**62, 2**62]),
    "an axis too long for NumPy": safetensors(
        {"word_bias": entry(shape=[2**63, 0], offsets=[0, 0])}
    ),
    "an unknown dtype": one(dtype="PICKLE"),
    "bfloat16": one(dtype="BF16", offsets=[0, 22], data=zeros(11, "<i2")),
    "float8": one(dtype="F8_E4M3", offsets=[0, 11], data=zeros(11, "u1")),
    "bytes after the end": one(data=zeros(12)),
    "too few bytes": one(data=zeros(10)),
    "a list for a header": safetensors([]),
    "a header that is not JSON": safetensors(b"{word_bias}"),
    "a header that is not UTF-8": safetensors(b'{"\xff": {}}'),
    "a deep header": safetensors(b"[" * 50_000),
    "a name twice": safetensors(TWICE + b'"shape":[1],"data_offsets":[4,8]}}', zeros(2)),
    "metadata that is no text": safetensors({"__metadata__": {"a": [1]}, "word_bias": entry()}),
    "a pickle": b"\x80\x04\x95\x0e\x00\x00\x00\x00\x00\x00\x00\x8c\x02os",
    "nothing": b"",
    "seven bytes": b"\0" * 7,
}


@BOTH
@pytest.mark.parametrize("case", ATTACKS)
def test_an_invalid_safetensors_file_is_rejected(whole, case, verify):
    replace(whole, ATTENTION, ATTACKS[case])
    assert said_of(whole, verify=verify) == NO_FILE


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.uint8, np.bool_])
def test_a_tensor_of_another_dtype_is_rejected(whole, dtype):
    change_tensors(whole, lambda t: t.update(word_bias=t["word_bias"].astype(dtype)))
    assert said_of(whole) == "attention.safetensors, word_bias: the dtype is not float32."


@BOTH
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "name",
    ["word_bias", "layers.0.query", "layers.1.feed_forward.outer", "layers.1.word_bias_scale"],
)
def test_a_tensor_that_is_not_finite_is_rejected(whole, name, value, verify):
    def change(tensors):
        tensors[name].flat[-1] = value

    change_tensors(whole, change)
    assert said_of(whole, verify=verify) == f"attention.safetensors, {name}: a value is not finite."


@pytest.mark.parametrize("name", ["layers.2.query", "layers.0.Query", "query", "layers.00.key", ""])
def test_an_unexpected_tensor_is_rejected(whole, name):
    change_tensors(whole, lambda t: t.update({name: np.ones((5, 6), np.float32)}))
    expected = f"attention.safetensors has unexpected tensors: {[name]}."
    assert said_of(whole) == expected


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.pop("word_bias"),
        lambda t: t.update(other=[1]),
        lambda t: t.update(word_bias=[13]),
        lambda t: t["layers.1.query"].reverse(),
    ],
)
def test_tensors_are_those_of_the_manifest_in_name_and_shape(whole, change):
    change_manifest(whole, lambda m: change(m["tensors"]) and None)
    expected = "attention.safetensors: the set of tensors differs from manifest.json."
    assert said_of(whole) == expected


WRONG_SHAPES = {
    "query": [(7, 6), (5,), (6, 5), (5, 0), (5, 6, 1)],
    "query_bias": [(7,), (1, 6), (0,), ()],
    "key": [(7, 6)],
    "key_bias": [(5,)],
    "value": [(7, 21)],
    "value_bias": [(20,)],
    "output": [(5, 21), (7, 5)],
    "output_bias": [(21,)],
    "position_bias": [(13,), (1, 13), (13, 3), (3, 0)],
    "word_bias_scale": [(2,), (1,), (0,), (3, 1), (1, 3), ()],
    "attention_norm.gain": [(6,), (1,), ()],
    "attention_norm.shift": [(6,)],
    "feed_forward_norm.gain": [(17,)],
    "feed_forward_norm.shift": [(1, 5)],
    "feed_forward.inner": [(7, 17)],
    "feed_forward.inner_bias": [(5,)],
    "feed_forward.outer": [(5, 17)],
    "feed_forward.outer_bias": [(17,)],
}


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize(
    ("name", "shape"), [(name, s) for name, shapes in WRONG_SHAPES.items() for s in shapes]
)
def test_a_tensor_of_a_wrong_shape_is_named(whole, layer, name, shape):
    wrong = np.ones(shape, np.float32)
    change_tensors(whole, lambda t: t.update({f"layers.{layer}.{name}": wrong}))
    prefix = f"attention.safetensors, layers.{layer}: {name} has shape {list(shape)}, expected ["
    assert said_of(whole).startswith(prefix)


def test_a_wrong_shape_is_shown_with_the_expected_one(whole):
    change_tensors(whole, put(query=(7, 6)))
    expected = "attention.safetensors, layers.0: query has shape [7, 6], expected [5, ≥1]."
    assert said_of(whole) == expected


def put(**tensors):
    """A change that puts tensors of some shapes into layer 0, or takes them out."""

    def change(found):
        for name, shape in tensors.items():
            full = f"layers.0.{name.replace('__', '.')}"
            found.pop(full, None)
            if shape is not None:
                found[full] = np.ones(shape, np.float32)

    return change


MISFITS = {
    "query and key of two widths": (
        put(query=(5, 9), query_bias=None),
        "query and key differ in width",
    ),
    "no query": (put(query=None, query_bias=None), "query and key differ in width"),
    "heads that do not divide the keys": (
        put(query=(5, 7), query_bias=None, key=(5, 7), key_bias=None),
        "the width of query and key is not a multiple of the number of heads",
    ),
    "heads that do not divide the values": (
        put(value=(5, 7), value_bias=None, output=(7, 5)),
        "the width of value is not a multiple of the number of heads",
    ),
    "no output": (
        put(output=None, output_bias=None),
        "output has the wrong output width: expected 5",
    ),
    "an output of another width": (
        put(output=(21, 7), output_bias=None),
        "output has the wrong output width: expected 5",
    ),
    "an even position bias": (
        put(position_bias=(3, 12)),
        "position_bias must have an odd number of columns",
    ),
    "a gain alone": (
        put(attention_norm__shift=None),
        "attention_norm needs both gain and shift",
    ),
    "a shift alone": (
        put(feed_forward_norm__gain=None),
        "feed_forward_norm needs both gain and shift",
    ),
    "a network of another width": (
        put(feed_forward__outer=(17, 7), feed_forward__outer_bias=None),
        "feed_forward.outer has the wrong output width: expected 5",
    ),
    "no outer network": (
        put(feed_forward__outer=None, feed_forward__outer_bias=None),
        "feed_forward.outer has the wrong output width: expected 5",
    ),
}


@BOTH
@pytest.mark.parametrize("case", MISFITS)
def test_tensors_that_do_not_fit_each_other_are_rejected(whole, case, verify):
    change, expected = MISFITS[case]
    change_tensors(whole, change)
    assert said_of(whole, verify=verify) == f"attention.safetensors, layers.0: {expected}."


def test_layers_of_two_head_widths_are_rejected(whole):
    change_tensors(whole, put(query=(5, 9), query_bias=None, key=(5, 9), key_bias=None))
    assert said_of(whole) == "attention.safetensors has layers of different head widths."


def test_a_norm_without_a_place_in_the_manifest_is_rejected(whole):
    change_manifest(whole, lambda m: m["layers"][0].update(norm="none"))
    expected = "attention_norm is present, but the manifest sets `norm: none`"
    assert said_of(whole) == f"attention.safetensors, layers.0: {expected}."


def test_factors_on_a_word_bias_that_the_manifest_does_not_ask_for_are_rejected(whole):
    change_manifest(whole, lambda m: m["layers"][1].update(word_bias=False))
    expected = "word_bias_scale requires `word_bias: true` in the manifest"
    assert said_of(whole) == f"attention.safetensors, layers.1: {expected}."


WITHOUT_NETWORK = {f"feed_forward__{name}": None for name in ("inner", "outer", "outer_bias")}


@pytest.mark.parametrize("name", ["inner_bias", "outer_bias"])
def test_biases_of_a_missing_feed_forward_network_are_rejected(whole, name):
    change = WITHOUT_NETWORK | {"feed_forward__inner_bias": None, f"feed_forward__{name}": (5,)}
    change_tensors(whole, put(**change))
    expected = "attention.safetensors, layers.0: feed_forward has biases but no weights."
    assert said_of(whole) == expected


def test_the_norm_of_a_missing_feed_forward_network_is_rejected(whole):
    change_tensors(whole, put(**WITHOUT_NETWORK, feed_forward__inner_bias=None))
    expected = "feed_forward_norm is present, but the layer has no feed-forward network"
    assert said_of(whole) == f"attention.safetensors, layers.0: {expected}."


def test_a_missing_word_bias_of_a_layer_is_rejected(whole):
    change_tensors(whole, lambda t: t.pop("word_bias"))
    expected = "manifest.json requires the tensor word_bias, which is missing."
    assert said_of(whole) == expected


@pytest.mark.parametrize("shape", [(7,), (11, 1), (), (0,)])
def test_a_word_bias_of_another_shape_is_rejected(whole, shape):
    change_tensors(whole, lambda t: t.update(word_bias=np.ones(shape, np.float32)))
    expected = "attention.safetensors: the shape of word_bias differs from manifest.json."
    assert said_of(whole) == expected


def test_metadata_of_other_programs_does_no_harm(whole):
    content = safetensors({"__metadata__": {"format": "np"}, "word_bias": entry()}, zeros(11))
    replace(whole, ATTENTION, content)
    change_manifest(whole, lambda m: m.update(tensors={"word_bias": [11]}, heads=5))
    assert read_model(whole).word_bias.tolist() == [0] * 11
