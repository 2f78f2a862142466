"""What is the same in every view: the frame, the colours, the key, the answers that do not come."""

import httpx
from playwright.sync_api import Page, Route, expect

from tests.conftest import Serve
from tests.page.conftest import Open

VIEWS = {
    "look": "Look",
    "compare": "Compare",
    "steps": "Step by step",
    "neighbours": "Neighbours",
    "models": "Models",
}
KEY = "a-key-of-this-test"


def test_the_first_view_is_drawn_without_any_address(open_page: Open) -> None:
    reader = open_page()
    assert reader.page.title() == "Look · Polyseme"
    reader.page.get_by_role("figure").first.wait_for()


def test_an_address_of_no_view_leads_to_the_first(open_page: Open) -> None:
    reader = open_page("#a?%E0")
    assert reader.page.title() == "Look · Polyseme"
    for fragment in ("#nothing", "#", "#?text=x", "#look?nothing=x", "#%", "#a?%E0"):
        reader.go("#models")
        assert reader.page.title() == "Models · Polyseme"
        reader.go(fragment)
        assert reader.page.title() == "Look · Polyseme", fragment


def test_every_view_is_reached_and_named(open_page: Open) -> None:
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


def test_a_view_is_found_as_it_was_left(open_page: Open) -> None:
    reader = open_page("#neighbours?word=river")
    navigation = reader.page.get_by_role("navigation")
    navigation.get_by_role("link", name="Models").click()
    reader.settle()
    navigation.get_by_role("link", name="Neighbours").click()
    reader.settle()
    assert reader.address == "#neighbours?word=river"
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


def test_colours_follow_the_system_unless_the_reader_says_otherwise(open_page: Open) -> None:
    reader = open_page("#models", colours="dark")
    dark = background(reader.page)
    bar = reader.page.locator(".bar").first
    dark_bar = bar.get_attribute("fill")
    reader.page.get_by_label("Colours").select_option("light")
    assert background(reader.page) != dark
    reader.page.wait_for_function(
        "([fill]) => document.querySelector('.bar').getAttribute('fill') !== fill", arg=[dark_bar]
    )
    light = background(reader.page)
    reader.page.reload()
    reader.settle()
    assert background(reader.page) == light
    reader.page.get_by_label("Colours").select_option("as the system")
    assert background(reader.page) == dark
    reader.page.emulate_media(color_scheme="light")
    assert background(reader.page) == light


def test_a_key_is_asked_for_used_and_never_shown(open_page: Open, serve: Serve) -> None:
    service = serve(api_keys=KEY)
    reader = open_page("#neighbours", service=service)
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


def test_a_service_that_is_gone_is_said(open_page: Open) -> None:
    reader = open_page("#neighbours")
    reader.page.route("**/v1/**", lambda route: route.abort())
    reader.page.get_by_label("Word", exact=True).fill("river")
    reader.page.keyboard.press("Enter")
    reader.problem.wait_for()
    assert "did not answer" in reader.problem.text_content()
    reader.page.unroute("**/v1/**")
    reader.page.keyboard.press("Enter")
    reader.page.get_by_role("heading", name="Nearest to river").wait_for()
    assert not reader.problem.is_visible()


def test_a_proxys_own_page_is_said_too(open_page: Open) -> None:
    reader = open_page("#neighbours")

    def answer(route: Route) -> None:
        route.fulfill(status=502, content_type="text/html", body="<h1>Bad gateway</h1>")

    reader.page.route("**/v1/**", answer)
    reader.page.get_by_label("Word", exact=True).fill("river")
    reader.page.keyboard.press("Enter")
    reader.problem.wait_for()
    assert "502" in reader.problem.text_content()
    assert "Bad gateway" not in reader.problem.text_content()


def test_of_two_questions_the_later_wins(open_page: Open) -> None:
    """The first answer comes after the second, and is not drawn over it."""
    reader = open_page("#neighbours")
    held: list[Route] = []

    def hold(route: Route) -> None:
        if "river" in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    reader.page.route("**/v1/neighbors", hold)
    field = reader.page.get_by_label("Word", exact=True)
    field.fill("river")
    with reader.page.expect_request(lambda request: "river" in (request.post_data or "")):
        field.press("Enter")
    field.fill("money")
    # The page lets the first question go; until the browser said so, its answer might come.
    with reader.page.expect_event("requestfailed", lambda one: "river" in (one.post_data or "")):
        field.press("Enter")
        reader.page.get_by_role("heading", name="Nearest to money").wait_for()
    (late,) = held
    late.continue_()
    reader.settle()
    assert reader.page.get_by_role("heading", name="Nearest to money").is_visible()


def test_behind_a_prefix_of_a_proxy_everything_is_still_found(
    open_page: Open, client: httpx.Client
) -> None:
    """The page asks where it stands: a proxy that cuts `/words` off is played by the browser."""
    reader = open_page("#models")
    prefix = f"{reader.base}/words/"

    def cut(route: Route) -> None:
        path = route.request.url.removeprefix(prefix)
        answer = client.get(f"/{path}")
        route.fulfill(status=answer.status_code, headers=dict(answer.headers), body=answer.content)

    reader.page.route(f"{prefix}**", cut)
    reader.page.goto(f"{prefix}#models")
    reader.page.get_by_role("article", name="wiki-en").wait_for()
    reader.page.locator("summary", has_text="The request as a command").click()
    assert f"{prefix}v1/models" in reader.command()


def test_a_view_asks_no_other_host_and_breaks_no_policy(open_page: Open) -> None:
    """What goes wrong is noted by the fixture; here every view is at least opened once."""
    reader = open_page("#models")
    for name, title in VIEWS.items():
        reader.go(f"#{name}")
        assert reader.page.title() == f"{title} · Polyseme"
        assert reader.page.locator("main > section").is_visible()
        assert reader.wrong == [], name


def test_the_watch_sees_what_goes_wrong(open_page: Open) -> None:
    reader = open_page("#models")
    with reader.page.expect_console_message(lambda message: "Policy" in message.text):
        reader.page.evaluate(
            "document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:1/x.png'}))"
        )
    assert any("Content Security Policy" in one for one in reader.wrong)
    reader.wrong.clear()
