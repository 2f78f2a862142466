"""/metrics counts the requests of one process; `tests/http` tests several workers."""

from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.http.conftest import SECRET, Numbers, in_process, numbers, total

WORDS = ["apple", "BANK", "river", "zzz", "gnat"]
"""One word is found in another case, and two are unknown."""
ONE = {"input": [WORDS], "model": "tiny"}


@pytest.fixture(scope="module")
def client(models: Path) -> httpx.Client:
    """A client of an application with the tiny model."""
    return in_process(models_dir=models, model="tiny", max_sentence_tokens=5)


class Increase:
    """The increase of samples since the creation of this object."""

    def __init__(self, client: httpx.Client) -> None:
        self.client, self.before = client, numbers(client)

    def __call__(self, name: str, **labels: str) -> float:
        now: Numbers = numbers(self.client)
        return total(now, name, **labels) - total(self.before, name, **labels)


def test_requests_are_counted_with_their_errors_stages_and_words(client: httpx.Client) -> None:
    increase = Increase(client)
    size = sum(len(client.post("/v1/encode", json=ONE).content) for _ in range(4))
    rejected = client.post("/v1/encode", json={**ONE, "colour": SECRET})
    client.get(f"/v1/models/{SECRET}")
    client.request("BREW", f"/{SECRET}?{SECRET}", headers={"X-Request-ID": SECRET})
    occurrences = [
        {"text": "apple Bank bank zzz", "word": "bank"},
        {"text": "bank", "start": 1, "end": 2},
    ]
    assert client.post("/v1/compare", json={"occurrences": occurrences}).status_code == 200
    assert client.post("/v1/trace", json={"text": "apple zzz"}).status_code == 200
    longer = {**ONE, "input": [[*WORDS, "end", "end"]], "truncate": True}
    size += len(client.post("/v1/encode", json=longer).content)
    encode = {"route": "/v1/encode"}
    assert increase("requests_total", **encode, method="POST", status="200") == 5
    assert increase("requests_total", **encode, status="422") == 1
    assert increase("requests_total", route="/v1/models/<name>", status="404") == 1
    assert increase("requests_total", route="unmatched", method="other") == 1
    assert increase("errors_total", code="invalid") == 1
    assert increase("errors_total", code="unknown_model") == 1
    assert increase("request_duration_seconds_count", **encode) == 6
    assert increase("stage_duration_seconds_count", stage="attention") == 7
    assert increase("stage_duration_seconds_sum", stage="attention") > 0
    assert increase("tokens_total", model="tiny") == 5 * 5 + 5 + 2
    assert increase("unknown_words_total", model="tiny") == 5 * 2 + 1 + 1
    assert increase("case_fallbacks_total", model="tiny") == 5 + 1
    assert increase("truncated_words_total", model="tiny") == 2
    assert increase("answer_bytes_total", **encode) == size + len(rejected.content)
    text = client.get("/metrics").text
    assert SECRET not in text and "BREW" not in text


def test_bytes_are_counted_of_whole_streams_and_not_of_responses_to_head(client) -> None:
    headers, many = {"Accept": "application/x-ndjson"}, {**ONE, "input": [WORDS] * 30}
    increase = Increase(client)
    size = len(client.post("/v1/encode", json=many, headers=headers).content)
    assert increase("answer_bytes_total", route="/v1/encode") == size
    with client.stream("POST", "/v1/encode", json=many, headers=headers) as response:
        next(response.iter_raw(10))
    assert increase("connections_cut_total", reason="client_gone") == 1
    assert int(client.head("/v1/models").headers["content-length"]) > 0
    assert increase("answer_bytes_total", route="/v1/models") == 0
    assert increase("request_duration_seconds_count", route="/v1/models") == 1


def test_the_gauges_show_the_models(client: httpx.Client, models: Path, broken_models) -> None:
    found = numbers(client)
    assert total(found, "models_loaded") == 1
    assert total(found, "models_broken") == 0
    assert total(found, "ready") == 1
    mapped = [*(models / "tiny").glob("*.npy"), *(models / "tiny").glob("vocabulary-*.txt")]
    assert total(found, "mapped_bytes") == sum(path.stat().st_size for path in mapped)
    broken = numbers(in_process(models_dir=broken_models, model="broken"))
    assert total(broken, "models_broken") == 1
    assert total(broken, "ready") == 0


def test_every_label_set_exists_before_its_first_request(client: httpx.Client) -> None:
    found = set(numbers(client))
    for name, labels in (
        ("requests_total", {"route": "/v1/senses/apply", "method": "POST", "status": "200"}),
        ("errors_total", {"code": "overloaded"}),
        ("tokens_total", {"model": "wiki-en"}),
        ("connections_cut_total", {"reason": "client_gone"}),
    ):
        assert (f"polyseme_{name}", frozenset(labels.items())) in found


def test_openmetrics_is_offered(client: httpx.Client) -> None:
    accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
    response = client.get("/metrics", headers={"Accept": accept})
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")
    plain = client.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    assert list(text_string_to_metric_families(plain.text))
