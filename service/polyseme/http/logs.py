"""Logging: its configuration, formatters, and a filter of requests' text.

`fields` of a record (`extra={"fields": …}`) become members of the JSON object. Exceptions are
logged with their type and stack, without their message, which may quote a request.
"""

import logging
import sys
import threading
import time
import traceback
from typing import Any

import orjson

from polyseme.http import metrics
from polyseme.settings import Settings

_TRUSTED = ("polyseme", "gunicorn", "py.warnings")
"""Loggers whose arguments contain no text of requests, except in exceptions and in strings of
several lines, which are replaced."""
_COLLECTOR_INTERVAL = 60.0
"""Minimum seconds between two warnings of OpenTelemetry."""


def logging_config(settings: Settings) -> dict[str, Any]:
    """Return the configuration for `logging.config.dictConfig`."""
    log_format = settings.log_format
    if log_format == "auto":
        log_format = "text" if sys.stderr.isatty() else "json"
    level = settings.log_level.upper()
    quiet = "WARNING" if level in {"DEBUG", "INFO"} else level
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"private": {"()": PrivacyFilter}},
        "formatters": {"json": {"()": JsonFormatter}, "text": {"()": TextFormatter}},
        "handlers": {
            "stderr": {"()": StandardError, "formatter": log_format, "filters": ["private"]},
        },
        "root": {"level": quiet, "handlers": ["stderr"]},
        "loggers": {
            "polyseme": {"level": level},
            # gunicorn's default handlers would print every line twice. At level DEBUG, gunicorn
            # logs the paths of requests, which may contain private text.
            "gunicorn.error": {
                "level": "INFO" if level == "DEBUG" else level,
                "handlers": [],
                "propagate": True,
            },
            "gunicorn.access": {"level": "CRITICAL", "handlers": [], "propagate": False},
        },
    }


def capture_warnings() -> None:
    """Log Python warnings, and exceptions that end threads."""
    logging.captureWarnings(True)
    logging.raiseExceptions = False
    # The formatters do not use the thread, the process name and the caller; collecting them takes a
    # quarter of the time of a log call.
    logging.logThreads = logging.logMultiprocessing = False
    logging._srcfile = None  # noqa: SLF001 - as in the Logging HOWTO
    logger = logging.getLogger("polyseme")
    threading.excepthook = lambda ended: logger.error("a thread ended", exc_info=ended.exc_value)


class StandardError(logging.StreamHandler[Any]):
    """A handler that writes to standard error and counts the lines that cannot be written."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Count the line as lost; a full disk or a closed pipe must not fail a request."""
        del record
        metrics.LOST.inc()


class PrivacyFilter(logging.Filter):
    """A filter that removes text of requests from log records."""

    _collector_warned = -_COLLECTOR_INTERVAL

    def filter(self, record: logging.LogRecord) -> bool:
        """Remove text of requests from the record; return whether to log it."""
        if record.name.startswith("opentelemetry"):
            # One warning about traces replaces its own, at most once a minute.
            now = time.monotonic()
            since = now - self._collector_warned
            if record.levelno < logging.WARNING or since < _COLLECTOR_INTERVAL:
                return False
            self._collector_warned = now
            record.name, record.levelno, record.levelname = "polyseme", logging.WARNING, "WARNING"
            record.msg = "polyseme: OpenTelemetry reports a problem; traces may be lost."
            record.args, record.exc_info = (), None
        fields = dict(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0]:
            fields["error"] = record.exc_info[0].__name__
            frames = traceback.extract_tb(record.exc_info[2])  # the innermost frame is the last
            fields["places"] = [f"{one.filename}:{one.lineno} in {one.name}" for one in frames]
        record.fields, record.exc_info = fields, None
        record.exc_text = record.stack_info = None
        if not isinstance(record.msg, str):
            record.msg, record.args = type(record.msg).__name__, ()
        elif not record.name.startswith(_TRUSTED):
            record.msg, record.args = record.msg.replace("%s", "…").replace("%r", "…"), ()
        elif record.name == "py.warnings":
            # The following lines show code, or are lines of the warning's text.
            record.msg = record.msg.partition("\n")[0]
        elif isinstance(record.args, tuple):
            record.args = tuple(map(_harmless, record.args))
        return True


def _harmless(argument: Any) -> Any:
    """Return an argument of a log call; replace exceptions and multi-line strings."""
    if isinstance(argument, BaseException):
        return type(argument).__name__
    return "…" if isinstance(argument, str) and "\n" in argument else argument


class _Formatter(logging.Formatter):
    """A formatter with the time in RFC 3339, in UTC with milliseconds."""

    converter = staticmethod(time.gmtime)
    default_time_format, default_msec_format = "%Y-%m-%dT%H:%M:%S", "%s.%03dZ"


class JsonFormatter(_Formatter):
    """A formatter of one JSON object per line: time, level, message, fields, pid."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object."""
        # JSON requires valid Unicode, but a message can contain a file name that is not.
        message = record.getMessage().encode("utf-8", "backslashreplace").decode()
        members: dict[str, Any] = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
        }
        members |= {"message": message, **record.fields}  # type: ignore[attr-defined]
        return orjson.dumps({**members, "pid": record.process}, default=str).decode()


class TextFormatter(_Formatter):
    """A formatter of one human-readable line, plus one for each stack frame of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, process, level, message and fields."""
        fields: dict[str, Any] = dict(record.fields)  # type: ignore[attr-defined]
        stack = fields.pop("places", [])
        members = [f"{name}={value}" for name, value in fields.items()]
        level = record.levelname.lower()
        message = record.getMessage().replace("\n", " ")
        head = f"{self.formatTime(record)} [{record.process}] {level}: {message}"
        line = "\n    ".join([" ".join([head, *members]), *stack])
        return line.encode("utf-8", "backslashreplace").decode()
