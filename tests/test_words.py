"""The words of the code and the docs: standard terms, one meaning each."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*(ROOT / "service").rglob("*.py"), *(ROOT / "lab/polyseme_lab").rglob("*.py")])
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


def public_classes(file: Path) -> list[str]:
    tree = ast.parse(file.read_text("utf-8"))
    names = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return [name for name in names if not name.startswith("_")]


def test_no_public_class_name_is_used_twice():
    counts = Counter(name for file in SOURCES for name in public_classes(file))
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_private_words(page):
    code = r"^```.*?^```$|`[^`\n]*/[^`\n]*`|\]\([^)]*\)"
    text = re.sub(code, "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(rf"\b(?:{'|'.join(PRIVATE)})\b", text, re.IGNORECASE)
    assert found == []
