"""Traces: spans are sent to a collector, which cannot delay a request."""

import importlib.util
import json
import threading
import time
from contextlib import contextmanager

import pytest

from tests.client.scripted_server import ScriptedResponse, scripted_server
from tests.conftest import free_port

if importlib.util.find_spec("opentelemetry") is None:
    pytest.skip("needs the extra `telemetry`", allow_module_level=True)

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from polyseme.http import tracing
from polyseme.http.app import create_app
from polyseme.models.registry import Registry
from polyseme.settings import Settings
from tests.http.conftest import SECRET
from tests.http.service import running, until

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SERVER, INTERNAL = 2, 1
"""Kinds of spans in OTLP."""
BODY = {"input": [SECRET, "apple", "bank"]}
CALLER = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": f"x={SECRET}"}


class Collector:
    """A collector that receives OTLP, keeps the spans, and responds while `responding` is set."""

    def __init__(self):
        self.endpoint = ""
        self.responding = threading.Event()
        self.responding.set()
        self.received, self.requests = 0, []

    def __call__(self, request):
        """Respond to a request."""
        assert request.path == "/v1/traces"
        self.received += 1
        self.responding.wait(60)
        self.requests.append(ExportTraceServiceRequest.FromString(request.body))
        return ScriptedResponse()

    def spans(self):
        """The received spans, each with the attributes of its process."""
        return [
            (attributes(group.resource.attributes), span)
            for request in list(self.requests)
            for group in request.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]


def attributes(pairs):
    """Attributes as a dictionary."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in pairs}


@contextmanager
def collecting():
    """Run a collector."""
    collector = Collector()
    with scripted_server(collector) as server:
        collector.endpoint = server.url
        try:
            yield collector
        finally:
            collector.responding.set()


@pytest.fixture(scope="module")
def sent(tmp_path_factory, models):
    """The collector of a service with two workers, its log, and the times before and after."""
    folder = tmp_path_factory.mktemp("traced")
    with pytest.MonkeyPatch.context() as patch, collecting() as collector:
        patch.setenv("OTEL_SERVICE_NAME", "words-for-all")
        started = time.time_ns()
        settings = {"models_dir": models, "model": "tiny", "otlp_endpoint": collector.endpoint}
        with running(folder, **settings) as service:

            def ask(path, body=None, **headers):
                return service.ask("POST" if body else "GET", path, body, **headers)[0]

            assert service.every_worker(lambda: ask("/v1/encode", BODY)) == [200] * 2
            ask("/v1/encode", BODY, **{"X-Request-ID": "mine"}, **CALLER)
            ask(f"/v1/{SECRET}?{SECRET}", BODY)
            ask("/v1/encode", {SECRET: SECRET})
            ask("/livez")
        # The service has exported all spans before its end.
        yield collector, service.log.read_text(), (started, time.time_ns())


def server_spans(collector):
    """The spans of requests."""
    return [span for _, span in collector.spans() if span.kind == SERVER]


def test_each_request_has_a_span_with_its_details_and_no_text(sent) -> None:
    collector, log, _ = sent
    spans = server_spans(collector)
    assert sorted(span.name for span in spans) == ["POST", *["POST /v1/encode"] * 4]
    processes = [process for process, _ in collector.spans()]
    assert len({process["service.instance.id"] for process in processes}) == 2
    assert {process["service.name"] for process in processes} == {"words-for-all"}
    lines = [json.loads(line) for line in log.splitlines()]
    named = [line["trace_id"] for line in lines if "trace_id" in line]
    assert sorted(named) == sorted(span.trace_id.hex() for span in spans)
    assert all(SECRET.encode() not in one.SerializeToString() for one in collector.requests)
    (span,) = [one for one in spans if one.trace_id.hex() == TRACE]
    assert span.parent_span_id.hex() == PARENT
    assert attributes(span.attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/encode",
        "http.response.status_code": 200,
        "polyseme.request_id": "mine",
        "polyseme.model": "tiny",
        "polyseme.tokens": 3,
    }
    errors = {attributes(one.attributes).get("error.type") for one in spans}
    assert errors == {None, "unknown_route", "invalid"}


def test_the_stages_are_children_within_their_request(sent) -> None:
    collector, _, (started, ended) = sent
    spans = [span for _, span in collector.spans()]
    parents = {span.span_id: span for span in spans if span.kind == SERVER}
    stages = [span for span in spans if span.kind == INTERNAL]
    names = {"wait", "parse", "tokens", "static", "attention", "write"}
    assert {stage.name for stage in stages} == names
    for stage in stages:
        parent = parents[stage.parent_span_id]
        assert stage.trace_id == parent.trace_id
        assert started < parent.start_time_unix_nano <= stage.start_time_unix_nano
        assert stage.start_time_unix_nano <= stage.end_time_unix_nano
        assert stage.end_time_unix_nano <= parent.end_time_unix_nano < ended


def traced(models, endpoint):
    """A client of an application that sends traces, and its tracer."""
    settings = Settings(models_dir=models, model="tiny", otlp_endpoint=endpoint)
    app = create_app(settings, Registry([models], "tiny"))
    return app.test_client(), app.extensions["polyseme-tracer"]


@pytest.mark.parametrize("state", ["absent", "hanging"])
def test_an_unresponsive_collector_delays_no_request(models, monkeypatch, state) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setattr(tracing, "_LAST_SECONDS", 0.2)
    with collecting() as collector:
        if state == "hanging":
            collector.responding.clear()
        endpoint = f"http://127.0.0.1:{free_port()}" if state == "absent" else collector.endpoint
        client, tracer = traced(models, endpoint)
        started = time.monotonic()
        for _ in range(10):
            assert client.post("/v1/encode", json=BODY, buffered=True).status_code == 200
        tracer.close()
        assert time.monotonic() - started < 30  # a hanging collector takes 60 seconds
        if state != "absent":
            until(lambda: collector.received)


def test_server_errors_are_span_errors_and_client_errors_are_not(monkeypatch) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_provider", lambda _: provider)
    monkeypatch.setattr("polyseme.http.routes.encode_sentences", lambda *_: 1 / 0)
    client = create_app(Settings(otlp_endpoint="http://127.0.0.1:9")).test_client()
    assert client.post("/v1/encode", json={"input": "a"}, buffered=True).status_code == 500
    assert client.get("/nothing", buffered=True).status_code == 404
    spans = [one for one in exporter.get_finished_spans() if one.kind is SpanKind.SERVER]
    found = [(one.status.status_code, one.attributes["error.type"]) for one in spans]
    assert found == [(StatusCode.ERROR, "internal"), (StatusCode.UNSET, "unknown_route")]
    assert all(not one.events and not one.status.description for one in spans)
