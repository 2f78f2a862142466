"""The settings of Sphinx, which makes a searchable site of the documentation: `make site`."""

import re
from typing import Any

project = "Polyseme"
copyright = "the Polyseme authors"  # noqa: A001 - a setting of Sphinx
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    *("docs/*.md", "docs/decisions/*.md", "benchmarks/README.md", "lab/README.md"),
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
SECTIONS = {
    "Use it": [
        *(
            "/README",
            "tour",
            "install",
            "pipeline",
            "api",
            "senses",
            "page",
            "client",
            "integrations",
        ),
        *("openai", "inference", "importing", "bulk", "spark", "scale", "vector-stores"),
        *("training", "evaluation"),
    ],
    "Run it": [
        *("containers", "kubernetes", "settings", "keys", "watching", "reliability", "errors"),
        "compatibility",
        "/SECURITY",
    ],
    "Understand it": [
        *("tokenizer", "mathematics", "closed-form", "worked-examples", "/models/README"),
        *("/models/weights/README", "quality", "explanation", "performance", "measurements"),
    ],
    "Develop it": [
        *("/CONTRIBUTING", "/CHANGELOG", "decisions/README", "/lab/README", "/benchmarks/README")
    ],
}
"""The pages of the side bar. Sphinx warns of a page that is not here."""

PICTURE = re.compile(r'<picture>.*?<img src="([^"]+)" alt="([^"]+)">\s*</picture>', re.DOTALL)


def setup(app: Any) -> None:
    """Append the side bar to the index, and the list of decisions to its page."""

    def append(_: Any, name: str, source: list[str]) -> None:
        # Sphinx copies the files of Markdown's images only.
        source[0] = PICTURE.sub(r"![\2](\1)", source[0])
        if name == root_doc:
            for title, pages in SECTIONS.items():
                listed = "\n".join(pages)
                source[0] += f"\n```{{toctree}}\n:caption: {title}\n:hidden:\n\n{listed}\n```\n"
        if name == "docs/decisions/README":
            source[0] += "\n```{toctree}\n:glob:\n\n0*\n```\n"

    app.connect("source-read", append)
