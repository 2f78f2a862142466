"""Traces: spans of requests and of their stages, and a collector that cannot delay a request."""

import importlib.util
import threading
import time

import pytest

from tests.client.scripted_server import ScriptedResponse, scripted_server
from tests.conftest import free_port

if importlib.util.find_spec("opentelemetry") is None:
    pytest.skip("needs the extra `telemetry`", allow_module_level=True)

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from polyseme.http import create_app, tracing
from polyseme.models.registry import Registry
from polyseme.settings import Settings
from tests.http.conftest import SECRET
from tests.http.service import WAIT, running, until

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
BODY = {"input": [SECRET, "apple", "bank"]}
CALLER = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": f"x={SECRET}"}


def application(models, endpoint="http://127.0.0.1:9"):
    """An application that sends traces."""
    settings = Settings(models_dir=models, model="tiny", otlp_endpoint=endpoint)
    return create_app(settings, Registry([models], "tiny"))


@pytest.fixture
def traced(models, monkeypatch):
    """A client of an application, and a function that returns its spans of a kind."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_provider", lambda _: provider)
    client = application(models).test_client()
    return client, lambda kind: [one for one in exporter.get_finished_spans() if one.kind is kind]


def test_each_request_has_a_span_with_its_details_and_no_text(traced, caplog) -> None:
    client, spans = traced
    with caplog.at_level("INFO", "polyseme.requests"):
        headers = {**CALLER, "X-Request-ID": "mine"}
        client.post("/v1/encode", json=BODY, headers=headers, buffered=True)
        client.post(f"/v1/{SECRET}?{SECRET}", json=BODY, buffered=True)
        client.post("/v1/encode", json={SECRET: SECRET}, buffered=True)
        client.get("/livez", buffered=True)
    span, unknown, invalid = spans(SpanKind.SERVER)
    assert [one.name for one in (span, unknown)] == ["POST /v1/encode", "POST"]
    assert format(span.context.trace_id, "032x") == TRACE
    assert format(span.parent.span_id, "016x") == PARENT
    assert dict(span.attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/encode",
        "http.response.status_code": 200,
        "polyseme.request_id": "mine",
        "polyseme.model": "tiny",
        "polyseme.tokens": 3,
    }
    errors = [one.attributes["error.type"] for one in (unknown, invalid)]
    assert errors == ["unknown_route", "invalid"]
    named = [record.fields["trace_id"] for record in caplog.records]
    assert named == [format(one.context.trace_id, "032x") for one in (span, unknown, invalid)]
    assert all(SECRET not in one.to_json() for one in (span, unknown, invalid))


def test_the_stages_are_children_within_their_request(traced) -> None:
    client, spans = traced
    started = time.time_ns()
    client.post("/v1/encode", json=BODY, buffered=True)
    (parent,) = spans(SpanKind.SERVER)
    stages = spans(SpanKind.INTERNAL)
    assert {stage.name for stage in stages} == {"parse", "tokens", "static", "attention", "write"}
    for stage in stages:
        assert stage.parent.span_id == parent.context.span_id
        assert started < parent.start_time <= stage.start_time <= stage.end_time <= parent.end_time
        seconds = (stage.end_time - stage.start_time) / 1e9
        assert stage.attributes["polyseme.milliseconds"] <= seconds * 1000 + 0.1
    assert parent.end_time < time.time_ns()


def test_server_errors_are_span_errors_and_client_errors_are_not(traced, monkeypatch) -> None:
    client, spans = traced
    monkeypatch.setattr("polyseme.http.routes.encode_sentences", lambda *_: 1 / 0)
    assert client.post("/v1/encode", json={"input": "a"}, buffered=True).status_code == 500
    assert client.get("/nothing", buffered=True).status_code == 404
    found = [(one.status, one.attributes["error.type"]) for one in spans(SpanKind.SERVER)]
    assert [(status.status_code, error) for status, error in found] == [
        (StatusCode.ERROR, "internal"),
        (StatusCode.UNSET, "unknown_route"),
    ]
    assert not any(one.events or one.status.description for one in spans(SpanKind.SERVER))


def test_each_worker_sends_its_spans(models, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "words-for-all")
    with scripted_server(ScriptedResponse()) as collector:
        settings = {"models_dir": models, "model": "tiny", "otlp_endpoint": collector.url}
        with running(tmp_path, **settings) as service:
            found = service.every_worker(lambda: service.ask("POST", "/v1/encode", BODY)[0])
            assert found == [200, 200]
    # The service has sent all spans before its end.
    assert [request.path for request in collector.requests] == ["/v1/traces"] * 2
    for request in collector.requests:
        assert b"words-for-all" in request.body and b"/v1/encode" in request.body
        assert SECRET.encode() not in request.body


@pytest.mark.parametrize("state", ["absent", "hanging", "unsampled"])
def test_an_unresponsive_collector_delays_no_request(models, monkeypatch, state) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setattr(tracing, "_LAST_SECONDS", 0.2)
    if state == "absent":
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    if state == "unsampled":
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    responding, threads = threading.Event(), threading.active_count()
    released = []

    def hang(_request):
        released.append(responding.wait(WAIT))
        return ScriptedResponse()

    with scripted_server(hang) as collector:
        absent = f"http://127.0.0.1:{free_port()}"
        app = application(models, absent if state == "absent" else collector.url)
        for _ in range(10):
            response = app.test_client().post("/v1/encode", json=BODY, buffered=True)
            assert response.status_code == 200
        app.extensions["polyseme"].tracer.close()
        until(lambda: bool(collector.requests), state == "hanging")
        responding.set()
    # The random pauses between further attempts would disturb other tests.
    until(lambda: threading.active_count() <= threads)
    # Nothing has waited for the collector.
    assert all(released)
