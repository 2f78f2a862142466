"""A model in this process and both clients return the same results, bit for bit."""

import asyncio
import inspect
import re
import typing
from dataclasses import replace

import numpy as np
import pytest
from pandas import DataFrame

from polyseme.client import AsyncClient, Client, LocalModel, NoSuchTokenError, Occurrence
from polyseme.client.encoder import (
    CompareArguments,
    EncodeArguments,
    Encoder,
    SensesArguments,
    SharedArguments,
)
from polyseme.client.local import UNLIMITED
from polyseme.client.transport import TransportOptions
from polyseme.engine.layers import Layer, Residual
from polyseme.errors import InvalidError, OutOfRangeError, PolysemeError, UnknownWordError
from polyseme.operations.options import DEFAULT_PARTS, SharedOptions
from tests.client.equality import require_same
from tests.tiny import VECTORS, tiny_model

TEXTS = ["Apple apple bank", "", "river gnu bank", "qzx did n't end", "money", "zzz zzz"]
WORDS = [["river", "bank"], [], ["Apple", "gnu", "zzz"]]
OPTIONS = [
    {},
    {"include": ["static", "contextual", "attention", "queries", "keys", "values", "scores"]},
    {"include": []},
    {"include": ["contextual"]},
    {"include": ("scores", "values")},
    {"layers": "last"},
    {"layers": [1, 0, 1], "include": ["attention", "queries"]},
    {"layers": [1]},
    {"heads": "mean", "include": ["attention", "scores", "keys"]},
    {"oov": "zero"},
    {"oov": "subword"},
    {"case": "exact"},
    {"case": "lower"},
    {"phrases": True},
    {"dtype": "float16"},
    {"include": ["features"]},
    {"share": 1.5, "include": ["contextual"]},
    {"share": 0},
    {"include": ["features", "static", "attention"], "dtype": "float16"},
]


@pytest.fixture(scope="module")
def remote(url):
    with Client(url) as client:
        yield client


def call_async(url, method, *args, **kwargs):
    """Call a method of the asynchronous client."""

    async def run():
        async with AsyncClient(url) as client:
            found = getattr(client, method)(*args, **kwargs)
            return [one async for one in found] if method == "encode_each" else await found

    return asyncio.run(run())


def call_all(local, remote, url, method, *args, **kwargs):
    """Call a method of the model and of both clients; return the result after comparing them."""
    expected = getattr(local, method)(*args, **kwargs)
    expected = list(expected) if method == "encode_each" else expected
    found = getattr(remote, method)(*args, **kwargs)
    require_same(list(found) if method == "encode_each" else found, expected)
    require_same(call_async(url, method, *args, **kwargs), expected)
    return expected


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("texts", [TEXTS, WORDS, [*TEXTS, *WORDS, "bank"]], ids=len)
def test_sentences_are_the_same(local, remote, url, texts, options):
    found = call_all(local, remote, url, "encode", texts, **options)
    assert len(found) == len(texts)


def test_sentences_one_by_one_are_the_same(local, remote, url):
    found = call_all(local, remote, url, "encode_each", TEXTS * 20, layers="last")
    assert len(found) == 20 * len(TEXTS)


def test_options_have_their_documented_effect(remote):
    def encode(**options):
        return remote.encode(["Apple gnu apple"], **options)[0]

    whole = encode(include=["static", "attention", "scores"])
    mean = encode(heads="mean")
    assert whole.attention.shape == (2, 3, 3, 3) and "contextual" not in whole.arrays
    assert mean.attention == pytest.approx(whole.attention.mean(axis=1), abs=1e-6)
    assert np.array_equal(encode(layers="last").attention[0], whole.attention[1])
    assert np.array_equal(encode(layers=[0]).attention[0], whole.attention[0])
    assert whole.static[1].tolist() == [2, 0, 0, 0, 1]  # composed of its trigrams (tests/tiny.py)
    assert encode(oov="zero").static[1].tolist() == [0] * 5
    assert [token.key for token in encode(case="lower").tokens] == ["apple", None, "apple"]
    (phrase,) = remote.encode(["river bank"], phrases=True)
    assert [(token.text, token.key) for token in phrase.tokens] == [("river bank", "river_bank")]
    assert encode(dtype="float16").static.dtype == np.float16
    with pytest.raises(UnknownWordError):
        encode(oov="error")


def test_a_long_sentence_is_truncated_in_the_same_way(local, url):
    limited = LocalModel(local.model, limits=replace(UNLIMITED, max_sentence_tokens=30))
    with Client(url) as remote:
        found = call_all(limited, remote, url, "encode", ["bank " * 33], truncate=True)
    assert found[0].truncated == 3


@pytest.mark.parametrize("dimensions", [None, 2])
@pytest.mark.parametrize("pooling", [None, "mean", "informativeness"])
@pytest.mark.parametrize("texts", [TEXTS * 10, WORDS, []], ids=len)
def test_sentence_vectors_are_the_same(local, remote, url, texts, pooling, dimensions):
    options = {"pooling": pooling, "dimensions": dimensions}
    found = call_all(local, remote, url, "embed", texts, **options)
    assert found.shape == (len(texts), dimensions or 5)
    # An empty text has a zero vector.
    assert len(texts) == 0 or (found[1] == 0).all()


def test_a_share_that_is_no_number_from_0_to_4_is_rejected(local, remote):
    for share in (-1, 4.5, float("nan"), "1", True):
        for encoder in (local, remote):
            with pytest.raises(InvalidError) as caught:
                encoder.encode(["bank"], share=share)
            assert caught.value.errors[0].pointer == "/share"
            with pytest.raises(InvalidError):
                encoder.compare([("bank", "bank"), ("bank river", "bank")], share=share)


def test_a_share_of_a_comparison_is_the_same_everywhere(local, remote, url):
    pairs = [("river bank", "bank"), ("money bank", "bank")]
    found = [call_all(local, remote, url, "compare", pairs, share=s) for s in (0, 4)]
    assert found[0].contextual_similarity[0, 1] != found[1].contextual_similarity[0, 1]


@pytest.mark.parametrize("kind", ["static", "contextual", "features"])
def test_the_vector_of_a_word_is_its_row(local, remote, url, kind):
    (sentence,) = local.encode(["bank river bank"], include=[kind])
    found = call_all(local, remote, url, "vector", "bank river bank", "bank", nth=1, kind=kind)
    assert np.array_equal(found, getattr(sentence, kind)[2])
    tokenized = call_all(local, remote, url, "vector", ["Apple", "n't"], "n't")
    assert np.array_equal(tokenized, local.encode([["Apple", "n't"]])[0].contextual[1])


def test_phrases_are_compared_and_clustered_in_the_same_way(local, remote, url):
    pairs = [("a river bank", "river bank"), ("River  bank money", "River bank")]
    found = call_all(local, remote, url, "compare", pairs, phrases=True)
    assert [one.token.key for one in found.occurrences] == ["river_bank"] * 2
    texts = [text for text, _ in pairs]
    senses = call_all(local, remote, url, "senses", "river bank", texts, phrases=True)
    assert [(one.start, one.end) for one in senses.occurrences] == [(2, 12), (0, 11)]
    for encoder in (local, remote):
        with pytest.raises(InvalidError):
            encoder.compare(pairs)
        vector = call_all(local, remote, url, "vector", *pairs[1], phrases=True)
        (sentence,) = encoder.encode(["River  bank money"], phrases=True)
        assert np.array_equal(vector, sentence[0].contextual)
        assert sentence["river bank"].key == "river_bank"


def test_the_option_phrases_must_be_a_boolean(local, remote):
    pairs = [("the bank", "bank"), ("a bank", "bank")]
    for encoder in (local, remote):
        for call in (
            lambda one: one.encode(["the bank"], phrases="yes"),
            lambda one: one.compare(pairs, phrases=1),
            lambda one: one.senses("bank", ["the bank"], phrases="no"),
        ):
            with pytest.raises(InvalidError, match="`phrases`: must be true or false"):
                call(encoder)


def test_the_poolings_differ(remote):
    mean, weighted = (remote.embed(["Apple bank"], pooling=p) for p in ("mean", "informativeness"))
    assert not np.allclose(mean, weighted)


def test_comparisons_are_the_same(local, remote, url):
    pairs = [("river bank", "bank"), Occurrence("money bank", start=6, end=10), ("gnu", "gnu")]
    found = call_all(local, remote, url, "compare", pairs, neighbors=3)
    assert found.contextual_similarity.shape == (3, 3)
    assert [len(one.static_neighbors) for one in found.occurrences] == [3, 3, 3]
    assert found.notes[0].startswith("Occurrences 0 and 1 share")


@pytest.mark.parametrize("near", ["bank", "gnu", [1, 0, 0, 0, 2], np.ones(5, np.float32)], ids=str)
def test_neighbors_are_the_same(local, remote, url, near):
    assert len(call_all(local, remote, url, "neighbors", near, 4)) == 4


def test_the_largest_values_of_fields_are_accepted_everywhere(local, remote, url):
    assert len(call_all(local, remote, url, "neighbors", "bank", 1000)) == 10  # all other words
    call_all(local, remote, url, "compare", [("bank", "bank")] * 2, neighbors=100)
    sizes = {"senses": 20, "keywords": 100, "neighbors": 100, "examples": 100, "forms": ["a"] * 64}
    senses = call_all(local, remote, url, "senses", "bank", ["bank"] * 20, **sizes)
    assert len(senses.occurrences) == 20


def test_traces_are_the_same(local, remote, url):
    found = call_all(local, remote, url, "trace", "river gnu bank", layer=1)
    assert found["weights"].shape == (3, 3, 3)
    assert found["weights"].sum(axis=-1) == pytest.approx(1)


def test_a_service_lists_its_models_and_a_model_itself(local, remote, url):
    (in_process,) = local.models()
    listed = {one.name: one for one in remote.models()}
    assert listed["tiny"].dimension == in_process.dimension == 5
    assert {name for name, one in listed.items() if one.default} == {"tiny"}
    assert (remote.name, remote.dimension) == (local.name, local.dimension) == ("tiny", 5)
    assert call_async(url, "model") == listed["tiny"]


def test_a_model_is_selected_by_its_name(url):
    with Client(url, model="wiki-en") as remote:
        assert (remote.name, remote.dimension) == ("wiki-en", 300)
        assert remote.encode(["bank"])[0].static.shape == (1, 300)
        assert remote.embed(["bank"]).shape == (1, 300)


REJECTED = [
    ("encode", (["bank"],), {"include": ["static", "statics"]}, "/include/1"),
    ("encode", (["bank"],), {"include": "static"}, "/include"),
    ("encode", (["bank"],), {"include": None}, "/include"),
    ("encode", (["bank"],), {"layers": "first"}, "/layers"),
    ("encode", (["bank"],), {"layers": 0}, "/layers"),
    ("encode", (["bank"],), {"layers": [2]}, "/layers/0"),
    ("encode", (["bank"],), {"layers": [0, -1]}, "/layers/1"),
    ("encode", (["bank"],), {"layers": ["0"]}, "/layers/0"),
    ("encode", (["bank"],), {"layers": []}, "/layers"),
    ("encode", (["bank"],), {"layers": [0] * 65}, "/layers"),
    ("encode", (["bank", "\ud800"],), {}, "/input/1"),
    ("encode", ([["a"], ["bank", "\udfff"]],), {}, "/input/1"),
    ("encode_each", (["bank"] * 100 + ["\ud800"],), {}, "/input/100"),
    ("embed", (["bank", "\ud800"],), {}, "/input/1"),
    ("encode", (["bank"],), {"truncate": "yes"}, "/truncate"),
    ("encode", (["bank"],), {"oov": "zeros"}, "/oov"),
    ("encode", (["bank"],), {"heads": "sum"}, "/heads"),
    ("encode", (["bank"],), {"case": "camel"}, "/case"),
    ("encode", (["bank"],), {"dtype": "float64"}, "/dtype"),
    ("encode", (["bank"] * 100 + ["bank zzz"],), {"oov": "error"}, "/input/100"),
    ("encode_each", (["bank"] * 100 + ["bank zzz"],), {"oov": "error"}, "/input/100"),
    ("embed", (["bank"],), {"dimensions": 6}, "/dimensions"),
    ("embed", (["bank"],), {"dimensions": 0}, "/dimensions"),
    ("embed", ([],), {"dimensions": "2"}, "/dimensions"),
    ("embed", ([],), {"pooling": "max"}, "/pooling"),
    ("compare", ([("bank", "bank")],), {}, "/occurrences"),
    ("compare", ([("bank", "bank"), ("bank", "river")],), {}, "/occurrences/1/word"),
    ("compare", ([("bank", "bank"), Occurrence("bank", start=2, end=9)],), {}, "/occurrences/1"),
    ("compare", ([("bank", "bank")] * 65,), {}, "/occurrences"),
    ("compare", ([("bank", "bank"), ("bank", "\ud800")],), {}, "/occurrences/1/word"),
    ("compare", ([("bank", "bank"), ("bank \ud800", "bank")],), {}, "/occurrences/1/text"),
    ("compare", ([("bank", "bank")] * 2,), {"neighbors": -1}, "/neighbors"),
    ("compare", ([("bank", "bank")] * 2,), {"neighbors": 101}, "/neighbors"),
    ("compare", ([("bank", "bank")] * 2,), {"neighbors": True}, "/neighbors"),
    ("compare", ([("bank", "bank")] * 2,), {"case": "upper"}, "/case"),
    ("senses", ("bank", ["river"]), {}, "/word"),
    ("senses", ("", ["river"]), {}, "/word"),
    ("senses", ("bank", []), {}, "/texts"),
    ("senses", ("bank", ["bank"]), {"case": "auto"}, "/case"),
    ("senses", ("bank", ["bank"]), {"senses": 0}, "/senses"),
    ("senses", ("bank", ["bank"]), {"senses": 2}, "/senses"),
    ("senses", ("bank", ["bank"]), {"senses": 21}, "/senses"),
    ("senses", ("bank", ["bank"]), {"keywords": 101}, "/keywords"),
    ("senses", ("bank", ["bank"]), {"forms": ["banks"] * 65}, "/forms"),
    ("senses", ("bank", ["bank", "\ud800"]), {}, "/texts/1"),
    ("senses", ("\ud800", ["bank"]), {}, "/word"),
    ("senses", ("bank", ["bank"]), {"senses": "all"}, "/senses"),
    ("senses", ("bank", ["bank", None]), {}, "/texts/1"),
    ("senses", (1, ["bank"]), {}, "/word"),
    ("senses", ("bank", ["bank"]), {"forms": "banks"}, "/forms"),
    ("trace", (["bank"],), {}, "/text"),
    ("compare", ([("bank", "bank"), ("bank", 1)],), {}, "/occurrences/1/word"),
    ("compare", ([("bank", "bank"), ("bank", "bank", True)],), {}, "/occurrences/1/nth"),
    ("compare", ([("a", "a"), Occurrence("a", start=0.5, end=1)],), {}, "/occurrences/1/start"),
    ("senses", ("bank", ["bank"]), {"examples": 1.5}, "/examples"),
    ("neighbors", ("bank", 0), {}, "/k"),
    ("neighbors", ("bank", "3"), {}, "/k"),
    ("neighbors", ("bank", 1001), {}, "/k"),
    ("neighbors", ([],), {}, "/vector"),
    ("neighbors", ("\ud800",), {}, "/word"),
    ("neighbors", ("",), {}, "/word"),
    ("neighbors", ("bank",), {"case": "UPPER"}, "/case"),
    ("neighbors", ([1, 2],), {}, "/vector"),
    ("neighbors", ([[1, 2]],), {}, "/vector"),
    ("neighbors", ([np.nan] * 5,), {}, "/vector"),
    ("vector", ("bank", "bank"), {"kind": "attention"}, "/kind"),
    ("trace", ("bank",), {"layer": 2}, "/layer"),
    ("trace", ("bank",), {"layer": -1}, "/layer"),
    ("trace", ("bank",), {"case": None}, "/case"),
    ("trace", ("",), {}, "/text"),
    ("trace", ("\ud800",), {}, "/text"),
    ("vector", ("bank \ud800", "bank"), {}, "/input/0"),
    ("vector", ("bank", "bank"), {"phrases": 1}, "/phrases"),
]


@pytest.mark.parametrize(("method", "args", "kwargs", "pointer"), REJECTED, ids=str)
def test_an_invalid_argument_is_the_same_error_everywhere(
    local, remote, url, method, args, kwargs, pointer
):
    errors = []
    for encoder in (local, remote):
        with pytest.raises(InvalidError) as caught:
            list(getattr(encoder, method)(*args, **kwargs))
        errors.append(caught.value)
    with pytest.raises(InvalidError) as caught:
        call_async(url, method, *args, **kwargs)
    errors.append(caught.value)
    assert {type(one) for one in errors} == {type(errors[0])}
    assert len({tuple(one.errors) for one in errors}) == 1
    assert errors[0].errors[0].pointer == pointer
    assert len({str(one) for one in errors}) == 1
    argument = re.sub(r"/(\d+)", r"[\1]", pointer.replace("input", "texts"))[1:].replace("/", ".")
    assert f" `{argument}`: {errors[0].errors[0].message}." in str(errors[0])
    assert "/docs" not in str(errors[0])


@pytest.mark.parametrize(
    ("method", "args", "kwargs"),
    [
        ("encode", (["bank river"],), {}),
        ("encode_each", (["bank river"],), {}),
        ("embed", (["bank river"],), {"pooling": "mean"}),
        ("compare", ([("bank river", "bank"), ("bank", "bank")],), {}),
        ("senses", ("bank", ["bank river"] * 9), {}),
    ],
)
def test_an_overflow_in_process_is_an_out_of_range_error(tmp_path, method, args, kwargs):
    huge = np.full_like(VECTORS, 3e38)
    model = tiny_model(tmp_path, vectors=huge, layers=[Layer(residual=Residual("add"))])
    with pytest.raises(OutOfRangeError):
        list(getattr(LocalModel(model), method)(*args, **kwargs))


@pytest.mark.parametrize(
    ("method", "args", "message"),
    [
        ("encode", (None,), "Give a list of texts"),
        ("encode", (["bank", 5],), "Text 1 is neither"),
        ("encode", (["bank", None],), "Text 1 is neither"),
        ("encode", (["bank", b"bank"],), "Text 1 is neither"),
        ("embed", ([["bank", 5]],), "Text 0 is neither"),
        ("compare", (["bank", "bank"],), "Occurrence 0 is neither"),
        ("encode_each", (["bank"] * 70 + [5],), "Text 70 is neither"),
        ("vector", ("bank", 5), "The word must be a string"),
        ("senses", ("bank", "bank"), "Give a list of texts"),
        ("compare", ("bank",), "Give a list of pairs"),
        ("encode", ({"text": ["bank"]},), "one column of texts, not a table"),
        ("embed", (DataFrame({"text": ["bank"]}),), "one column of texts, not a table"),
    ],
    ids=str,
)
def test_another_type_is_a_type_error_everywhere(local, remote, url, method, args, message):
    for encoder in (local, remote):
        with pytest.raises(TypeError, match=message):
            list(getattr(encoder, method)(*args))
    with pytest.raises(TypeError, match=message):
        call_async(url, method, *args)


def test_a_word_that_a_text_lacks_is_a_key_error_everywhere(local, remote, url):
    for encoder in (local, remote):
        with pytest.raises(NoSuchTokenError, match=r"^The text has no token with this word: `enc"):
            encoder.vector("river bank", "money")
        with pytest.raises(KeyError, match="less than 1"):
            encoder.vector("river bank", "bank", nth=1)
    with pytest.raises(NoSuchTokenError, match=r"^The text has no token"):
        call_async(url, "vector", "river bank", "money")


def test_unknown_words_are_listed(local, remote):
    for encoder in (local, remote):
        with pytest.raises(UnknownWordError) as caught:
            encoder.encode(["bank zzz", "yyy"], oov="error")
        assert caught.value.words == ["zzz", "yyy"]


@pytest.mark.parametrize("method", ["encode", "encode_each", "embed"])
def test_a_single_string_is_rejected_as_a_list_of_texts(local, remote, url, method):
    for encoder in (local, remote):
        with pytest.raises(TypeError, match="list of texts"):
            getattr(encoder, method)("bank")
    with pytest.raises(TypeError, match="list of texts"):
        call_async(url, method, "bank")


def test_an_option_that_does_not_exist_is_a_type_error(local, remote):
    for encoder in (local, remote):
        with pytest.raises(TypeError, match=r"^Unknown option `layer`; did you mean `layers`\?$"):
            encoder.encode(["bank"], layer=0)
        with pytest.raises(TypeError, match=r"^Unknown option `zzz`\.$"):
            encoder.encode(["bank"], zzz=0)
    with pytest.raises(TypeError, match="patience"):
        Client("http://localhost:8000", patience=5)


def test_arrays_are_writable_copies(remote):
    one, other = remote.encode(["bank", "bank"])
    for name in ("static", "contextual", "attention"):
        array = getattr(one, name)
        array += 1
        assert array.flags.c_contiguous and array.flags.owndata
        assert not np.array_equal(array, getattr(other, name))


def test_an_error_of_the_service_has_its_request_id(remote):
    with pytest.raises(PolysemeError) as caught:
        remote.trace("")
    assert caught.value.__notes__ == [f"Request {caught.value.request_id}"]


METHODS = [
    name
    for name, value in vars(Encoder).items()
    if inspect.isfunction(value) and not name.startswith("_")
]


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_the_same_parameters_everywhere(name):
    """test_types.py checks the types with mypy."""
    parameters = [
        [
            (p.name, p.kind, p.default)
            for p in inspect.signature(getattr(kind, name)).parameters.values()
        ]
        for kind in (Encoder, Client, LocalModel, AsyncClient)
    ]
    assert all(one == parameters[0] for one in parameters)


@pytest.mark.parametrize("kind", [Client, AsyncClient, LocalModel])
@pytest.mark.parametrize(
    ("method", "options", "defaults"),
    [
        ("encode", EncodeArguments, {"include": DEFAULT_PARTS, "oov": None, "dtype": "float32"}),
        ("encode_each", EncodeArguments, {"heads": "all", "share": None}),
        ("vector", SharedArguments, {"kind": "contextual", "phrases": False}),
        ("compare", CompareArguments, {"neighbors": 5, "case": "auto"}),
        ("senses", SensesArguments, {"senses": None, "case": "any", "keywords": 8}),
        ("__init__", TransportOptions, {"key": None, "batch_sentences": 64, "timeout": 60}),
    ],
)
def test_help_shows_every_keyword_with_its_type_default_and_meaning(
    kind, method, options, defaults
):
    if method == "__init__" and kind is LocalModel:
        pytest.skip("has no connection")
    parameters = inspect.signature(getattr(kind, method)).parameters
    assert {name: parameters[name].default for name in defaults} == defaults
    docstring = inspect.getdoc(getattr(kind, method))
    for name, annotation in typing.get_type_hints(options).items():
        assert parameters[name].annotation == annotation
        assert re.search(rf"^ {{4}}{name}: [A-Z].*\w", docstring, re.MULTILINE), name
        for one in typing.get_args(annotation):
            for value in typing.get_args(one) or [one]:
                assert (
                    method not in ("encode", "encode_each")
                    or not isinstance(value, str)
                    or (f'"{value}"' in docstring)
                ), (name, value)


def test_the_shared_arguments_are_the_shared_options():
    assert SharedArguments.__annotations__.keys() == SharedOptions.model_fields.keys()


def test_a_model_is_shown_in_one_line(local):
    assert repr(local) == "LocalModel('tiny', dimension=5, words=11)"
