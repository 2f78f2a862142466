"""The log has one line per request, and contains no text of requests and no key."""

import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest

from polyseme.api_keys import key_file_line
from polyseme.http import metrics
from polyseme.http.logs import (
    JsonFormatter,
    PrivacyFilter,
    StandardError,
    logging_config,
)
from polyseme.settings import Settings
from tests.conftest import ROOT
from tests.http.conftest import in_process

MARK = "s3cretqx"
"""A part of every key and of every text in a request."""
KEY = f"polyseme_{MARK}" + "k" * 35
"""The key of the caller `alice` in the key file."""
TEXT = f"{MARK} river \N{LATIN SMALL LETTER E WITH ACUTE}"


@contextmanager
def captured(level: int = logging.INFO) -> Iterator[Callable[[], list[dict]]]:
    """Capture the log of a block: a call returns its lines."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(PrivacyFilter())
    logger = logging.getLogger("polyseme")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@pytest.fixture(scope="module")
def client(models: Path) -> httpx.Client:
    """A client of an application with the tiny model and without keys."""
    return in_process(models_dir=models, model="tiny")


def test_each_request_has_one_line_with_its_details(client: httpx.Client) -> None:
    with captured() as log:
        sent = client.post(
            "/v1/encode", json={"input": "apple Bank zzz"}, headers={"X-Request-ID": "mine"}
        )
        client.get("/v1/models/nothing")
    encode, missing = log()
    moment = datetime.fromisoformat(encode.pop("time"))
    assert moment.utcoffset() == timedelta(0)
    assert 0 < encode.pop("work_ms") <= encode.pop("ms")
    assert encode.pop("pid") == os.getpid()
    facts = {"level": "info", "message": "request", "event": "request", "request_id": "mine"}
    facts |= {"route": "/v1/encode", "method": "POST", "status": 200, "bytes": len(sent.content)}
    assert encode == facts | {"tokens": 3, "model": "tiny", "address": "127.0.0.1"}
    assert (missing["route"], missing["code"]) == ("/v1/models/<name>", "unknown_model")


def test_probes_are_logged_at_debug_level_and_requests_at_info_level(client) -> None:
    for level, path, expected in (
        (logging.DEBUG, "/readyz", ["debug"]),
        (logging.INFO, "/readyz", []),
        (logging.WARNING, "/v1/models", []),
    ):
        with captured(level) as log:
            client.get(path)
        assert [line["level"] for line in log()] == expected


def test_a_streamed_response_is_logged_at_its_end_with_all_its_bytes(client: httpx.Client) -> None:
    headers = {"Accept": "application/x-ndjson"}
    body = {"input": ["apple bank"] * 50}
    with captured() as log:
        with client.stream("POST", "/v1/encode", json=body, headers=headers) as response:
            assert log() == []
            size = sum(map(len, response.iter_raw()))
        (line,) = log()
        assert (line["bytes"], line["status"]) == (size, 200)
        assert "aborted" not in line
        with client.stream("POST", "/v1/encode", json=body, headers=headers) as response:
            next(response.iter_raw(10))
    assert log()[1]["aborted"] is True
    assert 0 < log()[1]["bytes"] < size


def test_other_libraries_log_only_warnings() -> None:
    config = logging_config(Settings(log_level="debug", log_format="text"))
    assert config["root"]["level"] == "WARNING"
    assert config["loggers"]["polyseme"]["level"] == "DEBUG"
    assert config["handlers"]["stderr"]["formatter"] == "text"


def test_a_line_that_cannot_be_written_is_counted_as_lost() -> None:
    class FullDisk(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError

    handler = StandardError(FullDisk())
    before = metrics.LOST._value.get()
    handler.handle(logging.LogRecord("polyseme", logging.INFO, "x", 1, "a", (), None))
    assert metrics.LOST._value.get() == before + 1


RAISE_AND_LOG = """
import logging, logging.config, threading, warnings
from polyseme.http.logs import capture_warnings, logging_config
from polyseme.settings import Settings

SECRET = "s3cretqx"
logging.config.dictConfig(logging_config(Settings()))
capture_warnings()
logs = logging.getLogger("gunicorn.error")

def fail():
    raise ValueError(SECRET)

try:
    fail()
except ValueError as error:
    logs.exception("Error handling request %s", "the route")
    logs.exception(error)
    logs.error("it failed: %s", error)
    logs.error("it failed", exc_info=True)
    logs.warning("Exception during worker exit:\\n%s", "Traceback\\n" + SECRET)
    logging.getLogger("polyseme").exception("polyseme: it failed")
    logging.getLogger("flask.app").error("Exception on %s", SECRET, exc_info=True)
    logging.getLogger("urllib3.connectionpool").warning("Retrying after %r", SECRET)
    logging.getLogger("another.library").info("below the level of the root logger: " + SECRET)
    logging.getLogger("polyseme").error("a lone \\udc80 surrogate")
warnings.warn("a warning\\n" + SECRET)
thread = threading.Thread(target=fail)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("form", ["json", "text"])
def test_an_exception_is_logged_with_its_stack_without_its_message(form: str) -> None:
    settings = {"POLYSEME_LOG_FORMAT": form, "POLYSEME_LOG_LEVEL": "debug"}
    done = subprocess.run(
        [sys.executable, "-c", RAISE_AND_LOG],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **settings, "PYTHONPATH": str(ROOT / "service")},
    )
    log = done.stderr
    assert (done.stdout, MARK in log) == ("", False)
    assert "Exception on …" in log and "a lone \\udc80 surrogate" in log.replace("\\\\", "\\")
    if form == "json":
        lines = list(map(json.loads, log.splitlines()))
        assert any(line["message"].endswith(": UserWarning: a warning") for line in lines)
        errors = [line for line in lines if line.get("error") == "ValueError"]
        assert [line["level"] for line in errors] == ["error"] * 6
        assert all("in fail" in line["places"][-1] for line in errors)
    else:
        assert log.count("error=ValueError") == log.count(" in fail") == 6
        assert ": UserWarning: a warning\n" in log
        assert all(re.match(r"\d{4}-.*Z |    \S", line) for line in log.splitlines())


def test_warnings_of_opentelemetry_become_one_line_a_minute() -> None:
    privacy_filter = PrivacyFilter()
    records = [
        logging.LogRecord("opentelemetry.sdk", logging.WARNING, "x", 1, MARK, (), None)
        for _ in range(2)
    ]
    assert [privacy_filter.filter(record) for record in records] == [True, False]
    expected = "polyseme: OpenTelemetry reports a problem; traces may be lost."
    assert records[0].getMessage() == expected


QUOTING = (
    ("/v1/encode", {"input": [TEXT, MARK], "oov": "zero"}, 200),
    # Errors whose response may quote the request.
    ("/v1/encode", {"input": TEXT, "oov": "error"}, 422),
    ("/v1/encode", {"input": TEXT, "model": MARK}, 404),
    ("/v1/encode", {"input": TEXT, MARK: MARK}, 422),
    ("/v1/trace", {"text": TEXT * 100}, 413),
    ("/v1/trace", {"tokens": [MARK], "embeddings": [[1e300, 1e300]]}, 422),
)


def test_callers_are_logged_by_name_and_their_keys_and_texts_are_not(models, tmp_path) -> None:
    (tmp_path / "keys").write_text(key_file_line("alice", KEY))
    keys = {"api_keys": f"given-{MARK}", "api_keys_file": tmp_path / "keys"}
    client = in_process(models_dir=models, model="tiny", **keys)
    for caller, key in (("alice", KEY), ("key-1", f"given-{MARK}"), (None, f"another-{MARK}")):
        headers = {"Authorization": f"Bearer {key}"}
        with captured(logging.DEBUG) as log:
            for path, body, status in QUOTING:
                answer = client.post(path, json=body, headers=headers)
                assert answer.status_code == (status if caller else 401)
            client.get(f"/v1/models/{MARK}", headers=headers)
        lines = log()
        assert [line.get("caller") for line in lines] == [caller] * (len(QUOTING) + 1)
        assert caller or {line["code"] for line in lines} == {"unauthorised"}
        assert MARK not in json.dumps(lines).lower()
