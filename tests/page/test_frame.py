"""The frame of all views: addresses, theme, API key, failed requests; other origins."""

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.page.conftest import Visit
from tests.page.driver import KEY, VIEWS

pytestmark = pytest.mark.slow


def test_the_view_in_the_address_is_shown_else_the_first(visit: Visit) -> None:
    reader = visit()
    assert reader.page.title() == "Attention · Polyseme"
    reader.page.locator("figure").first.wait_for()
    for fragment in ("#a?%E0", "#?text=x", "#toString"):
        reader.go("#models")
        assert reader.page.title() == "Models · Polyseme"
        reader.go(fragment)
        assert reader.page.title() == "Attention · Polyseme"
    reader.go("#neighbors?word=river&unknown=x")
    # A change of the state updates the address, and every view keeps its state.
    reader.choose("Number of neighbors", "5")
    for name, (title, _) in VIEWS.items():
        reader.open_view(title)
        reader.settle()
        assert reader.address == f"#{name}" + ("?word=river&k=5" if name == "neighbors" else "")
        assert reader.texts("nav [aria-current=page]") == [title]


def test_the_keyboard_skips_to_the_view(visit: Visit) -> None:
    reader = visit("#models")
    for key, focused in [("Tab", "skip"), ("Enter", "main")]:
        reader.page.keyboard.press(key)
        assert reader.page.evaluate("document.activeElement.id") == focused
    assert reader.address == "#models"


def test_a_link_to_another_view_focuses_its_heading(visit: Visit) -> None:
    reader = visit("#models")
    assert reader.page.evaluate("document.activeElement === document.body")
    reader.card("wiki-en").get_by_role("link", name="Attention").press("Enter")
    heading = reader.page.get_by_role("heading", name="Attention", exact=True)
    expect(heading).to_be_focused()
    reader.open_view("Models")
    expect(reader.page.get_by_role("navigation").get_by_role("link", name="Models")).to_be_focused()


COLORS = """() => [getComputedStyle(document.body).backgroundColor,
  getComputedStyle(document.querySelector(".bar")).fill]"""


def test_the_theme_follows_the_system_until_the_reader_chooses(visit: Visit) -> None:
    reader = visit("#neighbors")
    reader.page.emulate_media(color_scheme="dark")
    reader.settle()
    dark = reader.page.evaluate(COLORS)
    reader.theme("light")
    light = reader.page.evaluate(COLORS)
    assert all(map(str.__ne__, light, dark))
    reader.reload()
    assert reader.page.evaluate(COLORS) == light
    reader.theme("system")
    assert reader.page.evaluate(COLORS) == dark


def test_a_key_is_requested_used_and_never_shown(visit: Visit) -> None:
    reader = visit("#neighbors", service="locked")
    field = reader.page.get_by_label("API key")
    field.fill("a-wrong-one")
    field.press("Enter")
    expect(field).to_have_value("")
    expect(field).to_be_focused()
    # A key that cannot be sent is rejected in its field.
    field.fill("ключ")
    field.press("Enter")
    assert field.evaluate("(field) => field.validity.patternMismatch")
    field.fill(KEY)
    field.press("Enter")
    reader.heading("Nearest to bank").wait_for()
    reader.page.wait_for_selector(".source", state="visible")
    assert "$POLYSEME_KEY" in reader.command()
    assert KEY not in reader.page.content()
    assert KEY not in reader.page.url


def answer_with(page: Page, body: str, status: int = 200, **headers: str) -> None:
    """Set the response to the next requests."""
    page.unroute("**/v1/**")
    kind = "text/html" if body.startswith("<h1>") else "application/json"
    page.route(
        "**/v1/**",
        lambda route: route.fulfill(status=status, content_type=kind, body=body, headers=headers),
    )


UNREADABLE = "The response of the service cannot be read."


def test_a_failed_request_is_reported_until_the_next(visit: Visit) -> None:
    reader = visit("#neighbors")
    reader.page.route("**/v1/**", lambda route: route.abort())
    reader.submit("Word", "river")
    expect(reader.problem).to_contain_text("did not respond")
    answer_with(reader.page, "<h1>Bad gateway</h1>", 502)
    reader.submit("Word", "river")
    expect(reader.problem).to_contain_text("502")
    assert "Bad gateway" not in reader.problem.text_content()
    for body in ("<html>", '{"neighbors": [null]}'):
        answer_with(reader.page, body)
        reader.submit("Word", "river")
        expect(reader.problem, body).to_contain_text(UNREADABLE)
    answer_with(reader.page, '{"detail": "Too many.", "hint": "h"}', 429, **{"Retry-After": "12"})
    reader.submit("Word", "river")
    expect(reader.problem).to_contain_text("Too many. Try again in 12 seconds.")
    # Error documents of any form are shown as text.
    for body, message in {
        '{"title": "A title"}': "status 500",
        '{"detail": "See `here`", "errors": [{"message": "is wrong"}]}': "is wrong",
        '{"detail": "<img src=x onerror=alert(1)>"}': "<img src=x onerror=alert(1)>",
    }.items():
        answer_with(reader.page, body, 500)
        reader.submit("Word", "river")
        expect(reader.problem, body).to_contain_text(message)
    reader.page.unroute("**/v1/**")
    reader.press("Try again")
    assert reader.page.locator("figure").is_visible()
    assert not reader.problem.is_visible()
    # The console also reports responses that a script could not read.
    assert all(one.startswith("script:") for one in reader.wrong)
    reader.wrong.clear()


def test_no_view_breaks_on_an_empty_response(visit: Visit) -> None:
    reader = visit("#neighbors")
    for view in ("attention", "compare", "senses", "steps", "models"):
        answer_with(reader.page, "{}")
        reader.go(f"#{view}")
        expect(reader.problem.first).to_contain_text(UNREADABLE)
        reader.page.unroute("**/v1/**")
        reader.press("Try again")
        assert reader.page.locator(".results").is_visible()
    reader.wrong.clear()


def test_the_response_to_the_latest_request_is_shown(visit: Visit) -> None:
    """The page aborts the first request, so that its late response is not drawn over the second."""
    reader = visit("#models")
    held: list[Route] = []

    def hold_river(route: Route) -> None:
        if "river" in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    reader.page.route("**/v1/neighbors", hold_river)
    reader.page.goto(f"{reader.base}/#neighbors?word=river")
    expect(reader.text("Waiting for the service…")).to_be_visible()
    expect(reader.button("Save JSON")).to_have_count(0)
    field = reader.field("Word")
    field.fill("money")
    # Until the browser confirms the abort, the first response could still arrive.
    with reader.page.expect_event("requestfailed", lambda one: "river" in (one.post_data or "")):
        field.press("Enter")
        reader.heading("Nearest to money").wait_for()
    (late,) = held
    late.continue_()
    reader.settle()
    assert reader.heading("Nearest to money").is_visible()


def test_the_page_works_behind_a_path_prefix(visit: Visit, client: httpx.Client) -> None:
    """Requests are relative to the page: the browser simulates a proxy that strips `/words`."""
    reader = visit("#models")
    prefix = f"{reader.base}/words/"

    def strip_prefix(route: Route) -> None:
        given = client.get(f"/{route.request.url.removeprefix(prefix)}")
        route.fulfill(status=given.status_code, headers=dict(given.headers), body=given.content)

    reader.page.route(f"{prefix}**", strip_prefix)
    reader.page.goto(f"{prefix}#models")
    reader.card("wiki-en").wait_for()
    assert f"{prefix}v1/models" in reader.command()


def test_violations_of_the_content_security_policy_are_recorded(visit: Visit) -> None:
    reader = visit("#models")
    with reader.page.expect_console_message(lambda message: "Policy" in message.text):
        reader.page.evaluate(
            "document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:1/x.png'}))"
        )
    assert any("Content Security Policy" in one for one in reader.wrong)
    reader.wrong.clear()


def test_the_page_works_without_browser_storage(visit: Visit) -> None:
    reader = visit("#neighbors")
    reader.page.add_init_script(
        "for (const name of ['localStorage', 'sessionStorage'])"
        " Object.defineProperty(window, name, {get() { throw new DOMException('no'); }});"
    )
    # A failed list of models is not requested again.
    reader.page.route("**/v1/models", lambda route: route.fulfill(status=503, body="{}"))
    reader.requests.clear()
    reader.reload()
    for word in ("river", "money"):
        reader.submit("Word", word)
        assert reader.heading(f"Nearest to {word}").is_visible()
    assert reader.requested().count("/v1/models") == 1
    reader.theme("dark")
    assert reader.page.evaluate("document.documentElement.dataset.theme") == "dark"


FILLS = """(selectors) => selectors.map((one) =>
  getComputedStyle(document.querySelector(one))[one === "figure" ? "backgroundColor" : "fill"])"""


def test_states_and_marks_are_visible_in_forced_colors(visit: Visit) -> None:
    reader = visit("#attention", forced_colors="active")
    for selector in ("nav a[aria-current]", "button.quiet[aria-pressed=true]"):
        expect(reader.page.locator(selector).first).to_have_css("outline-style", "solid")
    text, figure = reader.page.evaluate(FILLS, ["figure svg text", "figure"])
    assert text != figure
    reader.go("#senses")
    marks = ["svg.senses-map .point", ".sense-mark .mark", "figure"]
    *fills, figure = reader.page.evaluate(FILLS, marks)
    assert figure not in fills


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
