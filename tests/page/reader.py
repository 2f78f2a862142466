"""A reader of the page: navigation, contents and saved files."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, Route

OFF = (
    # The suggestions of the address bar: each window starts processes for them, which takes as
    # long as the rest of the window.
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup"),
    # A spare process for another site, which no test opens.
    "SpareRendererForSitePerProcess",
    # Those that Playwright disables: of two --disable-features flags, the last one replaces the
    # first.
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"),
    *("HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding"),
    *("ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "AimEnabled"),
    *("OptimizationHints", "NetworkTimeServiceQuerying", "PreconnectToSearch"),
)
"""Features of the browser that no test needs."""
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    f"--disable-features={','.join(OFF)}",
]
RESIZED = """async (width) => {
  const frame = () => new Promise(requestAnimationFrame);
  while (innerWidth !== width) await frame();
  // The page notices the change in the first frame and draws in the second; the third is drawn.
  for (let i = 0; i < 3; i += 1) await frame();
}"""


class Reader:
    """A window with the page in it."""

    def __init__(self, page: Page, base: str, wrong: list[str]) -> None:
        self.page = page
        self.base = base
        self.wrong = wrong
        """Unexpected errors."""

    def go(self, fragment: str) -> None:
        """Open an address of the page, and wait until it is drawn."""
        self.page.goto(f"{self.base}/{fragment}")
        self.settle()

    def settle(self) -> None:
        """Wait until the page is drawn and no request is open."""
        self.page.locator("main > section").wait_for()
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        self.page.locator("[aria-busy=true]").first.wait_for(state="detached")

    def resize(self, width: int, height: int = 900) -> None:
        """Resize the window, and wait until the page is drawn for the new size."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.evaluate(RESIZED, width)
        self.settle()

    def choose(self, label: str, value: str) -> None:
        """Select a value in a list."""
        self.page.get_by_label(label, exact=True).select_option(value)
        self.settle()

    def press(self, name: str) -> None:
        """Press the button with a name."""
        self.page.get_by_role("button", name=name, exact=True).click()
        self.settle()

    @property
    def address(self) -> str:
        """The fragment of the address, with its #."""
        return self.page.evaluate("location.hash")

    @property
    def problem(self) -> Locator:
        """The error message of the page."""
        return self.page.get_by_role("alert")

    def saved(self, button: Locator, folder: Path) -> Path:
        """The file that a button downloads."""
        with self.page.expect_download() as download:
            button.click()
        path = folder / download.value.suggested_filename
        download.value.save_as(path)
        return path

    def saved_json(self, folder: Path) -> dict:
        """The response that the button Save JSON downloads."""
        button = self.page.get_by_role("button", name="Save JSON")
        return json.loads(self.saved(button, folder).read_text("utf-8"))

    def command(self) -> str:
        """The curl command that the page shows for the response."""
        return self.page.locator(".source code").text_content() or ""

    def sent(self) -> dict:
        """The body of the shown request, from the command."""
        body = self.command().partition("-d '")[2].removesuffix("'")
        return json.loads(body.replace("'\\''", "'"))

    def run_command(self) -> dict:
        """The output of the command in a real shell with curl."""
        done = subprocess.run(
            ["bash", "-c", self.command()], capture_output=True, check=True, timeout=60
        )
        return json.loads(done.stdout)

    def scrolls_sideways(self) -> bool:
        """Whether the page is wider than its window."""
        return self.page.evaluate(
            "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )

    def violations(self, axe: Axe) -> list[str]:
        """The violations that axe-core finds, with the elements."""
        found = axe.run(self.page).response["violations"]
        return [
            f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes']][:5]}"
            for one in found
        ]


def hold(held: list[Route]) -> Callable[[Route], None]:
    """A route handler that collects requests without continuing them."""

    def keep(route: Route) -> None:
        held.append(route)

    return keep
