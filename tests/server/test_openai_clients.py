"""Clients of OpenAI's embeddings API with a real gunicorn."""

import json

import numpy as np
import pytest

from tests.api.test_openai import BIAS, by_hand
from tests.environments import run_in
from tests.tiny import write_tiny

pytestmark = pytest.mark.clients

KEY = "kq7Jx2mV9sW4"
TEXTS = ["river bank", "money bank end", "Apple"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_tiny(folder / "tiny", word_bias=BIAS)
    return folder


@pytest.fixture(scope="module")
def address(serve, place):
    pooling = "informativeness"
    service = serve(models_dir=place, model="tiny", api_keys=KEY, pooling=pooling, workers=1)
    return str(service.base_url)


def right(texts, **how):
    """The expected vectors of texts. -> [S, d]"""
    return pytest.approx(np.array([by_hand(one, **how) for one in texts]), abs=1e-6)


@pytest.fixture(scope="module")
def told(serve, place, address):
    """The results of OpenAI's client."""
    slow = serve(models_dir=place, model="tiny", rate_limit="1/2second", workers=1)
    return json.loads(run_in("openai", "openai_client.py", address, KEY, str(slow.base_url)))


def test_openais_client_gets_vectors_with_its_defaults(told):
    assert told["sent"]["encoding_format"] == "base64"
    assert np.array(told["vectors"]) == right(TEXTS[:2])
    floats = [np.array(told[name], np.float32).tobytes() for name in ("vectors", "floats")]
    assert floats[0] == floats[1]
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    assert told["answer"] == ["list", "tiny", usage]
    assert told["zero"] == [0] * 5
    assert np.array([told["cut"]]) == right(["river bank"], dimensions=3)


def test_openais_client_lists_models(told):
    assert "tiny" in told["models"]
    assert (told["model"]["id"], told["model"]["object"]) == ("tiny", "model")
    assert told["model"]["dimension"] == 5


@pytest.mark.parametrize(
    ("what", "kind", "code", "parameter", "said"),
    [
        ("wrong key", "AuthenticationError", "invalid_api_key", None, "Authorization: Bearer"),
        ("wrong model", "NotFoundError", "model_not_found", None, "/v1/models"),
        ("no such model", "NotFoundError", "model_not_found", None, "/v1/models"),
        ("no such route", "NotFoundError", "unknown_route", None, "There is nothing"),
        ("dimensions", "UnprocessableEntityError", "invalid", "dimensions", "1 to 5"),
        ("empty", "UnprocessableEntityError", "unknown_word", "input[1]", "no words"),
        ("tokens", "UnprocessableEntityError", "invalid", "input", "send texts"),
        ("extra", "UnprocessableEntityError", "invalid", "task", "task"),
        ("long", "APIStatusError", "too_large", "input", "max_sentence_tokens"),
        ("over its rate", "RateLimitError", "rate_limit_exceeded", None, "Retry-After"),
    ],
)
def test_openais_client_raises_the_same_errors_as_with_openai(
    told, what, kind, code, parameter, said
):
    error = told[what]
    assert (error["class"], error["code"], error["param"]) == (kind, code, parameter)
    assert said in error["said"]
    assert len(error["request_id"]) == 32


def test_openais_client_retries_after_the_given_time(told):
    assert told["retries"] >= 1


def test_openais_asynchronous_client_sends_several_requests_at_once(told):
    vectors, models = told["async"]
    assert vectors == [told["vectors"]] * 10
    assert "tiny" in models


def test_langchain(address):
    found = json.loads(run_in("openai", "langchain_client.py", address, KEY))
    assert np.array(found["documents"]) == right(TEXTS)
    assert found["query"] == found["documents"][0]
    assert found["zero"] == [0] * 5
    assert found["async"] == found["documents"]
    assert np.array(found["cut"]) == right(TEXTS, dimensions=3)
    assert found["found"] == ["money bank end"]


def test_llamaindex(address):
    found = json.loads(run_in("openai", "llamaindex_client.py", address, KEY))
    assert np.array(found["batch"]) == right(TEXTS)
    assert found["single"] == found["query"] == found["batch"][0]
    assert found["async"] == found["batch"]
    assert np.array(found["cut"]) == right(TEXTS, dimensions=3)
