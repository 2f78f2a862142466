"""The API page at /docs: Swagger UI in a real browser."""

from docs.openapi import ROUTES
from playwright.sync_api import expect

from tests.page.conftest import Open


def test_api_page_lists_each_operation_and_sends_a_request(open_page: Open) -> None:
    reader = open_page()
    page = reader.page
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.goto(f"{reader.base}/docs")
    expect(page.locator(".opblock")).to_have_count(len(ROUTES))
    models = page.locator(".opblock", has=page.locator("[data-path='/v1/models']"))
    models.locator(".opblock-summary-control").click()
    models.get_by_role("button", name="Try it out").click()
    models.get_by_role("button", name="Execute").click()
    status = models.locator(".live-responses-table .response-col_status")
    expect(status.last).to_have_text("200")
    assert messages == []
