"""Rate limits that workers and services count together in a real Redis, even if it fails."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from redis import Redis
from redis.connection import AbstractConnection
from redis.exceptions import TimeoutError as RedisTimeoutError

from polyseme.api_keys import generate_key
from tests.conftest import free_port
from tests.http.conftest import in_process
from tests.http.service import WAIT, running, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="needs Debian's redis-server"),
]
KEY = generate_key()


class Server:
    """A Redis that can be killed and started again at the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.socket = folder / "redis.sock"
        self.start()

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir"]
        options += [str(self.folder), "--unixsocket", str(self.socket)]
        self.process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
        until(self.socket.exists)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(WAIT)
        self.socket.unlink()

    def keys(self) -> list[str]:
        with Redis(port=self.port, decode_responses=True) as redis:
            return list(redis.keys("*"))


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.process.send_signal(signal.SIGCONT)
    server.kill()


def statuses(client: httpx.Client, number: int = 1) -> list[int]:
    """Send requests; return their statuses."""
    return [client.get("/v1/models").status_code for _ in range(number)]


def limited(redis: Server, rate: str) -> httpx.Client:
    """A client of an application in this process that counts in a Redis, at a Unix socket."""
    return in_process(rate_limit=rate, rate_limit_storage=f"unix://{redis.socket}?db=0")


def test_two_workers_share_one_count_and_no_key_is_in_it(tmp_path, redis: Server) -> None:
    address = f"redis://127.0.0.1:{redis.port}/0"
    settings = {"rate_limit": "50/hour", "rate_limit_storage": address}
    with running(tmp_path, api_keys=f"other,{KEY}", **settings) as service:

        def status(_: int) -> int:
            return service.ask("GET", "/v1/models", Authorization=f"Bearer {KEY}")[0]

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(status, range(80)))
        assert (found.count(200), found.count(429)) == (50, 30)
        assert service.ask("GET", "/v1/models")[0] == 401
    keys = redis.keys()
    assert sorted(key.split("/")[2] for key in keys) == ["address:127.0.0.1", "key:key-2"]
    assert KEY not in repr(keys)


def test_a_caller_that_waits_for_retry_after_is_served(redis: Server) -> None:
    client = limited(redis, "1/6second")
    assert statuses(client) == [200]
    time.sleep(0.7)
    # The window ends after 5.3 seconds: Retry-After has to be rounded up.
    response = client.get("/v1/models")
    assert response.status_code == 429
    time.sleep(int(response.headers["retry-after"]))
    assert statuses(client) == [200]


@pytest.mark.parametrize("state", ["killed", "full"])
def test_workers_count_in_memory_while_redis_is_unreachable(redis: Server, caplog, state):
    client = limited(redis, "5/hour")
    assert statuses(client, 2) == [200] * 2
    if state == "killed":
        redis.kill()
    else:
        with Redis(port=redis.port) as settings:
            settings.config_set("maxmemory", "1")
    assert statuses(client, 8) == [200] * 5 + [429] * 3
    assert 3500 < int(client.get("/v1/models").headers["retry-after"]) <= 3600
    assert "each worker counts rates in memory" in caplog.text
    assert str(redis.socket) not in caplog.text
    if state == "killed":
        redis.start()
        until(lambda: statuses(client) and redis.keys())


def test_a_hanging_redis_delays_few_requests_and_fails_none(redis: Server, monkeypatch) -> None:
    client = limited(redis, "1000000/hour")
    assert statuses(client, 5) == [200] * 5
    timeouts = []
    read_response = AbstractConnection.read_response

    def recorded(*args, **options):
        try:
            return read_response(*args, **options)
        except RedisTimeoutError as error:
            timeouts.append(error)
            raise

    monkeypatch.setattr(AbstractConnection, "read_response", recorded)
    os.kill(redis.process.pid, signal.SIGSTOP)
    assert set(statuses(client, 60)) == {200}
    assert 0 < len(timeouts) < 30
