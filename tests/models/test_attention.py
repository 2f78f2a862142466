"""Attacks on `attention.safetensors`."""

import numpy as np
import pytest

from tests.models.damage import (
    ATTENTION,
    change_manifest,
    change_tensors,
    read_error,
    replace,
    safetensors,
    with_and_without_verify,
    zeros,
)

NOT_SAFETENSORS = "attention.safetensors is not a safetensors file."


def entry(dtype="F32", shape=(11,), offsets=(0, 44)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def word_bias_file(data=None, length=None, **changes):
    """A file with the tensor `word_bias`, valid unless an argument changes it."""
    return safetensors({"word_bias": entry(**changes)}, zeros(11) if data is None else data, length)


REPEATED_NAME = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32",'
ATTACKS = {
    "a header of 2**63 bytes": word_bias_file(length=2**63),
    "a header of 2**64 - 1 bytes": word_bias_file(length=2**64 - 1),
    "a header of a hundred megabytes": word_bias_file(length=100_000_001),
    "a header longer than the file": word_bias_file(length=10_000),
    "no header": word_bias_file(length=0),
    "overlapping tensors": safetensors(
        {"a": entry(shape=[2], offsets=[0, 8]), "b": entry(shape=[2], offsets=[4, 12])}, zeros(3)
    ),
    "the same bytes twice": safetensors({"a": entry(), "b": entry()}, zeros(11)),
    "a gap": safetensors(
        {"a": entry(shape=[1], offsets=[0, 4]), "b": entry(shape=[1], offsets=[8, 12])}, zeros(3)
    ),
    "offsets beyond the end": word_bias_file(offsets=[0, 4400], shape=[1100]),
    "offsets backwards": word_bias_file(offsets=[44, 0]),
    "negative offsets": word_bias_file(offsets=[-44, 0]),
    "negative shape": word_bias_file(shape=[-11]),
    "another length than the shape's": word_bias_file(shape=[13]),
    "a shape that overflows": word_bias_file(shape=[2**62, 2**62]),
    "an axis too long for NumPy": safetensors(
        {"word_bias": entry(shape=[2**63, 0], offsets=[0, 0])}
    ),
    "an unknown dtype": word_bias_file(dtype="PICKLE"),
    "bfloat16": word_bias_file(dtype="BF16", offsets=[0, 22], data=zeros(11, "<i2")),
    "float8": word_bias_file(dtype="F8_E4M3", offsets=[0, 11], data=zeros(11, "u1")),
    "bytes after the end": word_bias_file(data=zeros(12)),
    "too few bytes": word_bias_file(data=zeros(10)),
    "a list for a header": safetensors([]),
    "a header that is not JSON": safetensors(b"{word_bias}"),
    "a header that is not UTF-8": safetensors(b'{"\xff": {}}'),
    "a deep header": safetensors(b"[" * 50_000),
    "a name twice": safetensors(REPEATED_NAME + b'"shape":[1],"data_offsets":[4,8]}}', zeros(2)),
    "metadata that are not strings": safetensors(
        {"__metadata__": {"a": [1]}, "word_bias": entry()}
    ),
    "a pickle": b"\x80\x04\x95\x0e\x00\x00\x00\x00\x00\x00\x00\x8c\x02os",
    "nothing": b"",
    "seven bytes": b"\0" * 7,
}


@with_and_without_verify
@pytest.mark.parametrize("case", ATTACKS)
def test_an_invalid_safetensors_file_is_rejected(model_folder, case, verify):
    replace(model_folder, ATTENTION, ATTACKS[case])
    assert read_error(model_folder, verify=verify) == NOT_SAFETENSORS


OTHER_DTYPES = {
    "float32": (np.float64, np.float16, np.int32, np.uint8, np.bool_),
    "float16": (np.float64, np.float32, np.int32),
}


@pytest.mark.parametrize(
    ("declared", "dtype"), [(name, dtype) for name, many in OTHER_DTYPES.items() for dtype in many]
)
def test_a_tensor_of_another_dtype_is_rejected(model_folder, declared, dtype):
    change_manifest(model_folder, lambda m: m.update(weights_dtype=declared))
    if declared == "float32":
        change_tensors(model_folder, lambda t: t.update(word_bias=t["word_bias"].astype(dtype)))
    else:
        change_tensors(model_folder, lambda t: t.update({n: x.astype(dtype) for n, x in t.items()}))
    assert read_error(model_folder).endswith(f": the dtype is not {declared}.")


@with_and_without_verify
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "name",
    ["word_bias", "layers.0.query", "layers.1.feed_forward.outer", "layers.1.word_bias_scale"],
)
def test_a_tensor_that_is_not_finite_is_rejected(model_folder, name, value, verify):
    def change(tensors):
        tensors[name].flat[-1] = value

    change_tensors(model_folder, change)
    assert (
        read_error(model_folder, verify=verify)
        == f"attention.safetensors, {name}: a value is not finite."
    )


@pytest.mark.parametrize("name", ["layers.2.query", "layers.0.Query", "query", "layers.00.key", ""])
def test_an_unexpected_tensor_is_rejected(model_folder, name):
    change_tensors(model_folder, lambda t: t.update({name: np.ones((5, 6), np.float32)}))
    expected = f"attention.safetensors has unexpected tensors: {[name]}."
    assert read_error(model_folder) == expected


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.pop("word_bias"),
        lambda t: t.update(other=[1]),
        lambda t: t.update(word_bias=[13]),
        lambda t: t["layers.1.query"].reverse(),
    ],
)
def test_tensors_that_differ_from_the_manifest_are_rejected(model_folder, change):
    change_manifest(model_folder, lambda m: change(m["tensors"]) and None)
    expected = "attention.safetensors: the set of tensors differs from manifest.json."
    assert read_error(model_folder) == expected


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
def test_a_tensor_of_a_wrong_shape_is_named(model_folder, layer, name, shape):
    wrong = np.ones(shape, np.float32)
    change_tensors(model_folder, lambda t: t.update({f"layers.{layer}.{name}": wrong}))
    prefix = f"attention.safetensors, layers.{layer}: {name} has shape {list(shape)}, expected ["
    assert read_error(model_folder).startswith(prefix)


def put(**tensors):
    """A change that sets tensors of layer 0 to ones of a shape, or removes them (None)."""

    def change(found):
        for name, shape in tensors.items():
            full = f"layers.0.{name.replace('__', '.')}"
            found.pop(full, None)
            if shape is not None:
                found[full] = np.ones(shape, np.float32)

    return change


NO_NETWORK = {f"feed_forward__{name}": None for name in ("inner", "outer", "outer_bias")}
MISFITS = [
    (put(query=(5, 9), query_bias=None), "query and key differ in width"),
    (put(query=None, query_bias=None), "query and key differ in width"),
    (
        put(query=(5, 7), query_bias=None, key=(5, 7), key_bias=None),
        "the width of query and key is not a multiple of the number of heads",
    ),
    (
        put(value=(5, 7), value_bias=None, output=(7, 5)),
        "the width of value is not a multiple of the number of heads",
    ),
    (put(output=None, output_bias=None), "output has the wrong output width: expected 5"),
    (put(output=(21, 7), output_bias=None), "output has the wrong output width: expected 5"),
    (put(position_bias=(3, 12)), "position_bias must have an odd number of columns"),
    (put(attention_norm__shift=None), "attention_norm needs both gain and shift"),
    (put(feed_forward_norm__gain=None), "feed_forward_norm needs both gain and shift"),
    (
        put(feed_forward__outer=(17, 7), feed_forward__outer_bias=None),
        "feed_forward.outer has the wrong output width: expected 5",
    ),
    (
        put(feed_forward__outer=None, feed_forward__outer_bias=None),
        "feed_forward.outer has the wrong output width: expected 5",
    ),
    (put(final=(5, 7), final_bias=None), "final has the wrong output width: expected 5"),
    (put(skip=(5, 7)), "skip has shape [5, 7], expected [5, 5]"),
    *(
        (
            put(**NO_NETWORK | {"feed_forward__inner_bias": None, f"feed_forward__{name}": (5,)}),
            "feed_forward has biases but no weights",
        )
        for name in ("inner_bias", "outer_bias")
    ),
    (
        put(**NO_NETWORK, feed_forward__inner_bias=None),
        "feed_forward_norm is present, but the layer has no feed-forward network",
    ),
]


@with_and_without_verify
@pytest.mark.parametrize(("change", "expected"), MISFITS)
def test_tensors_that_do_not_fit_each_other_are_rejected(model_folder, change, expected, verify):
    change_tensors(model_folder, change)
    expected = f"attention.safetensors, layers.0: {expected}."
    assert read_error(model_folder, verify=verify) == expected


MODEL_MISFITS = [
    (
        put(query=(5, 9), query_bias=None, key=(5, 9), key_bias=None),
        "attention.safetensors has layers of different head widths.",
    ),
    (
        lambda t: t.pop("word_bias"),
        "manifest.json requires the tensor word_bias, which is missing.",
    ),
    *(
        (
            lambda t, shape=shape: t.update(word_bias=np.ones(shape, np.float32)),
            "attention.safetensors: the shape of word_bias differs from manifest.json.",
        )
        for shape in ((7,), (11, 1), (), (0,))
    ),
]


@pytest.mark.parametrize(("change", "expected"), MODEL_MISFITS)
def test_tensors_that_do_not_fit_the_model_are_rejected(model_folder, change, expected):
    change_tensors(model_folder, change)
    assert read_error(model_folder) == expected


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("norm", "none", "attention_norm is present, but the manifest sets `norm: none`"),
        ("word_bias", False, "word_bias_scale requires `word_bias: true` in the manifest"),
    ],
)
def test_tensors_that_the_manifest_excludes_are_rejected(model_folder, field, value, problem):
    change_manifest(model_folder, lambda m: m["layers"][1].update({field: value}))
    assert read_error(model_folder) == f"attention.safetensors, layers.1: {problem}."
