"""Triton's client with a real gunicorn."""

import json

import numpy as np
import pytest

from tests.environments import run_in
from tests.tiny import VECTORS, write_tiny

pytestmark = pytest.mark.clients

KEY = "kq7Jx2mV9sW4"


@pytest.fixture(scope="module")
def results(serve, tmp_path_factory):
    """The results of the client."""
    folder = tmp_path_factory.mktemp("models")
    write_tiny(folder / "tiny")
    service = serve(models_dir=folder, model="tiny", api_keys=KEY, workers=1)
    address = f"{service.base_url.host}:{service.base_url.port}"
    return json.loads(run_in("triton", "triton_client.py", address, KEY))


def test_triton_reads_whether_server_and_models_are_ready(results):
    assert results["ready"] == [True] * 4
    assert results["other_ready"] is False


def test_triton_gets_every_tensor_with_its_defaults(results):
    found = results["every"]
    assert results["id"] == "seven"
    assert found["tokens"] == ["apple", "bank", "Zoë", "river"]
    assert found["offsets"] == [0, 2, 2, 4]
    # `Zoë` is not in the vocabulary.
    expected = [VECTORS[0], VECTORS[3], np.zeros(5), VECTORS[4]]
    np.testing.assert_array_equal(found["static"], expected)
    assert found["attention_offsets"] == [0, 4, 4, 8]
    assert len(found["attention"]) == 8


def test_json_and_asyncio_give_the_same_tensors(results):
    assert results["in_json"] == results["every"]
    assert results["twin"] == [True, [results["every"]] * 2]


def test_triton_gets_the_requested_outputs_in_the_requested_form(results):
    assert list(results["mixed"]) == ["tokens", "static", "offsets"]
    assert results["mixed"] == {name: results["every"][name] for name in results["mixed"]}
    np.testing.assert_array_equal(results["asked"]["static"], VECTORS[[0]])


@pytest.mark.parametrize(
    ("what", "status", "message"),
    [
        ("no key", "401", "The key is missing or wrong. Send `Authorization: Bearer KEY`"),
        ("not UTF-8", "422", "`inputs[0]`: element 0 is not UTF-8."),
    ],
)
def test_triton_raises_the_services_error(results, what, status, message):
    refused = results["refused"][what]
    assert refused[0] == status
    assert message in refused[1]
