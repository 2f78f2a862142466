"""The log: one line for each request, and what gunicorn and the service have to say.

Nothing that a caller wrote comes into it: lines of requests are made of what `accounts.py` knows;
of an exception the type and the places are told and never what it says (`lines.py`).
"""

import logging
import sys
import threading
from datetime import timedelta
from typing import Any

from gunicorn import glogging

from polyseme.errors import PolysemeError
from polyseme.http import tally
from polyseme.http.accounts import PLACE, QUIET, UNMATCHED, Account
from polyseme.http.lines import StandardError
from polyseme.settings import Settings

_log = logging.getLogger("polyseme")


class Logs(glogging.Logger):  # type: ignore[misc]
    """What gunicorn logs with; it takes over all other loggers too."""

    patient = False
    """whether somebody will settle it; else each line is written at once"""

    def setup(self, cfg: Any) -> None:
        """Write everything to standard error, in one form."""
        self.cfg = cfg
        settings = Settings()
        self.loglevel = self.LOG_LEVELS[settings.log_level]
        self._lines = handler = StandardError(settings.log_format)
        for log in (self.error_log, logging.getLogger()):
            log.handlers = [handler]
        for log in (self.error_log, _log):
            log.setLevel(self.loglevel)
        logging.getLogger().setLevel(max(self.loglevel, logging.WARNING))
        logging.captureWarnings(True)
        threading.excepthook = _in_a_thread
        sys.unraisablehook = _unraisable

    def exception(self, msg: Any, *_: Any, **__: Any) -> None:
        """Log an exception of gunicorn's, whose arguments may be a path or a header."""
        said = msg if isinstance(msg, str) else type(msg).__name__
        self.error_log.error("%s", said.replace("%s", "…"), exc_info=True)

    def access(self, resp: Any, req: Any, environ: Any, request_time: timedelta) -> None:
        """Log a request whose answer is sent, or given up."""
        del req
        account: Account | None = environ.get(PLACE)
        if account is None:
            return
        level = logging.DEBUG if account.route in QUIET else logging.INFO
        if level < self.loglevel:
            return
        sent = getattr(resp, "sent", account.bytes)
        fields = _fields(account, request_time.total_seconds() * 1000, sent)
        if environ.get("polyseme.cut"):
            fields["cut"] = True
        self._lines.tell(level, fields, later=self.patient)

    def settle(self) -> None:
        """Write the lines of requests that wait."""
        self._lines.settle()

    def unread(self, error: PolysemeError, request_id: str, address: str | None) -> None:
        """Log and count an answer of the worker itself, to what no route has seen."""
        tally.refuse(error.code)
        fields = {
            "event": "request",
            "request_id": request_id,
            "route": UNMATCHED,
            "status": error.status,
            "code": error.code,
            "address": address or "",
        }
        self._tell(fields)

    def cut(self, why: str) -> None:
        """Log and count a connection that was ended without an answer."""
        tally.cut(why)
        self._tell({"event": "cut", "reason": why})

    def _tell(self, fields: dict[str, Any]) -> None:
        if self.loglevel <= logging.INFO:
            self._lines.tell(logging.INFO, fields)


def _fields(account: Account, milliseconds: float, sent: int) -> dict[str, Any]:
    """A request as the log has it; what is not known of it is left out."""
    fields = {
        "event": "request",
        "request_id": account.request_id,
        "route": account.route,
        "method": account.method,
        "status": account.status,
        "code": account.code,
        "ms": round(milliseconds, 3),
        "bytes": sent,
        "tokens": account.counts.tokens if account.counts else None,
        "model": account.model,
        "caller": account.caller,
        "address": account.address,
        "trace_id": account.trace_id,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _in_a_thread(fault: threading.ExceptHookArgs) -> None:
    """Log what ended a thread."""
    if fault.exc_value is not None:
        said = (fault.exc_type, fault.exc_value, fault.exc_traceback)
        _log.error("a thread ended", exc_info=said)


def _unraisable(fault: "sys.UnraisableHookArgs") -> None:
    """Log what nobody could catch."""
    if fault.exc_value is not None:
        said = (fault.exc_type, fault.exc_value, fault.exc_traceback)
        _log.error("an exception that nobody could catch", exc_info=said)
