"""Traces: what two workers send to a real receiver, and that none of it can hold a request up."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
import pytest

from tests.api.problem import SECRET
from tests.conftest import ROOT, free_port, start
from tests.http.test_logs import lines_of, requests_in
from tests.server.service import every_worker, until, workers_of
from tests.tiny import write_tiny

if importlib.util.find_spec("opentelemetry") is None:
    pytest.skip("needs the extra `telemetry`", allow_module_level=True)

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from polyseme.http import traces

from polyseme.api.app import create_app
from polyseme.settings import Settings
from tests.observability.collector import attributes, collecting

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SERVER, INTERNAL = 2, 1
FAULTY = 2
BODY = {"input": [SECRET, "apple", "bank"]}


@contextmanager
def traced(tmp_path, endpoint, **settings):
    """A service that sends its traces somewhere: its process, and a client."""
    write_tiny(tmp_path / "models" / "tiny")
    given = {"models_dir": tmp_path / "models", "model": "tiny", **settings}
    process, address = start(tmp_path / "log", otlp_endpoint=endpoint, **given)
    try:
        until(lambda: len(workers_of(process.pid)), settings.get("workers", 2))
        with httpx.Client(base_url=address, timeout=60) as client:
            yield process, client
    finally:
        process.terminate()
        # A collector that hangs has three seconds; to give up by itself it would take ten.
        assert process.wait(9) == 0


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """What a service of two workers sent, its log and the time before and after."""
    folder = tmp_path_factory.mktemp("traced")
    with pytest.MonkeyPatch.context() as patch, collecting() as collector:
        patch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.namespace=words,team=blue")
        patch.setenv("OTEL_SERVICE_NAME", "words-for-all")
        patch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=seven")
        begun = time.time_ns()
        with traced(folder, collector.endpoint, stream_bytes=100_000) as (process, client):
            port = client.base_url.port
            assert every_worker(process.pid, port, lambda link: ask(link, BODY)) == [200] * 2
            headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": f"x={SECRET}"}
            client.post("/v1/encode", json=BODY, headers={"X-Request-ID": "mine", **headers})
            client.post(f"/v1/{SECRET}?{SECRET}", json=BODY)
            client.post("/v1/encode", json={SECRET: SECRET})
            client.get("/livez")
            client.post("/v1/encode", json={"input": ["apple bank"] * 3000})
        # The service has ended: everything was sent.
        yield collector, (folder / "log").read_text(), (begun, time.time_ns())


def ask(link, body):
    link.request("POST", "/v1/encode", json.dumps(body), {"Content-Type": "application/json"})
    answer = link.getresponse()
    answer.read()
    return answer.status


def servers(collector):
    return [span for _, span in collector.spans() if span.kind == SERVER]


def test_each_request_has_a_span_of_either_worker_that_names_its_route(sent):
    collector, _, _ = sent
    names = [span.name for span in servers(collector)]
    assert sorted(names) == ["POST", *["POST /v1/encode"] * 5]
    processes = {process["service.instance.id"] for process, _ in collector.spans()}
    assert len(processes) == 2


def test_a_span_says_what_is_known_of_its_request(sent):
    collector, _, _ = sent
    (span,) = [one for one in servers(collector) if one.trace_id.hex() == TRACE]
    assert span.parent_span_id.hex() == PARENT
    assert attributes(span.attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/encode",
        "http.response.status_code": 200,
        "polyseme.request_id": "mine",
        "polyseme.model": "tiny",
        "polyseme.tokens": 3,
    }
    wrong = [attributes(one.attributes) for one in servers(collector)]
    assert [one["error.type"] for one in wrong if "error.type" in one] == [
        "unknown_route",
        "invalid",
    ]
    assert all(one.status.code != FAULTY for one in servers(collector))


def test_the_stages_are_children_within_their_request(sent):
    collector, _, (begun, ended) = sent
    spans = [span for _, span in collector.spans()]
    parents = {span.span_id: span for span in spans if span.kind == SERVER}
    stages = [span for span in spans if span.kind == INTERNAL]
    assert {stage.name for stage in stages} == {"parse", "tokens", "static", "attention", "write"}
    for stage in stages:
        parent = parents[stage.parent_span_id]
        assert stage.trace_id == parent.trace_id
        assert begun < parent.start_time_unix_nano <= stage.start_time_unix_nano
        assert stage.start_time_unix_nano <= stage.end_time_unix_nano
        assert stage.end_time_unix_nano <= parent.end_time_unix_nano < ended
    (known,) = [one for one in parents.values() if one.trace_id.hex() == TRACE]
    mine = [stage.name for stage in stages if stage.parent_span_id == known.span_id]
    assert mine[:2] == ["parse", "tokens"]


def test_nothing_of_the_text_is_in_what_is_sent(sent):
    collector, _, _ = sent
    assert collector.requests
    assert all(SECRET.encode() not in one.SerializeToString() for one in collector.requests)


def test_the_standard_variables_name_the_service_and_the_tenant(sent):
    collector, _, _ = sent
    for process, _ in collector.spans():
        assert process["service.name"] == "words-for-all"
        assert (process["service.namespace"], process["team"]) == ("words", "blue")
        assert process["service.version"]
    assert all(headers["x-tenant"] == "seven" for headers in collector.headers)


def test_the_log_names_the_trace(sent):
    collector, log, _ = sent
    named = [line["trace_id"] for line in requests_in(lines_of(log))]
    assert sorted(named) == sorted(span.trace_id.hex() for span in servers(collector))


def test_a_sampler_decides_which_requests_are_traced(tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    with collecting() as collector:
        with traced(tmp_path, collector.endpoint) as (_, client):
            client.post("/v1/encode", json=BODY)
            sampled = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            client.post("/v1/encode", json=BODY, headers=sampled)
        assert [span.trace_id.hex() for span in servers(collector)] == [TRACE]


def test_a_worker_that_is_recycled_sends_what_it_has(tmp_path):
    with collecting() as collector:
        with traced(tmp_path, collector.endpoint, max_requests=5, workers=1) as (_, client):
            for _ in range(20):
                assert client.post("/v1/encode", json=BODY).status_code == 200
        assert len(servers(collector)) == 20


@pytest.mark.parametrize("trouble", ["absent", "refuses", "fails", "hangs"])
def test_a_collector_that_takes_nothing_costs_no_request_anything(tmp_path, monkeypatch, trouble):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    status = {"refuses": 400, "fails": 503}.get(trouble, 200)
    with collecting(status) as collector:
        if trouble == "hangs":
            collector.awake.clear()
        endpoint = f"http://127.0.0.1:{free_port()}" if trouble == "absent" else collector.endpoint
        with traced(tmp_path, endpoint, workers=1) as (_, client):
            for _ in range(30):
                assert client.post("/v1/encode", json=BODY).status_code == 200
            if trouble != "absent":
                until(lambda: bool(collector.headers), True)
    lines = lines_of((tmp_path / "log").read_text())
    warnings = [line for line in lines if line["level"] in {"warning", "error"}]
    assert len(warnings) <= 1
    assert all("traces are lost" in line["message"] for line in warnings)
    if trouble in {"absent", "refuses", "fails"}:
        assert warnings
    assert len(requests_in(lines)) == 30


def test_a_fault_of_the_service_is_an_error_and_a_fault_of_the_caller_is_none(monkeypatch):
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(traces, "_provider", lambda _: provider)
    app = create_app(Settings(otlp_endpoint="http://127.0.0.1:9"))

    @app.get("/v1/fault")
    def fault():
        raise RuntimeError(SECRET)

    client = app.test_client()
    assert client.get("/v1/fault", buffered=True).status_code == 500
    assert client.get("/nothing", buffered=True).status_code == 404
    found = [
        (one.status.status_code, one.attributes["error.type"]) for one in kept.get_finished_spans()
    ]
    assert found == [(StatusCode.ERROR, "internal"), (StatusCode.UNSET, "unknown_route")]
    assert all(not one.events and not one.status.description for one in kept.get_finished_spans())


HIDDEN = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hide())
sys.argv = ["polyseme", "serve"]
from polyseme.__main__ import main
main()
"""


def test_a_service_without_the_extra_ends_with_one_sentence_that_names_it(tmp_path):
    given = {"OTLP_ENDPOINT": "http://127.0.0.1:9", "PORT": free_port()}
    environment = {f"POLYSEME_{name}": str(value) for name, value in given.items()}
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert len(said) == 1
    assert "telemetry" in said[0]
