"""The words of the docs: standard terms, one meaning each."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

PRIVATE = (
    *("doorkeeper", "ledger", "keyring", "upkeep", "hangups", "tally", "dialects?", "whole_files"),
    *("unlisted", "chosen_oov", "hidden_keys", "LooksAt", "looks_at", "visibility", "at_the_end"),
    *("`Wish`", "`Lesson`", "`Telling`", "`Told`", "`Slot`", "`Draft`", "`Course`", "`Shares`"),
    *("look(?:s|ed|ing)? at", "looking word", "who looks", "word that looks", "Look with it"),
    *("take(?:n|s)? apart", "already cut", "surer", "oftener", "nought"),
    *("neighbours?", "tokenis(?:e[drs]?|ing|ation)", "normalise[ds]?", "quantise[ds]?", "colours?"),
)
"""Private words, and British spellings; the APIs of Flask, NumPy and transformers have others."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_private_words(page):
    code = r"^```.*?^```$|`[^`\n]*/[^`\n]*`|\]\([^)]*\)"
    text = re.sub(code, "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(rf"\b(?:{'|'.join(PRIVATE)})\b", text, re.IGNORECASE)
    assert found == []
