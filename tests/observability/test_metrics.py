"""/metrics: the numbers are those of the requests; `tests/server` has several workers."""

from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from polyseme.observability import metrics
from tests.api.conftest import in_process
from tests.api.problem import SECRET
from tests.observability.samples import Numbers, numbers, total
from tests.tiny import write_tiny

WORDS = ["apple", "BANK", "river", "zzz", "gnat"]
"""One of them is found in another case, two are unknown."""
ONE = {"input": [WORDS], "model": "tiny"}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """A folder with the tiny model."""
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny").parent


@pytest.fixture(scope="module")
def client(models: Path) -> httpx.Client:
    """A client of an application with the tiny model."""
    return in_process(models_dir=models, model="tiny", max_sentence_tokens=5)


class Grown:
    """By how much the samples have grown since a moment."""

    def __init__(self, client: httpx.Client) -> None:
        self.client, self.before = client, numbers(client)

    def __call__(self, name: str, **labels: str) -> float:
        now: Numbers = numbers(self.client)
        return total(now, name, **labels) - total(self.before, name, **labels)


def test_every_kind_of_request_is_counted_with_its_stages_and_words(client: httpx.Client) -> None:
    grown = Grown(client)
    size = sum(len(client.post("/v1/encode", json=ONE).content) for _ in range(4))
    refused = client.post("/v1/encode", json={**ONE, "colour": SECRET})
    client.get(f"/v1/models/{SECRET}")
    client.request("BREW", f"/{SECRET}?{SECRET}", headers={"X-Request-ID": SECRET})
    occurrences = [
        {"text": "apple Bank bank zzz", "word": "bank"},
        {"text": "bank", "start": 1, "end": 2},
    ]
    assert client.post("/v1/compare", json={"occurrences": occurrences}).status_code == 200
    assert client.post("/v1/trace", json={"text": "apple zzz"}).status_code == 200
    encode = {"route": "/v1/encode"}
    assert grown("requests_total", **encode, method="POST", status="200") == 4
    assert grown("requests_total", **encode, status="422") == 1
    assert grown("requests_total", route="/v1/models/<name>", status="404") == 1
    assert grown("requests_total", route="unmatched", method="other") == 1
    assert grown("errors_total", code="invalid") == 1
    assert grown("errors_total", code="unknown_model") == 1
    assert grown("request_duration_seconds_count", **encode) == 5
    assert grown("stage_duration_seconds_count", stage="attention") == 6
    assert grown("stage_duration_seconds_sum", stage="attention") > 0
    assert grown("tokens_total", model="tiny") == 4 * 5 + 5 + 2
    assert grown("unknown_words_total", model="tiny") == 4 * 2 + 1 + 1
    assert grown("case_fallbacks_total", model="tiny") == 4 + 1
    assert grown("answer_bytes_total", **encode) == size + len(refused.content)
    text = client.get("/metrics").text
    assert SECRET not in text and "BREW" not in text


def test_truncated_words_are_counted(client: httpx.Client) -> None:
    grown = Grown(client)
    client.post("/v1/encode", json={**ONE, "input": [[*WORDS, "end", "end"]], "truncate": True})
    assert grown("truncated_words_total", model="tiny") == 2
    assert grown("tokens_total", model="tiny") == 5


def test_a_stream_is_counted_once_and_to_its_last_byte(client: httpx.Client) -> None:
    headers = {"Accept": "application/x-ndjson"}
    many = {**ONE, "input": [WORDS] * 30}
    grown = Grown(client)
    response = client.post("/v1/encode", json=many, headers=headers)
    assert grown("answer_bytes_total", route="/v1/encode") == len(response.content)
    assert grown("requests_total", route="/v1/encode") == 1
    assert grown("connections_cut_total", reason="client_gone") == 0
    with client.stream("POST", "/v1/encode", json=many, headers=headers) as response:
        next(response.iter_raw(10))
    assert grown("connections_cut_total", reason="client_gone") == 1


def test_a_body_that_is_not_sent_counts_no_bytes(client: httpx.Client) -> None:
    grown = Grown(client)
    assert int(client.head("/v1/models").headers["content-length"]) > 0
    assert grown("answer_bytes_total", route="/v1/models") == 0
    assert grown("request_duration_seconds_count", route="/v1/models") == 1


def test_the_gauges_show_the_models(client: httpx.Client, models: Path, broken_models) -> None:
    found = numbers(client)
    assert total(found, "models_loaded") == 1
    assert total(found, "models_broken") == 0
    assert total(found, "ready") == 1
    mapped = [*(models / "tiny").glob("*.npy"), models / "tiny" / "vocabulary.txt"]
    assert total(found, "mapped_bytes") == sum(path.stat().st_size for path in mapped)
    broken = numbers(in_process(models_dir=broken_models, model="broken"))
    assert total(broken, "models_broken") == 1
    assert total(broken, "ready") == 0


def test_every_label_set_exists_before_its_first_request(client: httpx.Client) -> None:
    found = set(numbers(client))
    for name, labels in (
        ("requests_total", {"route": "/v1/trace", "method": "POST", "status": "200"}),
        ("requests_total", {"route": "/v1/encode", "method": "POST", "status": "503"}),
        ("errors_total", {"code": "overloaded"}),
        ("refused_total", {"reason": "malformed"}),
        ("tokens_total", {"model": "wiki-en"}),
        ("connections_cut_total", {"reason": "client_gone"}),
    ):
        assert (f"polyseme_{name}", frozenset(labels.items())) in found


def test_the_hundred_and_first_model_is_counted_as_other(monkeypatch) -> None:
    monkeypatch.setattr(metrics, "_counted_models", {str(n) for n in range(100)})
    metrics._model_counters.cache_clear()
    assert metrics._model_counters("one-more")[0]._labelvalues == ("other",)
    metrics._model_counters.cache_clear()


def test_openmetrics_is_offered(client: httpx.Client) -> None:
    accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
    response = client.get("/metrics", headers={"Accept": accept})
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")
    plain = client.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    assert list(text_string_to_metric_families(plain.text))


def test_disabled_metrics_are_not_found(models: Path) -> None:
    off = in_process(models_dir=models, model="tiny", metrics="off")
    assert off.get("/metrics").status_code == 404
