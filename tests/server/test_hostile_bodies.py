"""Whatever comes in: the contract's answer or the connection's end, and the next is served."""

from collections import Counter
from itertools import islice

import httpx
import orjson
import pytest

from tests.faults import hostile
from tests.faults.processes import descriptors, private_bytes, running, until
from tests.faults.requests import MARK
from tests.faults.sending import ORDINARY, converse, send_all

pytestmark = pytest.mark.faults

SEED = 7
BOUNDED, FULL = 20_000, 100_000
GROWTH = 40 << 20
"""Bytes that a worker may keep of the second half of them, but for the largest: two kilobytes of
each of the 25,000 that come to it would be more."""
LARGEST = 640 << 20
"""Bytes that a worker may have after the largest, of which each of its threads has had several."""


COMPUTED = {
    *("application/json", "application/x-ndjson", "application/x-npz"),
    "application/octet-stream",
}
GUARDED = {"results", "tokens", "occurrences", "steps", "neighbors", "data", "object", "outputs"}
"""Members of what only a key opens."""


def test_the_same_seed_and_number_give_the_same_bytes():
    first = list(hostile.requests(SEED, 0, 900))
    assert list(hostile.requests(SEED, 0, 900)) == first
    assert list(hostile.requests(SEED, 450, 900)) == first[450:]
    assert list(hostile.requests(SEED + 1, 0, 900)) != first
    kinds = {hostile.hostile(SEED, number).kind for number in range(1201)}
    assert kinds >= hostile.KINDS.keys() | set(islice(hostile.RARE, 3))


def test_hostile_requests_get_the_contracts_answers_and_leave_nothing_behind(
    tmp_path, full, record
):
    many = FULL if full else BOUNDED
    rare = range(0, many, hostile.SELDOM)
    others = [number for number in range(many) if number % hostile.SELDOM]
    with running(tmp_path) as service:
        workers = service.workers()
        outcome = send_all(service.address, SEED, others[: many // 2])
        assert outcome.faults == []
        warm = {pid: private_bytes(pid) for pid in workers}
        opened = {pid: descriptors(pid) for pid in workers}
        outcome.add(send_all(service.address, SEED, others[many // 2 :]))
        assert outcome.faults == []
        grown = {pid: private_bytes(pid) - warm[pid] for pid in workers}
        assert max(grown.values()) < GROWTH
        outcome.add(send_all(service.address, SEED, rare))
        assert outcome.faults == []
        assert outcome.sent == many
        assert service.workers() == workers
        largest = max(map(private_bytes, workers))
        assert largest < LARGEST
        (answer,) = converse(service.address, ORDINARY)
        assert answer.status == 200
        until(lambda: all(descriptors(pid) <= opened[pid] + 2 for pid in workers))
        log = service.log.read_bytes()
        assert b"Traceback" not in log
        assert MARK.encode() not in log.lower()
    assert service.process.returncode == 0
    record(
        "hostile",
        sent=outcome.sent,
        statuses=dict(sorted(outcome.statuses.items())),
        kinds=len(hostile.KINDS) + len(hostile.RARE),
        grown_mb=round(max(grown.values()) / 1e6, 1),
        largest_mb=round(largest / 1e6),
    )


def test_no_hostile_request_comes_past_the_keys(serve, full):
    client = serve(api_keys="kq7Jx2mV9sW4")
    address = (client.base_url.host, client.base_url.port)
    statuses = Counter()
    for number in range(8_000 if full else 1_500):
        one = hostile.hostile(SEED + 1, number)
        for answer in converse(address, one.sent, head=one.head):
            statuses[answer.status] += 1
            if answer.status == 200 and answer.kind in COMPUTED and not one.head:
                document = orjson.loads(answer.body)
                assert isinstance(document, dict)
                assert not document.keys() & GUARDED, one
    assert statuses[401] > statuses[200] > 0


def test_a_fault_in_an_answer_is_seen(client: httpx.Client):
    from tests.faults.answers import Answer, fault_of

    good = client.get("/v1/models/nobody")
    headers = {name.lower(): value for name, value in good.headers.items()}
    answer = Answer(404, headers, good.content)
    assert fault_of(answer) is None
    wrong = [
        answer._replace(status=500),
        answer._replace(status=405),
        answer._replace(headers={**headers, "content-type": "text/html"}),
        answer._replace(headers={**headers, "server-timing": "total;dur=-1"}),
        answer._replace(headers={**headers, "x-request-id": "a b"}),
        answer._replace(body=good.content[:-1]),
        answer._replace(body=good.content.replace(b"No model", MARK.encode())),
        answer._replace(body=good.content.replace(b"No model", b"/home/x")),
        answer._replace(body=good.content.replace(b"unknown_model", b"unknown_models")),
    ]
    assert all(map(fault_of, wrong))
