"""API keys and rate limits."""

import time

import httpx
import pytest
from limits.storage import MemoryStorage

from polyseme.api_keys import key_file_line
from polyseme.http.app import create_app
from polyseme.settings import Settings
from tests.http.conftest import SECRET, expect_problem, in_process

# Constants, because pytest-xdist needs the same test IDs in every process.
ALICE, BOB = "polyseme_" + "a" * 43, "polyseme_" + "b" * 43


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture(scope="module")
def guarded(make_client, tmp_path_factory) -> httpx.Client:
    """A service with a plain key, a hashed key and a key file."""
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(f"# people\n{key_file_line('alice', ALICE)}\n")
    hashed = key_file_line("x", BOB).split()[1]
    return make_client(api_keys=f"plain-key,{hashed}", api_keys_file=file)


@pytest.mark.parametrize("key", [ALICE, BOB, "plain-key"], ids=["file", "hash", "plain"])
def test_each_valid_key_is_accepted(guarded: httpx.Client, key: str) -> None:
    assert guarded.get("/v1/models", headers=bearer(key)).status_code == 200
    for scheme in ("bearer", "BEARER"):
        headers = {"Authorization": f"{scheme}   {key}"}
        assert guarded.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/models", {}),
        ("/v1/models", bearer(SECRET)),
        ("/v1/models", bearer("plain-ke")),
        ("/v1/models", bearer("plain-key2")),
        ("/v1/models", bearer("PLAIN-KEY")),
        ("/v1/models", bearer(key_file_line("x", BOB).split()[1])),
        ("/v1/models", {"Authorization": "Basic plain-key"}),
        ("/v1/models", {"Authorization": "plain-key"}),
        ("/v1/models?key=plain-key&access_token=plain-key", {}),
        ("//v1/models", {}),
        ("/v1%2Fmodels", {}),
        ("/v1/nothing", {}),
        ("/v2/x", {}),
    ],
)
def test_other_credentials_are_rejected(guarded, path, headers):
    url = str(guarded.base_url).rstrip("/") + path
    expect_problem(guarded.get(url, headers=headers), 401, "unauthorised")


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
    tries = [bearer(f"wrong-{i}") for i in range(5)]
    found = [limited.get(path, headers=one).status_code for one in tries]
    assert found == [401] * 3 + [429] * 2
    # Requests for the metrics do not count towards the rate of a key.
    found = [limited.get("/metrics", headers=bearer("right")).status_code for _ in range(5)]
    assert found == [200] * 5
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


def test_malformed_requests_count_for_their_address() -> None:
    limits = create_app(Settings(rate_limit="5/hour;2/minute")).extensions["polyseme"].rate_limits
    found = [limits.limit_malformed("10.0.0.1") for _ in range(3)]
    assert [error and error.status for error in found] == [None, None, 429]
    assert limits.limit_malformed("10.0.0.3") is None
    unlimited = create_app(Settings()).extensions["polyseme"].rate_limits
    assert [unlimited.limit_malformed("10.0.0.1") for _ in range(9)] == [None] * 9


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


def test_health_metrics_and_the_page_need_no_key_and_have_no_rate_limit(make_client) -> None:
    limited = make_client(rate_limit="1/hour", api_keys="key", metrics="open")
    for path in ("/livez", "/readyz", "/metrics", "/", "/page/start.js", "/docs", "/openapi.json"):
        for headers in ({}, bearer(SECRET), bearer("key")):
            assert limited.get(path, headers=headers).status_code == 200
    assert statuses(limited, bearer("key")) == [200]


PROXY, SECOND = "10.9.9.9", "10.9.9.8"
CALLERS = {
    "ignored by default": (
        {},
        [("10.0.0.1", None, 200), ("10.0.0.1", "10.0.0.2", 429), ("10.0.0.2", None, 200)],
    ),
    # A request that did not pass both proxies counts for the address of its connection.
    "the entry before the last": (
        {"proxies": 2},
        [
            (PROXY, f"1.1.1.1, 5.5.5.5, {SECOND}", 200),
            (PROXY, "2.2.2.2, 5.5.5.5, 10.9.9.7", 429),
            (PROXY, "5.5.5.5", 200),
            (PROXY, None, 429),
        ],
    ),
    "any notation": (
        {"proxies": 1},
        [
            *((PROXY, " 1.2.3.4:80 ", 200), (PROXY, "::ffff:1.2.3.4", 429)),
            *((PROXY, "[2001:db8::1]:80", 200), (PROXY, "2001:DB8::1", 429)),
            *((PROXY, "fe80::1%text of the caller's", 200), (PROXY, "fe80::1", 429)),
        ],
    ),
    "no address": (
        {"proxies": 1},
        [
            (PROXY, None, 200),
            *(
                (PROXY, entry, 429)
                for entry in ("unknown", "1.2.3.4.5", "[::1", "١.2.3.4".encode())
            ),
        ],
    ),
    "a 64-bit network of IPv6": (
        {},
        [
            *(("2001:db8::1", None, 200), ("2001:db8::2", None, 429)),
            *(("2001:db8:0:1::1", None, 200), ("::ffff:1.2.3.4", None, 200)),
            ("::ffff:1.2.3.5", None, 200),
        ],
    ),
    "a caller cannot hide the entry of the proxy": (
        {"proxies": 1},
        [
            (PROXY, "1.1.1.1, 5.5.5.5", 200),
            *((PROXY, f"{own}, 5.5.5.5", 429) for own in ('"1.1.1.1', '[1.1.1.1]"', "\\", ",")),
            (PROXY, "5.5.5.5, 6.6.6.6", 200),
        ],
    ),
}


@pytest.mark.parametrize(("settings", "requests"), CALLERS.values(), ids=CALLERS)
def test_requests_count_for_the_address_of_their_caller(settings, requests) -> None:
    client = create_app(Settings(rate_limit="1/hour", **settings)).test_client()
    for address, forwarded, status in requests:
        headers = {"X-Forwarded-For": forwarded} if forwarded else {}
        answer = client.get(MODELS, headers=headers, environ_base={"REMOTE_ADDR": address})
        assert answer.status_code == status, (address, forwarded)
