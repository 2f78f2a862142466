"""What the service counts, and under which names. Every label is one of a few that are known."""

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Sequence
from functools import cache
from operator import add

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from werkzeug.routing import Map

from polyseme import __version__, errors
from polyseme.encoding.counts import Counts
from polyseme.http.accounts import Account
from polyseme.models.registry import Registry

disable_created_metrics()  # type: ignore[no-untyped-call]

REGISTRY = CollectorRegistry()

_REQUEST_BUCKETS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0),
)
_STAGE_BUCKETS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 5.0),
)
_STAGES = ("parse", "tokens", "static", "attention", "neighbors", "write")
_CUTS = ("slow_request", "silent", "slow_reader", "out_of_room")
_NO_WORDS = (0, 0, 0, 0, 0)
_MOST_MODELS = 100
"""Models that are counted by name; what more there are is `other`."""


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(f"polyseme_{name}", text, labels, registry=REGISTRY)


def _gauge(name: str, text: str, mode: str, *labels: str) -> Gauge:
    return Gauge(f"polyseme_{name}", text, labels, multiprocess_mode=mode, registry=REGISTRY)  # type: ignore[arg-type]


def _histogram(name: str, text: str, label: str, buckets: tuple[float, ...]) -> Histogram:
    return Histogram(f"polyseme_{name}", text, (label,), buckets=buckets, registry=REGISTRY)


REQUESTS = _counter("requests_total", "Requests answered.", "route", "method", "status")
ERRORS = _counter("errors_total", "Answers that were a problem.", "code")
DURATION = _histogram(
    "request_duration_seconds",
    "From a request to the end of its answer.",
    "route",
    _REQUEST_BUCKETS,
)
STAGE = _histogram(
    "stage_duration_seconds", "Time that a request spent in a stage.", "stage", _STAGE_BUCKETS
)
TOKENS = _counter("tokens_total", "Tokens of the texts.", "model")
UNKNOWN = _counter("unknown_words_total", "Tokens that have no vector.", "model")
FALLBACKS = _counter("case_fallbacks_total", "Tokens found in another case than written.", "model")
COMPOSED = _counter("subword_words_total", "Tokens composed of their subwords.", "model")
TRUNCATED = _counter("truncated_words_total", "Words cut off.", "model")
BYTES = _counter("answer_bytes_total", "Bytes of answers, without headers.", "route")
REFUSED = _counter("refused_total", "Requests that the worker refused itself.", "reason")
CUT = _counter("connections_cut_total", "Connections ended for what the client did.", "reason")
LOST = _counter("log_lines_lost_total", "Lines of the log that could not be written.")
STARTS = _counter("worker_starts_total", "Workers started, the first ones and those that follow.")
IN_PROGRESS = _gauge("requests_in_progress", "Requests that are being answered.", "livesum")
CONNECTIONS = _gauge("connections", "Connections that are open.", "livesum")
WORKERS = _gauge("workers", "Workers that live.", "livesum")
LOADED = _gauge("models_loaded", "Models in memory, in the worker with most.", "livemax")
MAPPED = _gauge("mapped_bytes", "Bytes of files mapped, in the worker with most.", "livemax")
BROKEN = _gauge("models_broken", "Models whose folder has a problem.", "mostrecent")
READY = _gauge("ready", "Whether the default model can answer.", "mostrecent")
INFO = _gauge("info", "The version of the service.", "livemax", "version")


def count(accounts: Sequence[Account]) -> None:
    """Count requests whose answers are sent: each number once, however many they are."""
    requests = Tally((one.route, one.method, one.status) for one in accounts)
    for key, number in requests.items():
        _requests(*key).inc(number)
    for code, number in Tally(one.code for one in accounts if one.code).items():
        _errors(code).inc(number)
    for route in {one.route for one in accounts}:
        some = [one for one in accounts if one.route == route]
        _observe(_duration(route), [one.seconds for one in some])
        _bytes(route).inc(sum(one.bytes for one in some))
    _count_stages(accounts)
    _count_words(accounts)


def _count_stages(accounts: Sequence[Account]) -> None:
    stages: dict[str, list[float]] = {}
    for one in accounts:
        for stage, spent in one.stages.milliseconds.items():
            stages.setdefault(stage, []).append(spent / 1000)
    for stage, seconds in stages.items():
        _observe(_stage(stage), seconds)


def _count_words(accounts: Sequence[Account]) -> None:
    words: dict[str, list[int]] = {}
    for one in accounts:
        if one.counts and one.model:
            words[one.model] = list(map(add, words.get(one.model, _NO_WORDS), _found(one.counts)))
    for model, found in words.items():
        for counter, number in zip(_words(model), found, strict=True):
            if number:
                counter.inc(number)


def _observe(histogram: Histogram, amounts: Sequence[float]) -> None:
    """Do what `observe` does for each of them, with one step for each bucket."""
    histogram._sum.inc(sum(amounts))  # noqa: SLF001 - the library has no way to add many
    bounds: list[float] = histogram._upper_bounds  # noqa: SLF001
    for place, number in Tally(bisect_left(bounds, amount) for amount in amounts).items():
        histogram._buckets[place].inc(number)  # noqa: SLF001


def _found(counts: Counts) -> tuple[int, ...]:
    return counts.tokens, counts.unknown, counts.fallbacks, counts.composed, counts.truncated


def refuse(code: str) -> None:
    """Count a request that no route has seen."""
    _errors(code).inc()
    REFUSED.labels(code).inc()


def cut(why: str) -> None:
    """Count a connection that was ended without an answer."""
    CUT.labels(why).inc()


def stand(registry: Registry) -> None:
    """Tell how the models stand in this process."""
    states = list(registry.states().values())
    loaded = [state for state in states if state.status == "loaded" and state.manifest]
    files = [one.manifest.files for one in loaded if one.manifest]
    LOADED.set(len(loaded))
    BROKEN.set(sum(state.problem is not None for state in states))
    READY.set(registry.ready())
    MAPPED.set(sum(e.bytes for some in files for n, e in some.items() if n.endswith(".npy")))


def begin() -> None:
    """Tell that this process is a worker, and lives."""
    WORKERS.set(1)
    INFO.labels(__version__).set(1)


def touch(routes: Map, models: list[str]) -> None:
    """Have what there can be at nothing, so that the first time is an increase too."""
    for rule in routes.iter_rules():
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            _requests(rule.rule, method, 200)
        _duration(rule.rule)
        _bytes(rule.rule)
    for status in (500, 503):
        _requests("/v1/encode", "POST", status)
    for stage in _STAGES:
        _stage(stage)
    for name in models:
        _words(name)
    for code in _codes(errors.PolysemeError):
        _errors(code)
    for code in ("malformed", "overloaded", "internal"):
        REFUSED.labels(code)
    for why in _CUTS:
        CUT.labels(why)


def _codes(error: type[errors.PolysemeError]) -> set[str]:
    return {error.code}.union(*map(_codes, error.__subclasses__()))


# To look a label up takes longer than to count.


@cache
def _requests(route: str, method: str, status: int) -> Counter:
    return REQUESTS.labels(route, method, str(status))


@cache
def _errors(code: str) -> Counter:
    return ERRORS.labels(code)


@cache
def _duration(route: str) -> Histogram:
    return DURATION.labels(route)


@cache
def _bytes(route: str) -> Counter:
    return BYTES.labels(route)


@cache
def _stage(stage: str) -> Histogram:
    return STAGE.labels(stage)


_named: set[str] = set()


@cache
def _words(model: str) -> tuple[Counter, ...]:
    if len(_named) >= _MOST_MODELS:
        model = "other"
    _named.add(model)
    return tuple(c.labels(model) for c in (TOKENS, UNKNOWN, FALLBACKS, COMPOSED, TRUNCATED))
