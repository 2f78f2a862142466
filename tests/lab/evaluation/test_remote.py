"""`ServiceSource`: a model behind a running service has the same figures as in memory."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from polyseme.client.client import Client
from polyseme.client.results import Sentence, Token
from polyseme.errors import CommandError
from polyseme.models.reader import read_model
from polyseme_lab.evaluation import sources
from polyseme_lab.evaluation.datasets import TokenizedOccurrence
from polyseme_lab.evaluation.measure import measure_model, measure_service
from polyseme_lab.evaluation.sources import LocalSource, ServiceSource
from polyseme_lab.evaluation.systems import (
    SERVED_NAMES,
    EvaluationConfig,
    systems,
    tabulate,
)
from tests.conftest import free_port
from tests.lab.evaluation.sets import COARSE, WIC, WORDSIM, unpacked
from tests.tiny import SUBWORDS, full_layer, write_tiny

pytestmark = pytest.mark.slow

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
    """The address of a service with the models and given settings."""

    def start(**settings):
        return str(serve(models_dir=models_dir, model="tiny", workers=1, **settings).base_url)

    return start


@pytest.mark.parametrize("name", ["tiny", "fast"])
def test_every_vector_is_the_same_to_the_last_bit(address, models_dir, name):
    model = read_model(models_dir / name)
    asked = [
        TokenizedOccurrence(words, place) for words in SENTENCES for place in range(len(words))
    ]
    local = {n: one.readers[0] for n, one in systems(model, SERVED_NAMES).items()}
    served = {n: one.readers[0] for n, one in systems(None).items()}
    expected = tabulate(LocalSource(model), local, asked)
    found = tabulate(ServiceSource(address(), name), served, asked)
    for system in SERVED_NAMES:
        assert found[system](asked).tobytes() == expected[system](asked).tobytes(), system


def test_the_default_model_of_the_service_is_measured_unless_another_is_named(address):
    assert ServiceSource(address()).model == "tiny"
    assert ServiceSource(f"{address()}/", "fast").model == "fast"


def test_words_are_known_as_the_model_knows_them(address, models_dir):
    words = ["bank", "BANK", "zebra", "gnu", "apple"]
    assert ServiceSource(address(), "tiny").knows(words) == [True, True, False, False, True]
    source = LocalSource(read_model(models_dir / "fast"))
    assert ServiceSource(address(), "fast").knows(words) == source.knows(words)


@pytest.mark.parametrize("task", ["coarsewsd", "wic", "similarity"])
def test_figures_over_http_equal_those_in_memory(address, models_dir, tmp_path, task):
    unpacked(tmp_path, {**COARSE, **WIC})
    (tmp_path / "wordsim353.tsv").write_text(WORDSIM)
    config = EvaluationConfig(task, tmp_path, SERVED_NAMES)
    local = measure_model(read_model(models_dir / "tiny"), config)
    assert measure_service(ServiceSource(address()), config) == local


@pytest.mark.parametrize(
    "limits",
    [
        {"max_sentences": 3, "max_tokens": 130},
        {"max_body_bytes": 1000, "max_answer_bytes": 20_000},
    ],
    ids=" ".join,
)
def test_requests_are_split_to_the_limits_of_the_service(address, limits):
    readings = list(ServiceSource(address(**limits))(SENTENCES))
    expected = list(ServiceSource(address())(SENTENCES))
    for one, other in zip(readings, expected, strict=True):
        assert one.contextual.tobytes() == other.contextual.tobytes()


def test_a_sentence_that_the_service_rejects_is_reported_with_the_limit(address):
    service = ServiceSource(address(max_sentence_tokens=4))
    assert len(list(service([SENTENCES[1], SENTENCES[2]]))) == 2
    with pytest.raises(CommandError) as caught:
        list(service(SENTENCES[:3]))
    assert caught.value.sentence == (
        "The service rejects a sentence: A sentence has too many tokens: 5, over the"
        " limit max_sentence_tokens of 4. Raise its limit."
    )


def test_the_key_is_sent_to_a_service_that_requires_one(address):
    guarded = address(api_keys="one,two")
    assert len(list(ServiceSource(guarded, key="two")(SENTENCES))) == len(SENTENCES)
    for key in (None, "three"):
        with pytest.raises(CommandError, match="responds with 401: The key is missing or wrong"):
            ServiceSource(guarded, key=key)


def test_a_model_that_the_service_lacks_is_rejected_with_those_it_has(address):
    with pytest.raises(CommandError, match=r"has no such model; it has .*fast, tiny"):
        ServiceSource(address(), "nobody")


def test_systems_that_need_weights_are_not_measured_through_a_service(address, tmp_path):
    config = EvaluationConfig("coarsewsd", tmp_path, ("model", "random", "closed-form"))
    with pytest.raises(CommandError, match="so random, closed-form cannot be measured"):
        measure_service(ServiceSource(address()), config)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://127.0.0.1", "http://", "http://[::1", "file:///etc", "", "x"]
)
def test_an_invalid_address_is_rejected(url):
    with pytest.raises(CommandError, match=r"must look like http://127\.0\.0\.1:8000"):
        ServiceSource(url)


@pytest.fixture
def _one_retry(monkeypatch):
    """Retry once instead of five times."""
    monkeypatch.setattr(sources, "_RETRIES", 1)


@pytest.mark.usefixtures("_one_retry")
def test_a_service_that_does_not_respond_is_reported():
    with pytest.raises(CommandError, match="No service responds at this address"):
        ServiceSource(f"http://127.0.0.1:{free_port()}")


class Handler(BaseHTTPRequestHandler):
    """Sends the status and body of `server.response` for every request."""

    def do_GET(self):
        status, body = self.server.response
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ((200, b"<html>"), "not Polyseme"),
        ((200, b'{"data": [{}]}'), "not Polyseme"),
        ((400, b'{"detail": "\\u001b[2J"}'), "responds with 400 and no error document"),
        ((307, b""), "responds with 307, a redirect"),
    ],
)
def test_a_response_of_another_server_is_reported(response, message):
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.response = response
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with pytest.raises(CommandError, match=message):
                ServiceSource(f"http://127.0.0.1:{server.server_port}", key="secret")
        finally:
            server.shutdown()
            thread.join()


def test_a_response_with_other_tokens_is_reported(address, monkeypatch):
    token = Token("a", None, None, "a", "exact")
    arrays = dict.fromkeys(("static", "contextual"), np.ones((1, 5), np.float32))
    sentence = Sentence([token], arrays)
    source = ServiceSource(address())
    monkeypatch.setattr(Client, "encode_each", lambda *_, **__: [sentence])
    with pytest.raises(CommandError, match="not Polyseme"):
        list(source([("a", "b")]))
