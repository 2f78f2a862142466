"""Attacks on `attention.safetensors` and `senses.safetensors`."""

import numpy as np
import pytest
from safetensors.numpy import save

from polyseme.models.reader import read_model
from polyseme.models.weights import ContextProjection
from tests.models.damage import (
    change_manifest,
    change_tensors,
    read_error,
    replace,
    safetensors,
    with_and_without_verify,
    zeros,
)
from tests.tiny import write_tiny

NOT_SAFETENSORS = "attention.safetensors is not a safetensors file."


def entry(dtype="F32", shape=(11,), offsets=(0, 44)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def word_bias_file(data=None, length=None, **changes):
    """A file with the tensor `word_bias`, valid unless an argument changes it."""
    return safetensors({"word_bias": entry(**changes)}, zeros(11) if data is None else data, length)


ATTACKS = {
    "a header of 2**63 bytes": word_bias_file(length=2**63),
    "a header longer than the file": word_bias_file(length=10_000),
    "overlapping tensors": safetensors(
        {"a": entry(shape=[2], offsets=[0, 8]), "b": entry(shape=[2], offsets=[4, 12])}, zeros(3)
    ),
    "offsets beyond the end": word_bias_file(offsets=[0, 4400], shape=[1100]),
    "a shape that overflows": word_bias_file(shape=[2**62, 2**62]),
    "an axis too long for NumPy": safetensors(
        {"word_bias": entry(shape=[2**63, 0], offsets=[0, 0])}
    ),
    "an unknown dtype": word_bias_file(dtype="PICKLE"),
    "bfloat16": word_bias_file(dtype="BF16", offsets=[0, 22], data=zeros(11, "<i2")),
    "too few bytes": word_bias_file(data=zeros(10)),
    "a header that is not UTF-8": safetensors(b'{"\xff": {}}'),
    "a deep header": safetensors(b"[" * 50_000),
    "a pickle": b"\x80\x04\x95\x0e\x00\x00\x00\x00\x00\x00\x00\x8c\x02os",
    "nothing": b"",
}


@with_and_without_verify
@pytest.mark.parametrize("case", ATTACKS)
def test_an_invalid_safetensors_file_is_rejected(model_folder, case, verify):
    replace(model_folder, "attention.safetensors", ATTACKS[case])
    assert read_error(model_folder, verify=verify) == NOT_SAFETENSORS


@pytest.mark.parametrize(
    ("declared", "dtype"),
    [
        *(("float32", dtype) for dtype in (np.float64, np.float16, np.int32)),
        ("float16", np.int32),
    ],
)
def test_a_tensor_of_another_dtype_is_rejected(model_folder, declared, dtype):
    change_manifest(model_folder, lambda m: m.update(weights_dtype=declared))
    change_tensors(model_folder, lambda t: t.update(word_bias=t["word_bias"].astype(dtype)))
    assert read_error(model_folder).endswith(f": the dtype is not {declared}.")


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


WRONG_SHAPES = [
    *(("query", shape) for shape in [(7, 6), (5,), (5, 0), (5, 6, 1)]),
    *(("query_bias", shape) for shape in [(7,), (1, 6), ()]),
    *(("key", (7, 6)), ("key_bias", (5,)), ("value", (7, 21)), ("value_bias", (20,))),
    *(("output", (5, 21)), ("output_bias", (21,)), ("skip", (5, 7))),
    *(("position_bias", shape) for shape in [(13,), (1, 13), (3, 0)]),
    *(("word_bias_scale", shape) for shape in [(2,), (3, 1), ()]),
    *(("attention_norm.gain", (6,)), ("attention_norm.shift", (6,))),
    *(("feed_forward_norm.gain", (17,)), ("feed_forward_norm.shift", (1, 5))),
    *(("feed_forward.inner", (7, 17)), ("feed_forward.inner_bias", (5,))),
    *(("feed_forward.outer", (5, 17)), ("feed_forward.outer_bias", (17,))),
]


@pytest.mark.parametrize(("name", "shape"), WRONG_SHAPES)
def test_a_tensor_of_a_wrong_shape_is_named(model_folder, name, shape):
    wrong = np.ones(shape, np.float32)
    change_tensors(model_folder, lambda t: t.update({f"layers.1.{name}": wrong}))
    prefix = f"attention.safetensors, layers.1: {name} has shape {list(shape)}, expected ["
    assert read_error(model_folder).startswith(prefix)


def ones(**shapes):
    """A change that sets tensors of layer 0 to ones of a shape, or removes them (None)."""

    def change(tensors):
        for name, shape in shapes.items():
            full = f"layers.0.{name.replace('__', '.')}"
            tensors.pop(full, None)
            if shape is not None:
                tensors[full] = np.ones(shape, np.float32)

    return change


def update(name, shape, value=1):
    return lambda t: t.update({name: np.full(shape, value, np.float32)})


NO_NETWORK = {f"feed_forward__{name}": None for name in ("inner", "outer", "outer_bias")}
WIDTH = ", layers.0: {} has the wrong output width: expected 5"
HEADS = ", layers.0: the width of {} is not a multiple of the number of heads"
DIFFERENT = ", layers.0: query and key differ in width"
BIASES = ", layers.0: feed_forward has biases but no weights"
MISFITS = [
    (ones(query=(5, 9), query_bias=None), DIFFERENT),
    (ones(query=None, query_bias=None), DIFFERENT),
    (
        ones(query=(5, 7), query_bias=None, key=(5, 7), key_bias=None),
        HEADS.format("query and key"),
    ),
    (ones(value=(5, 7), value_bias=None, output=(7, 5)), HEADS.format("value")),
    (ones(output=None, output_bias=None), WIDTH.format("output")),
    (ones(output=(21, 7), output_bias=None), WIDTH.format("output")),
    (ones(position_bias=(3, 12)), ", layers.0: position_bias must have an odd number of columns"),
    (ones(attention_norm__shift=None), ", layers.0: attention_norm needs both gain and shift"),
    (ones(feed_forward_norm__gain=None), ", layers.0: feed_forward_norm needs both gain and shift"),
    *(
        (
            ones(feed_forward__outer=shape, feed_forward__outer_bias=None),
            WIDTH.format("feed_forward.outer"),
        )
        for shape in ((17, 7), None)
    ),
    (ones(final=(5, 7), final_bias=None), WIDTH.format("final")),
    *(
        (ones(**NO_NETWORK | {"feed_forward__inner_bias": None, bias: (5,)}), BIASES)
        for bias in ("feed_forward__inner_bias", "feed_forward__outer_bias")
    ),
    (
        ones(**NO_NETWORK, feed_forward__inner_bias=None),
        ", layers.0: feed_forward_norm is present, but the layer has no feed-forward network",
    ),
    (
        ones(query=(5, 9), query_bias=None, key=(5, 9), key_bias=None),
        " has layers of different head widths",
    ),
    *(
        (update("word_bias", shape), ": the shape of word_bias differs from manifest.json")
        for shape in ((7,), (11, 1))
    ),
    *(
        (update(name, (5, 6)), f" has unexpected tensors: {[name]}")
        for name in ("layers.2.query", "layers.0.Query", "query")
    ),
    (update("word_bias", 11, np.nan), ", word_bias: a value is not finite"),
    (
        update("layers.1.feed_forward.outer", (17, 5), np.inf),
        ", layers.1.feed_forward.outer: a value is not finite",
    ),
]


@with_and_without_verify
@pytest.mark.parametrize(("change", "expected"), MISFITS)
def test_tensors_that_do_not_fit_each_other_or_the_model_are_rejected(
    model_folder, change, expected, verify
):
    change_tensors(model_folder, change)
    assert read_error(model_folder, verify=verify) == f"attention.safetensors{expected}."


def test_a_missing_word_bias_is_reported(model_folder):
    change_tensors(model_folder, lambda t: t.pop("word_bias"))
    expected = "manifest.json requires the tensor word_bias, which is missing."
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


FITTED = ContextProjection(np.arange(5.0), np.arange(10.0).reshape(5, 2), np.array([1.0, 2, 3]))
WIDE = ContextProjection(np.arange(15.0), np.ones((15, 2)), np.array([1.0, 2, 3]))


@pytest.mark.parametrize(("fitted", "dtype"), [(FITTED, "float16"), (WIDE, "float64")])
def test_a_projection_round_trips(tmp_path, fitted, dtype):
    narrow = ContextProjection(*(np.asfortranarray(one, dtype) for one in fitted))
    folder = write_tiny(tmp_path / "tiny", senses=lambda _: narrow)
    for written, read in zip(narrow, read_model(folder).senses, strict=True):
        assert read.dtype == np.float64
        assert np.array_equal(written, read)


TENSORS = {name: one.astype(np.float32) for name, one in FITTED._asdict().items()}
INVALID = {
    "no safetensors file": b"no tensors",
    "no rule": save({name: one for name, one in TENSORS.items() if name != "rule"}),
    "another tensor": save({**TENSORS, "more": np.zeros(1)}),
    "integers": save({**TENSORS, "mean": np.arange(5)}),
    "not a number": save({**TENSORS, "mean": np.full(5, np.nan)}),
    "a mean of another width": save({**TENSORS, "mean": np.zeros(7)}),
    "a mean that is a matrix": save({**TENSORS, "mean": np.zeros((5, 1))}),
    "directions of another width": save({**TENSORS, "directions": np.ones((7, 2))}),
    "no directions": save({**TENSORS, "directions": np.ones((5, 0))}),
    "a vector of directions": save({**TENSORS, "directions": np.ones(5)}),
    "a long rule": save({**TENSORS, "rule": np.ones(5)}),
}


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_projection_is_rejected(tmp_path, case):
    folder = write_tiny(tmp_path / "tiny", senses=lambda _: FITTED)
    replace(folder, "senses.safetensors", save(TENSORS))
    read_model(folder)
    replace(folder, "senses.safetensors", INVALID[case])
    assert "senses.safetensors" in read_error(folder, verify=False)
