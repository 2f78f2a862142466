"""A model behind a running service gives the numbers that the model itself gives."""

import io
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from polyseme.evaluation import remote
from polyseme.evaluation.coarsewsd import coarsewsd, occurrences_in
from polyseme.evaluation.measuring import measure_model, measure_service
from polyseme.evaluation.occurrences import Occurrence
from polyseme.evaluation.readings import LocalSource
from polyseme.evaluation.refusal import EvaluationError
from polyseme.evaluation.remote import Service
from polyseme.evaluation.systems import SERVED_NAMES, served_systems, systems, tabulate
from polyseme.evaluation.wish import Wish
from polyseme.models.reader import read_model
from tests.conftest import free_port
from tests.evaluation.sets import COARSE, WIC, WORDSIM, unpacked
from tests.tiny import SUBWORDS, full_layer, write_tiny

SENTENCES = [
    ("end", "bank", "zebra", "river", "Apple"),
    ("zebra",),
    ("Bank", "of", "gnu"),
    *((("river", "bank", "money", "-") * n) for n in range(1, 30)),
]


@pytest.fixture(scope="module")
def models_dir(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    bias = np.linspace(-1, 1, 11)
    write_tiny(place / "tiny", layers=[full_layer(1), full_layer(2)], word_bias=bias)
    write_tiny(place / "fast", subwords=SUBWORDS)
    return place


@pytest.fixture
def address(serve, models_dir):
    """The address of a service with the models, and settings of its own."""

    def start(**settings):
        return str(serve(models_dir=models_dir, model="tiny", workers=1, **settings).base_url)

    return start


@pytest.mark.parametrize("name", ["tiny", "fast"])
def test_every_vector_is_the_same_to_the_last_bit(address, models_dir, name):
    model = read_model(models_dir / name)
    asked = [Occurrence(words, place) for words in SENTENCES for place in range(len(words))]
    local = {n: one.readers[0] for n, one in systems(model, SERVED_NAMES).items()}
    served = {n: one.readers[0] for n, one in served_systems().items()}
    expected = tabulate(LocalSource(model), local, asked)
    found = tabulate(Service(address(), name), served, asked)
    for system in SERVED_NAMES:
        assert found[system](asked).tobytes() == expected[system](asked).tobytes(), system


def test_the_default_model_of_the_service_is_measured_unless_another_is_named(address):
    assert Service(address()).model == "tiny"
    assert Service(f"{address()}/", "fast").model == "fast"


def test_words_are_known_as_the_model_knows_them(address, models_dir):
    words = ["bank", "BANK", "zebra", "gnu", "apple"]
    assert Service(address(), "tiny").knows(words) == [True, True, False, False, True]
    source = LocalSource(read_model(models_dir / "fast"))
    assert Service(address(), "fast").knows(words) == source.knows(words)


@pytest.mark.parametrize("task", ["coarsewsd", "wic", "similarity"])
def test_figures_through_http_are_the_local_ones(address, models_dir, tmp_path, task):
    unpacked(tmp_path, {**COARSE, **WIC})
    (tmp_path / "wordsim353.tsv").write_text(WORDSIM)
    wish = Wish(task, tmp_path, SERVED_NAMES)
    local = measure_model(read_model(models_dir / "tiny"), wish)
    assert measure_service(Service(address()), wish) == local


@pytest.mark.parametrize(
    "limits",
    [
        {"max_sentences": 3, "max_tokens": 130},
        {"max_body_bytes": 900, "max_answer_bytes": 20_000},
    ],
    ids=" ".join,
)
def test_where_the_service_takes_less_it_is_asked_in_smaller_parts(address, limits):
    readings = list(Service(address(**limits))(SENTENCES))
    expected = list(Service(address())(SENTENCES))
    for one, other in zip(readings, expected, strict=True):
        assert one.contextual.tobytes() == other.contextual.tobytes()


def test_a_sentence_that_the_service_refuses_ends_in_one_sentence(address):
    service = Service(address(max_sentence_tokens=4))
    assert len(list(service([SENTENCES[1], SENTENCES[2]]))) == 2
    with pytest.raises(EvaluationError) as caught:
        list(service(SENTENCES[:3]))
    assert caught.value.sentence == (
        "The service refuses a sentence of 5 words: A sentence has too many tokens: 5, over the"
        " limit max_sentence_tokens of 4. Raise its limit."
    )


def test_a_service_that_wants_a_key_is_given_it(address):
    guarded = address(api_keys="one,two")
    assert len(list(Service(guarded, key="two")(SENTENCES))) == len(SENTENCES)
    for key in (None, "three"):
        with pytest.raises(EvaluationError, match="answers 401: The key is missing or wrong"):
            Service(guarded, key=key)


def test_over_the_rate_it_waits_as_long_as_the_service_says(address, monkeypatch):
    monkeypatch.setattr(remote, "BATCH", 1)
    slow = Service(address(rate_limit="3/second"))
    assert [one.sentence.known.tolist() for one in slow(SENTENCES[:5])][1] == [False]


def test_a_model_that_the_service_lacks_is_refused_with_those_it_has(address):
    with pytest.raises(EvaluationError, match=r"has no such model; it has .*fast, tiny"):
        Service(address(), "nobody")


def test_what_a_service_keeps_to_itself_is_not_measured_through_it(address, tmp_path):
    wish = Wish("coarsewsd", tmp_path, ("model", "random", "closed-form"))
    with pytest.raises(EvaluationError, match="so random, closed-form cannot be measured"):
        measure_service(Service(address()), wish)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://127.0.0.1", "http://", "http://[::1", "file:///etc", "", "x"]
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(EvaluationError, match=r"one such as http://127\.0\.0\.1:8000"):
        Service(url)


@pytest.fixture
def _hasty(monkeypatch):
    """Try again at once, and not often."""
    monkeypatch.setattr(remote, "_RETRIES", remote._RETRIES.new(total=2, backoff_factor=0))


@pytest.mark.usefixtures("_hasty")
def test_a_service_that_does_not_answer_is_said():
    with pytest.raises(EvaluationError, match="does not answer at this address; start it with"):
        Service(f"http://127.0.0.1:{free_port()}")


MODELS = json.dumps({"data": [{"id": "tiny", "default": True}]}).encode()


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


TOKENS = [{"tokens": [{"text": "a", "key": "a", "resolution": "exact"}]}]
GOOD = {
    "offsets": np.array([0, 1]),
    "static": np.ones((1, 5), np.float32),
    "contextual": np.ones((1, 5), np.float32),
    "tokens": np.frombuffer(json.dumps(TOKENS).encode(), np.uint8),
}


def tokens(value):
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


@contextmanager
def answering(*answers):
    """A server that gives these answers in turn, the last one for ever: status, body, headers."""
    waiting = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body, headers = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            self.do_GET()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.usefixtures("_hasty")
@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b'{"data": 3}', b'{"data": [{}]}', b"\xff" * 100, b"[" * 100_000],
    ids=lambda body: str(body[:12]),
)
def test_an_answer_of_something_else_is_told(body):
    with answering((200, body, {})) as url, pytest.raises(EvaluationError, match="not Polyseme"):
        Service(url)


@pytest.mark.usefixtures("_hasty")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"PK\x03\x04 no archive",
        npz(),
        npz(**GOOD)[:-30],
        npz(**{**GOOD, "offsets": np.array([0, 2])}),
        npz(**{**GOOD, "offsets": np.array([0])}),
        npz(**{**GOOD, "static": np.ones((1, 4), np.float32)}),
        npz(**{**GOOD, "contextual": np.ones((2, 5), np.float32), "static": np.ones((2, 5))}),
        npz(**{**GOOD, "contextual": np.full((1, 5), np.nan, np.float32)}),
        npz(**{**GOOD, "contextual": np.array([["a"] * 5])}),
        npz(**{**GOOD, "contextual": np.array(5.0), "static": np.array(5.0)}),
        npz(**{**GOOD, "tokens": tokens([])}),
        npz(**{**GOOD, "tokens": tokens([3])}),
        npz(**{**GOOD, "tokens": tokens([{"tokens": []}])}),
        npz(**{**GOOD, "tokens": tokens([{"tokens": [{"key": None}]}])}),
        npz(**{**GOOD, "tokens": tokens(TOKENS * 2)}),
        npz(**{**GOOD, "tokens": np.array([{}], dtype=object)}),
    ],
)
def test_an_archive_that_is_not_what_was_asked_for_is_told(body):
    with answering((200, MODELS, {}), (200, body, {})) as url:
        service = Service(url)
        with pytest.raises(EvaluationError, match="not Polyseme"):
            list(service([("a",)]))


@pytest.mark.usefixtures("_hasty")
def test_the_answer_that_was_asked_for_is_taken():
    with answering((200, MODELS, {}), (200, npz(**GOOD), {})) as url:
        (reading,) = Service(url)([("a",)])
    assert (reading.contextual.tolist(), reading.sentence.known.tolist()) == ([[1] * 5], [True])


@pytest.mark.usefixtures("_hasty")
def test_an_answer_that_would_fill_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr(remote, "_LARGEST", 1000)
    large = npz(**{**GOOD, "more": np.zeros(1000)})
    with answering((200, MODELS, {}), (200, large, {})) as url:
        service = Service(url)
        with pytest.raises(EvaluationError, match="not Polyseme"):
            list(service([("a",)]))


@pytest.mark.usefixtures("_hasty")
def test_what_passes_is_tried_again_and_what_stays_is_told():
    busy = (503, b'{"detail": "The service is not ready."}', {"Retry-After": "0"})
    with answering(busy, busy, (200, MODELS, {})) as url:
        assert Service(url).model == "tiny"
    with (
        answering(busy) as url,
        pytest.raises(EvaluationError, match="answers 503: The service is not ready"),
    ):
        Service(url)


@pytest.mark.usefixtures("_hasty")
@pytest.mark.parametrize("detail", [b"", b"<html>", b'{"detail": "\\u001b[2J"}', b'{"detail": 3}'])
def test_only_what_can_be_shown_of_a_refusal_is_shown(detail):
    with answering((400, detail, {})) as url, pytest.raises(EvaluationError) as caught:
        Service(url)
    assert caught.value.sentence == "The service answers 400: it does not say why."


@pytest.mark.usefixtures("_hasty")
def test_a_redirection_is_not_followed_so_that_the_key_goes_nowhere_else():
    elsewhere = (307, b"", {"Location": "http://127.0.0.1:9/v1/models"})
    with answering(elsewhere) as url, pytest.raises(EvaluationError, match="answers 307"):
        Service(url, key="secret")


def test_the_measure_needs_nothing_but_the_service(address):
    """One pass through HTTP, then the same functions as for any vectors."""
    tables = tabulate(
        Service(address()), {"model": served_systems()["model"].readers[0]}, occurrences_in(COARSE)
    )
    assert coarsewsd(COARSE, tables["model"]).rounded()["words"] == 1
