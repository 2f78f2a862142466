"""The measured budget of a request, and what the requests of a process share."""

import gc
import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import orjson
import pytest

from polyseme.errors import DeadlineError, OverloadedError
from polyseme.http.admission import Capacity, RateLimits
from polyseme.operations.encode import encode_each
from polyseme.operations.limits import current_budget
from tests.http.conftest import expect_problem, in_process
from tests.http.service import until
from tests.http.tensors import request

TEXT = "the river bank is near the money bank and the boats lie there"
ENCODE = "/v1/encode"
WORK = 0.1
"""The smallest `max_work`, in seconds."""
LONG = {
    "/v1/encode": {"input": [TEXT] * 2000, "include": ["contributions"], "encoding": "base64"},
    "/v1/embeddings": {"input": [TEXT] * 10_000},
    "/v1/compare": {
        "occurrences": [{"text": f"{n} {TEXT}", "word": "river"} for n in range(64)],
        "neighbors": 100,
    },
    "/v1/senses": {"word": "bank", "texts": ["bank of " * 500], "examples": 100},
    "/v2/models/wiki-en/infer": request(
        [TEXT] * 3000, outputs=[{"name": "contextual", "parameters": {"binary_data": True}}]
    ),
}


@pytest.fixture(scope="module")
def strict():
    """A client of an application whose requests may take a tenth of a second."""
    return in_process(max_work=WORK)


@pytest.mark.parametrize("path", LONG)
def test_measured_work_over_the_limit_is_a_413(strict, path: str) -> None:
    response = strict.post(path, json=LONG[path])
    problem = expect_problem(response, 413, "too_large")
    assert problem["setting"] == "max_work"
    assert 0 < problem["limit"] <= WORK < problem["size"] + WORK
    assert "seconds of a processor" in problem["detail"]
    assert "fewer or shorter texts" in problem["hint"]


def test_reading_may_take_only_a_part_of_the_work(strict) -> None:
    # Each word is unknown and looked up in several spellings, and no text is encoded.
    words = [f"qz{n}x" for n in range(60_000)]
    body = {"input": [" ".join(words[n : n + 100]) for n in range(0, 60_000, 100)], "oov": "error"}
    problem = expect_problem(strict.post(ENCODE, json=body), 413, "too_large")
    assert problem["limit"] == pytest.approx(0.16 * WORK)
    assert problem["detail"].startswith("Reading and tokenizing")


NDJSON = {"Accept": "application/x-ndjson"}


def last_line(client: httpx.Client, **body: object) -> dict:
    """The last line of a stream that an error ends after some lines."""
    response = client.post(ENCODE, json=body, headers=NDJSON)
    *lines, last = response.content.splitlines()
    assert response.status_code == 200 and 0 < len(lines) < len(body["input"])
    assert orjson.loads(last)["complete"] is False
    return orjson.loads(last)["error"]


def test_a_stream_over_the_limit_ends_with_an_error_line(strict) -> None:
    assert last_line(strict, **LONG[ENCODE])["setting"] == "max_work"


def test_a_stream_ends_at_its_deadline_with_an_error_line(monkeypatch) -> None:
    def slow(*arguments):
        for result in encode_each(*arguments):
            yield result
            time.sleep(0.5)
            current_budget().check()

    monkeypatch.setattr("polyseme.http.routes.encode_each", slow)
    client = in_process(request_seconds=1)
    assert last_line(client, input=[TEXT] * 30)["code"] == "deadline"


def test_a_rate_of_work_counts_what_requests_take(monkeypatch) -> None:
    costs, hit = [], RateLimits.hit

    def counted(self, name, scope="global", cost=1, headers=None):
        costs.append(cost)
        return hit(self, name, scope, cost, headers)

    monkeypatch.setattr(RateLimits, "hit", counted)
    client = in_process(rate_limit="1s/hour")
    body = {"input": [TEXT] * 6000}
    start = time.thread_time()
    while (response := client.post("/v1/embeddings", json=body)).status_code == 200:
        assert time.thread_time() - start < 3
    assert 0.8 < time.thread_time() - start < 3
    # In milliseconds, each rounded up, and none of them twice.
    assert sum(costs) <= 1000 * (time.thread_time() - start) + len(costs)
    problem = expect_problem(response, 429, "rate_limited")
    assert "processor time" in problem["detail"]
    assert 0 < int(response.headers["Retry-After"]) <= 3600
    assert client.post("/v1/embeddings", json={"input": TEXT}).status_code == 429


def soon() -> float:
    return time.perf_counter() + 0.1


@pytest.mark.parametrize(("threads", "permits", "waiting"), [(1, 1, 0), (4, 1, 1), (16, 4, 4)])
def test_half_of_the_threads_are_left_for_short_requests(threads, permits, waiting) -> None:
    capacity = Capacity(threads, 100)
    for _ in range(permits):
        capacity.take_permit(soon())
    with others_wait(capacity, waiting), pytest.raises(OverloadedError):
        capacity.take_permit(soon())
    assert capacity.permits == 0


@contextmanager
def others_wait(capacity: Capacity, number: int) -> Iterator[None]:
    """Let some requests wait for a permit during the block, and get it afterwards."""

    def wait() -> None:
        capacity.take_permit(time.perf_counter() + 60)
        capacity.give_back(permits=1)

    threads = [threading.Thread(target=wait) for _ in range(number)]
    for thread in threads:
        thread.start()
    until(lambda: capacity._waiting, number)
    yield
    capacity.give_back(permits=1)
    for thread in threads:
        thread.join(10)
    assert capacity._waiting == 0
    capacity.take_permit(soon())


def test_a_permit_or_room_is_waited_for_until_the_deadline() -> None:
    capacity = Capacity(4, 100)
    capacity.take_permit(soon())
    assert capacity.take_room(70, soon()) == 70
    for take in (capacity.take_permit, lambda deadline: capacity.take_room(31, deadline)):
        with pytest.raises(DeadlineError):
            take(soon())
    assert capacity.take_room(30, soon()) == 30
    capacity.give_back(room=100)
    assert capacity.take_room(1 << 40, soon()) == 100  # a larger response takes all of it


@pytest.fixture
def shared(monkeypatch):
    """A client, what its requests share, and the calls that return memory to the system."""
    made, trimmed = [], []
    init = Capacity.__init__
    monkeypatch.setattr(
        Capacity, "__init__", lambda self, *sizes: made.append(self) or init(self, *sizes)
    )
    monkeypatch.setattr("polyseme.http.admission._malloc_trim", trimmed.append)
    gc.disable()  # collecting the garbage of a process of tests takes as long as these limits
    yield in_process(max_work=2.5), made[0], trimmed
    gc.enable()


def test_long_requests_give_back_permit_room_and_memory(shared, monkeypatch) -> None:
    client, capacity, trimmed = shared
    taken = []
    take_permit = capacity.take_permit
    monkeypatch.setattr(
        capacity, "take_permit", lambda *given, **how: taken.append(1) or take_permit(*given, **how)
    )
    permits, room = capacity.permits, capacity.room
    client.post(ENCODE, json={"input": TEXT})
    assert (taken, trimmed) == ([], [])
    long = {"input": [TEXT] * 6000, "encoding": "base64"}
    invalid = {**long, "layers": [9]}
    for body, headers in ((long, {}), (invalid, {}), (long, NDJSON)):
        client.post(ENCODE, json=body, headers=headers)
        assert (capacity.permits, capacity.room) == (permits, room)
    assert len(taken) > 2
    client.post("/v1/embeddings", json=LONG["/v1/embeddings"])
    assert trimmed[-1:] == [0]


def test_a_body_that_is_being_received_takes_no_permit(shared) -> None:
    client, capacity, _ = shared

    class SlowBody(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            end = time.thread_time() + 0.1  # more than the share that makes a request long
            while time.thread_time() < end:
                current_budget().check()
            assert capacity.permits == 1
            return super().read(size)

    app = client._transport.app.test_client()
    headers = {"Content-Type": "application/json", "Content-Length": "13"}
    response = app.post(
        ENCODE, input_stream=SlowBody(b'{"input":"a"}'), headers=headers, buffered=True
    )
    assert response.status_code == 200
