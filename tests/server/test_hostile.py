"""Hostile requests get a response of the contract or the end of the connection."""

import orjson
import pytest

from tests.server.hostile import hostile
from tests.server.hostile_bodies import MARK
from tests.server.sending import ORDINARY, PROBLEM, Answer, converse, fault_of, send_all
from tests.server.service import descriptors, private_bytes, running, until

SEED = 7
GROWTH = 40 << 20
"""Bytes that a worker may keep of the second half of the requests."""
COMPUTED = {
    *("application/json", "application/x-ndjson", "application/x-npz"),
    "application/octet-stream",
}
GUARDED = {"results", "tokens", "occurrences", "steps", "neighbors", "data", "object", "outputs"}
"""Members of documents that need a key."""


# `benchmarks/reliability.py` sends 100,000.
@pytest.mark.parametrize("many", [300, pytest.param(3_000, marks=pytest.mark.slow)])
def test_the_service_responds_after_hostile_requests(tmp_path, many: int) -> None:
    with running(tmp_path) as service:
        workers = service.workers()
        faults = send_all(service.address, SEED, range(many // 2)).faults
        warm = {pid: private_bytes(pid) for pid in workers}
        opened = {pid: descriptors(pid) for pid in workers}
        faults += send_all(service.address, SEED, range(many // 2, many)).faults
        assert faults == []
        assert service.workers() == workers
        (answer,) = converse(service.address, ORDINARY)
        assert answer.status == 200
        assert max(private_bytes(pid) - warm[pid] for pid in workers) < GROWTH + 200 * many
        until(lambda: all(descriptors(pid) <= opened[pid] + 3 for pid in workers))
        log = service.log.read_bytes()
        assert b"Traceback" not in log
        assert MARK.encode() not in log.lower()
    assert service.process.returncode == 0


def test_no_hostile_request_passes_the_keys(tmp_path) -> None:
    statuses = {401: 0, 200: 0}
    with running(tmp_path, workers=1, api_keys="kq7Jx2mV9sW4") as service:
        for number in range(300):
            one = hostile(SEED + 1, number)
            for answer in converse(service.address, one.sent, head=one.head):
                statuses[answer.status] = statuses.get(answer.status, 0) + 1
                if answer.status == 200 and answer.kind in COMPUTED and not one.head:
                    assert not orjson.loads(answer.body).keys() & GUARDED, one
    assert statuses[401] > statuses[200]


def test_a_fault_in_a_response_is_seen() -> None:
    document = {"type": "urn:polyseme:error:unknown_model", "title": "No such model"}
    document |= {"status": 404, "detail": "There is none.", "code": "unknown_model"}
    document |= {"hint": "Look.", "request_id": "abc"}
    headers = {"content-type": PROBLEM, "x-request-id": "abc", "server-timing": "total;dur=1"}
    body = orjson.dumps(document)
    good = Answer(404, headers, body)
    assert fault_of(good) is None
    wrong = [
        good._replace(status=500),
        good._replace(status=405),
        good._replace(headers={**headers, "content-type": "text/html"}),
        good._replace(headers={**headers, "server-timing": "total;dur=-1"}),
        good._replace(headers={**headers, "x-request-id": "a b"}),
        good._replace(body=body[:-1]),
        good._replace(body=body.replace(b"There is", MARK.encode())),
        good._replace(body=body.replace(b"There is", b"/home/x")),
        good._replace(body=body.replace(b"unknown_model", b"unknown_models")),
    ]
    assert all(map(fault_of, wrong))
