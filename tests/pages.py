"""Sections of the documentation, its responses, and arithmetic in it and on the page."""

import json
import math
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


def value_of(text: str) -> float:
    """The value of arithmetic as people write it: `e^(−1.5) / (e^2 + 1) + 0.5·x/√2`."""
    text = re.sub(r"(\d)e([−\d]+)", r"\1E\2", text).replace("−", "-").replace("·", "*")
    text = re.sub(r"√([\d.]+)", r"math.sqrt(\1)", text)
    text = re.sub(r"e\^(\([^)]*\)|[\d.]+)", r"math.exp(\1)", text)
    return eval(f"({text})", {"math": math})


def require_fragments(documented: str, response: str) -> None:
    """Require that each part of a documented response between ellipses is in it, in this order."""
    pieces = re.split(r'("[^"]*")', documented)  # white space stays in strings only
    dense = "".join(p if p.startswith('"') else re.sub(r"\s+", "", p) for p in pieces)
    compact = json.dumps(json.loads(response), separators=(",", ":"), ensure_ascii=False)
    end = 0
    for part in filter(None, dense.split("…")):
        start = compact.find(part, end)
        assert start >= 0, f"not in the response, or not in this order: {part}"
        end = start + len(part)
