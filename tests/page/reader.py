"""A reader of the page: navigation, contents and saved files."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, Route

OFF = (
    # The browser's own windows of suggestions: pages in processes of their own, made anew with
    # each window, at as much work as the rest of it.
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup"),
    # A process kept ready for a site that no test opens.
    "SpareRendererForSitePerProcess",
    # What Playwright turns off: of two such flags, the browser takes the later alone.
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"),
    *("HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding"),
    *("ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "AimEnabled"),
    *("OptimizationHints", "NetworkTimeServiceQuerying", "PreconnectToSearch"),
)
"""features of the browser that no test needs"""
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    f"--disable-features={','.join(OFF)}",
]
RESIZED = """async (width) => {
  const frame = () => new Promise(requestAnimationFrame);
  while (innerWidth !== width) await frame();
  // One frame to see the change, one to draw for it, and one to have drawn.
  for (let i = 0; i < 3; i += 1) await frame();
}"""


class Reader:
    """A window with the page in it."""

    def __init__(self, page: Page, base: str, wrong: list[str]) -> None:
        self.page = page
        self.base = base
        self.wrong = wrong
        """unexpected errors"""

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
        """Make the window of another size, and wait until the page is drawn for it."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.evaluate(RESIZED, width)
        self.settle()

    @property
    def address(self) -> str:
        """What is after the # of the address."""
        return self.page.evaluate("location.hash")

    @property
    def problem(self) -> Locator:
        """The error message of the page."""
        return self.page.get_by_role("alert")

    def saved(self, button: Locator, folder: Path) -> Path:
        """The file that a button gives."""
        with self.page.expect_download() as download:
            button.click()
        path = folder / download.value.suggested_filename
        download.value.save_as(path)
        return path

    def saved_json(self, folder: Path) -> dict:
        """The response that the reader can save."""
        button = self.page.get_by_role("button", name="Save JSON")
        return json.loads(self.saved(button, folder).read_text("utf-8"))

    def command(self) -> str:
        """The command for the same response."""
        return self.page.locator(".source code").text_content() or ""

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
    """Leave requests unanswered."""

    def keep(route: Route) -> None:
        held.append(route)

    return keep
