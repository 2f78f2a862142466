"""An invalid response of any server is reported in one sentence."""

import gc
import io
import traceback
import weakref
import zipfile

import httpx
import numpy as np
import orjson
import pytest

from polyseme.client import AnswerError, Client
from polyseme.errors import InvalidError, PolysemeError, TooLargeError
from tests.client.scripted_server import ScriptedResponse, embeddings, scripted_server

NPZ = "application/x-npz"
TEXTS = ["Apple apple bank", "", "river bank"]
SECRET = "xyzzy-secret"
PARTS = ["static", "contextual", "attention", "keys"]
ARGUMENTS = {
    "encode": ((TEXTS,), {"include": PARTS}),
    "neighbors": (("bank",), {}),
    "embed": ((["bank"],), {}),
    "trace": (("bank",), {}),
    "models": ((), {}),
    "compare": (([("bank", "bank")] * 2,), {}),
}


@pytest.fixture(scope="module")
def genuine(url):
    """The response of a real service."""
    body = {"input": TEXTS, "include": PARTS}
    answer = httpx.post(f"{url}/v1/encode", json=body, headers={"Accept": NPZ})
    assert answer.status_code == 200
    return answer.content


def ask(response, method="encode"):
    """The result of a client for a response."""
    arguments, options = ARGUMENTS[method]
    with scripted_server(response) as server, Client(server.url, retries=0) as client:
        return getattr(client, method)(*arguments, **options)


def require_one_sentence(error):
    """Check that a traceback shows no other error and nothing of the response."""
    shown = "".join(traceback.format_exception(error))
    assert SECRET not in shown
    assert shown.count("Traceback") == 1


def arrays_of(content):
    with np.load(io.BytesIO(content)) as archive:
        return dict(archive)


def packed(arrays, save=np.savez):
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def with_tokens(change):
    """Change the JSON document of the archive's member `tokens`."""

    def changed(arrays):
        document = orjson.loads(arrays["tokens"].tobytes())
        document = change(document) or document
        return arrays | {"tokens": np.frombuffer(orjson.dumps(document), np.uint8)}

    return changed


def put(name, change):
    return lambda arrays: arrays | {name: change(arrays[name])}


CHANGES = {
    "text in place of numbers": put("static", lambda a: a.astype(str)),
    "another dtype": put("static", lambda a: a.astype(np.float64)),
    "big-endian numbers": put("static", lambda a: a.astype(">f4")),
    "Fortran order": put("static", lambda a: np.asfortranarray(np.resize(a, (5, 5)))),
    "NaN": put("contextual", lambda a: np.where(a == a.flat[0], np.nan, a)),
    "infinity": put("attention_0", lambda a: np.where(a == a.flat[0], np.inf, a)),
    "a row too few": put("static", lambda a: a[:-1]),
    "a column too few": put("static", lambda a: a[:, :-1]),
    "no columns": lambda a: a | {n: a[n][:, :0] for n in ("static", "contextual")},
    "offsets that go back": put("offsets", lambda a: a[[0, 3, 1, 2]]),
    "offsets of another size": put("offsets", lambda a: a.astype(np.int32)),
    "attention of another sentence": lambda a: a | {"attention_0": a["attention_2"]},
    "attention that is flat": put("attention_0", lambda a: a[0]),
    "attention without a column": put("attention_0", lambda a: a[..., :-1]),
    "an array that is not there": lambda a: {n: x for n, x in a.items() if n != "attention_2"},
    "an array that was not asked for": lambda a: a | {"extra": np.zeros(1)},
    "a sentence too many": with_tokens(lambda doc: [*doc, doc[0]]),
    "a token without a text": with_tokens(lambda doc: doc[0]["tokens"][0].pop("text")),
    "a start that is a text": with_tokens(lambda doc: doc[0]["tokens"][0].update(start="0")),
    "a start without an end": with_tokens(lambda doc: doc[0]["tokens"][0].update(end=None)),
    "an unknown resolution": with_tokens(
        lambda doc: doc[0]["tokens"][0].update(resolution="magic")
    ),
    "a token too few": with_tokens(lambda doc: doc[0]["tokens"].pop()),
    "truncated words that are a text": with_tokens(lambda doc: doc[0].update(truncated="1")),
    "tokens that are no JSON": put("tokens", lambda a: a[:-1]),
    "tokens of another dtype": put("tokens", lambda a: a.view(np.int8)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_altered_archive_is_rejected(genuine, change):
    body = packed(change(arrays_of(genuine)))
    with pytest.raises(AnswerError, match="does not have the expected form"):
        ask(ScriptedResponse(media=NPZ, body=body))


def rewritten(static):
    """Replace the bytes of the member `static`."""

    def changed(genuine):
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(genuine)) as old, zipfile.ZipFile(out, "w") as new:
            for name in old.namelist():
                new.writestr(name, static if name == "static.npy" else old.read(name))
        return out.getvalue()

    return changed


def headed(header):
    """Replace the member `static` by a header, which no numbers follow."""
    header = header.ljust(117) + b"\n"
    return rewritten(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)


def twice(genuine):
    """Two members of one name."""
    out = io.BytesIO(genuine)
    with zipfile.ZipFile(out, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("static.npy", archive.read("static.npy"))
    return out.getvalue()


BODIES = {
    "compressed": lambda genuine: packed(arrays_of(genuine), np.savez_compressed),
    # More numbers than fit into memory.
    "a header with a false size": headed(
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 300)}"
    ),
    "a header with a negative size": headed(
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -0)}"
    ),
    "a header with code": headed(b"__import__('os').abort()"),
    "two members of one name": twice,
    "cut short": lambda genuine: genuine[:-30],
    "a byte changed": lambda g: g.replace(b"Apple", b"Bpple", 1),
    "a member that is no array": rewritten(b"hello"),
    "nothing": lambda _: b"",
    "a page": lambda _: b"<html>" + SECRET.encode(),
}


@pytest.mark.parametrize("made", BODIES.values(), ids=BODIES)
def test_a_broken_or_oversized_archive_is_rejected(genuine, made):
    with pytest.raises(AnswerError, match="does not have the expected form") as caught:
        ask(ScriptedResponse(media=NPZ, body=made(genuine)))
    require_one_sentence(caught.value)


def test_another_media_type_is_rejected(genuine):
    with pytest.raises(AnswerError, match="does not have the expected form"):
        ask(ScriptedResponse(media="text/html", body=genuine))


DOCUMENTS = {
    "neighbors": [
        *(b"[]", b"null", b"<html>", b"", b"[" * 100_000, b'{"neighbors": 7}'),
        b'{"neighbors": [{"word": "a", "similarity": "x"}]}',
    ],
    "embed": [
        *(b'{"data": []}', embeddings((1, "AAAAAA==")), embeddings((0, ["x"]))),
        embeddings((0, "AAA")),
        embeddings((0, "AAAAAAA=")),
        embeddings((0, "")),
        embeddings((0, "AADAfw==")),  # NaN
        embeddings((0, "A*AAAA==")),
        embeddings((0, "AAAAAA=="), (1, "AAAAAA==")),
    ],
    "trace": [
        b'{"tokens": ["a"], "steps": [{"name": "a", "formula": "", "shape": [9], "values": [1]}]}',
        b'{"tokens": ["a"], "steps": [{"name": "a", "formula": "", "shape": [1], "values": [[]]}]}',
        b'{"tokens": "a", "steps": 7}',
    ],
    "models": [b"{}", b'{"data": [{"id": "a", "dimension": "300"}]}', b'{"data": [7]}'],
    "compare": [b"{}", b'{"model": "a", "occurrences": [{}]}'],
}


@pytest.mark.parametrize(
    ("method", "body"),
    [(method, body) for method, bodies in DOCUMENTS.items() for body in bodies],
    ids=lambda one: str(one)[:60],
)
def test_an_invalid_document_is_rejected(method, body):
    with pytest.raises(AnswerError, match="does not have the expected form") as caught:
        ask(ScriptedResponse(body=body), method)
    require_one_sentence(caught.value)


@pytest.mark.parametrize(
    "response",
    [
        ScriptedResponse(500, "text/html", b"<html>" + SECRET.encode()),
        ScriptedResponse(404, "application/json", b'{"detail": "xyzzy-secret"}'),
        ScriptedResponse(503, "application/problem+json", b"[]"),
        ScriptedResponse(503, "application/problem+json", b"{" + SECRET.encode()),
        ScriptedResponse(418, "application/problem+json", b'{"code": 7}'),
        ScriptedResponse(302, "text/html", b"", {"Location": "http://xyzzy-secret/"}),
        ScriptedResponse(204, "application/x-npz", b""),
    ],
    ids=lambda response: f"{response.status} {response.media}",
)
def test_an_unexpected_response_is_reported_with_its_status(response):
    with pytest.raises(AnswerError, match=str(response.status)) as caught:
        ask(response)
    assert caught.value.status == response.status
    assert SECRET not in str(caught.value)


def test_a_compressed_response_is_rejected_before_decompression():
    gzip = {"Content-Encoding": "gzip"}
    for code, media, status in ((200, NPZ, None), (403, "text/html", 403)):
        with pytest.raises(AnswerError, match="compressed") as caught:
            ask(ScriptedResponse(code, media, b"\x1f\x8b", gzip))
        assert caught.value.status == status


@pytest.mark.parametrize(
    "response",
    [
        ScriptedResponse(media=NPZ, body=b"x" * 200_000),
        ScriptedResponse(media=NPZ, body=b"x", headers={"Content-Length": str(1 << 50)}),
        ScriptedResponse(media=NPZ, body=b"x" * 50_000, endless=True),
        ScriptedResponse(500, "application/problem+json", b"x" * 50_000, endless=True),
    ],
    ids=["whole", "declared", "endless", "an endless problem"],
)
def test_an_oversized_response_is_not_read_to_its_end(response):
    with (
        scripted_server(response) as server,
        Client(server.url, retries=0, max_answer_bytes=100_000) as client,
        pytest.raises(TooLargeError, match="100000"),
    ):
        client.encode(["bank"])


def test_an_oversized_response_is_freed_with_its_error():
    response = ScriptedResponse(media=NPZ, body=b"x" * 200_000)
    with (
        scripted_server(response) as server,
        Client(server.url, retries=0, max_answer_bytes=100_000) as client,
    ):
        gc.disable()  # so that a cycle would stay
        try:
            client.encode(["bank"])
        except TooLargeError as error:
            rejection = weakref.ref(error)
        gone = rejection() is None
        gc.enable()
    assert gone


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (b'{"code": "invalid", "detail": "\\u001b[31mred", "errors": [7, {}]}', InvalidError),
        (b'{"code": "too_large", "limit": "all", "size": {}, "setting": "\\u0000"}', TooLargeError),
        (b'{"code": "unknown_word", "words": [7, {}], "errors": {}}', PolysemeError),
        (b'{"code": "invalid", "errors": [{"pointer": "\\u001b"}]}', InvalidError),
        (b'{"code": "unknown_model", "detail": "\\u001b", "request_id": "\\u001b"}', PolysemeError),
        (b'{"code": "rate_limited", "detail": null}', PolysemeError),
        (b'{"code": "method_not_allowed"}', PolysemeError),
        (b'{"code": "a_code_of_tomorrow"}', InvalidError),  # the error of the status
    ],
)
def test_escape_sequences_of_a_problem_document_are_not_shown(document, error):
    status = 429 if b"rate" in document else 422
    with pytest.raises(error) as caught:
        ask(ScriptedResponse(status, "application/problem+json", document))
    shown = [str(caught.value), str(caught.value.members()), str(caught.value.headers())]
    assert all("\x1b" not in one and "\\x1b" not in one for one in shown)
