"""Prometheus metrics: definitions, counting, /metrics, and the files of multiprocess mode.

If PROMETHEUS_MULTIPROC_DIR is set, prometheus_client runs in multiprocess mode: all processes write
to files in that directory, and each can report the metrics of all. The pages of these files are
allocated before they are written, so that a full folder costs metrics and no worker; the files of
processes that have exited are merged, so that reloads do not fill the folder. Label values are from
bounded sets.
"""

import fcntl
import logging
import mmap
import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

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
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from polyseme import __version__
from polyseme.errors import PolysemeError
from polyseme.http.context import RequestContext
from polyseme.models.manifest import TABLES
from polyseme.models.registry import Registry

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
_ENTRY = 28
"""Maximum size of an entry without its key, in bytes: length, padding, value and timestamp."""
_ATTEMPTS, _PAUSE = 20, 0.01
"""Number of attempts to merge while metrics are read, and seconds between two of them."""
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
_REQUEST_BUCKETS = (*_SECONDS, 2.5, 5.0, 10.0, 30.0)
_STAGE_BUCKETS = (0.0001, 0.00025, 0.0005, *_SECONDS, 5.0)
_STAGES = ("parse", "tokens", "static", "attention", "neighbors", "senses", "write")
_MAX_MODELS = 100
"""Maximum number of models with separate labels; additional ones count as `other`."""
_log = logging.getLogger("polyseme")


class CountingFile(MmapedDict):
    """A file of metrics whose pages are allocated before they are written.

    Writing to a page of a memory-mapped file that is not allocated ends the process with SIGBUS if
    the file system is full. Without space, the process counts in memory that nobody reads, or, if
    `fallback` is false, OSError is raised.
    """

    full = False
    """whether a file could not be allocated since the last warning"""

    def __init__(self, filename: str, *, fallback: bool = True) -> None:
        """Open a file, or create it with one page of zeros."""
        self._fallback = fallback
        new = Path(f"{filename}.new")  # a reader finds no file or a whole one
        try:
            if not Path(filename).exists():
                with new.open("wb") as file:
                    os.posix_fallocate(file.fileno(), 0, mmap.PAGESIZE)
                new.replace(filename)
            super().__init__(filename)  # type: ignore[no-untyped-call]
        except OSError:
            new.unlink(missing_ok=True)
            if not fallback:
                raise
            self._count_in_memory(b"")

    def _init_value(self, key: str) -> None:
        size = capacity = self._capacity
        while self._used + len(key.encode()) + _ENTRY > size:
            size *= 2
        if size > capacity:
            file: Any = self._f
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError:
                if not self._fallback:
                    raise
                self._count_in_memory(self._m[:])
                file.close()
        super()._init_value(key)  # type: ignore[no-untyped-call]

    def _count_in_memory(self, content: bytes) -> None:
        memory = os.memfd_create("polyseme-metrics")
        os.write(memory, content)
        super().__init__(memory)  # type: ignore[no-untyped-call]
        CountingFile.full = True


values.MmapedDict = CountingFile  # type: ignore[attr-defined, assignment]
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
    "request_duration_seconds", "Time to the end of the response.", "route", _REQUEST_BUCKETS
)
STAGE = _histogram(
    "stage_duration_seconds", "Time of a stage of a request.", "stage", _STAGE_BUCKETS
)
TOKENS = _counter("tokens_total", "Tokens in requests.", "model")
UNKNOWN = _counter("unknown_words_total", "Tokens without a vector.", "model")
FALLBACKS = _counter("case_fallbacks_total", "Tokens found in another case.", "model")
SUBWORD = _counter("subword_words_total", "Tokens composed of subwords.", "model")
TRUNCATED = _counter("truncated_words_total", "Words removed by truncation.", "model")
BYTES = _counter("answer_bytes_total", "Bytes of responses, without headers.", "route")
REFUSED = _counter(
    "refused_total", "Requests rejected before they reach the application.", "reason"
)
ABORTED = _counter("connections_cut_total", "Streams that the client closed early.", "reason")
LOST = _counter("log_lines_lost_total", "Log lines that could not be written.")
STARTS = _counter("worker_starts_total", "Workers started.")
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
            with locked(directory):
                return Response(encode(collected), content_type=content_type)
        return Response(encode(METRICS), content_type=content_type)

    for rule in app.url_map.iter_rules():
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            _route_metrics(rule.rule, method, 200)
    for status in (500, 503):
        _route_metrics("/v1/encode", "POST", status)
    for stage in _STAGES:
        _stage_histogram(stage)
    for name in registry.names:
        _model_counters(name)
    for code in _error_codes(PolysemeError):
        _error_counter(code)
    for reason in ("malformed", "overloaded", "rate_limited", "internal"):
        REFUSED.labels(reason)
    ABORTED.labels("client_gone")


def start_worker() -> None:
    """Count this process as a live worker."""
    STARTS.inc()
    WORKERS.set(1)
    INFO.labels(__version__).set(1)
    warn_if_full()


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


def observe(context: RequestContext) -> None:
    """Count a finished request."""
    requests, duration, size = _route_metrics(context.route, context.method, context.status)
    requests.inc()
    duration.observe(context.seconds)
    size.inc(context.response_bytes)
    if context.code:
        _error_counter(context.code).inc()
    for stage, (_start, _end, seconds) in context.stages.items():
        _stage_histogram(stage).observe(seconds)
    counts = context.counts
    if counts and context.model:
        tokens, unknown, fallbacks, subword, truncated = _model_counters(context.model)
        tokens.inc(counts.tokens)
        for counter, number in (
            (unknown, counts.oov),
            (fallbacks, counts.case_fallbacks),
            (subword, counts.subword),
            (truncated, counts.truncated),
        ):
            if number:
                counter.inc(number)
    if context.aborted:
        ABORTED.labels("client_gone").inc()
    if CountingFile.full:
        warn_if_full()


def refuse(reason: str) -> None:
    """Count a request that was rejected before it reached the application."""
    _error_counter(reason).inc()
    REFUSED.labels(reason).inc()


# Looking up labels takes longer than counting, so these functions are cached.


@cache
def _route_metrics(route: str, method: str, status: int) -> tuple[Counter, Histogram, Counter]:
    requests = REQUESTS.labels(route, method, str(status))
    return requests, DURATION.labels(route), BYTES.labels(route)


_stage_histogram = cache(STAGE.labels)
_error_counter = cache(ERRORS.labels)
_counted_models: set[str] = set()


@cache
def _model_counters(model: str) -> tuple[Counter, ...]:
    label = model if len(_counted_models) < _MAX_MODELS else "other"
    _counted_models.add(label)
    return tuple(c.labels(label) for c in (TOKENS, UNKNOWN, FALLBACKS, SUBWORD, TRUNCATED))


def _error_codes(error: type[PolysemeError]) -> set[str]:
    return {error.code}.union(*map(_error_codes, error.__subclasses__()))


def warn_if_full() -> None:
    """Log a warning if a file could not be allocated since the last call."""
    if CountingFile.full:
        CountingFile.full = False
        _log.warning(
            "polyseme: the folder of the metrics is full. This worker counts incompletely until it"
            " is replaced; free space, or set %s to another folder.",
            DIRECTORY,
        )


@contextmanager
def locked(directory: str, operation: int = fcntl.LOCK_SH) -> Iterator[None]:
    """Keep files from being merged while they are read: no sample is missing or counted twice."""
    with Path(directory, "lock").open("ab") as file:
        fcntl.flock(file, operation)
        yield


def remove_dead(dead: int, live: Collection[int]) -> None:
    """Remove the gauges of a process that has exited, and merge the counts of all but `live`.

    The counts stay in separate files if metrics are being read at this moment or a file system is
    full; the next call merges them.
    """
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return
    with suppress(OSError):
        mark_process_dead(dead, directory)  # type: ignore[no-untyped-call]
        for _ in range(_ATTEMPTS):
            with suppress(BlockingIOError), locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB):
                _merge(Path(directory), live)
                return
            time.sleep(_PAUSE)


def remove_directory() -> None:
    """Remove the directory."""
    if directory := os.environ.get(DIRECTORY):
        shutil.rmtree(directory, ignore_errors=True)


def _merge(directory: Path, live: Collection[int]) -> None:
    for kind in ("counter", "histogram"):
        merged = directory / f"{kind}_merged.db"
        for file in sorted(directory.glob(f"{kind}_[0-9]*.db")):
            if int(file.stem.partition("_")[2]) in live:
                continue
            if merged.exists():
                _add(file, merged)
                file.unlink()
            else:
                file.rename(merged)


def _add(file: Path, merged: Path) -> None:
    """Add the values of a file to those of another one, in place: this needs hardly any space."""
    entries = [entry[:2] for entry in MmapedDict.read_all_values_from_file(file)]  # type: ignore[no-untyped-call]
    total = CountingFile(str(merged), fallback=False)
    try:
        for key, _ in entries:
            total.read_value(key)  # type: ignore[no-untyped-call] # allocates new entries
        for key, value in entries:
            total.write_value(key, total.read_value(key)[0] + value, 0.0)  # type: ignore[no-untyped-call]
    finally:
        total.close()  # type: ignore[no-untyped-call]
