"""Clients of OpenAI's embeddings API with a real gunicorn."""

import json

import numpy as np
import pytest

from tests.environments import run_in
from tests.tiny import VECTORS, WORDS, write_tiny

pytestmark = pytest.mark.clients

KEY = "kq7Jx2mV9sW4"
TEXTS = ["river bank", "money bank end", "Apple"]
BIAS = -np.log(2, dtype=np.float32) * np.arange(len(WORDS), dtype=np.float32)
"""The weights of the words in their order are 1, 1/2, 1/4, …"""


@pytest.fixture(scope="module")
def service(serve, tmp_path_factory):
    """The address of a service that pools contextual vectors, with a key and a rate limit."""
    folder = tmp_path_factory.mktemp("models")
    write_tiny(folder / "tiny", word_bias=BIAS)
    settings = {"pooling": "informativeness", "rate_limit": "30/10second", "workers": 1}
    return str(serve(models_dir=folder, model="tiny", api_keys=KEY, **settings).base_url)


def by_hand(text, dimensions=5):
    """The normalized weighted mean of the rows of softmax(X·Xᵀ)·X, in float64. -> [d]"""
    rows = [WORDS.index(word) for word in text.split()]
    x = VECTORS[rows].astype(np.float64)
    scores = np.exp(np.einsum("id,jd->ij", x, x))
    contextual = np.einsum("ij,jd->id", scores / scores.sum(1, keepdims=True), x)
    mean = np.einsum("i,id->d", 0.5 ** np.array(rows), contextual)[:dimensions]
    return mean / np.sqrt((mean**2).sum())


def expected(texts, **options):
    """The expected vectors of texts. -> [S, d]"""
    return pytest.approx(np.array([by_hand(text, **options) for text in texts]), abs=1e-6)


@pytest.fixture(scope="module")
def results(service):
    """The results of OpenAI's client."""
    return json.loads(run_in("openai", "openai_client.py", service, KEY))


def test_openais_client_gets_vectors_with_its_defaults_and_models(results):
    assert results["sent"]["encoding_format"] == "base64"
    assert np.array(results["vectors"]) == expected(TEXTS[:2])
    floats = [np.array(results[name], np.float32).tobytes() for name in ("vectors", "floats")]
    assert floats[0] == floats[1]
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    assert results["answer"] == ["list", "tiny", usage]
    assert results["zero"] == [0] * 5
    assert np.array([results["cut"]]) == expected(["river bank"], dimensions=3)
    assert "tiny" in results["models"]
    assert results["async"] == [results["vectors"]] * 10


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


@pytest.mark.parametrize("script", ["langchain_client.py", "llamaindex_client.py"])
def test_other_clients_get_the_vectors(service, script):
    found = json.loads(run_in("openai", script, service, KEY))
    assert np.array(found["documents"]) == expected(TEXTS)
    assert found["query"] == found["documents"][0]
    assert found["async"] == found["documents"]
    assert np.array(found["cut"]) == expected(TEXTS, dimensions=3)
