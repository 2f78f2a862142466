"""Prometheus metrics: definitions, counting and /metrics.

If PROMETHEUS_MULTIPROC_DIR is set, prometheus_client runs in multiprocess mode: all processes write
to files in that directory, and each can report the metrics of all. The files have the number of a
worker's slot, which the next worker in the slot takes over, so that reloads add no files. Label
values are from bounded sets.
"""

import os
import shutil
from functools import cache

from flask import Flask, Response, request
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    values,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from polyseme import __version__
from polyseme.errors import PolysemeError
from polyseme.models.manifest import TABLES
from polyseme.models.registry import Registry

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
_REQUEST_BUCKETS = (*_SECONDS, 2.5, 5.0, 10.0, 30.0)
_STAGE_BUCKETS = (0.0001, 0.00025, 0.0005, *_SECONDS, 5.0)
_STAGES = ("wait", "parse", "tokens", "static", "attention", "neighbors", "senses", "write")
_slot = "master"
"""The slot of this process: "master", "admin" or the number of a worker."""
if DIRECTORY in os.environ:
    # The identifier of a process is its process ID by default.
    values.ValueClass = values.MultiProcessValue(lambda: _slot)  # type: ignore[no-untyped-call]
disable_created_metrics()  # type: ignore[no-untyped-call]
METRICS = CollectorRegistry()


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(f"polyseme_{name}", text, labels, registry=METRICS)


def _gauge(name: str, text: str, mode: str, *labels: str) -> Gauge:
    return Gauge(f"polyseme_{name}", text, labels, multiprocess_mode=mode, registry=METRICS)  # type: ignore[arg-type]


def _histogram(name: str, text: str, label: str, buckets: tuple[float, ...]) -> Histogram:
    return Histogram(f"polyseme_{name}", text, (label,), buckets=buckets, registry=METRICS)


REQUESTS = _counter("requests_total", "Requests answered.", "route", "method", "status")
ERRORS = _counter("errors_total", "Error responses.", "code")
DURATION = _histogram(
    "request_duration_seconds",
    "Time from arrival to the end of the response.",
    "route",
    _REQUEST_BUCKETS,
)
STAGE = _histogram(
    "stage_duration_seconds", "Time of a stage of a request.", "stage", _STAGE_BUCKETS
)
TOKENS = {
    "tokens": _counter("tokens_total", "Tokens in requests.", "model"),
    "oov": _counter("unknown_words_total", "Tokens without a vector.", "model"),
    "case_fallbacks": _counter("case_fallbacks_total", "Tokens found in another case.", "model"),
    "subword": _counter("subword_words_total", "Tokens composed of subwords.", "model"),
    "truncated": _counter("truncated_words_total", "Words removed by truncation.", "model"),
}
"""The counters of tokens, by the attributes of `TokenCounts`."""
BYTES = _counter("answer_bytes_total", "Bytes of responses, without headers.", "route")
REFUSED = _counter(
    "refused_total", "Requests rejected before they reach the application.", "reason"
)
ABORTED = _counter("connections_cut_total", "Streams that the client closed early.", "reason")
LOST = _counter("log_lines_lost_total", "Log lines that could not be written.")
STARTS = _counter("worker_starts_total", "Workers started.")
WAITING = _gauge("requests_waiting", "Requests waiting for a thread.", "livesum")
IN_PROGRESS = _gauge("requests_in_progress", "Requests in progress.", "livesum")
CONNECTIONS = _gauge("connections", "Open connections.", "livesum")
WORKERS = _gauge("workers", "Live workers.", "livesum")
LOADED = _gauge("models_loaded", "Loaded models, maximum over workers.", "livemax")
MAPPED = _gauge("mapped_bytes", "Bytes of memory-mapped files, maximum over workers.", "livemax")
BROKEN = _gauge("models_broken", "Models whose folder has a problem.", "livemostrecent")
READY = _gauge("ready", "1 if the default model can be used, else 0.", "livemostrecent")
INFO = _gauge("info", "The version of the service.", "livemax", "version")


def init_app(app: Flask, registry: Registry) -> None:
    """Add /metrics, and create known label sets at 0, so that `rate()` sees the first increment.

    Other statuses, unknown routes and models that are added later begin at their first increment.
    """

    @app.get("/metrics", endpoint="metrics")
    def exposition() -> Response:
        """Return the metrics, in the text format or OpenMetrics."""
        update_model_gauges(registry)
        encode, content_type = choose_encoder(request.environ.get("HTTP_ACCEPT", ""))
        if directory := os.environ.get(DIRECTORY):
            collected = CollectorRegistry()
            MultiProcessCollector(collected, directory)  # type: ignore[no-untyped-call]
            return Response(encode(collected), content_type=content_type)
        return Response(encode(METRICS), content_type=content_type)

    for rule in app.url_map.iter_rules():
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            route_metrics(rule.rule, method, 200)
    for status in (500, 503):
        route_metrics("/v1/encode", "POST", status)
    for stage in _STAGES:
        stage_histogram(stage)
    for name in registry.names:
        model_counters(name)
    for code in _error_codes(PolysemeError):
        error_counter(code)
    for reason in ("malformed", "overloaded", "rate_limited", "internal"):
        REFUSED.labels(reason)
    ABORTED.labels("client_gone")


def use_slot(slot: str) -> None:
    """Count in the files of a slot, which no other live process may use."""
    global _slot  # noqa: PLW0603
    _slot = slot


def start_worker() -> None:
    """Count this process as a live worker."""
    STARTS.inc()
    WORKERS.set(1)
    INFO.labels(__version__).set(1)


def free_slot(slot: str) -> None:
    """Remove the gauges of a worker that has exited; its counts stay."""
    if DIRECTORY in os.environ:
        mark_process_dead(slot)  # type: ignore[no-untyped-call]


def update_model_gauges(registry: Registry) -> None:
    """Update the gauges of the models in this process."""
    states = list(registry.states().values())
    loaded = [s.manifest for s in states if s.status == "loaded" and s.manifest]
    LOADED.set(len(loaded))
    BROKEN.set(sum(state.problem is not None for state in states))
    READY.set(registry.ready())
    mapped = {  # the tables of a base are mapped once for all models
        (manifest.base or manifest.name, name): file.bytes
        for manifest in loaded
        for name, file in manifest.files.items()
        if name in TABLES
    }
    MAPPED.set(sum(mapped.values()))


def count_refusal(reason: str) -> None:
    """Count a request that was rejected before it reached the application."""
    error_counter(reason).inc()
    REFUSED.labels(reason).inc()


# Looking up labels takes longer than counting, so these functions are cached.


@cache
def route_metrics(route: str, method: str, status: int) -> tuple[Counter, Histogram, Counter]:
    """Return the counters of a route: requests, their duration, and the bytes of responses."""
    requests = REQUESTS.labels(route, method, str(status))
    return requests, DURATION.labels(route), BYTES.labels(route)


stage_histogram = cache(STAGE.labels)
error_counter = cache(ERRORS.labels)


@cache
def model_counters(model: str) -> dict[str, Counter]:
    """Return the counters of the tokens of a model, by the attributes of `TokenCounts`."""
    return {name: counter.labels(model) for name, counter in TOKENS.items()}


def _error_codes(error: type[PolysemeError]) -> set[str]:
    return {error.code}.union(*map(_error_codes, error.__subclasses__()))


def remove_directory() -> None:
    """Remove the directory."""
    if directory := os.environ.get(DIRECTORY):
        shutil.rmtree(directory, ignore_errors=True)
