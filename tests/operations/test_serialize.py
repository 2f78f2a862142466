"""Responses as JSON, NDJSON and `.npz`."""

import base64
import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import orjson
import pybase64
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_arrays

from polyseme.errors import OutOfRangeError, TooLargeError
from polyseme.operations import serialize
from polyseme.operations.encode import Encoded, TokenCounts, tokenize
from polyseme.operations.limits import MAX_VALUE_BYTES
from polyseme.operations.schema import EncodeOptions
from polyseme.operations.serialize import sentence_parts
from polyseme.tokenizer import Tokenized
from tests.operations.calls import EVERY, arrays_of, ask, document_of, json_of, npz_of, too_large
from tests.tiny import LIMITS, VECTORS, WORDS, tiny_model

TEXTS = ["Bank zebra didn't", "", "river", "apple bank"]
COUNTS = [4, 0, 1, 2]
SENTENCE = st.lists(st.sampled_from([*WORDS, "zebra", "Zoë", '"\\']), max_size=9)
ARRAYS = hypothesis_arrays.arrays(
    st.sampled_from([np.float32, np.float16]),
    hypothesis_arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=7),
    elements={"allow_nan": False, "allow_infinity": False},
)


def decoded(document):
    """The array of a base64 document."""
    data = pybase64.b64decode(document["data"], validate=True)
    dtype = np.dtype(document["dtype"]).newbyteorder("<")
    return np.frombuffer(data, dtype).reshape(document["shape"])


def test_the_json_document_is_that_of_the_contract(deep):
    limits = replace(LIMITS, max_sentence_tokens=2)
    document = document_of(deep, ["Bank zebra river", "apple"], limits=limits, truncate=True)
    assert {k: v for k, v in document.items() if k != "results"} == {
        "model": "tiny",
        "dimension": 5,
        "layers": 2,
        "heads": 3,
        "usage": {"tokens": 3, "oov": 1, "truncated": 1},
    }
    assert list(document) == ["model", "dimension", "layers", "heads", "results", "usage"]
    first, second = document["results"]
    assert set(first) == {"tokens", "truncated", "static", "contextual", "attention"}
    assert first["tokens"] == [
        {"text": "Bank", "start": 0, "end": 4, "key": "bank", "resolution": "lower"},
        {"text": "zebra", "start": 5, "end": 10, "key": None, "resolution": "oov"},
    ]
    assert (first["truncated"], second["truncated"]) == (1, 0)
    assert document_of(deep, [["bank"]])["results"][0]["tokens"] == [
        {"text": "bank", "start": None, "end": None, "key": "bank", "resolution": "exact"}
    ]
    nothing = document_of(deep, [])
    assert nothing["results"] == []
    assert nothing["usage"] == {"tokens": 0, "oov": 0, "truncated": 0}


def sentence_json(one, encoding="float"):
    """The JSON of a sentence."""
    return b"".join(sentence_parts(one, encoding))


def test_json_of_a_sentence_is_an_entry_of_the_results_in_one_line(deep):
    lines = [sentence_json(one) for one in ask(deep, TEXTS)]
    assert not any(b"\n" in line for line in lines)
    assert [json.loads(line) for line in lines] == document_of(deep, TEXTS)["results"]
    assert b",".join(lines) in json_of(deep, TEXTS)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(texts=st.lists(SENTENCE, min_size=1, max_size=5))
def test_json_and_npz_have_the_same_numbers(deep, texts):
    document = document_of(deep, texts, "base64", include=EVERY)
    arrays = arrays_of(deep, texts, include=EVERY)
    fields = json.loads(arrays["tokens"].tobytes())
    for number, result in enumerate(document["results"]):
        assert fields[number] == {name: result[name] for name in ("tokens", "truncated")}
        rows = slice(*arrays["offsets"][number : number + 2])
        for part in EVERY:
            name = f"{part}_{number}"
            found = arrays[name] if name in arrays else arrays[part][rows]
            assert found.tobytes() == decoded(result[part]).tobytes()
            assert list(found.shape) == result[part]["shape"]


@pytest.mark.parametrize("size", [3, 1 << 17])
@settings(max_examples=50, deadline=None, derandomize=True)
@given(array=ARRAYS)
def test_any_array_can_be_written_as_numbers_and_as_base64(size, array):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serialize, "_PART_NUMBERS", size)
        patch.setattr(serialize, "_SLICE", 3 * size)
        arrays = {"static": array, "values": array.T}
        numbers = json.loads(sentence_json(Encoded(Tokenized([]), arrays)))
        big_endian = {"keys": array.astype(array.dtype.newbyteorder(">"))}
        packed = json.loads(sentence_json(Encoded(Tokenized([]), arrays | big_endian), "base64"))
    for part, expected in arrays.items():
        assert np.array_equal(np.array(numbers[part], array.dtype).ravel(), expected.ravel())
    for part, expected in (*arrays.items(), ("keys", array)):
        assert packed[part] == {
            "shape": list(expected.shape),
            "dtype": array.dtype.name,
            "data": base64.b64encode(expected.tobytes()).decode(),
        }


def test_a_number_out_of_the_range_of_float16_is_rejected(tmp_path):
    vectors = VECTORS.copy()
    vectors[WORDS.index("end")] *= 1e6
    model = tiny_model(tmp_path, vectors=vectors)
    assert ask(model, ["bank"], dtype="float16")
    with pytest.raises(OutOfRangeError) as caught:
        ask(model, ["bank", "end"], dtype="float16")
    assert caught.value.errors[0].pointer == "/dtype"


def test_the_arrays_of_an_npz_are_those_of_the_contract(deep):
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
    mean = arrays_of(deep, TEXTS, heads="mean", dtype="float16")["attention_0"]
    assert (mean.shape, mean.dtype) == ((2, 4, 4), np.float16)
    archive = zipfile.ZipFile(io.BytesIO(npz_of(deep, TEXTS, include=EVERY)))
    assert archive.testzip() is None
    assert {one.compress_type for one in archive.infolist()} == {zipfile.ZIP_STORED}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_an_npz_of_empty_sentences_has_empty_arrays(deep, dtype):
    arrays = arrays_of(deep, ["", []], include=EVERY, dtype=dtype)
    assert arrays["offsets"].tolist() == [0, 0, 0]
    assert arrays["static"].shape == (0, 5)
    assert arrays["attention_1"].shape == (2, 3, 0, 0)
    none = arrays_of(deep, [], dtype=dtype)
    assert none["offsets"].tolist() == [0]
    assert (none["static"].shape, none["static"].dtype) == ((0, 5), dtype)


SIZES = [
    {},
    {"include": EVERY},
    {"include": EVERY, "layers": [0], "heads": "mean"},
    {"include": ["static"]},
    {"include": ["values"]},
    {"include": ["keys", "scores"]},
]


@pytest.mark.parametrize("options", SIZES)
def test_the_size_of_the_arrays_is_known_before_they_are_made(deep, options):
    texts = [*TEXTS, "zebra bank"]
    per_token, per_pair = EncodeOptions(**options).size_coefficients(deep)
    for one in ask(deep, texts, **options):
        n = len(one.tokens)
        size = sum(array.size for array in one.arrays.values())
        assert size == n * per_token + n * n * per_pair


@pytest.mark.parametrize("form", ["json", "base64", "npz"])
def test_a_large_response_is_written_in_parts_of_the_same_content(deep, monkeypatch, form):
    texts = [*TEXTS, "zebra bank " * 20]

    def content():
        if form == "npz":
            return {name: array.tolist() for name, array in arrays_of(deep, texts).items()}
        return document_of(deep, texts, "base64" if form == "base64" else "float", include=EVERY)

    whole = content()
    sizes = {"_WHOLE_NUMBERS": 100, "_PART_NUMBERS": 100, "_PART_BYTES": 500, "_SLICE": 300}
    for name, value in sizes.items():
        monkeypatch.setattr(serialize, name, value)
    assert content() == whole
    encoded = ask(deep, texts, include=EVERY)
    counts = TokenCounts(one.sentence for one in encoded)
    parts = [*serialize.encode_json(deep, encoded, counts, EncodeOptions())]
    assert len(parts) > 20 and max(map(len, parts)) < 5000


def test_the_longest_number_and_its_comma_have_the_maximum_number_of_bytes():
    rng = np.random.default_rng(5)
    numbers = np.append(rng.uniform(-1e-4, -1e-5, 10_000), -1.37053285e-5).astype(np.float32)
    text = orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
    assert max(map(len, text.split(b","))) + 1 == MAX_VALUE_BYTES["float"]
    assert len(base64.b64encode(bytes(12))) == 3 * MAX_VALUE_BYTES["base64"]


@pytest.mark.parametrize("options", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_response_over_the_limit_is_rejected(tmp_path, options, dtype):
    # Each number has the maximum number of characters.
    model = tiny_model(tmp_path, vectors=VECTORS * np.float32(-1.37053285e-5))
    texts = ["bank river money did high", "end " * 20]
    options = {**options, "dtype": dtype}
    for form, size in (
        ("float", len(json_of(model, texts, **options))),
        ("base64", len(json_of(model, texts, "base64", **options))),
        ("npz", len(npz_of(model, texts, **options))),
    ):
        # At most 5000 bytes are names, shapes and the directory of the archive.
        written = {"number_bytes": MAX_VALUE_BYTES[form], **options}
        error = size_error(model, texts, max_answer_bytes=size - 5000, **written)
        bound = size_error(model, texts[-1:], max_answer_bytes=1, **written)["size"]
        assert error["setting"] == "max_answer_bytes"
        limits = replace(LIMITS, max_answer_bytes=error["size"] + bound)
        sized(model, texts, limits, **written)


def sized(model, texts, limits, number_bytes, *, streamed=False, **options):
    """Tokenize texts whose response is written with so many bytes a number."""
    options = EncodeOptions(**options)
    return tokenize(model, texts, options, limits, number_bytes=number_bytes, streamed=streamed)


def size_error(model, texts, *, max_answer_bytes, **written):
    """The members of the error of a response that is too large."""
    with pytest.raises(TooLargeError) as caught:
        sized(model, texts, replace(LIMITS, max_answer_bytes=max_answer_bytes), **written)
    return caught.value.members() | {"hint": caught.value.hint}


def test_the_limit_is_on_the_whole_response_or_on_each_line(deep):
    texts = ["bank river money"]
    size = size_error(deep, texts, max_answer_bytes=1, number_bytes=4)["size"]
    # Two vectors a token, weights of 2 layers and 3 heads, 128 bytes for each token and 8 for each
    # character.
    assert size == 4 * (3 * 5 * 2 + 9 * 3 * 2) + 3 * 128 + 16 * 8
    limits = replace(LIMITS, max_answer_bytes=size)
    sized(deep, texts * 10, limits, 4, streamed=True)
    error = size_error(deep, texts * 10, max_answer_bytes=size, number_bytes=4)
    assert error["size"] == 10 * size
    assert "application/x-ndjson" in error["hint"]
    # Tokens count also in a response without arrays.
    tokens = [["bank"]] * 1000
    sized(deep, tokens, replace(LIMITS, max_answer_bytes=200_000), 16, include=[])
    error = size_error(deep, tokens, max_answer_bytes=100_000, number_bytes=16, include=[])
    assert error["size"] == 1000 * (128 + 4 * 8)


def test_the_pairs_of_tokens_times_heads_and_layers_are_limited(deep):
    texts = ["bank river money", "bank zebra"]
    size = (9 + 4) * 2 * 3
    tokenize(deep, texts, EncodeOptions(), replace(LIMITS, max_pairs=size))
    with too_large(setting="max_pairs", limit=size - 1, size=size):
        tokenize(deep, texts, EncodeOptions(), replace(LIMITS, max_pairs=size - 1))
    tokenize(deep, texts, EncodeOptions(include=["static"]), replace(LIMITS, max_pairs=1))
