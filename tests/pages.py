"""Sections of the documentation."""

import re

from tests.conftest import ROOT


def section(page: str, heading: str) -> str:
    """The text of docs/PAGE below a heading `##`, up to the next one."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    found: list[str] = re.findall(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    (body,) = found
    return body
