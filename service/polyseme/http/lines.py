"""A line of the log: one JSON object, or text for people; written so that the log stops nobody."""

import logging
import os
import select
import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal

import orjson
from pythonjsonlogger.orjson import OrjsonFormatter

from polyseme.http import tally
from polyseme.http.problems import places

_TRUSTED = ("polyseme", "gunicorn.error", "py.warnings")
"""Loggers whose arguments are told: none of them is given what a caller wrote."""
_UNKNOWN = "…"
_PATIENCE_MS = 100
"""How long a line waits for a reader of the log who has stopped reading."""
_SELDOM = 60.0
"""Seconds between two lines about a collector that does not take the traces."""
_STANDARD_ERROR = 2
_LEVELS = {number: name.lower() for name, number in logging.getLevelNamesMapping().items()}
_Fault = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class StandardError(logging.Handler):
    """Writes lines to standard error, whatever becomes of it: a full disk, a reader who is gone."""

    def __init__(self, form: Literal["auto", "json", "text"]) -> None:
        super().__init__()
        if form == "auto":
            form = "text" if os.isatty(_STANDARD_ERROR) else "json"
        self._json = form == "json"
        self.setFormatter(Json() if self._json else Text())
        self.addFilter(_Discreet())
        self._stuck = self._torn = False
        self._waiting: deque[bytes] = deque()
        self._poll = select.poll()
        self._poll.register(_STANDARD_ERROR, select.POLLOUT)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or count it as lost."""
        self._try(lambda: self.format(record).encode("utf-8", "backslashreplace"))

    def tell(self, level: int, fields: dict[str, Any], *, later: bool = False) -> None:
        """Write a line of fields alone: for each request one, so without the ways of `logging`.

        `later` is when it is settled.
        """
        form = _json_line if self._json else _text_line

        def line() -> bytes:
            return form(time.time(), level, "", fields, os.getpid())

        if not later:
            with self.lock or nullcontext():
                self._try(line)
            return
        try:
            self._waiting.append(line() + b"\n")
        except Exception:  # noqa: BLE001 - as in `_try`
            tally.LOST.inc()

    def settle(self) -> None:
        """Write the lines that wait, as many at once as a pipe takes whole."""
        while self._waiting:
            block = [self._waiting.popleft()]
            size = len(block[0])
            while self._waiting and size + len(self._waiting[0]) <= select.PIPE_BUF:
                size += len(self._waiting[0])
                block.append(self._waiting.popleft())
            with self.lock or nullcontext():
                self._try(lambda block=block: b"".join(block)[:-1], len(block))  # type: ignore[misc]

    def _try(self, make: Callable[[], bytes], lines: int = 1) -> None:
        try:
            self._write(make() + b"\n")
        except Exception:  # noqa: BLE001 - whatever it is, it is not the business of who logs
            tally.LOST.inc(lines)

    def _write(self, line: bytes) -> None:
        """Write; do not wait again for a reader who did not read the last time either."""
        left = b"\n" + line if self._torn else line
        while left:
            if not self._poll.poll(0 if self._stuck else _PATIENCE_MS):
                self._stuck = True
                raise BlockingIOError
            self._stuck = False
            # So much a pipe that has any room takes at once.
            left = left[os.write(_STANDARD_ERROR, left[: select.PIPE_BUF]) :]
            self._torn = bool(left)


class _Discreet(logging.Filter):
    """Takes what a caller may have written out of the lines of others."""

    _told_at = -_SELDOM

    def filter(self, record: logging.LogRecord) -> bool:
        """Change a record; say whether it is logged."""
        if record.name.startswith("opentelemetry"):
            return self._of_the_collector(record)
        if not record.name.startswith(_TRUSTED):
            said = record.msg if isinstance(record.msg, str) else _UNKNOWN
            record.msg, record.args = said.replace("%s", _UNKNOWN).replace("%r", _UNKNOWN), ()
        elif isinstance(record.args, tuple):
            record.msg = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
            record.args = tuple(map(_harmless, record.args))
        return True

    def _of_the_collector(self, record: logging.LogRecord) -> bool:
        """Say seldom that traces are lost; why is for the collector's own log."""
        now = time.monotonic()
        if record.levelno < logging.WARNING or now - self._told_at < _SELDOM:
            return False
        self._told_at = now
        record.name, record.levelno, record.levelname = "polyseme", logging.WARNING, "WARNING"
        record.msg, record.args = "polyseme: traces are lost: the collector does not take them.", ()
        record.exc_info = record.exc_text = record.stack_info = None
        return True


def _harmless(argument: Any) -> Any:
    """What an exception says, or a traceback as text, may quote the caller."""
    if isinstance(argument, BaseException):
        return type(argument).__name__
    return _UNKNOWN if isinstance(argument, str) and "\n" in argument else argument


class Json(OrjsonFormatter):
    """One JSON object in a line."""

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        """The time, the level, and what a line is about."""
        del message_dict
        log_data.update(_document(record.created, record.levelno, record.message, _fields(record)))
        log_data["pid"] = record.process

    def formatException(self, ei: _Fault) -> str:  # noqa: N802 - as logging has it
        """Nothing: the fields tell the type and the places."""
        del ei
        return ""


class Text(logging.Formatter):
    """A line for people, and one for each place of a fault."""

    def format(self, record: logging.LogRecord) -> str:
        """The time, the process, the level, the message and its fields."""
        said, fields = record.getMessage(), _fields(record)
        return _text_line(
            record.created, record.levelno, said, fields, record.process or 0
        ).decode()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What a line has beside its message; of an exception its type and the places."""
    fields: dict[str, Any] = getattr(record, "fields", {})
    if record.exc_info and record.exc_info[0]:
        where = places(record.exc_info[2])
        fields = {**fields, "error": record.exc_info[0].__name__, "places": where}
    return fields


def _document(created: float, level: int, said: str, fields: dict[str, Any]) -> dict[str, Any]:
    # A name of the file system may be no Unicode, which JSON cannot say.
    plain = said.encode("utf-8", "backslashreplace").decode()
    message = {"message": plain} if said else {}
    return {"time": _time(created), "level": _LEVELS[level], **message, **fields}


def _json_line(created: float, level: int, said: str, fields: dict[str, Any], pid: int) -> bytes:
    return orjson.dumps({**_document(created, level, said, fields), "pid": pid})


def _text_line(created: float, level: int, said: str, fields: dict[str, Any], pid: int) -> bytes:
    where = fields.get("places", [])
    known = [f"{name}={value}" for name, value in fields.items() if name != "places"]
    head = f"{_time(created)} [{pid}] {_LEVELS[level]}:"
    line = "\n    ".join([" ".join([head, *([said] if said else []), *known]), *where])
    return line.encode("utf-8", "backslashreplace")


def _time(created: float) -> str:
    """RFC 3339, in UTC."""
    moment = datetime.fromtimestamp(created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
