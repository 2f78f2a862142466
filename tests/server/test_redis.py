"""Rates that all workers and all services count together in a real Redis, also one that fails."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from redis import Redis

from polyseme.api_keys import generate_key
from tests.conftest import free_port, start
from tests.server.service import WAIT, until, workers_of

pytestmark = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="needs Debian's redis-server"
)
KEY = generate_key()
AWAY, BACK = "does not answer", "answers again"


class Server:
    """A Redis that can be ended and started again at the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.address = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir"]
        self.process = subprocess.Popen(
            ["redis-server", *options, str(self.folder)], stdout=subprocess.DEVNULL
        )
        with Redis(port=self.port) as redis:
            until(lambda: self._answers(redis), True)

    def _answers(self, redis: Redis) -> bool:
        try:
            return bool(redis.ping())
        except OSError:
            return False
        except Exception as error:  # noqa: BLE001 - its exceptions are not those of the system
            return "onnect" not in type(error).__name__ and False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(WAIT)

    def names(self) -> list[str]:
        with Redis(port=self.port, decode_responses=True) as redis:
            return list(redis.keys("*"))


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.process.send_signal(signal.SIGCONT)
    server.kill()


@contextmanager
def service(folder: Path, redis: Server, name: str = "log", **settings: object):
    """A service that counts in a Redis: its process, a client, and its log."""
    storage = {"rate_limit_storage": redis.address, "drain_seconds": 0}
    process, address = start(folder / name, **{**storage, **settings})
    try:
        with httpx.Client(base_url=address, timeout=30) as client:
            yield process.pid, client, folder / name
    finally:
        process.terminate()
        process.wait(WAIT)


def ask(client: httpx.Client, *_: object) -> int:
    """Ask on a connection of its own, which any of the workers takes."""
    headers = {"Authorization": f"Bearer {KEY}", "Connection": "close"}
    return client.get("/v1/models", headers=headers).status_code


def ask_at_once(client: httpx.Client, count: int) -> list[int]:
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda _: ask(client), range(count)))


def test_four_workers_share_one_count_exactly_and_no_key_is_in_it(tmp_path, redis) -> None:
    settings = {"workers": 4, "rate_limit": "50/hour", "api_keys": f"other,{KEY}"}
    with service(tmp_path, redis, **settings) as (pid, client, log):
        until(lambda: len(workers_of(pid)), 4)
        found = ask_at_once(client, 120)
        assert (found.count(200), found.count(429)) == (50, 70)
        assert len(set(re.findall(r'"(?:pid|worker)":(\d+)', log.read_text()))) > 2
        answer = client.get("/v1/models", headers={"Authorization": f"Bearer {KEY}"})
        assert 3500 < int(answer.headers["retry-after"]) <= 3600
        assert client.get("/v1/models").status_code == 401
        names = redis.names()
        assert sorted(name.split("/")[2] for name in names) == ["address:127.0.0.1", "key:key-2"]
        assert KEY not in repr(names)
        assert AWAY not in log.read_text()


def test_who_waits_as_long_as_it_is_told_is_answered(tmp_path, redis) -> None:
    with service(tmp_path, redis, workers=1, rate_limit="1/3second") as (_, client, _):
        assert ask(client) == 200
        time.sleep(0.7)  # Redis says that two seconds are left of the three, and there are more
        answer = client.get("/v1/models")
        assert answer.status_code == 429
        time.sleep(int(answer.headers["retry-after"]))
        assert ask(client) == 200


def test_two_services_share_one_count(tmp_path, redis) -> None:
    settings = {"workers": 1, "rate_limit": "10/hour"}
    with (
        service(tmp_path, redis, "one", **settings) as (_, one, _),
        service(tmp_path, redis, "two", **settings) as (_, two, _),
    ):
        found = [ask(client) for _ in range(8) for client in (one, two)]
    assert found == [200] * 10 + [429] * 6


def test_redis_that_dies_costs_no_answer_and_is_used_again_when_it_is_back(tmp_path, redis) -> None:
    settings = {"workers": 2, "rate_limit": "1000000/hour"}
    with service(tmp_path, redis, **settings) as (pid, client, log):
        found = ask_at_once(client, 40)
        assert len(redis.names()) == 1
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(ask, client) for _ in range(400)]
            until(lambda: sum(one.done() for one in asked) > 50, True)
            redis.kill()
            found += [one.result() for one in asked]
        found += ask_at_once(client, 40)
        assert set(found) == {200}
        until(lambda: log.read_text().count(AWAY), 2)  # each worker has said so, and once
        redis.start()
        until(lambda: log.read_text().count(BACK), 2)
        assert set(ask_at_once(client, 40)) == {200}
        with Redis(port=redis.port) as counted:
            (name,) = [n for n in counted.keys("*") if b"probe" not in n]
            assert int(counted.get(name)) == 40
        assert "Traceback" not in log.read_text()
        assert str(redis.port) not in log.read_text()
        assert len(workers_of(pid)) == 2


def test_a_rate_holds_in_each_worker_while_redis_is_away(tmp_path, redis) -> None:
    redis.kill()
    with service(tmp_path, redis, workers=1, rate_limit="5/hour") as (_, client, log):
        assert [ask(client) for _ in range(8)] == [200] * 5 + [429] * 3
        answer = client.get("/v1/models")
        assert 3500 < int(answer.headers["retry-after"]) <= 3600
        assert log.read_text().count(AWAY) == 1


def test_redis_that_hangs_holds_up_a_few_requests_for_a_moment_and_then_none(
    tmp_path, redis
) -> None:
    with service(tmp_path, redis, workers=1, rate_limit="1000000/hour") as (_, client, log):
        assert set(ask_at_once(client, 20)) == {200}
        os.kill(redis.process.pid, signal.SIGSTOP)
        # With four threads, all may find it hanging at once; none of them fails for it.
        assert set(ask_at_once(client, 40)) == {200}
        assert log.read_text().count(AWAY) == 1
        began = time.monotonic()
        assert set(ask_at_once(client, 400)) == {200}
        # Four hundred that each waited for it would take at least 25 seconds in four threads.
        assert time.monotonic() - began < 20
        os.kill(redis.process.pid, signal.SIGCONT)
        until(lambda: log.read_text().count(BACK), 1)
        assert ask(client) == 200


@pytest.mark.parametrize("how", ["full", "password"])
def test_redis_that_refuses_to_count_is_as_good_as_away(tmp_path, redis, how: str) -> None:
    with Redis(port=redis.port) as settings:
        if how == "full":
            settings.config_set("maxmemory", "1")
        else:
            settings.config_set("requirepass", "another")
        with service(tmp_path, redis, workers=1, rate_limit="5/hour") as (_, client, log):
            assert [ask(client) for _ in range(8)] == [200] * 5 + [429] * 3
            time.sleep(1.5)
            assert (log.read_text().count(AWAY), log.read_text().count(BACK)) == (1, 0)
            settings.config_set("maxmemory", "0")
            settings.config_set("requirepass", "")
            until(lambda: log.read_text().count(BACK), 1)
            assert ask(client) == 200
