"""The settings of Sphinx, which makes a searchable site of the documentation: `make site`."""

import re
from pathlib import Path
from typing import Any

project = "Polyseme"
copyright = "the Polyseme authors"  # noqa: A001 - a setting of Sphinx
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    *("docs/*.md", "docs/decisions/*.md", "benchmarks/README.md", "benchmarks/results/*.md"),
    *("lab/README.md", "lab/results/*.md"),
    *("models/README.md", "models/weights/README.md"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
]
exclude_patterns = [".venv", "build", "tests"]
myst_heading_anchors = 4
# The ellipses of examples are in no lexer.
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_title = "Polyseme"
html_show_sphinx = False
ROOT = Path(__file__).parents[1]
REPORTS = sorted(ROOT.glob("*/results/*.md"))
SECTIONS = {
    "Use it": [
        *("/README", "install", "tour", "api", "client", "cli", "importing", "languages"),
        *("senses", "pipelines", "bulk", "training", "page"),
    ],
    "Run it": ["operation", "settings", "/SECURITY", "compatibility"],
    "Understand it": [
        *("mathematics", "worked-examples", "/models/README", "/models/weights/README"),
        *("quality", "speed", "decisions/README"),
    ],
    "Develop it": ["/CONTRIBUTING", "/CHANGELOG", "/lab/README", "/benchmarks/README"],
    "Reports": [f"/{file.with_suffix('').relative_to(ROOT)}" for file in REPORTS],
}
"""The pages of the side bar. Sphinx warns of a page that is not here."""

START = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Polyseme</title>
<meta http-equiv="refresh" content="0; url=docs/index.html"></head>
<body><a href="docs/index.html">Documentation</a></body></html>
"""
"""The page at the root of the site, which leads to the index."""

PICTURE = re.compile(r'<picture>.*?<img src="([^"]+)" alt="([^"]+)">\s*</picture>', re.DOTALL)


def setup(app: Any) -> None:
    """Append the side bar and the list of decisions to their pages; lead the root to the index."""

    def append(_: Any, name: str, source: list[str]) -> None:
        # Sphinx copies the files of Markdown's images only.
        source[0] = PICTURE.sub(r"![\2](\1)", source[0])
        if name == root_doc:
            for title, pages in SECTIONS.items():
                listed = "\n".join(pages)
                source[0] += f"\n```{{toctree}}\n:caption: {title}\n:hidden:\n\n{listed}\n```\n"
        if name == "docs/decisions/README":
            source[0] += "\n```{toctree}\n:glob:\n\n0*\n```\n"

    def lead_to_index(_: Any, error: Exception | None) -> None:
        if error is None:
            Path(app.outdir, "index.html").write_text(START, "utf-8")

    app.connect("source-read", append)
    app.connect("build-finished", lead_to_index)
