"""Who may come in, through a real gunicorn."""

import os
import signal
import socket

import httpx
import pytest

from polyseme.api.app import create_app
from polyseme.api_keys import key_file_line
from polyseme.settings import Settings
from tests.http.problem import SECRET, expect_problem
from tests.http.versions import connection_to, every_worker, service, until, workers_of

# The same in every process that collects these tests.
ALICE, BOB = "polyseme_" + "a" * 43, "polyseme_" + "b" * 43


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture(scope="module")
def guarded(serve, tmp_path_factory) -> httpx.Client:
    """A service with a key of the environment, one that is given as a hash, and a file of keys."""
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(f"# people\n{key_file_line('alice', ALICE)}\n")
    hashed = key_file_line("x", BOB).split()[1]
    return serve(api_keys=f"plain-key,{hashed}", api_keys_file=file, workers=1)


@pytest.mark.parametrize("key", [ALICE, BOB, "plain-key"], ids=["file", "hash", "plain"])
def test_each_right_key_opens(guarded: httpx.Client, key: str) -> None:
    assert guarded.get("/v1/models", headers=bearer(key)).status_code == 200
    for scheme in ("bearer", "BEARER"):
        headers = {"Authorization": f"{scheme}   {key}"}
        assert guarded.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/models", {}),
        ("/v1/models", bearer(SECRET)),
        ("/v1/models", {"Authorization": "Bearer"}),
        ("/v1/models", bearer("plain-ke")),
        ("/v1/models", bearer("plain-key2")),
        ("/v1/models", bearer("plain-key,plain-key")),
        ("/v1/models", bearer("PLAIN-KEY")),
        ("/v1/models", bearer(key_file_line("x", BOB).split()[1])),
        ("/v1/models", {"Authorization": "Basic plain-key"}),
        ("/v1/models", {"Authorization": "plain-key"}),
        ("/v1/models", {"X-API-Key": "plain-key"}),
        ("/v1/models", {"Cookie": "key=plain-key"}),
        ("/v1/models?key=plain-key&access_token=plain-key", {}),
        ("//v1/models", {}),
        ("/v1%2Fmodels", {}),
        ("/v1/nothing", {}),
        ("/v1/", {}),
    ],
)
def test_nothing_else_opens(guarded: httpx.Client, path: str, headers: dict[str, str]) -> None:
    url = str(guarded.base_url).rstrip("/") + path
    expect_problem(guarded.get(url, headers=headers), 401, "unauthorised")


def test_two_keys_in_one_request_open_nothing(guarded: httpx.Client) -> None:
    headers = [("Authorization", f"Bearer {key}") for key in ("plain-key", "plain-key")]
    expect_problem(guarded.get("/v1/models", headers=headers), 401, "unauthorised")


def test_headers_that_gunicorn_would_believe_open_nothing(guarded: httpx.Client) -> None:
    sent = (
        b"GET /x/v1/models HTTP/1.1\r\nHost: x\r\nSCRIPT_NAME: /x\r\nSCRIPT-NAME: /x\r\n"
        b"PATH_INFO: /v1/models\r\nREMOTE_USER: x\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection((guarded.base_url.host, guarded.base_url.port), 30) as one:
        one.sendall(sent)
        assert one.makefile("rb").readline().startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/", "/docs", "/openapi.json"])
def test_health_the_page_and_the_description_need_no_key(guarded: httpx.Client, path: str) -> None:
    assert guarded.get(path).status_code == 200
    assert guarded.get(path, headers=bearer(SECRET)).status_code == 200


def test_a_file_without_keys_is_no_open_door(serve, tmp_path) -> None:
    (tmp_path / "keys").write_text("# nobody yet\n")
    client = serve(api_keys_file=tmp_path / "keys", workers=1)
    expect_problem(client.get("/v1/models"), 401, "unauthorised")
    expect_problem(
        client.get("/v1/models", headers={"Authorization": "Bearer"}), 401, "unauthorised"
    )


@pytest.mark.parametrize(
    ("metrics", "statuses"),
    [("key", [401, 401, 200]), ("open", [200, 200, 200]), ("off", [404, 404, 404])],
)
def test_metrics_are_for_whom_the_setting_says(metrics: str, statuses: list[int]) -> None:
    settings = Settings(metrics=metrics, api_keys="one", rate_limit="2/hour")
    client = create_app(settings).test_client()
    answers = [client.get("/metrics", headers=h) for h in ({}, bearer("two"), bearer("one"))]
    assert [answer.status_code for answer in answers] == statuses
    assert client.get("/livez").status_code == 200


def test_metrics_are_open_where_there_are_no_keys() -> None:
    assert create_app(Settings()).test_client().get("/metrics").status_code == 200


def status(key: str):
    """What a worker answers to a key."""

    def ask(connection):
        connection.request("GET", "/v1/models", headers=bearer(key))
        answer = connection.getresponse()
        answer.read()
        return answer.status

    return ask


def test_every_worker_takes_and_drops_keys_on_a_signal_and_a_bad_file_changes_none(
    tmp_path,
) -> None:
    file = tmp_path / f"keys-{SECRET}"
    alice, bob = key_file_line("alice", ALICE), key_file_line("bob", BOB)
    file.write_text(alice)

    def hang_up(pid, content):
        new = tmp_path / "new"
        new.write_text(content)
        new.rename(file)
        os.kill(pid, signal.SIGHUP)

    def both(pid, port):
        return [every_worker(pid, port, status(key)) for key in (ALICE, BOB)]

    with service(tmp_path, api_keys_file=file) as (pid, port):
        before = workers_of(pid)
        assert both(pid, port) == [[200, 200], [401, 401]]
        hang_up(pid, f"{alice}\n{bob}\n")
        until(lambda: both(pid, port), [[200, 200], [200, 200]])
        # What follows is bad, each in another way, and takes nobody's key away.
        log = tmp_path / "log"
        hang_up(pid, f"{bob}\n{SECRET}\n")
        until(lambda: log.read_text().count("Line 2 of the key file is not a name"), 3)
        file.unlink()
        os.kill(pid, signal.SIGHUP)
        until(lambda: log.read_text().count("The key file cannot be read"), 3)
        assert both(pid, port) == [[200, 200], [200, 200]]
        assert workers_of(pid) == before
        # Nor does it keep a worker from being replaced, which has the keys the master has.
        os.kill(before[0], signal.SIGKILL)
        until(lambda: before[0] not in workers_of(pid) and len(workers_of(pid)), 2)
        assert both(pid, port) == [[200, 200], [200, 200]]
        hang_up(pid, bob)
        until(lambda: both(pid, port), [[401, 401], [200, 200]])
        assert SECRET not in log.read_text()
        assert "Traceback" not in log.read_text()


def test_a_worker_that_starts_later_has_the_keys_of_now(tmp_path) -> None:
    file = tmp_path / "keys"
    file.write_text(key_file_line("alice", ALICE))
    with service(tmp_path, api_keys_file=file, workers=1) as (pid, port):
        file.write_text(key_file_line("bob", BOB))
        os.kill(pid, signal.SIGHUP)
        until(lambda: every_worker(pid, port, status(ALICE)), [401])
        (old,) = workers_of(pid)
        os.kill(old, signal.SIGKILL)
        until(lambda: old not in workers_of(pid) and len(workers_of(pid)), 1)
        with connection_to(port) as connection:
            # The first answer is right: what the master forks has its keys.
            assert status(ALICE)(connection) == 401
            assert status(BOB)(connection) == 200
