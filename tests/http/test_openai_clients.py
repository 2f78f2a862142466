"""OpenAI's client with a real gunicorn; `test_documented.py` has other clients."""

import json

import httpx
import numpy as np
import pytest

from tests.environments import run_in

pytestmark = pytest.mark.clients

KEY = "kq7Jx2mV9sW4"


@pytest.fixture(scope="module")
def service(serve, models) -> httpx.Client:
    """A service with a key and a rate limit."""
    settings = {"rate_limit": "30/10second", "workers": 1, "api_keys": KEY}
    return serve(models_dir=models, model="tiny", **settings)


@pytest.fixture(scope="module")
def results(service):
    """The results of OpenAI's client."""
    return json.loads(run_in("openai", "openai_client.py", str(service.base_url), KEY))


def test_openais_client_gets_vectors_with_its_defaults_and_models(results):
    assert results["encoding"] == "base64"
    answer = results["answer"]
    assert (answer["object"], answer["model"]) == ("list", "tiny")
    assert answer["usage"] == {"prompt_tokens": 5, "total_tokens": 5}
    vectors = [one["embedding"] for one in answer["data"]]
    assert np.array(vectors, "f4").tobytes() == np.array(results["floats"], "f4").tobytes()
    assert results["async"] == [vectors] * 10
    assert results["zero"] == [0] * 5
    assert "tiny" in results["models"]


@pytest.mark.parametrize(
    ("what", "expected", "message"),
    [
        ("wrong key", ["AuthenticationError", "invalid_api_key", None], "Authorization: Bearer"),
        ("empty", ["UnprocessableEntityError", "unknown_word", "input[1]"], "no words"),
        ("over its rate", ["RateLimitError", "rate_limit_exceeded", None], "Retry-After"),
    ],
)
def test_openais_client_raises_the_services_errors(results, what, expected, message):
    *error, text, request_id = results[what]
    assert error == expected
    assert message in text and len(request_id) == 32


def test_openais_client_retries_after_the_sent_time(results):
    assert results["retries"] >= 1
