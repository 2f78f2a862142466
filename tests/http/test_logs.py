"""The log: a line for each request, nothing of what callers write, and no harm when it is full."""

import json
import os
import socket
import subprocess
import sys
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest

from tests.conftest import COMMAND, ROOT, free_port, start
from tests.http.numbers import numbers, total
from tests.http.problem import SECRET
from tests.http.test_malformed import raw
from tests.http.versions import until, workers_of
from tests.tiny import write_tiny

KEY = f"{SECRET}-a-key-that-is-long-enough-for-everyone"


@contextmanager
def logging(tmp_path, **settings):
    """A service of its own: a client, and what its log has."""
    write_tiny(tmp_path / "models" / "tiny")
    given = {"models_dir": tmp_path / "models", "model": "tiny", "workers": 1, **settings}
    process, address = start(tmp_path / "log", **given)
    try:
        with httpx.Client(base_url=address, timeout=60) as client:
            yield client, lambda: lines_of((tmp_path / "log").read_text())
    finally:
        process.terminate()
        assert process.wait(60) == 0


def lines_of(text):
    """Every line is one JSON object; one that is still being written is left out."""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def requests_in(lines):
    return [line for line in lines if line.get("event") == "request"]


def test_each_request_has_one_line_that_says_what_is_known_of_it(tmp_path):
    with logging(tmp_path) as (client, log):
        body = {"input": "apple Bank zzz"}
        sent = client.post("/v1/encode", json=body, headers={"X-Request-ID": "mine"})
        client.get("/v1/models/nothing")
        client.get("/livez")
        client.get("/readyz")
        client.get("/metrics")
        until(lambda: len(requests_in(log())), 2)
        encode, missing = requests_in(log())
    moment = datetime.fromisoformat(encode.pop("time"))
    assert moment.utcoffset() == timedelta(0)
    assert encode.pop("ms") > 0
    assert isinstance(encode.pop("pid"), int)
    assert encode == {
        "level": "info",
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


def test_what_machines_ask_all_the_time_is_logged_where_all_is(tmp_path):
    with logging(tmp_path, log_level="debug") as (client, log):
        client.get("/metrics")
        until(lambda: requests_in(log())[-1]["route"], "/metrics")
        assert requests_in(log())[-1]["level"] == "debug"


def test_a_service_that_is_to_warn_says_nothing_of_requests(tmp_path):
    with logging(tmp_path, log_level="warning") as (client, log):
        assert client.post("/v1/encode", json={"input": "apple"}).status_code == 200
    assert [line["message"].partition(":")[0] for line in log()] == ["polyseme"]


def test_nothing_that_a_caller_writes_is_in_the_log(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYSEME_API_KEYS", KEY)
    with logging(tmp_path, log_level="debug", stream_bytes=1) as (client, log):
        headers = {"Authorization": f"Bearer {KEY}", SECRET: SECRET, "Referer": SECRET}
        for method in ("GET", "POST", "DELETE", SECRET.upper()):
            client.request(method, f"/v1/{SECRET}?{SECRET}", headers=headers)
        client.get("/v1/models", headers={"Authorization": f"Bearer {SECRET}", "Cookie": SECRET})
        client.get("/v1/models", headers={**headers, "X-Request-ID": f"{SECRET} {SECRET}"})
        for content in (b'{"input": "%b', b'{"input": "%b"}', b'{"%b": 1}', b'{"model": "%b"}'):
            sent = content % SECRET.encode()
            kind = {"Content-Type": "application/json"}
            client.post("/v1/encode", content=sent, headers={**headers, **kind})
        client.post("/v1/trace", json={"text": SECRET, "layer": 99}, headers=headers)
        many = {"input": [f"apple {SECRET} end"] * 3000}
        client.post("/v1/encode", json=many, headers=headers)
        for bytes_sent in (
            b"s3cretqx\r\n\r\n",
            b"GET /s3cretqx HTTP/1.1\r\nHost: s3cretqx s3cretqx\r\n\r\n",
            b"GET /s3cretqx HTTP/9.9\r\nHost: s3cretqx\r\n\r\n",
            b"GET /livez HTTP/1.1\r\nHost: x\r\ns3cretqx s3cretqx: s3cretqx\r\n\r\n",
            b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\ns3cretqx",
            b"POST /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\ns3cretqx",
        ):
            raw(client, bytes_sent)
        until(lambda: len(requests_in(log())) >= 17, True)
        text = (tmp_path / "log").read_text()
    assert SECRET not in text.lower()


def test_a_caller_is_named_by_its_key_and_the_key_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYSEME_API_KEYS", KEY)
    with logging(tmp_path) as (client, log):
        client.get("/v1/models", headers={"Authorization": f"Bearer {KEY}"})
        client.get("/v1/models")
        until(lambda: len(requests_in(log())), 2)
        known, unknown = requests_in(log())
    assert known["caller"] and KEY not in json.dumps(known)
    assert "caller" not in unknown
    assert unknown["code"] == "unauthorised"


def test_an_answer_that_the_client_did_not_wait_for_is_cut(tmp_path):
    with logging(tmp_path, stream_bytes=1) as (client, log):
        body = json.dumps({"input": ["apple bank river"] * 16_000}).encode()
        head = "POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        address = (client.base_url.host, client.base_url.port)
        with closing(socket.create_connection(address, timeout=60)) as link:
            link.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert link.recv(1 << 10).startswith(b"HTTP/1.1 200 OK")
        until(lambda: [line.get("cut") for line in requests_in(log())], [True])


def test_what_no_route_has_seen_has_a_line_too(tmp_path):
    with logging(tmp_path) as (client, log):
        answer = raw(client, b"nonsense\r\n\r\n")
        until(lambda: len(requests_in(log())), 1)
        (line,) = requests_in(log())
    assert (line["route"], line["status"], line["code"]) == ("unmatched", 400, "malformed")
    assert line["request_id"].encode() in answer
    assert line["address"] == "127.0.0.1"


def test_a_log_for_people_is_text(tmp_path):
    with logging(tmp_path, log_format="text") as (client, _):
        client.get("/v1/models")
        until(lambda: "event=request" in (tmp_path / "log").read_text(), True)
        text = (tmp_path / "log").read_text()
    (line,) = [line for line in text.splitlines() if "event=request" in line]
    assert "route=/v1/models method=GET status=200" in line
    assert "\npolyseme: http://127.0.0.1:" in f"\n{text}"


@contextmanager
def started(tmp_path, standard_error):
    """A service with another standard error: its process and a client."""
    write_tiny(tmp_path / "models" / "tiny")
    given = {"MODELS_DIR": tmp_path / "models", "MODEL": "tiny", "WORKERS": 1, "PORT": free_port()}
    environment = {f"POLYSEME_{name}": str(value) for name, value in given.items()}
    process = subprocess.Popen(
        [*COMMAND, "serve"],
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        stderr=standard_error,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{given['PORT']}", timeout=60) as client:
            until(lambda: answers(client), True)
            yield process, client
    finally:
        process.terminate()
        assert process.wait(60) == 0


def answers(client):
    try:
        return client.get("/livez").status_code == 200
    except httpx.TransportError:
        return False


def test_a_log_on_a_full_disk_harms_no_request_and_no_worker(tmp_path):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    with full.open("wb", buffering=0) as disk, started(tmp_path, disk) as (process, client):
        workers = workers_of(process.pid)
        for _ in range(20):
            assert client.post("/v1/encode", json={"input": "apple"}).status_code == 200
        until(lambda: total(numbers(client), "log_lines_lost_total") > 20, True)
        assert workers_of(process.pid) == workers


@pytest.mark.parametrize("closed", [True, False])
def test_a_reader_of_the_log_who_is_gone_or_asleep_holds_nothing_up(tmp_path, closed):
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "wb") as pipe, started(tmp_path, pipe) as (process, client):
            workers = workers_of(process.pid)
            if closed:
                os.close(reading)
            for _ in range(600):
                assert client.post("/v1/encode", json={"input": "apple"}).status_code == 200
            assert total(numbers(client), "log_lines_lost_total") > 1
            assert workers_of(process.pid) == workers
    finally:
        if not closed:
            os.close(reading)


FAULTS = """
import logging, sys, threading, warnings
from gunicorn.config import Config
from polyseme.http.logs import Logs

SECRET = "s3cretqx"
logs = Logs(Config())

def fail():
    raise ValueError(SECRET)

try:
    fail()
except ValueError as error:
    logs.exception("Error handling request %s", "/" + SECRET)
    logs.exception(error)
    logs.error("it failed: %s", error)
    logs.error("it failed", exc_info=True)
    logs.warning("Exception during worker exit:\\n%s", "Traceback\\n" + SECRET)
    logging.getLogger("polyseme").exception("polyseme: it failed")
    logging.getLogger("flask.app").error("Exception on %s", SECRET, exc_info=True)
    logging.getLogger("urllib3.connectionpool").warning("Retrying after %r", SECRET)
    logging.getLogger("of.others").info("what others say at length: " + SECRET)
    logging.getLogger("polyseme").error("a lone \\udc80 surrogate")
warnings.warn("a warning")
thread = threading.Thread(target=fail)
thread.start()
thread.join()

class Bad:
    def __del__(self):
        fail()

Bad()
"""


@pytest.mark.parametrize("form", ["json", "text"])
def test_of_a_fault_the_type_and_the_places_are_told_and_not_what_it_says(form):
    done = subprocess.run(
        [sys.executable, "-c", FAULTS],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "POLYSEME_LOG_FORMAT": form, "POLYSEME_LOG_LEVEL": "debug"},
    )
    assert done.stdout == ""
    assert SECRET not in done.stderr
    assert "Error handling request …" in done.stderr
    assert "Exception on …" in done.stderr
    if form == "json":
        lines = lines_of(done.stderr)
        assert any(line.get("message") == "a lone \\udc80 surrogate" for line in lines)
        told = [line for line in lines if line.get("error") == "ValueError"]
        assert len(told) == 7
        assert all("in fail" in line["places"][-1] for line in told)
        assert {line["level"] for line in told} == {"error"}
    else:
        assert done.stderr.count("error=ValueError") == 7
        assert done.stderr.count(" in fail") == 7
