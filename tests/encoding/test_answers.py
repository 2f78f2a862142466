"""The answer of /v1/encode as JSON and NDJSON, made at once or sentence by sentence."""

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pybase64
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme.encoding import encode
from polyseme.encoding.encode import Batch, Timings
from polyseme.encoding.options import EncodeOptions
from polyseme.encoding.serialize import answer, number_bytes
from polyseme.errors import OutOfRangeError, TooLargeError, UnknownWordError
from polyseme.tokenizer import Tokenizer
from tests.encoding.asking import (
    EVERY,
    STREAMED,
    arrays_of,
    ask,
    batch_of,
    document_of,
    same_bits,
    written,
)
from tests.tiny import LIMITS, VECTORS, WORDS, tiny_model

TEXTS = ["Bank zebra didn't", "", "river"]
SENTENCE = st.lists(st.sampled_from([*WORDS, "zebra", "Zoë", '"\\']), max_size=9)


def decoded(document):
    data = pybase64.b64decode(document["data"], validate=True)
    return np.frombuffer(data, np.dtype(document["dtype"]).newbyteorder("<")).reshape(
        document["shape"]
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("mean", [True, False])
def test_arrays_come_back_equal(deep, dtype, mean):
    encoded = ask(deep, TEXTS, include=EVERY, mean_of_heads=mean)
    choice = {"include": EVERY, "mean_of_heads": mean, "dtype": dtype}
    numbers = document_of(deep, TEXTS, **choice)["results"]
    coded = document_of(deep, TEXTS, "base64", **choice)["results"]
    for one, plain, packed in zip(encoded, numbers, coded, strict=True):
        for part, array in one.arrays.items():
            right = array.astype(dtype)
            assert np.array(plain[part], dtype).reshape(array.shape).tobytes() == right.tobytes()
            assert packed[part]["dtype"] == dtype
            assert decoded(packed[part]).shape == array.shape
            assert decoded(packed[part]).tobytes() == right.tobytes()


@pytest.mark.parametrize("part", sorted(EVERY))
def test_an_array_that_was_not_asked_for_is_absent(deep, part):
    for result in document_of(deep, TEXTS, include=EVERY - {part})["results"]:
        assert set(result) == {"tokens", "truncated"} | EVERY - {part}


def test_the_document_of_an_answer_is_that_of_the_contract(deep):
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
    assert list(first) == ["tokens", "truncated", "static", "contextual", "attention"]
    assert first["tokens"] == [
        {"text": "Bank", "start": 0, "end": 4, "key": "bank", "resolution": "lower"},
        {"text": "zebra", "start": 5, "end": 10, "key": None, "resolution": "oov"},
    ]
    assert (first["truncated"], second["truncated"]) == (1, 0)


def test_words_that_are_already_cut_have_no_place(deep):
    assert document_of(deep, [["bank"]])["results"][0]["tokens"] == [
        {"text": "bank", "start": None, "end": None, "key": "bank", "resolution": "exact"}
    ]


def test_a_line_of_ndjson_is_an_entry_of_the_results(deep):
    data = written(deep, TEXTS, "ndjson")
    assert data.endswith(b"\n")
    lines = data[:-1].split(b"\n")
    assert [json.loads(line) for line in lines] == document_of(deep, TEXTS)["results"]
    assert b",".join(lines) in written(deep, TEXTS)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    texts=st.lists(SENTENCE | SENTENCE.map(" ".join), min_size=1, max_size=5),
    include=st.sets(st.sampled_from(sorted(EVERY))),
    kind=st.sampled_from(["json", "ndjson", "npz"]),
    encoding=st.sampled_from(["float", "base64"]),
    dtype=st.sampled_from(["float32", "float16"]),
    kept=st.sampled_from([0, 3, 1000]),
)
def test_an_answer_has_the_same_bytes_at_once_and_as_it_is_made(
    deep, texts, include, kind, encoding, dtype, kept
):
    choice = {"include": frozenset(include), "dtype": dtype}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "_KEPT", kept)
        streamed = written(deep, texts, kind, encoding, STREAMED, **choice)
    assert written(deep, texts, kind, encoding, **choice) == streamed


@settings(max_examples=40, deadline=None, derandomize=True)
@given(texts=st.lists(SENTENCE, min_size=1, max_size=5))
def test_json_and_npz_have_the_same_numbers(deep, texts):
    document = document_of(deep, texts, "base64", STREAMED, include=EVERY)
    arrays = arrays_of(deep, texts, STREAMED, include=EVERY)
    facts = json.loads(arrays["tokens"].tobytes())
    for number, result in enumerate(document["results"]):
        assert facts[number] == {name: result[name] for name in ("tokens", "truncated")}
        rows = slice(*arrays["offsets"][number : number + 2])
        for part in EVERY:
            name = f"{part}_{number}"
            found = arrays[name] if name in arrays else arrays[part][rows]
            assert found.tobytes() == decoded(result[part]).tobytes()
            assert list(found.shape) == result[part]["shape"]


class Counting(Tokenizer):
    """A tokenizer that counts the texts it cuts."""

    cut = 0

    def tokens(self, *arguments):
        self.cut += 1
        return super().tokens(*arguments)


def counted(model):
    """The model with a tokenizer that counts."""
    model = replace(model)
    vars(model)["plain_tokenizer"] = Counting(model.vocabulary)
    return model


@pytest.mark.parametrize("kind", ["json", "ndjson", "npz"])
def test_a_small_answer_is_cut_into_tokens_and_encoded_once(deep, kind):
    model = counted(deep)
    stages = Timings()
    batch = Batch(model, ["bank river", "money"], EncodeOptions(), LIMITS, stages)
    assert not batch.large
    batch.hold()
    spent = dict(stages.milliseconds)
    b"".join(answer(batch, kind))
    assert model.plain_tokenizer.cut == 2
    assert stages.milliseconds == spent


def test_of_a_large_answer_with_many_tokens_only_their_number_is_kept(deep, monkeypatch):
    monkeypatch.setattr(encode, "_KEPT", 2)
    model = counted(deep)
    batch = batch_of(model, ["bank river", "money"], STREAMED)
    assert batch.large and batch.lengths == [2, 1]
    assert model.plain_tokenizer.cut == 2
    assert same_bits(list(batch)[1], list(batch)[1])
    assert model.plain_tokenizer.cut == 6


@pytest.mark.parametrize(
    ("kind", "encoding", "dtype"),
    [
        ("json", "float", "float32"),
        ("json", "base64", "float16"),
        ("ndjson", "base64", "float32"),
        ("npz", "float", "float16"),
    ],
)
def test_an_answer_is_large_where_its_arrays_alone_are_over_the_setting(
    deep, kind, encoding, dtype
):
    size = 3 * 5 * 2 + 9 * 3 * 2  # rows and attention of three tokens
    size *= number_bytes(kind, encoding, dtype)
    texts = ["bank river money"]
    for setting, large in ((size - 1, True), (size + 10_000, False)):
        limits = replace(LIMITS, stream_bytes=int(setting))
        one = Batch(
            deep, texts, EncodeOptions(), limits, Timings(), number_bytes(kind, encoding, dtype)
        )
        assert one.large is large


def test_an_answer_of_tokens_alone_is_large_where_they_are_many(deep):
    limits = replace(LIMITS, stream_bytes=10_000)
    for words, large in ((50, False), (500, True)):
        assert batch_of(deep, ["bank " * words], limits, include=frozenset()).large is large


def test_errors_of_tokens_come_before_the_first_piece(deep):
    for limits in (STREAMED, LIMITS):
        with pytest.raises(UnknownWordError) as caught:
            batch_of(deep, ["bank", "gnu bank zebra"], limits, oov="error")
        assert [error.pointer for error in caught.value.errors] == ["/input/1", "/input/1"]
        assert caught.value.words == ["gnu", "zebra"]
    with pytest.raises(TooLargeError):
        batch_of(deep, ["bank"] * 4, replace(STREAMED, max_tokens=3))


def test_float16_that_cannot_hold_a_number_is_refused_when_its_sentence_comes(tmp_path):
    vectors = VECTORS * np.float32(1)
    vectors[WORDS.index("end")] *= 1e6
    model = tiny_model(tmp_path, vectors=vectors)
    lines = answer(batch_of(model, ["bank", "end"], STREAMED, dtype="float16"), "ndjson")
    assert b"".join(next(lines) for _ in range(9)).endswith(b"}\n")
    with pytest.raises(OutOfRangeError) as caught:
        list(lines)
    assert caught.value.errors[0].pointer == "/dtype"


@pytest.mark.parametrize("kind", ["json", "ndjson", "npz"])
def test_memory_does_not_grow_with_the_batch(deep, kind):
    def peak(sentences):
        """Of what is made on the way; the counts are made before, the texts are one."""
        batch = batch_of(deep, ["bank river money did"] * sentences, wide)
        tracemalloc.start()
        assert sum(map(len, answer(batch, kind, "base64"))) > 400 * sentences
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    wide = replace(STREAMED, max_sentences=10**6, max_tokens=10**6)
    peak(10)
    few, many = peak(300), peak(1200)
    # A file in the archive for the attention of each sentence has its entry in the directory.
    growth = 1500 if kind == "npz" else 20
    assert many - few < 900 * growth + 100_000
