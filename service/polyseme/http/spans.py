"""Whether requests are traced (`traces.py`): where the settings name a collector.

Nothing of OpenTelemetry is imported else.
"""

from flask import Flask

from polyseme.http.accounts import at_the_end
from polyseme.settings import Settings

_MISSING = (
    "polyseme: otlp_endpoint needs the extra `telemetry`:"
    " `pip install 'polyseme[telemetry]'` adds it."
)
_PLACE = "polyseme-traces"


def init_app(app: Flask, settings: Settings) -> None:
    """Trace every request; end the process where that needs what is not installed."""
    if not settings.otlp_endpoint:
        return
    try:
        from polyseme.http.traces import Traces  # noqa: PLC0415 - an extra
    except ImportError:
        raise SystemExit(_MISSING) from None
    traces = Traces(settings.otlp_endpoint)
    app.extensions[_PLACE] = traces
    app.before_request(traces.begin)
    at_the_end(app, traces.end)


def start(app: Flask) -> None:
    """Begin to send, in a process that was forked: else the first request would wait for it."""
    if traces := app.extensions.get(_PLACE):
        traces.start()


def flush(app: Flask) -> None:
    """Send what waits, before the process ends."""
    if traces := app.extensions.get(_PLACE):
        traces.close()
