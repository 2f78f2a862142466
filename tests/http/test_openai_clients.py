"""Clients of OpenAI's embeddings API with a real gunicorn."""

import json

import numpy as np
import pytest

from tests.environments import run_in
from tests.http.test_openai import BIAS, by_hand
from tests.tiny import write_tiny

pytestmark = pytest.mark.clients

KEY = "kq7Jx2mV9sW4"
TEXTS = ["river bank", "money bank end", "Apple"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of models."""
    folder = tmp_path_factory.mktemp("models")
    write_tiny(folder / "tiny", word_bias=BIAS)
    return folder


@pytest.fixture(scope="module")
def address(serve, folder):
    pooling = "informativeness"
    service = serve(models_dir=folder, model="tiny", api_keys=KEY, pooling=pooling, workers=1)
    return str(service.base_url)


def expected(texts, **options):
    """The expected vectors of texts. -> [S, d]"""
    return pytest.approx(np.array([by_hand(text, **options) for text in texts]), abs=1e-6)


@pytest.fixture(scope="module")
def results(serve, folder, address):
    """The results of OpenAI's client."""
    slow = serve(models_dir=folder, model="tiny", rate_limit="1/2second", workers=1)
    return json.loads(run_in("openai", "openai_client.py", address, KEY, str(slow.base_url)))


def test_openais_client_gets_vectors_with_its_defaults(results):
    assert results["sent"]["encoding_format"] == "base64"
    assert np.array(results["vectors"]) == expected(TEXTS[:2])
    floats = [np.array(results[name], np.float32).tobytes() for name in ("vectors", "floats")]
    assert floats[0] == floats[1]
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    assert results["answer"] == ["list", "tiny", usage]
    assert results["zero"] == [0] * 5
    assert np.array([results["cut"]]) == expected(["river bank"], dimensions=3)


def test_openais_client_lists_models(results):
    assert "tiny" in results["models"]
    assert (results["model"]["id"], results["model"]["object"]) == ("tiny", "model")
    assert results["model"]["dimension"] == 5


@pytest.mark.parametrize(
    ("what", "kind", "code", "parameter", "message"),
    [
        ("wrong key", "AuthenticationError", "invalid_api_key", None, "Authorization: Bearer"),
        ("empty", "UnprocessableEntityError", "unknown_word", "input[1]", "no words"),
        ("over its rate", "RateLimitError", "rate_limit_exceeded", None, "Retry-After"),
    ],
)
def test_openais_client_raises_the_services_errors(results, what, kind, code, parameter, message):
    error = results[what]
    assert (error["class"], error["code"], error["param"]) == (kind, code, parameter)
    assert message in error["said"]
    assert len(error["request_id"]) == 32


def test_openais_client_retries_after_the_given_time(results):
    assert results["retries"] >= 1


def test_openais_asynchronous_client_sends_several_requests_at_once(results):
    vectors, models = results["async"]
    assert vectors == [results["vectors"]] * 10
    assert "tiny" in models


def test_langchain_gets_the_vectors(address):
    found = json.loads(run_in("openai", "langchain_client.py", address, KEY))
    assert np.array(found["documents"]) == expected(TEXTS)
    assert found["query"] == found["documents"][0]
    assert found["zero"] == [0] * 5
    assert found["async"] == found["documents"]
    assert np.array(found["cut"]) == expected(TEXTS, dimensions=3)
    assert found["found"] == ["money bank end"]


def test_llamaindex_gets_the_vectors(address):
    found = json.loads(run_in("openai", "llamaindex_client.py", address, KEY))
    assert np.array(found["batch"]) == expected(TEXTS)
    assert found["single"] == found["query"] == found["batch"][0]
    assert found["async"] == found["batch"]
    assert np.array(found["cut"]) == expected(TEXTS, dimensions=3)
