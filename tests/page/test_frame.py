"""The frame of all views: addresses, theme, API key, and failed requests."""

import re

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.conftest import Serve
from tests.page.conftest import Open
from tests.page.reader import Reader, hold

pytestmark = pytest.mark.slow


VIEWS = {
    "attention": "Attention",
    "compare": "Compare",
    "senses": "Senses",
    "steps": "Step by step",
    "neighbors": "Neighbors",
    "models": "Models",
}


KEY = "a-key-of-this-test"


def test_the_first_view_is_shown_without_a_fragment(open_page: Open) -> None:
    reader = open_page()
    assert reader.page.title() == "Attention · Polyseme"
    reader.page.get_by_role("figure").first.wait_for()


def test_an_unknown_view_opens_the_first(open_page: Open) -> None:
    reader = open_page("#a?%E0")
    assert reader.page.title() == "Attention · Polyseme"
    for fragment in ("#?text=x", "#toString"):
        reader.go("#models")
        assert reader.page.title() == "Models · Polyseme"
        reader.go(fragment)
        assert reader.page.title() == "Attention · Polyseme"


def test_addresses_with_old_names_of_views_work(open_page: Open) -> None:
    reader = open_page("#look?text=The+river+bank&word=2")
    assert reader.page.title() == "Attention · Polyseme"
    assert reader.page.get_by_label("Sentence", exact=True).input_value() == "The river bank"
    assert reader.page.get_by_role("heading", name="bank attends most to").is_visible()
    reader.go("#neighbours?word=river")
    assert reader.page.title() == "Neighbors · Polyseme"
    assert reader.page.get_by_role("heading", name="Nearest to river").is_visible()
    # A change of the state updates the address.
    reader.page.get_by_label("Number of neighbors").select_option("5")
    reader.settle()
    assert reader.address == "#neighbors?word=river&k=5"


def test_every_view_is_reachable_and_has_a_title(open_page: Open) -> None:
    reader = open_page()
    for name, title in VIEWS.items():
        link = reader.page.get_by_role("navigation").get_by_role("link", name=title, exact=True)
        link.click()
        reader.settle()
        assert reader.address.split("?")[0] == f"#{name}"
        assert reader.page.title() == f"{title} · Polyseme"
        assert link.get_attribute("aria-current") == "page"
        assert reader.page.locator("[aria-current]", has_text=title).count() == 1
        assert reader.page.get_by_role("heading", level=2).first.is_visible()


def test_a_view_keeps_its_state(open_page: Open) -> None:
    reader = open_page("#neighbors?word=river")
    navigation = reader.page.get_by_role("navigation")
    navigation.get_by_role("link", name="Models").click()
    reader.settle()
    navigation.get_by_role("link", name="Neighbors").click()
    reader.settle()
    assert reader.address == "#neighbors?word=river"
    assert reader.page.get_by_role("heading", name="Nearest to river").is_visible()


def test_the_keyboard_skips_to_the_view(open_page: Open) -> None:
    reader = open_page("#models")
    reader.page.keyboard.press("Tab")
    assert reader.page.evaluate("document.activeElement.id") == "skip"
    reader.page.keyboard.press("Enter")
    assert reader.page.evaluate("document.activeElement.id") == "main"
    assert reader.address == "#models"


def background(page: Page) -> str:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_the_theme_follows_the_system_until_the_reader_chooses(open_page: Open) -> None:
    reader = open_page("#models", theme="dark")
    dark = background(reader.page)
    bar = reader.page.locator(".bar").first
    dark_bar = bar.get_attribute("fill")
    reader.page.get_by_label("Theme").select_option("light")
    assert background(reader.page) != dark
    reader.page.wait_for_function(
        "([fill]) => document.querySelector('.bar').getAttribute('fill') !== fill", arg=[dark_bar]
    )
    light = background(reader.page)
    reader.page.reload()
    reader.settle()
    assert background(reader.page) == light
    reader.page.get_by_label("Theme").select_option("system")
    assert background(reader.page) == dark
    reader.page.emulate_media(color_scheme="light")
    assert background(reader.page) == light


def test_a_key_is_requested_used_and_never_shown(open_page: Open, serve: Serve) -> None:
    service = serve(api_keys=KEY)
    reader = open_page("#neighbors", service=service)
    reader.problem.wait_for()
    field = reader.page.get_by_label("API key")
    field.fill("a-wrong-one")
    field.press("Enter")
    expect(reader.page.get_by_label("API key")).to_have_value("")
    assert reader.problem.is_visible()
    reader.page.get_by_label("API key").fill(KEY)
    reader.page.get_by_label("API key").press("Enter")
    reader.page.get_by_role("heading", name="Nearest to bank").wait_for()
    reader.page.wait_for_selector(".source", state="visible")
    assert "$POLYSEME_KEY" in reader.command()
    assert KEY not in reader.page.content()
    assert KEY not in reader.page.url


def test_an_unreachable_service_is_reported(open_page: Open) -> None:
    reader = open_page("#neighbors")
    reader.page.route("**/v1/**", lambda route: route.abort())
    reader.page.get_by_label("Word", exact=True).fill("river")
    reader.page.keyboard.press("Enter")
    reader.problem.wait_for()
    assert "did not respond" in reader.problem.text_content()
    reader.page.unroute("**/v1/**")
    reader.page.keyboard.press("Enter")
    reader.page.get_by_role("heading", name="Nearest to river").wait_for()
    assert not reader.problem.is_visible()


def test_a_proxys_error_page_is_reported(open_page: Open) -> None:
    reader = open_page("#neighbors")

    def answer(route: Route) -> None:
        route.fulfill(status=502, content_type="text/html", body="<h1>Bad gateway</h1>")

    reader.page.route("**/v1/**", answer)
    reader.page.get_by_label("Word", exact=True).fill("river")
    reader.page.keyboard.press("Enter")
    reader.problem.wait_for()
    assert "502" in reader.problem.text_content()
    assert "Bad gateway" not in reader.problem.text_content()


def test_the_response_to_the_latest_request_is_shown(open_page: Open) -> None:
    """The page aborts the first request, so that its late response is not drawn over the second."""
    reader = open_page("#neighbors")
    held: list[Route] = []

    def hold_river(route: Route) -> None:
        if "river" in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    reader.page.route("**/v1/neighbors", hold_river)
    field = reader.page.get_by_label("Word", exact=True)
    field.fill("river")
    with reader.page.expect_request(lambda request: "river" in (request.post_data or "")):
        field.press("Enter")
    field.fill("money")
    # Until the browser confirms the abort, the first response could still arrive.
    with reader.page.expect_event("requestfailed", lambda one: "river" in (one.post_data or "")):
        field.press("Enter")
        reader.page.get_by_role("heading", name="Nearest to money").wait_for()
    (late,) = held
    late.continue_()
    reader.settle()
    assert reader.page.get_by_role("heading", name="Nearest to money").is_visible()


def test_the_page_works_behind_a_path_prefix(open_page: Open, client: httpx.Client) -> None:
    """Requests are relative to the page: the browser simulates a proxy that strips `/words`."""
    reader = open_page("#models")
    prefix = f"{reader.base}/words/"

    def strip_prefix(route: Route) -> None:
        path = route.request.url.removeprefix(prefix)
        response = client.get(f"/{path}")
        route.fulfill(
            status=response.status_code, headers=dict(response.headers), body=response.content
        )

    reader.page.route(f"{prefix}**", strip_prefix)
    reader.page.goto(f"{prefix}#models")
    reader.page.get_by_role("article", name="wiki-en").wait_for()
    reader.page.locator("summary", has_text="The request as a command").click()
    assert f"{prefix}v1/models" in reader.command()


def test_violations_of_the_content_security_policy_are_recorded(open_page: Open) -> None:
    reader = open_page("#models")
    with reader.page.expect_console_message(lambda message: "Policy" in message.text):
        reader.page.evaluate(
            "document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:1/x.png'}))"
        )
    assert any("Content Security Policy" in one for one in reader.wrong)
    reader.wrong.clear()


UNREADABLE = "The response of the service cannot be read."


def open_view(reader: Reader, name: str) -> None:
    reader.page.get_by_role("navigation").get_by_role("link", name=name, exact=True).click()


def answer_with(page: Page, body: str, status: int = 200, **headers: str) -> None:
    """Set the response to the next requests."""
    page.unroute("**/v1/**")
    page.route(
        "**/v1/**",
        lambda route: route.fulfill(
            status=status, content_type="application/json", body=body, headers=headers
        ),
    )


def test_a_module_that_fails_to_load_is_reported_until_another_view_opens(open_page: Open) -> None:
    reader = open_page("#neighbors")
    reader.page.route("**/page/compare/view.js", lambda route: route.abort())
    open_view(reader, "Compare")
    expect(reader.page.get_by_role("alert")).to_contain_text("could not be loaded")
    expect(reader.page.locator("[aria-busy]")).to_have_count(0)
    open_view(reader, "Neighbors")
    expect(reader.page.get_by_role("heading", name="Nearest to bank")).to_be_visible()
    assert any("compare/view.js" in one for one in reader.wrong)
    reader.wrong.clear()


def test_leaving_a_loading_view_is_immediate(open_page: Open) -> None:
    reader = open_page("#neighbors")
    held: list[Route] = []
    reader.page.route("**/page/steps/view.js", hold(held))
    open_view(reader, "Step by step")
    expect(reader.page.locator("main[aria-busy]")).to_have_count(1)
    open_view(reader, "Neighbors")
    expect(reader.page.locator("main[aria-busy]")).to_have_count(0)
    held[0].continue_()
    reader.settle()
    assert reader.page.title() == "Neighbors · Polyseme"


def test_an_unreadable_response_is_reported_and_requested_again(open_page: Open) -> None:
    reader = open_page("#neighbors")
    for body in ("<html>", "null", '{"neighbors": [null]}'):
        answer_with(reader.page, body)
        reader.page.get_by_label("Word", exact=True).fill(f"river{len(body)}")
        reader.page.keyboard.press("Enter")
        expect(reader.problem, body).to_contain_text(UNREADABLE)
        reader.page.unroute("**/v1/**")
        reader.page.get_by_label("Word", exact=True).fill("river")
        reader.page.keyboard.press("Enter")
        expect(reader.page.get_by_role("heading", name="Nearest to river")).to_be_visible()
    # The console also reports responses that a script could not read.
    assert all(one.startswith("script:") for one in reader.wrong)
    reader.wrong.clear()


SHOW_EARLY_ERROR = """async () => {
  const { Exchange } = await import("/page/exchange.js");
  const { unreadableResponse } = await import("/page/client.js");
  const exchange = new Exchange("early", document.createElement("div"));
  exchange.showError(unreadableResponse());
  return exchange.problem.textContent;
}"""


def test_an_error_before_the_first_request_is_shown_without_a_command(visit: Open) -> None:
    text = visit("#neighbors").page.evaluate(SHOW_EARLY_ERROR)
    assert text.startswith(UNREADABLE)
    assert "curl" not in text


@pytest.mark.parametrize("view", ["attention", "compare", "senses", "steps", "models"])
def test_no_view_breaks_on_an_empty_response(open_page: Open, view: str) -> None:
    reader = open_page("#neighbors")
    answer_with(reader.page, "{}")
    reader.go(f"#{view}")
    expect(reader.problem.first).to_contain_text(UNREADABLE)
    reader.page.unroute("**/v1/**")
    reader.page.get_by_role("button", name="Try again").click()
    expect(reader.page.locator(".results")).to_be_visible()
    reader.wrong.clear()


def test_error_documents_of_any_form_are_shown_as_text(open_page: Open) -> None:
    reader = open_page("#neighbors")
    bodies = {
        "null": "status 500",
        "[]": "status 500",
        "{}": "status 500",
        '{"title": "A title"}': "A title",
        '{"detail": "A detail", "errors": null}': "A detail",
        '{"detail": "A detail", "errors": "x"}': "A detail",
        '{"detail": 3, "title": ["x"], "errors": [null, 1, {"message": 2}]}': "status 500",
        '{"detail": "See `here`", "errors": [{"message": "is wrong"}]}': "is wrong",
        '{"detail": "<img src=x onerror=alert(1)>"}': "<img src=x onerror=alert(1)>",
    }
    for number, (body, message) in enumerate(bodies.items()):
        answer_with(reader.page, body, 500)
        reader.page.get_by_label("Word", exact=True).fill(f"river{number}")
        reader.page.keyboard.press("Enter")
        expect(reader.problem, body).to_contain_text(message)
        code = reader.problem.locator("p code", has_text="here")
        expect(code, body).to_have_count(1 if "`here`" in body else 0)
    assert reader.wrong == []


def test_a_rate_limit_shows_the_wait_and_a_retry(open_page: Open) -> None:
    reader = open_page("#neighbors")
    answer_with(reader.page, '{"detail": "Too many.", "hint": "h"}', 429, **{"Retry-After": "12"})
    reader.page.get_by_label("Word", exact=True).fill("river")
    reader.page.keyboard.press("Enter")
    expect(reader.problem).to_contain_text("Too many. Try again in 12 seconds.")
    reader.page.get_by_text("The request as a command").first.click()
    assert '{"word":"river","k":10}' in (reader.problem.text_content() or "")
    reader.page.unroute("**/v1/**")
    reader.page.get_by_role("button", name="Try again").click()
    expect(reader.page.get_by_role("heading", name="Nearest to river")).to_be_visible()


def test_a_key_that_cannot_be_sent_is_rejected_in_its_field(open_page: Open, serve: Serve) -> None:
    reader = open_page("#neighbors", service=serve(api_keys=KEY))
    field = reader.page.get_by_label("API key")
    field.fill("ключ")
    field.press("Enter")
    assert "ASCII" in field.evaluate("field => field.validationMessage")
    field.fill(KEY)
    field.press("Enter")
    expect(reader.page.get_by_role("heading", name="Nearest to bank")).to_be_visible()


def test_after_a_wrong_key_the_field_keeps_the_focus(open_page: Open, serve: Serve) -> None:
    reader = open_page("#neighbors", service=serve(api_keys=KEY))
    field = reader.page.get_by_label("API key")
    field.fill("a-wrong-one")
    field.press("Enter")
    expect(reader.page.get_by_label("API key")).to_have_value("")
    expect(reader.page.get_by_label("API key")).to_be_focused()


def test_a_link_to_another_view_focuses_its_heading(open_page: Open) -> None:
    reader = open_page("#models")
    assert reader.page.evaluate("document.activeElement === document.body")
    reader.page.get_by_role("article").get_by_role("link", name="Attention").press("Enter")
    expect(reader.page.get_by_role("heading", name="Attention", exact=True)).to_be_focused()
    open_view(reader, "Models")
    expect(reader.page.get_by_role("navigation").get_by_role("link", name="Models")).to_be_focused()


def test_the_page_works_without_browser_storage(open_page: Open) -> None:
    reader = open_page("#neighbors", fresh=True)
    reader.page.add_init_script(
        "for (const name of ['localStorage', 'sessionStorage'])"
        " Object.defineProperty(window, name, {get() { throw new DOMException('no'); }});"
    )
    reader.page.reload()
    expect(reader.page.get_by_role("heading", name="Nearest to bank")).to_be_visible()
    reader.page.get_by_label("Theme").select_option("dark")
    assert reader.page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_nothing_can_be_saved_before_a_response(open_page: Open) -> None:
    reader = open_page("#models")
    held: list[Route] = []
    reader.page.route("**/v1/neighbors", hold(held))
    reader.page.goto(f"{reader.base}/#neighbors")
    expect(reader.page.get_by_role("status").filter(has_text="Waiting")).to_be_visible()
    expect(reader.page.get_by_role("button", name="Save JSON")).to_have_count(0)
    held[0].continue_()
    expect(reader.page.get_by_role("button", name="Save JSON")).to_be_visible()
    expect(reader.page.get_by_text("Waiting for the service…")).to_have_count(0)


def test_a_failed_list_of_models_is_not_requested_repeatedly(open_page: Open) -> None:
    reader = open_page("#neighbors")
    requests: list[str] = []

    def refuse(route: Route) -> None:
        requests.append(route.request.url)
        route.fulfill(status=503, content_type="application/json", body="{}")

    reader.page.route("**/v1/models", refuse)
    reader.page.reload()
    reader.settle()
    for word in ("river", "money", "tree"):
        reader.page.get_by_label("Word", exact=True).fill(word)
        reader.page.keyboard.press("Enter")
        expect(reader.page.get_by_role("heading", name=f"Nearest to {word}")).to_be_visible()
    assert len(requests) == 1


def test_current_and_pressed_controls_are_visible_in_forced_colors(open_page: Open) -> None:
    reader = open_page("#attention", forced_colors="active")
    for selector in ("nav a[aria-current]", "button.quiet[aria-pressed=true]"):
        style = reader.page.locator(selector).first.evaluate(
            "e => getComputedStyle(e).outlineStyle"
        )
        assert style == "solid", selector
    text = reader.page.locator("figure svg text").first.evaluate("e => getComputedStyle(e).fill")
    ground = reader.page.locator("figure").first.evaluate(
        "e => getComputedStyle(e).backgroundColor"
    )
    assert text != ground
    assert re.match("rgb", text)


OVERLAP = """async () => {
  const { pngBlob } = await import(new URL("page/figure.js", document.baseURI));
  const ns = "http://www.w3.org/2000/svg";
  const make = (tag, attributes, ...children) => {
    const element = document.createElementNS(ns, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const square = (x) => make("rect", { x, y: 0, width: 20, height: 20, fill: "#000000" });
  const group = make("g", { opacity: 0.5, transform: "translate(10 0)" }, square(0), square(10));
  const svg = make("svg", { viewBox: "0 0 60 20", width: 60, height: 20 }, group);
  document.querySelector("figure").append(svg);
  const bitmap = await createImageBitmap(await pngBlob(svg, 1));
  svg.remove();
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  return [15, 25, 35, 45].map((x) => context.getImageData(x + 12, 10 + 12, 1, 1).data[0]);
}"""


def test_opacity_of_a_group_applies_once_in_a_png(visit: Open) -> None:
    """Two black squares that overlap, in a group of opacity 0.5 on white, are gray everywhere."""
    first, both, second, outside = visit("#neighbors").page.evaluate(OVERLAP)
    assert first == both == second
    assert abs(first - 128) <= 3
    assert outside == 255
