"""API keys and rate limits."""

import time

import httpx
import pytest
from limits.storage import MemoryStorage

from polyseme.api_keys import key_file_line
from polyseme.http import create_app
from polyseme.http.admission import RateLimits
from polyseme.settings import Settings
from tests.http.conftest import SECRET, expect_problem, in_process

# Constants, because pytest-xdist needs the same test IDs in every process.
ALICE, BOB = "polyseme_" + "a" * 43, "polyseme_" + "b" * 43
HASHED = key_file_line("x", BOB).split()[1]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture(scope="module")
def guarded(make_client, tmp_path_factory) -> httpx.Client:
    """A service with a plain key, a hashed key and a key file."""
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(f"# people\n{key_file_line('alice', ALICE)}\n")
    return make_client(api_keys=f"plain-key,{HASHED}", api_keys_file=file)


def test_each_valid_key_is_accepted(guarded: httpx.Client) -> None:
    for key in (ALICE, BOB, "plain-key"):
        for scheme in ("Bearer", "bearer  ", "BEARER"):
            headers = {"Authorization": f"{scheme} {key}"}
            assert guarded.get("/v1/models", headers=headers).status_code == 200


WRONG = (SECRET, "plain-ke", "plain-key2", "PLAIN-KEY", "plain-key,plain-key", HASHED)


def test_other_credentials_are_rejected(guarded) -> None:
    for headers in (
        *map(bearer, WRONG),
        {},
        {"Authorization": "Basic plain-key"},
        {"Authorization": "plain-key"},
        {"X-API-Key": "plain-key"},
    ):
        expect_problem(guarded.get("/v1/models", headers=headers), 401, "unauthorised")
    for path in ("/v1/models?key=plain-key", "//v1/models", "/v1%2Fmodels", "/v1/nothing", "/v2/x"):
        url = str(guarded.base_url).rstrip("/") + path
        expect_problem(guarded.get(url), 401, "unauthorised")


def test_an_empty_key_file_does_not_disable_authentication(tmp_path) -> None:
    (tmp_path / "keys").write_text("# nobody yet\n")
    client = in_process(api_keys_file=tmp_path / "keys")
    expect_problem(client.get("/v1/models", headers=bearer("")), 401, "unauthorised")


@pytest.mark.parametrize(
    ("metrics", "statuses"),
    [("key", [401, 401, 200]), ("open", [200, 200, 200]), ("off", [404, 404, 404])],
)
def test_the_metrics_setting_decides_who_may_read_metrics(metrics, statuses):
    settings = Settings(metrics=metrics, api_keys="one", rate_limit="2/hour")
    client = create_app(settings).test_client()
    headers = ({}, bearer("two"), bearer("one"))
    answers = [client.get("/metrics", headers=one, buffered=True) for one in headers]
    assert [answer.status_code for answer in answers] == statuses
    assert client.get("/livez").status_code == 200


MODELS = "/v1/models"


def statuses(client, *headers: dict[str, str]) -> list[int]:
    return [client.get(MODELS, headers=one).status_code for one in headers]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that rate limits see, as the only item."""
    now = [time.time()]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


def test_a_caller_waits_until_its_window_ends_and_no_longer(make_client, clock) -> None:
    limited = make_client(rate_limit="2/3second;3/hour")
    assert statuses(limited, {}, {}) == [200, 200]
    answer = limited.get(MODELS)
    expect_problem(answer, 429, "rate_limited")
    assert answer.headers["retry-after"] == "3"
    clock[0] += 2.9
    assert limited.get(MODELS).status_code == 429
    clock[0] += 0.1
    assert limited.get(MODELS).status_code == 200
    assert limited.get(MODELS).headers["retry-after"] == "3597"


@pytest.mark.parametrize(("ends_in", "retry_after"), [(-5, "1"), (1000, "60")])
def test_retry_after_is_between_one_second_and_the_window(monkeypatch, clock, ends_in, retry_after):
    monkeypatch.setattr(MemoryStorage, "get_expiry", lambda *_: clock[0] + ends_in)
    client = create_app(Settings(rate_limit="1/minute")).test_client()
    answers = [client.get(MODELS) for _ in range(2)]
    assert [one.headers.get("retry-after") for one in answers] == [None, retry_after]


def test_responses_say_what_is_left_of_each_rate(make_client, clock) -> None:
    clock[0] = 0.25 + 6000 * (clock[0] // 6000)
    limited = make_client(rate_limit="3/hour;2/5second;60s/minute", api_keys="one,two")
    left = '"2 per 5 second";r={};t={}, "3 per 1 hour";r={};t={}'
    policy = '"2 per 5 second";q=2;w=5, "3 per 1 hour";q=3;w=3600'
    first = limited.get(MODELS, headers=bearer("one"))
    assert first.headers["ratelimit"] == left.format(1, 5, 2, 3600)
    assert first.headers["ratelimit-policy"] == policy
    assert "retry-after" not in first.headers
    unknown = limited.get("/v1/nothing", headers=bearer("one"))
    assert unknown.headers["ratelimit"] == left.format(0, 5, 1, 3600)
    clock[0] += 2
    exceeded = limited.get(MODELS, headers=bearer("one"))
    assert (exceeded.status_code, exceeded.headers["retry-after"]) == (429, "3")
    assert exceeded.headers["ratelimit"].startswith('"2 per 5 second";r=0;t=3')
    other = limited.get(MODELS, headers=bearer("two"))
    assert other.headers["ratelimit"] == left.format(1, 5, 2, 3600)
    assert "ratelimit" not in limited.get("/livez").headers
    assert "ratelimit" not in make_client().get(MODELS).headers


@pytest.mark.parametrize("path", [MODELS, "/metrics"])
def test_guessing_keys_is_limited_and_a_valid_key_is_not_affected(path: str) -> None:
    limited = in_process(rate_limit="3/hour", api_keys="right", metrics="key")
    tries = [limited.get(path, headers=bearer(f"wrong-{i}")).status_code for i in range(5)]
    assert tries == [401] * 3 + [429] * 2
    # Requests for the metrics do not count towards the rate of a key.
    reads = {limited.get("/metrics", headers=bearer("right")).status_code for _ in range(5)}
    assert reads == {200}
    assert statuses(limited, *[bearer("right")] * 4) == [200] * 3 + [429]


@pytest.mark.parametrize("key", [None, "wrong", "right"])
def test_unknown_routes_and_methods_count(key) -> None:
    limited = in_process(rate_limit="3/hour", api_keys="right")
    headers = bearer(key) if key else {}
    for method, path in (("GET", "/nothing"), ("DELETE", "/livez"), ("BREW", "/v1/encode")):
        assert limited.request(method, path, headers=headers).status_code in {401, 404, 405}
    for path in ("/v2/nothing/at/all", MODELS):
        assert limited.get(path, headers=headers).status_code == 429
    assert limited.get("/livez", headers=headers).status_code == 200


def test_a_reload_reads_the_key_file_and_keeps_the_keys_if_it_is_invalid(tmp_path, caplog):
    file = tmp_path / f"keys-{SECRET}"
    alice, bob = key_file_line("alice", ALICE), key_file_line("bob", BOB)
    file.write_text(alice)
    file.chmod(0o620)
    app = create_app(Settings(api_keys_file=file))
    for text, expected in (
        (alice, [200, 401]),
        (f"{bob}\n{SECRET}", [200, 401]),
        (bob, [401, 200]),
    ):
        file.write_text(text)
        app.extensions["polyseme"].reload()
        assert statuses(app.test_client(), bearer(ALICE), bearer(BOB)) == expected
    assert caplog.text.count("the previous keys stay valid") == 1
    assert caplog.text.count("Other users may write the key file, because its mode is 0620;") == 4
    assert SECRET not in caplog.text


def test_each_worker_counts_in_memory_without_redis(caplog) -> None:
    unreachable = in_process(rate_limit="2/hour", rate_limit_storage="redis://127.0.0.1:1/0")
    assert statuses(unreachable, {}, {}, {}) == [200, 200, 429]
    assert caplog.text.count("each worker counts rates in memory") == 1
    limits = RateLimits(Settings(rate_limit="2/hour", rate_limit_storage="redis://127.0.0.1:1/0"))
    asked = []

    class Hanging:
        def hit(self, *_, **__):
            asked.append(1)
            # Other requests do not wait for Redis meanwhile.
            assert limits.hit("address:10.0.0.1") is None
            raise TimeoutError

    limits._shared = Hanging()
    limits._next_try = 1e-9  # long after a failure
    assert limits.hit("address:10.0.0.2") is None
    assert asked == [1]


def test_health_metrics_and_the_page_need_no_key_and_have_no_rate_limit(make_client) -> None:
    limited = make_client(rate_limit="1/hour", api_keys="key", metrics="open")
    for path in ("/livez", "/readyz", "/metrics", "/", "/page/start.js", "/docs", "/openapi.json"):
        for headers in ({}, bearer("key")):
            assert limited.get(path, headers=headers).status_code == 200
    assert statuses(limited, bearer("key")) == [200]


PROXY = "10.9.9.9"
CALLERS = [
    # The number of proxies, two requests, and whether they have the same caller.
    (0, ("10.0.0.1", None), ("10.0.0.1", "10.0.0.2"), True),
    (0, ("10.0.0.1", None), ("10.0.0.2", None), False),
    (0, ("2001:db8::1", None), ("2001:db8::2", None), True),  # a network of 64 bits
    (0, ("2001:db8::1", None), ("2001:db8:0:1::1", None), False),
    (0, ("::ffff:1.2.3.4", None), ("::ffff:1.2.3.5", None), False),
    (1, (PROXY, "1.1.1.1, 5.5.5.5"), (PROXY, "nonsense, 5.5.5.5"), True),
    (1, (PROXY, "1.1.1.1, 5.5.5.5"), (PROXY, "5.5.5.5, 6.6.6.6"), False),
    (1, (PROXY, " 1.2.3.4:80 "), (PROXY, "::ffff:1.2.3.4"), True),
    (1, (PROXY, "[2001:db8::1]:80"), (PROXY, "2001:DB8::1"), True),
    (1, (PROXY, "fe80::1%text of the caller's"), (PROXY, "fe80::1"), True),
    *((1, (PROXY, None), (PROXY, one), True) for one in ("unknown", "1.2.3.4.5", "[::1")),
    (1, (PROXY, None), (PROXY, "١.2.3.4".encode()), True),
    # A caller cannot hide the entry of the proxy.
    *(
        (1, (PROXY, "5.5.5.5"), (PROXY, f"{own}, 5.5.5.5"), True)
        for own in ('"1.1.1.1', '[1.1.1.1]"', "\\", ",")
    ),
    (2, (PROXY, "1.1.1.1, 5.5.5.5, 10.9.9.8"), (PROXY, "2.2.2.2, 5.5.5.5, 10.9.9.7"), True),
    # A request that did not pass both proxies counts for the address of its connection.
    (2, (PROXY, "5.5.5.5"), (PROXY, None), True),
    (2, (PROXY, "5.5.5.5"), (PROXY, "5.5.5.5, 10.9.9.8"), False),
]


@pytest.mark.parametrize(("proxies", "one", "other", "is_same"), CALLERS)
def test_requests_count_for_the_address_of_their_caller(proxies, one, other, is_same) -> None:
    client = create_app(Settings(rate_limit="1/hour", proxies=proxies)).test_client()
    found = []
    for address, forwarded in (one, other):
        headers = {"X-Forwarded-For": forwarded} if forwarded else {}
        answer = client.get(MODELS, headers=headers, environ_base={"REMOTE_ADDR": address})
        found.append(answer.status_code)
    assert found == [200, 429 if is_same else 200]
