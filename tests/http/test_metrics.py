"""/metrics: the numbers are those of what was asked, whatever becomes of the workers."""

import os
import shutil
import signal
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from polyseme.api.app import create_app
from polyseme.models.registry import Registry
from polyseme.settings import Settings
from tests.conftest import start
from tests.http.numbers import numbers, numbers_in, total
from tests.http.problem import SECRET
from tests.http.test_malformed import raw
from tests.http.versions import every_worker, until, workers_of
from tests.tiny import write_tiny

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="needs /proc to find the workers"
)

TEXT = ["apple", "BANK", "river", "zzz", "gnat"]
"""Five words: one is found in another case, two are unknown."""
ONE = {"input": [TEXT], "model": "tiny"}


@contextmanager
def counting(tmp_path, monkeypatch, **settings):
    """A service whose shared files are in a folder of the test: its process, a client."""
    write_tiny(tmp_path / "models" / "tiny")
    (tmp_path / "shares").mkdir(exist_ok=True)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path / "shares"))
    given = {"models_dir": tmp_path / "models", "model": "tiny", "workers": 2, **settings}
    process, address = start(tmp_path / "log", **given)
    # A connection for each request: any worker may take it.
    limits = httpx.Limits(max_keepalive_connections=0)
    try:
        with httpx.Client(base_url=address, timeout=60, limits=limits) as client:
            yield process, client
    finally:
        process.terminate()
        process.wait(60)


def ask(client, times=1, **changes):
    """The statuses of a number of answers."""
    body = {**ONE, **changes}
    return [client.post("/v1/encode", json=body).status_code for _ in range(times)]


def settled(client, answers, **labels):
    """The numbers when so many answers are counted: that is done when they are sent."""
    labels = {"route": "/v1/encode", "status": "200", **labels}
    until(lambda: total(numbers(client), "requests_total", **labels), answers)
    return numbers(client)


def files(tmp_path):
    return sorted(path.name for path in (tmp_path / "shares").rglob("*.db"))


def test_what_was_asked_is_what_is_counted_by_four_workers(tmp_path, monkeypatch):
    with counting(tmp_path, monkeypatch, workers=4) as (process, client):
        before = numbers(client)
        sizes = [len(client.post("/v1/encode", json=ONE).content) for _ in range(40)]
        assert ask(client, 5, colour=SECRET) == [422] * 5
        for _ in range(3):
            client.get(f"/v1/models/{SECRET}")
            client.request("BREW", f"/{SECRET}?{SECRET}", headers={"X-Request-ID": SECRET})
        client.get("/livez")
        occurrences = [
            {"text": "apple Bank bank zzz", "word": "bank"},
            {"text": "bank", "start": 1, "end": 2},
        ]
        assert client.post("/v1/compare", json={"occurrences": occurrences}).status_code == 200
        assert client.post("/v1/trace", json={"text": "apple zzz"}).status_code == 200
        settled(client, 1, route="/v1/trace")
        settled(client, 1, route="/v1/compare")
        settled(client, 5, status="422")
        found = settled(client, 40)
        text = client.get("/metrics").text
        grown = {key: value - before.get(key, 0) for key, value in found.items()}
        assert total(grown, "requests_total", route="/v1/encode", status="200") == 40
        assert total(grown, "requests_total", route="/v1/encode", status="422") == 5
        assert total(grown, "requests_total", route="/v1/models/<name>", status="404") == 3
        assert total(grown, "requests_total", route="unmatched", method="other") == 3
        assert total(grown, "errors_total", code="invalid") == 5
        assert total(grown, "errors_total", code="unknown_model") == 3
        assert total(grown, "request_duration_seconds_count", route="/v1/encode") == 45
        assert total(grown, "stage_duration_seconds_count", stage="attention") == 42
        assert total(grown, "tokens_total", model="tiny") == 40 * 5 + 5 + 2
        assert total(grown, "unknown_words_total", model="tiny") == 40 * 2 + 1 + 1
        assert total(grown, "case_fallbacks_total", model="tiny") == 40 + 1
        assert total(found, "models_loaded") == 1
        assert total(found, "ready") == 1
        assert total(found, "workers") == 4
        assert total(found, "worker_starts_total") == 4
        assert total(found, "requests_in_progress") == 1
        vectors = (tmp_path / "models" / "tiny").glob("*.npy")
        assert total(found, "mapped_bytes") == sum(path.stat().st_size for path in vectors)
        refused = total(grown, "answer_bytes_total", route="/v1/encode") - sum(sizes)
        assert 5 * 100 < refused < 5 * 1000
        assert SECRET not in text and "BREW" not in text
        assert len(workers_of(process.pid)) == 4


def test_words_that_are_cut_off_or_composed_are_counted(tmp_path, monkeypatch):
    settings = {"max_sentence_tokens": 3}
    with counting(tmp_path, monkeypatch, **settings) as (_, client):
        assert ask(client, truncate=True) == [200]
        found = settled(client, 1)
        assert total(found, "truncated_words_total", model="tiny") == 2
        assert total(found, "tokens_total", model="tiny") == 3


def test_a_streamed_answer_is_counted_once_and_to_its_last_byte(tmp_path, monkeypatch):
    with counting(tmp_path, monkeypatch, stream_bytes=1) as (_, client):
        answer = client.post("/v1/encode", json={**ONE, "input": [TEXT] * 3000})
        assert answer.headers["transfer-encoding"] == "chunked"
        found = settled(client, 1)
        assert total(found, "answer_bytes_total", route="/v1/encode") == len(answer.content)
        assert total(found, "requests_total", route="/v1/encode") == 1
        assert total(found, "tokens_total") == 3000 * len(TEXT)
        # Half of it is made while it is sent, after the headers with their Server-Timing.
        assert total(found, "stage_duration_seconds_sum", stage="attention") > 0


def test_nothing_that_is_counted_ever_falls_while_workers_are_killed(tmp_path, monkeypatch):
    with counting(tmp_path, monkeypatch) as (process, client):
        until(lambda: len(workers_of(process.pid)), 2)
        had, seen, asked = files(tmp_path), numbers(client), 0
        for _ in range(6):
            assert ask(client, 10) == [200] * 10
            asked += 10
            settled(client, asked)
            victim = workers_of(process.pid)[0]
            os.kill(victim, signal.SIGKILL)
            until(lambda gone=victim: gone in workers_of(process.pid), False)
            until(lambda: len(workers_of(process.pid)), 2)
            found = numbers(client)
            fallen = [key for key in seen if falls(key) and found[key] < seen[key]]
            assert not fallen
            assert total(found, "requests_total", route="/v1/encode", status="200") == asked
            assert total(found, "requests_in_progress") == 1
            seen = found
        assert total(found, "worker_starts_total") == 2 + 6
        until(lambda: total(numbers(client), "workers"), 2)
        assert files(tmp_path) == had


def falls(key):
    """Whether a sample may never fall."""
    return key[0].endswith(("_total", "_count", "_sum", "_bucket"))


def test_a_worker_that_is_killed_takes_what_it_was_at_with_it(tmp_path, monkeypatch):
    with counting(tmp_path, monkeypatch, workers=1, stream_bytes=1) as (process, client):
        (worker,) = workers_of(process.pid)
        body = {**ONE, "input": [TEXT] * 16_000}
        with client.stream("POST", "/v1/encode", json=body) as answer:
            assert answer.status_code == 200
            assert total(numbers(client), "requests_in_progress") == 2
            os.kill(worker, signal.SIGKILL)
        until(lambda: worker in workers_of(process.pid), False)
        assert total(numbers(client), "requests_in_progress") == 1
        assert total(numbers(client), "requests_total", route="/v1/encode") == 0


def test_workers_that_are_recycled_go_on_with_the_files_of_those_before(tmp_path, monkeypatch):
    with counting(tmp_path, monkeypatch, max_requests=10) as (_, client):
        had = files(tmp_path)
        assert ask(client, 100) == [200] * 100
        found = settled(client, 100)
        assert total(found, "worker_starts_total") >= 2 + 5
        assert files(tmp_path) == had


def test_a_model_that_is_taken_away_is_gone_from_the_numbers_of_every_worker(tmp_path, monkeypatch):
    write_tiny(tmp_path / "models" / "other")
    with counting(tmp_path, monkeypatch, preload_models=True) as (process, client):
        until(lambda: len(workers_of(process.pid)), 2)
        every_worker(process.pid, client.base_url.port, scrape)
        loaded = total(numbers(client), "models_loaded")
        shutil.rmtree(tmp_path / "models" / "other")
        process.send_signal(signal.SIGHUP)
        # Asked for by one worker alone, the sum tells of the other too.
        with httpx.Client(base_url=client.base_url) as kept:
            until(lambda: total(numbers(kept), "models_loaded"), loaded - 1)


def scrape(link):
    link.request("GET", "/metrics")
    return link.getresponse().read()


def test_what_the_worker_refuses_itself_is_counted(tmp_path, monkeypatch):
    with counting(tmp_path, monkeypatch) as (_, client):
        assert raw(client, b"s3cretqx\r\n\r\n").startswith(b"HTTP/1.1 400 ")
        found = numbers(client)
        assert total(found, "refused_total", reason="malformed") == 1
        assert total(found, "errors_total", code="malformed") == 1


def test_without_gunicorn_a_process_counts_for_itself(tmp_path):
    write_tiny(tmp_path / "tiny")
    client = create_app(Settings(model="tiny"), Registry([tmp_path], "tiny")).test_client()
    before = total(numbers_in(client.get("/metrics").text), "tokens_total", model="tiny")
    assert client.post("/v1/encode", json=ONE, buffered=True).status_code == 200
    after = total(numbers_in(client.get("/metrics").text), "tokens_total", model="tiny")
    assert after - before == 5


def test_an_answer_whose_body_is_not_sent_counts_no_bytes(tmp_path):
    write_tiny(tmp_path / "tiny")
    client = create_app(Settings(model="tiny"), Registry([tmp_path], "tiny")).test_client()

    def counted():
        found = numbers_in(client.get("/metrics").text)
        return [
            total(found, name, route="/v1/models")
            for name in ("answer_bytes_total", "request_duration_seconds_count")
        ]

    before = counted()
    assert int(client.head("/v1/models", buffered=True).headers["content-length"]) > 0
    assert counted() == [before[0], before[1] + 1]


def test_metrics_that_are_off_are_not_there(tmp_path):
    write_tiny(tmp_path / "tiny")
    settings = Settings(model="tiny", metrics="off")
    client = create_app(settings, Registry([tmp_path], "tiny")).test_client()
    assert client.get("/metrics").status_code == 404


def test_who_asks_for_openmetrics_gets_it(client):
    accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
    answer = client.get("/metrics", headers={"Accept": accept})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
    assert client.get("/metrics").headers["content-type"].startswith("text/plain")


def test_a_broken_model_is_seen(broken_models, serve):
    client = serve(models_dir=broken_models, model="broken")
    found = numbers(client)
    assert total(found, "models_broken") == 1
    assert total(found, "ready") == 0
