"""The log: `logging.config.dictConfig` with python-json-logger, and a filter for callers' text.

`fields` of a record (`extra={"fields": …}`) are members of the JSON object. The log shows the type
of an exception and its places in the code, never its message, which may quote the caller.
"""

import logging
import sys
import threading
import time
import traceback
from typing import Any

from pythonjsonlogger.orjson import OrjsonFormatter

from polyseme.observability import metrics
from polyseme.settings import Settings

_TRUSTED = ("polyseme", "gunicorn", "py.warnings")
"""Loggers whose arguments hold no text of a caller."""
_COLLECTOR_INTERVAL = 60.0
"""Seconds between two warnings about a collector that takes no traces."""


def logging_config(settings: Settings) -> dict[str, Any]:
    """The configuration for `logging.config.dictConfig` and gunicorn's `logconfig_dict`."""
    form = settings.log_format
    if form == "auto":
        form = "text" if sys.stderr.isatty() else "json"
    level = settings.log_level.upper()
    quiet = "WARNING" if level in {"DEBUG", "INFO"} else level
    module = "polyseme.observability.logging"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"private": {"()": f"{module}.PrivacyFilter"}},
        "formatters": {
            "json": {"()": f"{module}.JsonFormatter"},
            "text": {"()": f"{module}.TextFormatter"},
        },
        "handlers": {
            "stderr": {
                "class": f"{module}.StandardError",
                "formatter": form,
                "filters": ["private"],
            }
        },
        "root": {"level": quiet, "handlers": ["stderr"]},
        "loggers": {
            "polyseme": {"level": level},
            # gunicorn's own default handlers would print every line a second time.
            # At debug level it logs paths, which are the caller's text.
            "gunicorn.error": {
                "level": "INFO" if level == "DEBUG" else level,
                "handlers": [],
                "propagate": True,
            },
            "gunicorn.access": {"level": "CRITICAL", "handlers": [], "propagate": False},
        },
    }


def capture_warnings() -> None:
    """Log warnings and exceptions of threads in the same form."""
    logging.captureWarnings(True)
    logging.raiseExceptions = False
    # No line shows these; collecting them takes a quarter of the time of a line.
    logging.logThreads = logging.logMultiprocessing = False
    logging._srcfile = None  # noqa: SLF001 - as in the Logging HOWTO
    threading.excepthook = _log_thread_exception


def _log_thread_exception(error: threading.ExceptHookArgs) -> None:
    if error.exc_value is not None:
        exception = (error.exc_type, error.exc_value, error.exc_traceback)
        logging.getLogger("polyseme").error("a thread ended", exc_info=exception)


class StandardError(logging.StreamHandler[Any]):
    """Writes to standard error and counts the lines that could not be written."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Count the line as lost: a full disk or a closed pipe must not fail a request."""
        del record
        metrics.LOST.inc()


class PrivacyFilter(logging.Filter):
    """Removes what a caller may have written from records of other libraries."""

    _collector_warned = -_COLLECTOR_INTERVAL

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record; return whether it is logged."""
        if record.name.startswith("opentelemetry") and not self._collector(record):
            return False
        fields = dict(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0]:
            fields["error"] = record.exc_info[0].__name__
            fields["places"] = places(record.exc_info[2])
        record.fields, record.exc_info, record.exc_text, record.stack_info = (
            fields,
            None,
            None,
            None,
        )
        trusted = record.name.startswith(_TRUSTED)
        if not isinstance(record.msg, str):
            record.msg, record.args = type(record.msg).__name__, ()
        elif not trusted:
            record.msg, record.args = record.msg.replace("%s", "…").replace("%r", "…"), ()
        elif isinstance(record.args, tuple):
            record.args = tuple(map(_harmless, record.args))
        return True

    def _collector(self, record: logging.LogRecord) -> bool:
        """Report lost traces once a minute; the collector's own log has the reason."""
        now = time.monotonic()
        if record.levelno < logging.WARNING or now - self._collector_warned < _COLLECTOR_INTERVAL:
            return False
        self._collector_warned = now
        record.name, record.levelno, record.levelname = "polyseme", logging.WARNING, "WARNING"
        record.msg, record.args = "polyseme: the collector does not accept traces.", ()
        record.exc_info = None
        return True


def _harmless(argument: Any) -> Any:
    """An argument of a log call, without the text of exceptions and tracebacks."""
    if isinstance(argument, BaseException):
        return type(argument).__name__
    return "…" if isinstance(argument, str) and "\n" in argument else argument


def places(trace: Any) -> list[str]:
    """The places in the code that an exception passed, the innermost last."""
    frames = traceback.extract_tb(trace)
    return [f"{one.filename}:{one.lineno} in {one.name}" for one in frames]


class JsonFormatter(OrjsonFormatter):
    """One JSON object per line: time, level, message, fields, pid."""

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        """Fill in the members."""
        del message_dict
        log_data["time"] = _timestamp(record)
        log_data["level"] = record.levelname.lower()
        # A file name may be no Unicode, which JSON cannot hold.
        log_data["message"] = record.message.encode("utf-8", "backslashreplace").decode()
        log_data.update(record.fields)  # type: ignore[attr-defined]
        log_data["pid"] = record.process


class TextFormatter(logging.Formatter):
    """One line for people, and one more for each place of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, process, level, message and fields."""
        fields: dict[str, Any] = dict(record.fields)  # type: ignore[attr-defined]
        where = fields.pop("places", [])
        known = [f"{name}={value}" for name, value in fields.items()]
        level = record.levelname.lower()
        head = f"{_timestamp(record)} [{record.process}] {level}: {record.getMessage()}"
        line = "\n    ".join([" ".join([head, *known]), *where])
        return line.encode("utf-8", "backslashreplace").decode()


def _timestamp(record: logging.LogRecord) -> str:
    """RFC 3339 in UTC, with milliseconds."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{moment}.{int(record.msecs):03d}Z"
