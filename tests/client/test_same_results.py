"""A model in this process and both clients return the same results, bit for bit."""

import re
from dataclasses import replace
from inspect import signature

import httpx
import numpy as np
import orjson
import pytest
from pandas import DataFrame

import polyseme
from polyseme.client import (
    AnswerError,
    AsyncClient,
    Client,
    LocalModel,
    NoSuchTokenError,
    Occurrence,
)
from polyseme.engine.layers import Layer, Residual
from polyseme.errors import InvalidError, OutOfRangeError, PolysemeError, UnknownModelError
from polyseme.operations.compare import CompareRequest
from polyseme.operations.limits import Limits
from polyseme.operations.schema import EncodeOptions
from polyseme.senses.find import SensesRequest
from tests.client.conftest import both_clients, call, require_same
from tests.client.scripted_server import ScriptedResponse, scripted_server
from tests.tiny import VECTORS, tiny_model

TEXTS = ["Apple apple bank", "", "river gnu bank", "qzx did n't end", "money", "zzz zzz"]
WORDS = [["river", "bank"], [], ["Apple", "gnu", "zzz"]]
OPTIONS = [
    {},
    {"include": ["static", "contextual", "attention", "queries", "keys", "values", "scores"]},
    {"include": []},
    {"include": ("scores", "contributions")},
    {"include": ["contributions", "attention"], "heads": "mean", "layers": "last"},
    {"layers": [1, 0, 1], "include": ["attention", "queries"], "oov": "subword"},
    {"heads": "mean", "include": ["attention", "scores", "keys"], "oov": "zero"},
    {"case": "exact", "share": 0},
    {"case": "lower", "phrases": True},
    {"share": 1.5, "include": ["contextual"]},
    {"include": ["features", "static", "attention"], "dtype": "float16"},
]


@pytest.fixture(scope="module")
def encoders(local, url):
    """The model in this process and both clients, as arguments of `call`."""
    return [(LocalModel, local), (Client, url), (AsyncClient, url)]


def call_all(encoders, method, *args, **kwargs):
    """Call a method of all encoders; return the result after comparing them."""
    expected, *others = (call(*encoder, method, *args, **kwargs) for encoder in encoders)
    for other in others:
        require_same(other, expected)
    return expected


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_sentences_are_the_same(local, encoders, options):
    texts = [*TEXTS, *WORDS, "bank"]
    found = call_all(encoders, "encode", texts, **options)
    require_same([*local.encode_each(texts, **options)], found)


def test_a_long_sentence_is_truncated_in_the_same_way(local, encoders):
    limited = LocalModel(local.model, limits=Limits(max_sentence_tokens=30))
    found = call_all(
        [(LocalModel, limited), *encoders[1:]], "encode", ["bank " * 33], truncate=True
    )
    assert found[0].truncated == 3


@pytest.mark.parametrize(
    ("texts", "pooling", "dimensions"),
    [
        *((texts, "mean", dims) for texts in (TEXTS * 10, WORDS, []) for dims in (None, 2)),
        *((TEXTS, pooling, None) for pooling in (None, "informativeness")),
    ],
    ids=repr,
)
def test_sentence_vectors_are_the_same(encoders, texts, pooling, dimensions):
    options = {"pooling": pooling, "dimensions": dimensions}
    vectors = call_all(encoders, "embed", texts, **options)
    assert vectors.shape == (len(texts), dimensions or 5)
    # An empty text has a zero vector.
    assert len(texts) == 0 or (vectors[1] == 0).all()


PAIRS = [("river bank", "bank"), ("money bank", "bank")]
PHRASES = [("a river bank", "river bank"), ("River  bank money", "River bank")]
OF_PHRASES = [text for text, _ in PHRASES]
CALLS = [
    ("encode_each", (TEXTS * 20,), {"layers": "last"}),
    ("vector", ("bank river bank", "bank"), {"nth": 1, "kind": "static"}),
    ("vector", (["Apple", "n't"], "n't"), {}),
    ("vector", PHRASES[1], {"phrases": True}),
    ("compare", ([*PAIRS, ("gnu", "gnu")],), {"neighbors": 3}),
    ("compare", ([PAIRS[0], Occurrence("money bank", start=6, end=10)],), {"case": "exact"}),
    ("compare", ([["bank bank", "bank", np.int64(1)], Occurrence("bank", "bank")],), {}),
    ("compare", (PAIRS,), {"share": np.float64(4)}),
    ("compare", (PHRASES,), {"phrases": True}),
    ("senses", ("river bank", OF_PHRASES), {"phrases": True}),
    ("senses", ("bank", [("river", "bank"), np.array(["Bank"]), "the bank", []]), {}),
    ("senses", ("river bank", [["a", "river", "bank"]]), {"phrases": True}),
    ("compare", ([(["river", "bank"], "bank"), Occurrence(("money", "bank"), index=1)],), {}),
    ("senses", ("bank", ("river bank", "Banks")), {"forms": ("banks",), "senses": None}),
    ("senses", ("bank", np.array(["a bank", "Bank"])), {"case": "exact", "keywords": np.int64(1)}),
    ("senses", (), {"occurrences": PAIRS, "senses": 2}),
    ("neighbors", ([1, 0, 0, 0, 2], 4), {}),
    ("neighbors", (np.ones(5, np.float32), 4), {"case": "lower"}),
    ("neighbors", (), {"positive": ["bank", "river"], "negative": ("money",), "k": 3}),
    ("neighbors", (), {"positive": np.eye(5)[:2], "negative": ["gnu", np.ones(5, np.float32)]}),
    ("trace", ("river gnu bank",), {"layer": 1}),
]


@pytest.mark.parametrize(("method", "args", "kwargs"), CALLS, ids=str)
def test_results_are_the_same(encoders, method, args, kwargs):
    call_all(encoders, method, *args, **kwargs)


def test_a_phrase_and_an_occurrence_are_the_tokens_of_the_text(local):
    compared = local.compare(PHRASES, phrases=True).occurrences
    assert [one.token.key for one in compared] == ["river_bank"] * 2
    senses = local.senses("river bank", OF_PHRASES, phrases=True).occurrences
    assert [(one.start, one.end) for one in senses] == [(2, 12), (0, 11)]
    (sentence,) = local.encode(["bank river bank"], include=["features"])
    vector = local.vector("bank river bank", "bank", nth=1, kind="features")
    assert np.array_equal(vector, sentence.features[2])


def test_an_inventory_is_the_same_and_is_applied_in_the_same_way(local, encoders, tmp_path):
    texts = ["river bank", "money bank", "the bank end"] * 4
    found = call_all(encoders, "senses", "bank", texts, senses=2)
    found.save(tmp_path / "bank.senses")
    for inventory in (found, polyseme.load_senses(tmp_path / "bank.senses")):
        other = ("river Bank", "no", "bank bank")
        applied = call_all(encoders, "apply", inventory, other)
        assert [(one.text, one.start) for one in applied.occurrences] == [(0, 6), (2, 0), (2, 5)]
        assert call_all(encoders, "apply", inventory, ["no"]).occurrences == []
        lists = call_all(encoders, "apply", inventory, [["river", "Bank"], "bank"])
        assert [(one.start, one.index) for one in lists.occurrences] == [(None, 1), (0, None)]
    same = local.apply(found, texts).occurrences
    assert [one.sense for one in found.occurrences] == [one.sense for one in same]


def errors_of(error, encoders, method, /, *args, **kwargs):
    """The errors of a class that a call raises in all encoders."""
    errors = []
    for encoder in encoders:
        with pytest.raises(error) as caught:
            call(*encoder, method, *args, **kwargs)
        errors.append(caught.value)
    return errors


@pytest.mark.parametrize(
    ("change", "args", "error"),
    [
        ({"checksum": "0" * 64}, (["bank"],), InvalidError),
        ({}, ([],), InvalidError),
        ({}, (["bank", "\ud800"],), InvalidError),
        ({}, ("bank",), TypeError),
        (None, (["bank"],), TypeError),
    ],
    ids=str,
)
def test_an_inventory_is_rejected_with_the_same_error_everywhere(
    local, encoders, change, args, error
):
    found = local.senses("bank", ["river bank"]).inventory
    inventory = "bank.senses" if change is None else replace(found, **change)
    errors = errors_of(error, encoders, "apply", inventory, *args)
    assert len(set(map(str, errors))) == 1


def test_a_service_lists_its_models_and_a_model_itself(local, url):
    (in_process,) = local.models()
    with Client(url) as remote:
        listed = {one.name: one for one in remote.models()}
        assert (remote.name, remote.dimension) == (local.name, local.dimension) == ("tiny", 5)
    assert listed["tiny"].dimension == in_process.dimension == 5
    assert {name for name, one in listed.items() if one.default} == {"tiny"}
    assert call(AsyncClient, url, "model") == listed["tiny"]
    with Client(url, model="wiki-en") as remote:
        assert (remote.name, remote.dimension) == ("wiki-en", 300)
        assert remote.encode(["bank"])[0].static.shape == (1, 300)
        assert remote.embed(["bank"]).shape == (1, 300)


REJECTED = [
    ("encode", (["bank"],), {"include": ["static", "statics"]}, "/include/1"),
    ("compare", (PAIRS,), {"phrases": 1}, "/phrases"),
    *(("encode", (["bank"],), {"share": s}, "/share") for s in (-1, float("nan"), True)),
    ("compare", (PHRASES,), {}, "/occurrences/0/word"),
    ("encode", (["bank"],), {"layers": [0, -1]}, "/layers/1"),
    ("encode", ([["a"], ["bank", "\udfff"]],), {}, "/input/1"),
    ("encode_each", (["bank"] * 100 + ["\ud800"],), {}, "/input/100"),
    ("embed", (["bank", "\ud800"],), {}, "/input/1"),
    ("encode_each", (["bank"] * 100 + ["bank zzz"],), {"oov": "error"}, "/input/100"),
    ("embed", (["bank"],), {"dimensions": 6}, "/dimensions"),
    ("compare", ([("bank", "bank"), Occurrence("bank", start=2, end=9)],), {}, "/occurrences/1"),
    ("compare", ([("bank", "bank"), ("bank \ud800", "bank")],), {}, "/occurrences/1/text"),
    ("senses", ("bank", ["river"]), {}, "/word"),
    ("senses", ("bank", ["bank"]), {"senses": 21}, "/senses"),
    ("senses", ("bank",), {"occurrences": PAIRS}, ""),
    ("senses", (None, ["bank"]), {"occurrences": PAIRS}, ""),
    ("senses", ("bank", ["bank", "\ud800"]), {}, "/texts/1"),
    ("senses", ("bank", ["bank", None]), {}, "/texts/1"),
    ("senses", ("bank", ["bank"]), {"forms": "banks"}, "/forms"),
    ("trace", (["bank"],), {}, "/text"),
    ("compare", ([("bank", "bank"), ("bank", 1)],), {}, "/occurrences/1/word"),
    ("compare", ([("bank", "bank"), ("bank", "bank", True)],), {}, "/occurrences/1/nth"),
    ("compare", ([("a", "a"), Occurrence("a", start=0.5, end=1)],), {}, "/occurrences/1/start"),
    ("neighbors", ([],), {}, "/vector"),
    ("neighbors", ("\ud800",), {}, "/word"),
    ("neighbors", ([[1, 2]],), {}, "/vector"),
    ("neighbors", (["bank"],), {}, "/vector"),
    ("neighbors", ([np.nan] * 5,), {}, "/vector"),
    ("neighbors", ("bank",), {"positive": ["bank"]}, ""),
    ("neighbors", (), {"negative": ["bank", [1.0, 2.0]]}, "/negative/1"),
    ("neighbors", (), {"negative": ["bank", [np.nan] * 5]}, "/negative/1/0"),
    ("vector", ("bank", "bank"), {"kind": "attention"}, "/kind"),
    ("trace", ("bank",), {"layer": 2}, "/layer"),
    ("trace", ("\ud800",), {}, "/text"),
    ("vector", ("bank \ud800", "bank"), {}, "/input/0"),
]


@pytest.mark.parametrize(
    ("method", "args", "kwargs"),
    [
        ("compare", ([("bank", "bank"), ("bank", "bank", 10**30)],), {}),
        ("trace", ("bank",), {"layer": 10**30}),
        ("encode", (["bank"],), {"layers": [10**30]}),
        ("embed", (["bank"],), {"dimensions": 10**30}),
        ("encode", (["bank"],), {"client": {"model": "\ud800"}}),
    ],
    ids=str,
)
@both_clients
def test_a_value_that_json_cannot_have_is_invalid(url, kind, method, args, kwargs):
    with pytest.raises(InvalidError, match="JSON does not have its type"):
        call(kind, url, method, *args, **kwargs)


@pytest.mark.parametrize(("method", "args", "kwargs", "pointer"), REJECTED, ids=str)
def test_an_invalid_argument_is_the_same_error_everywhere(encoders, method, args, kwargs, pointer):
    errors = errors_of(InvalidError, encoders, method, *args, **kwargs)
    members = {(type(one), str(one), *one.errors, *getattr(one, "words", ())) for one in errors}
    assert len(members) == 1
    assert errors[0].errors[0].pointer == pointer
    argument = re.sub(r"/(\d+)", r"[\1]", pointer.replace("input", "texts"))[1:].replace("/", ".")
    shown = f"`{argument}`: " if argument else ""
    assert f" {shown}{errors[0].errors[0].message}." in str(errors[0])
    assert "/docs" not in str(errors[0])


@pytest.mark.parametrize(
    ("method", "args", "kwargs"),
    [
        ("encode", (["bank river"],), {}),
        ("encode_each", (["bank river"],), {}),
        ("compare", ([("bank river", "bank"), ("bank", "bank")],), {}),
    ],
)
def test_an_overflow_in_process_is_an_out_of_range_error(tmp_path, method, args, kwargs):
    huge = np.full_like(VECTORS, 3e38)
    model = tiny_model(tmp_path, vectors=huge, layers=[Layer(residual=Residual("add"))])
    with pytest.raises(OutOfRangeError):
        list(getattr(LocalModel(model), method)(*args, **kwargs))


@pytest.mark.parametrize(
    ("method", "args", "kwargs", "message"),
    [
        ("encode", (None,), {}, "Give a list of texts"),
        ("encode_each", ("bank",), {}, "Give a list of texts"),
        ("embed", ("bank",), {}, "Give a list of texts"),
        ("encode", (["bank", b"bank"],), {}, "Text 1 is neither"),
        ("embed", ([["bank", 5]],), {}, "Text 0 is neither"),
        ("compare", (["bank", "bank"],), {}, "Occurrence 0 is neither"),
        ("encode_each", (["bank"] * 70 + [5],), {}, "Text 70 is neither"),
        ("vector", ("bank", 5), {}, "The word must be a string"),
        ("senses", ("bank", "bank"), {}, "Give a list of texts"),
        ("senses", ("bank",), {}, "Give a list of texts"),
        ("compare", ("bank",), {}, "Give a list of pairs"),
        ("encode", ({"text": ["bank"]},), {}, "one column of texts, not a table"),
        ("embed", (DataFrame({"text": ["bank"]}),), {}, "one column of texts, not a table"),
        ("encode", (["bank"],), {"layer": 0}, "layer"),
        ("neighbors", (), {"positive": "bank"}, "Give a list of words or vectors."),
    ],
    ids=str,
)
def test_another_type_or_option_is_a_type_error_everywhere(encoders, method, args, kwargs, message):
    for error in errors_of(TypeError, encoders, method, *args, **kwargs):
        assert message in str(error)


@pytest.mark.parametrize(
    ("word", "nth", "message"),
    [("money", 0, "The text has no token with this word: `enc"), ("bank", 1, "less than 1")],
)
def test_a_word_that_a_text_lacks_is_a_key_error_everywhere(encoders, word, nth, message):
    args = ("vector", "river bank", word)
    for error in errors_of(NoSuchTokenError, encoders, *args, nth=nth):
        assert message in str(error)


def test_arrays_are_writable_copies(url):
    one, other = call(Client, url, "encode", ["bank", "bank"])
    for name in ("static", "contextual", "attention"):
        array = getattr(one, name)
        array += 1
        assert array.flags.c_contiguous and array.flags.owndata
        assert not np.array_equal(array, getattr(other, name))


def test_an_error_of_the_service_has_its_request_id(url):
    with pytest.raises(PolysemeError) as caught:
        call(Client, url, "trace", "")
    assert caught.value.__notes__ == [f"Request {caught.value.request_id}"]


@pytest.mark.parametrize(
    ("method", "request_class"),
    [("encode", EncodeOptions), ("compare", CompareRequest), ("senses", SensesRequest)],
)
def test_keywords_have_the_defaults_of_the_request(method, request_class):
    parameters = signature(getattr(Client, method)).parameters.values()
    keywords = {p.name: p.default for p in parameters if p.kind == p.KEYWORD_ONLY}
    assert "phrases" in keywords
    for name, default in keywords.items():
        # Lists and "auto" have other values in Python.
        python = {"forms": (), "senses": None}
        assert default == python.get(name, request_class.model_fields[name].default), name


def test_a_client_takes_a_transport_in_place_of_a_connection(models_dir, local, monkeypatch):
    monkeypatch.setenv("POLYSEME_MODELS_DIR", str(models_dir))
    monkeypatch.setenv("POLYSEME_MODEL", "tiny")
    app = polyseme.create_app()
    with Client("http://service", transport=httpx.WSGITransport(app)) as client:
        assert (client.name, client.dimension) == ("tiny", 5)
        for method, argument in (("encode", TEXTS), ("embed", TEXTS), ("neighbors", "bank")):
            require_same(getattr(client, method)(argument), getattr(local, method)(argument))
    other = Client("http://service", model="none", transport=httpx.WSGITransport(app))
    with other, pytest.raises(UnknownModelError):
        other.encode(TEXTS)


SPANS = [("a b", "b"), Occurrence("b", start=0, end=1)]
FIELDS = [{"text": "a b", "word": "b"}, {"text": "b", "start": 0, "end": 1}]
SENSES = {"word": "a", "texts": ["a"], "inventory": True}
SHARED = {"share": 4, "phrases": True, "case": "exact"}


@pytest.mark.parametrize(
    ("method", "args", "fields", "defaults", "others"),
    [
        ("encode", (["bank"],), {"input": ["bank"]}, {"heads": "all"}, SHARED),
        ("compare", (SPANS,), {"occurrences": FIELDS}, {"neighbors": np.int64(5)}, SHARED),
        ("senses", ("a", ["a"]), SENSES, {"senses": None}, {"phrases": True, "senses": 2}),
        ("neighbors", ("bank",), {"word": "bank"}, {}, {"k": 3}),
    ],
)
def test_only_fields_that_differ_from_their_defaults_are_sent(
    method, args, fields, defaults, others
):
    """Earlier services reject fields that they do not know."""
    for options, sent in ((defaults, fields), (others, fields | others)):
        with scripted_server(ScriptedResponse(404)) as server, pytest.raises(AnswerError):
            call(Client, server.url, method, *args, **options)
        assert orjson.loads(server.requests[0].body) == sent
