"""`--weights` with an invalid file: each kind has its own message."""

import importlib

import numpy as np
import pytest

from tests.importing import files
from tests.importing.weight_files import HEADS, LACKING, ROW, SQUARE, D, save, tiny_vectors
from tests.tiny import normal

RNG = np.random.default_rng(17)


@pytest.fixture
def vectors(importer):
    return tiny_vectors(importer)


def refusal(importer, vectors, tensors, *options, metadata=None):
    given = save(importer, tensors, metadata)
    return importer.refusal(vectors, "--weights", given, *options)


KNOWN = (
    "known are query, key, value and output (of a second layer layers.1.query etc.), aliases such"
    " as q_proj.weight, and the names in models/README.md."
)
NO_FIT = "which does not fit vectors of dimension 5 in the row convention"
TRANSPOSE = "--convention column transposes it."
WIDE = normal(RNG, 7, 6)
INVALID = {
    "row given as column": (
        {"query": ROW["query"].T},
        f"The weights' tensor layers.0.query is 6 by 5, {NO_FIT}; {TRANSPOSE}",
    ),
    "output given as column": (
        {**ROW, "output": ROW["output"].T},
        f"The weights' tensor layers.0.output is 5 by 21, {NO_FIT}; {TRANSPOSE}",
    ),
    "fits neither": (
        {"key": WIDE},
        f"The weights' tensor layers.0.key is 7 by 6, {NO_FIT}.",
    ),
    "vector": ({"value": SQUARE[0]}, "The weights' tensor layers.0.value is not a matrix."),
    "cube": ({"Wq": normal(RNG, 5, 5, 1)}, "The weights' tensor layers.0.query is not a matrix."),
    "key wider than query": (
        {**ROW, "key": normal(RNG, D, 9)},
        "The weights, layers.0: query and key differ in width.",
    ),
    "value without output": (
        {"value": ROW["value"]},
        "The weights, layers.0: output has the wrong output width: expected 5.",
    ),
    "output that does not take the values": (
        {**ROW, "output": normal(RNG, 13, D)},
        "The weights, layers.0: output has shape [13, 5], expected [21, ≥1].",
    ),
    "bias of another width": (
        {"query": SQUARE, "query_bias": SQUARE[0, :3]},
        "The weights, layers.0: query_bias has shape [3], expected [5].",
    ),
    "no columns": (
        {"query": np.empty((5, 0), np.float32), "key": np.empty((5, 0), np.float32)},
        "The weights, layers.0: query has shape [5, 0], expected [5, ≥1].",
    ),
    "word bias of another length": (
        {"query": SQUARE, "word_bias": np.zeros(7, np.float32)},
        "The weights' word_bias does not have the shape [11].",
    ),
    "norm that the metadata lack": (
        {f"layers.0.attention_norm.{part}": SQUARE[0] for part in ("gain", "shift")},
        "The weights, layers.0: attention_norm is present, but the metadata set `norm: none`.",
    ),
    "unknown": ({"Wz": SQUARE}, f"The weights have an unknown tensor Wz; {KNOWN}"),
    "unknown in a layer": (
        {"layers.0.gate": SQUARE},
        f"The weights have an unknown tensor layers.0.gate; {KNOWN}",
    ),
    "of another model": (
        {"model.layers.0.self_attn.q_proj.weight": SQUARE},
        f"The weights have an unknown tensor model.layers.0.self_attn.q_proj.weight; {KNOWN}",
    ),
    "hostile": (
        {"query\n\x1b[31m" + "y" * 999: SQUARE},
        f"The weights have an unknown tensor query???31m{'y' * 49}; {KNOWN}",
    ),
    "one tensor under two names": (
        {"query": SQUARE, "Wq": SQUARE},
        "The weights have the same tensor under two names, such as query and q_proj.weight.",
    ),
    "second layer alone": (
        {"layers.1.query": SQUARE},
        "The weights have a layer 1 but no layer 0; the first layer is 0.",
    ),
    "a layer left out": (
        {"query": SQUARE, "layers.2.query": SQUARE},
        "The weights have a layer 2 but no layer 1; the first layer is 0.",
    ),
    "no projection": (
        {"word_bias": np.zeros(11, np.float32)},
        "The weights have no projection: query, key, value or output.",
    ),
    "nothing": ({}, "The weights have no projection: query, key, value or output."),
    "integers": (
        {"query": np.ones((5, 5), np.int64)},
        "The weights' tensor query has the dtype I64; save it as F32, F16 or F64.",
    ),
    "booleans": (
        {"query": np.ones((5, 5), bool)},
        "The weights' tensor query has the dtype BOOL; save it as F32, F16 or F64.",
    ),
    "complex": (
        {"query": np.ones((5, 5), np.complex64)},
        "The weights' tensor query has the dtype C64; save it as F32, F16 or F64.",
    ),
    "not a number": (
        {"query": SQUARE * np.float32("nan")},
        "The weights' tensor query has a value that is not finite as float32.",
    ),
    "infinite": (
        {"query_bias": np.full(5, -np.inf), "key": SQUARE},
        "The weights' tensor query_bias has a value that is not finite as float32.",
    ),
    "beyond float32": (
        {"query": np.full((5, 5), 1e39)},
        "The weights' tensor query has a value that is not finite as float32.",
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_weights_are_rejected_in_one_sentence(importer, vectors, case):
    tensors, sentence = INVALID[case]
    assert refusal(importer, vectors, tensors) == sentence


def test_kinds_of_invalid_weights_have_distinct_messages():
    messages = {}
    for case, (_, message) in INVALID.items():
        messages.setdefault(message, []).append(case)
    assert [cases for cases in messages.values() if len(cases) > 1] == [
        ["no projection", "nothing"],
        ["not a number", "beyond float32"],
    ]


def test_a_wrong_shape_is_reported_in_the_declared_convention(importer, vectors):
    sentence = refusal(importer, vectors, ROW, "--convention", "column", *HEADS)
    assert "in the column convention; --convention row transposes it." in sentence
    wide = refusal(importer, vectors, {"key": WIDE}, "--convention", "column")
    assert wide.endswith(
        "7 by 6, which does not fit vectors of dimension 5 in the column convention."
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_dtypes_that_numpy_lacks_are_rejected_by_their_name(importer, vectors, dtype):
    torch = pytest.importorskip("torch", reason="PyTorch alone writes such files")
    path = importer.place / "given.safetensors"
    written = torch.ones(5, 5).to(getattr(torch, dtype))
    importlib.import_module("safetensors.torch").save_file({"query": written}, path)
    sentence = importer.refusal(vectors, "--weights", path)
    assert sentence.startswith("The weights' tensor query has the dtype ")
    assert sentence.endswith("; save it as F32, F16 or F64.")


@pytest.mark.parametrize("heads", [4, 1024])
def test_heads_that_do_not_divide_are_rejected(importer, vectors, heads):
    sentence = refusal(importer, vectors, ROW, "--heads", heads)
    expected = "the width of query and key is not a multiple of the number of heads."
    assert sentence == f"The weights, layers.0: {expected}"


NO_HEADS = "`heads` in the weights' metadata is not an integer from 1 to 1024."
METADATA = {
    "no heads": ({"heads": "0"}, NO_HEADS),
    "negative heads": ({"heads": "-1"}, NO_HEADS),
    "heads in words": ({"heads": "three"}, NO_HEADS),
    "too many heads": ({"heads": "1025"}, NO_HEADS),
    "heads of 5,000 digits": ({"heads": "9" * 5000}, NO_HEADS),
    "layers that are no JSON": (
        {"layers": "scale"},
        "`layers` in the weights' metadata does not have the form of a manifest's `layers`.",
    ),
    "layers with an unknown field": (
        {"layers": '[{"scale": true, "speed": 3}]'},
        "`layers` in the weights' metadata does not have the form of a manifest's `layers`.",
    ),
    "no layers": (
        {"layers": "[]"},
        "The weights' metadata describe 0 layers, but the tensors have 1.",
    ),
    "two layers": (
        {"layers": "[{}, {}]"},
        "The weights' metadata describe 2 layers, but the tensors have 1.",
    ),
    "a missing word bias": (
        {"layers": '[{"word_bias": true}]'},
        LACKING,
    ),
}


def test_factors_without_a_word_bias_are_rejected_in_one_sentence(importer, vectors):
    tensors = {"query": SQUARE, "layers.0.word_bias_scale": np.ones(1, np.float32)}
    assert refusal(importer, vectors, tensors) == (
        "The weights, layers.0: word_bias_scale requires `word_bias: true` in the metadata."
    )


@pytest.mark.parametrize("case", METADATA)
def test_invalid_metadata_are_rejected_in_one_sentence(importer, vectors, case):
    metadata, sentence = METADATA[case]
    assert refusal(importer, vectors, {"query": SQUARE}, metadata=metadata) == sentence


def damaged(content):
    """Damaged copies of a safetensors file."""
    return {
        "empty": b"",
        "text": b"query 1 2 3 4 5\n",
        "cut in the header": content[:20],
        "cut in the numbers": content[:-4],
        "longer than declared": content + b"\0" * 4,
        "a header without end": b"\xff" * 8 + content[8:],
        "pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
        "zip of torch.save": files.archive({"archive/data.pkl": b"\x80\x02}q\x00."}),
    }


@pytest.mark.parametrize("case", damaged(b""))
def test_an_invalid_safetensors_file_is_rejected_in_one_sentence(importer, vectors, case):
    path = save(importer, {"query": SQUARE})
    path.write_bytes(damaged(path.read_bytes())[case])
    sentence = importer.refusal(vectors, "--weights", path)
    assert sentence == "The weights cannot be read as a safetensors file."
