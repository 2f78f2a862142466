"""An OpenTelemetry collector: an HTTP server that receives OTLP and keeps the spans."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector(ThreadingHTTPServer):
    """Keeps the export requests and responds with `status`, while `responding` is set."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, status=200):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.responding = threading.Event()
        self.responding.set()
        self.requests, self.headers = [], []

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_port}"

    def spans(self):
        """The received spans, each with the attributes of its process."""
        return [
            (attributes(group.resource.attributes), span)
            for request in list(self.requests)
            for group in request.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/v1/traces"
        self.server.headers.append(dict(self.headers))
        self.server.responding.wait(60)
        if self.server.status == 200:
            self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def attributes(pairs):
    """Attributes as a dictionary."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in pairs}


@contextmanager
def collecting(status=200):
    """Run a collector."""
    with Collector(status) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.responding.set()
            server.shutdown()
