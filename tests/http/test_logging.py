"""The log has one line per request, and contains no text of requests and no key."""

import base64
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
from tests.http.hostile import exchange, hostile
from tests.http.service import running

MARK = "s3cretqx"
"""A part of every key and of every text in a request."""
KEY = f"polyseme_{MARK}" + "k" * 35
"""The key of the caller `alice` in the key file."""
SETTING_KEY = f"given-{MARK}"
"""The key in the setting `api_keys`."""
TEXT = f"{MARK} river \N{LATIN SMALL LETTER E WITH ACUTE}"


@contextmanager
def captured(
    level: int = logging.INFO, formatter: logging.Formatter | None = None
) -> Iterator[Callable[[], list[dict]]]:
    """Capture the log: a call returns its JSON lines, or its text with a `formatter`."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter or JsonFormatter())
    handler.addFilter(PrivacyFilter())
    logger = logging.getLogger("polyseme")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield stream.getvalue if formatter else lambda: lines_of(stream.getvalue())
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def lines_of(text: str) -> list[dict]:
    """Parse the complete lines of a JSON log."""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


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
        for probe in ("/livez", "/readyz", "/metrics", "/v2/health/live"):
            client.get(probe)
    encode, missing = log()
    moment = datetime.fromisoformat(encode.pop("time"))
    assert moment.utcoffset() == timedelta(0)
    assert encode.pop("ms") > 0
    assert 0 < encode.pop("work_ms") < 10
    assert encode.pop("pid") == os.getpid()
    assert encode == {
        "level": "info",
        "message": "request",
        "event": "request",
        "request_id": "mine",
        "route": "/v1/encode",
        "method": "POST",
        "status": 200,
        "bytes": len(sent.content),
        "tokens": 3,
        "model": "tiny",
        "address": "127.0.0.1",
    }
    assert (missing["route"], missing["code"]) == ("/v1/models/<name>", "unknown_model")


@pytest.mark.parametrize(
    ("level", "path", "found"),
    [("DEBUG", "/readyz", ["debug"]), ("INFO", "/readyz", []), ("WARNING", "/v1/models", [])],
)
def test_probes_are_logged_at_debug_level_and_requests_at_info_level(client, level, path, found):
    with captured(getattr(logging, level)) as log:
        client.get(path)
    assert [line["level"] for line in log()] == found


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


def test_a_caller_is_logged_by_the_name_of_its_key(models: Path) -> None:
    client = in_process(models_dir=models, model="tiny", api_keys=KEY)
    with captured() as log:
        client.get("/v1/models", headers={"Authorization": f"Bearer {KEY}"})
        client.get("/v1/models")
    known, unknown = log()
    assert known["caller"] == "key-1" and KEY not in json.dumps(known)
    assert "caller" not in unknown and unknown["code"] == "unauthorised"


@pytest.mark.parametrize(
    ("level", "root"), [("debug", "WARNING"), ("info", "WARNING"), ("error", "ERROR")]
)
def test_other_libraries_log_only_warnings(level: str, root: str) -> None:
    config = logging_config(Settings(log_level=level, log_format="text"))
    assert config["root"]["level"] == root
    assert config["loggers"]["polyseme"]["level"] == level.upper()
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
def test_an_exception_is_logged_with_its_type_and_stack_without_its_message(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RAISE_AND_LOG],
        capture_output=True,
        text=True,
        check=True,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "service"),
            "POLYSEME_LOG_FORMAT": form,
            "POLYSEME_LOG_LEVEL": "debug",
        },
    )
    assert done.stdout == ""
    assert MARK not in done.stderr
    assert "Exception on …" in done.stderr
    if form == "json":
        lines = lines_of(done.stderr)
        assert any(line["message"] == "a lone \\udc80 surrogate" for line in lines)
        assert any(line["message"].endswith(": UserWarning: a warning") for line in lines)
        errors = [line for line in lines if line.get("error") == "ValueError"]
        assert len(errors) == 6
        assert all("in fail" in line["places"][-1] for line in errors)
        assert {line["level"] for line in errors} == {"error"}
    else:
        assert done.stderr.count("error=ValueError") == 6
        assert done.stderr.count(" in fail") == 6
        assert ": UserWarning: a warning\n" in done.stderr
        assert all(re.match(r"\d{4}-.*Z |    \S", line) for line in done.stderr.splitlines())


def test_warnings_of_opentelemetry_become_one_line_a_minute() -> None:
    privacy_filter = PrivacyFilter()
    records = [
        logging.LogRecord("opentelemetry.sdk", logging.WARNING, "x", 1, MARK, (), None)
        for _ in range(2)
    ]
    assert [privacy_filter.filter(record) for record in records] == [True, False]
    expected = "polyseme: OpenTelemetry reports a problem; traces may be lost."
    assert records[0].getMessage() == expected


def send(client: httpx.Client, method: str, path: str, **options: object) -> int:
    """Send a request; return the status."""
    return client.request(method, path, **options).status_code


def send_authorized_requests(client: httpx.Client) -> None:
    for key in (KEY, SETTING_KEY):
        headers = {"Authorization": f"Bearer {key}"}
        body = {"input": [TEXT, MARK], "oov": "zero"}
        assert send(client, "POST", "/v1/encode", json=body, headers=headers) == 200
        # Errors whose response may quote the request.
        for path, body in (
            ("/v1/encode", {"input": TEXT, "oov": "error"}),
            ("/v1/encode", {"input": TEXT, "model": MARK}),
            ("/v1/encode", {"input": TEXT, MARK: MARK}),
            ("/v1/encode", {"input": TEXT, "include": [MARK]}),
            ("/v1/neighbors", {"word": MARK}),
            ("/v1/trace", {"text": TEXT * 100}),
            ("/v1/trace", {"tokens": [MARK], "embeddings": [[1e300, 1e300]]}),
        ):
            assert send(client, "POST", path, json=body, headers=headers) in {200, 404, 413, 422}
        assert send(client, "GET", f"/v1/models/{MARK}", headers=headers) == 404


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> str:
    """The log of a real service at debug level after valid, hostile and malformed requests."""
    folder: Path = tmp_path_factory.mktemp("service")
    (folder / "keys").write_text(key_file_line("alice", KEY))
    settings = {"api_keys": SETTING_KEY, "api_keys_file": folder / "keys", "proxies": 1}
    settings |= {"cors_origins": "https://example.org", "rate_limit": "100000/hour"}
    with running(folder, workers=1, log_level="debug", **settings) as service:  # noqa: SIM117
        with httpx.Client(base_url=service.url, timeout=60) as client:
            send_authorized_requests(client)
            for number in range(400):
                exchange(service.address, hostile(11, number).sent, hostile(11, number).method)
            assert send(client, "GET", "/livez") == 200
    return service.log.read_text("utf-8")


def test_the_log_shows_requests_and_callers(log: str) -> None:
    assert len(re.findall("/v1/encode", log)) > 20
    assert "alice" in log and "key-1" in log
    assert all(json.loads(line)["time"] for line in log.splitlines())


def test_the_log_contains_no_key_and_no_text_of_callers(log: str) -> None:
    assert [line for line in log.splitlines() if MARK in line.lower()] == []
    assert base64.b64encode(MARK.encode()).decode()[:10] not in log
    assert "Traceback" not in log
