"""Pages of other origins in a real browser: only listed origins may send requests."""

import httpx
import pytest
from playwright.sync_api import Browser

from tests.page.driver import KEY

pytestmark = pytest.mark.slow

FETCH = """async ([address, key]) => {
  try {
    const response = await fetch(`${address}/v1/encode`, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${key}`,
        "Content-Type": "application/json",
        "X-Request-ID": "request-of-a-page",
      },
      body: JSON.stringify({ input: "the bank of the river", include: ["static"] }),
    });
    const names = ["X-Request-ID", "Server-Timing", "Content-Security-Policy"];
    const seen = Object.fromEntries(names.map((name) => [name, response.headers.get(name)]));
    return { status: response.status, document: await response.json(), seen };
  } catch (error) {
    return { failed: error.name };
  }
}"""


def fetched(browser: Browser, origin: str, service: httpx.Client, key: str) -> dict:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(origin)
        result: dict = page.evaluate(FETCH, [str(service.base_url).rstrip("/"), key])
        return result


def test_a_page_of_a_listed_origin_reads_responses_and_errors(
    browser: Browser, locked: httpx.Client, port: int
) -> None:
    listed = f"http://127.0.0.1:{port}"
    accepted = fetched(browser, listed, locked, KEY)
    assert accepted["status"] == 200
    assert [one["text"] for one in accepted["document"]["results"][0]["tokens"]][-1] == "river"
    assert accepted["seen"]["X-Request-ID"] == "request-of-a-page"
    assert accepted["seen"]["Server-Timing"].startswith("wait;dur=")
    assert accepted["seen"]["Content-Security-Policy"] is None
    rejected = fetched(browser, listed, locked, "no-key")
    assert (rejected["status"], rejected["document"]["code"]) == (401, "unauthorised")
    assert rejected["document"]["request_id"] == "request-of-a-page"


def test_a_page_of_another_origin_reads_nothing(
    browser: Browser, locked: httpx.Client, client: httpx.Client, port: int
) -> None:
    other = f"http://localhost:{port}"
    assert fetched(browser, other, locked, KEY) == {"failed": "TypeError"}
    # A service without a list allows no origin, not even another port of its own host.
    assert fetched(browser, f"http://127.0.0.1:{port}", client, "any") == {"failed": "TypeError"}
