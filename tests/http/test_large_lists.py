"""No list of a body is built before its entries are checked; errors keep nothing of a body."""

import gc
from collections.abc import Iterator
from itertools import chain, cycle
from typing import Any
from uuid import uuid4

import httpx
import orjson
import pytest

from tests.http.bodies import ALTERNATIVES, BODIES
from tests.http.conftest import expect_problem
from tests.http.service import peak, private_bytes, running

MANY = [b",".join([entry] * 300_000) for entry in (b"[0]", b"0", b'"a"', b"{}")]
LONG = [b'"' + b"a" * 1_000_000 + b'"', b"[" * 500 + b"1" + b"]" * 500, b"1" + b"0" * 1_000_000]
MARK = "s3cretmark"


def with_mark(value: Any) -> Iterator[Any]:
    """Yield copies of a body in which one list has only the mark; the last of equal lists."""
    if isinstance(value, list):
        yield [MARK]
    entries = value.items() if isinstance(value, dict) else [*enumerate(value)][-1:]
    for name, below in entries:
        if isinstance(below, dict | list):
            for changed in with_mark(below):
                copy = dict(value) if isinstance(value, dict) else list(value)
                copy[name] = changed
                yield copy


def hostile_bodies() -> Iterator[tuple[str, bytes]]:
    """Yield a route and bodies for each list of a route; the kinds of entries take turns."""
    many, long = cycle(MANY), cycle(LONG)
    for path, body in BODIES.items():
        for changed in chain.from_iterable(map(with_mark, (body, *ALTERNATIVES.get(path, [])))):
            for entries in (next(many), next(long)):
                yield path, orjson.dumps(changed).replace(b'"%b"' % MARK.encode(), entries)


@pytest.mark.slow
def test_hostile_lists_cost_little_memory(tmp_path) -> None:
    statuses = set()
    with running(tmp_path, workers=1, threads=1, request_seconds=300) as service:
        (worker,) = service.workers()
        with httpx.Client(base_url=service.url, timeout=300) as client:
            client.post("/v1/encode", json={"input": "a"})
            idle = peak(worker)
            for path, content in hostile_bodies():
                headers = {"Content-Type": "application/json"}
                response = client.post(path, content=content, headers=headers)
                statuses.add(response.status_code)
                assert response.status_code in {200, 400, 413, 422}, response.text[:300]
                assert len(response.content) < 100_000 or response.status_code == 200
                assert peak(worker) - idle < 150 << 20, (path, content[:200])
        assert service.workers() == [worker]
        assert private_bytes(worker) < 300 << 20
    assert {413, 422} <= statuses


@pytest.mark.parametrize("path", BODIES)
def test_many_unknown_fields_are_one_error(client: httpx.Client, path: str) -> None:
    fields = {f"unknown{n}": 0 for n in range(20_000)}
    document = expect_problem(client.post(path, json={**BODIES[path], **fields}), 422, "invalid")
    (error,) = document["errors"]
    assert error["message"] == "has more than 1000 unknown or invalid fields"


def test_errors_keep_nothing_of_the_bodies_in_memory(client: httpx.Client) -> None:
    name = f"unknown {uuid4()}"
    headers = {"Content-Type": "application/json"}
    gc.collect()
    gc.disable()
    try:
        for path, body in BODIES.items():
            content = orjson.dumps({**body, name: path})
            expect_problem(client.post(path, content=content, headers=headers), 422, "invalid")
        objects = gc.get_objects()
        assert [one[name] for one in objects if type(one) is dict and name in one] == []
    finally:
        gc.enable()


def test_lack_of_memory_is_a_503(client: httpx.Client, monkeypatch, caplog) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("polyseme.http.routes.encode_sentences", fail)
    response = client.post("/v1/encode", json={"input": "a"})
    problem = expect_problem(response, 503, "out_of_memory")
    assert "too little memory" in problem["detail"] and response.headers["Retry-After"]
    assert not caplog.records


def test_long_accept_headers_are_not_parsed(client: httpx.Client) -> None:
    headers = {"Accept": "application/json," * 150}
    expect_problem(client.get("/v1/models", headers=headers), 406, "not_acceptable")
