"""A hostile request gets a response that fits the contract, or the connection ends."""

import orjson
import pytest

from tests.http.hostile import MARK, ORDINARY, exchange, hostile, send_all
from tests.http.service import descriptors, private_bytes, running, until

SEED = 7
GROWTH = 40 << 20
"""Bytes by which the memory of a worker may grow in the second half of the requests."""
COMPUTED = {
    *("application/json", "application/x-ndjson", "application/x-npz"),
    "application/octet-stream",
}
KEY = "kq7Jx2mV9sW4"
GUARDED = {"results", "tokens", "occurrences", "steps", "neighbors", "data", "object", "outputs"}
"""Members of responses that need a key."""


# `benchmarks/reliability.py` sends 100,000.
@pytest.mark.parametrize("many", [300, pytest.param(3_000, marks=pytest.mark.slow)])
def test_responses_to_hostile_requests_fit_the_contract(tmp_path, many: int) -> None:
    with running(tmp_path) as service:
        workers = service.workers()
        faults = send_all(service.address, SEED, range(many // 2)).faults
        warm = {pid: private_bytes(pid) for pid in workers}
        opened = {pid: descriptors(pid) for pid in workers}
        faults += send_all(service.address, SEED, range(many // 2, many)).faults
        assert faults == []
        assert service.workers() == workers
        (response,) = exchange(service.address, ORDINARY)
        assert response.status == 200
        assert max(private_bytes(pid) - warm[pid] for pid in workers) < GROWTH + 200 * many
        until(lambda: all(descriptors(pid) <= opened[pid] + 3 for pid in workers))
        log = service.log.read_bytes()
        assert b"Traceback" not in log
        assert MARK.encode() not in log.lower()
    assert service.process.returncode == 0


def test_no_hostile_request_bypasses_api_keys(tmp_path) -> None:
    statuses = {401: 0, 200: 0}
    settings = {"log_level": "debug", "proxies": 1, "cors_origins": "https://example.org"}
    with running(tmp_path, workers=1, api_keys=KEY, **settings) as service:
        for number in range(180):
            one = hostile(SEED + 1, number)
            for response in exchange(service.address, one.sent, one.method):
                statuses[response.status] = statuses.get(response.status, 0) + 1
                if response.status == 200 and response.kind in COMPUTED and one.method != "HEAD":
                    assert not orjson.loads(response.body).keys() & GUARDED, one
        log = service.log.read_text()
    assert statuses[401] > statuses[200]
    assert "/v1/encode" in log and "Traceback" not in log
    assert [line for line in log.splitlines() if MARK in line.lower() or KEY in line] == []
