"""The requests of the pages are answered as the pages say, and clients of others work."""

import json
import re
import shutil
import subprocess

import httpx
import numpy as np
import pytest

from tests.conftest import ROOT
from tests.environments import python_of, run_in
from tests.pages import require_fragments, section

PAGE = (ROOT / "docs" / "api.md").read_text("utf-8")
CLIENTS = {
    "triton": section("api.md", "The Open Inference Protocol"),
    "openai": section("pipelines.md", "OpenAI's clients"),
}
COMMANDS = [
    block
    for text in CLIENTS.values()
    for block in re.findall(r"```sh\n([^`]*)```\n\n```json\n(.*?)```", text, re.DOTALL)
]


def with_address(block, client):
    """Put the address of the test service into a block."""
    assert "localhost:8000" in block
    return block.replace("localhost:8000", f"{client.base_url.host}:{client.base_url.port}")


def test_the_requests_of_the_page_are_answered(client):
    sections = re.findall(r"^## POST /v1/(\w+)\n(?:```json\n)?`?(\{.*?\})`?", PAGE, re.MULTILINE)
    found = {route: json.loads(body) for route, body in sections if "…" not in body}
    assert list(found) == ["encode", "trace", "neighbors", "embeddings"]
    for route, body in found.items():
        assert client.post(f"/v1/{route}", json=body).status_code == 200, route
    ((body, answer),) = re.findall(r"/v1/neighbors --json '(.*)'\n```\n```json\n([^`]+)", PAGE)
    require_fragments(answer, client.post("/v1/neighbors", json=json.loads(body)).text)


def test_the_last_line_of_a_stream_is_the_documented_one(client):
    (last,) = re.findall(r'^\{"complete": true.*$', PAGE, re.MULTILINE)
    text = "Apple launched a new phone while I was eating an apple."
    headers = {"Accept": "application/x-ndjson"}
    answer = client.post("/v1/encode", json={"input": text}, headers=headers)
    assert json.loads(answer.text.splitlines()[-1]) == json.loads(last)


def test_the_other_routes_of_the_page_respond(client):
    routes = re.findall(r"`GET (/\S*)`", PAGE)
    assert len(routes) > 9
    for route in routes:
        assert client.get(route.replace("NAME", "wiki-en")).status_code == 200, route


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_commands_give_the_responses_of_the_page(live_client):
    assert len(COMMANDS) == 5
    for command, answer in COMMANDS:
        shell = ["sh", "-ec", with_address(command, live_client)]
        done = subprocess.run(shell, capture_output=True, text=True, check=True)
        require_fragments(answer, done.stdout)


@pytest.mark.clients
@pytest.mark.parametrize("environment", CLIENTS)
def test_clients_print_the_documented_output(live_client, environment):
    pattern = r"```python\n(.*?)```\n\n```text\n(.*?)```"
    blocks = re.findall(pattern, CLIENTS[environment], re.DOTALL)
    code, expected = map("".join, zip(*blocks, strict=True))
    command = [python_of(environment), "-W", "ignore", "-c", with_address(code, live_client)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (expected, 0), done.stderr


KEY = "kq7Jx2mV9sW4"


@pytest.fixture(scope="module")
def limited(serve, models) -> httpx.Client:
    """A service with a key and a rate limit."""
    settings = {"rate_limit": "30/30second", "workers": 1, "api_keys": KEY}
    return serve(models_dir=models, model="tiny", **settings)


@pytest.fixture(scope="module")
def results(limited):
    """The results of OpenAI's client."""
    return json.loads(run_in("openai", "openai_client.py", str(limited.base_url), KEY))


@pytest.mark.clients
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


@pytest.mark.clients
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


@pytest.mark.clients
def test_openais_client_retries_after_the_sent_time(results):
    assert results["retries"] >= 1
