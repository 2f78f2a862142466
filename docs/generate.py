"""Render the pages from their templates, and draw the pictures.

make docs           (a test compares the committed files with the output)

A template in `docs/templates/` has the text of a page, with expressions for the figures that were
measured and for what the code declares. `README.md` is rendered like the pages of `docs/`.
"""

import functools
import inspect
import math
import re
from pathlib import Path

import jinja2
import numpy as np
from docs import charts, results
from pydantic import SecretStr
from pydantic.fields import FieldInfo

import polyseme
from polyseme import errors
from polyseme.cli.serve import SECRET
from polyseme.importing import closed_form
from polyseme.settings import Settings
from polyseme_lab.evaluation.results import (
    COARSEWSD_COLUMNS,
    Published,
    ResultRow,
    Results,
    coarsewsd_title,
    table,
)
from polyseme_lab.evaluation.statistics import IntervalEstimate
from polyseme_lab.evaluation.systems import DEFAULT, MOST_FREQUENT

HERE = Path(__file__).parent
IMAGES = HERE / "images"
TEMPLATES = HERE / "templates"


def default(field: FieldInfo) -> str:
    """The default of a setting as code; nothing if it is empty."""
    value = field.default
    if field.default_factory is not None or value in (None, "", ()):
        return ""
    return f"`{value.get_secret_value() if isinstance(value, SecretStr) else value}`"


def bounds(field: FieldInfo) -> str:
    """The bounds of a setting."""
    return ", ".join(
        f"{sign} {getattr(rule, kind)}"
        for rule in field.metadata
        for kind, sign in (("ge", "≥"), ("le", "≤"))
        if hasattr(rule, kind)
    )


def error_tree() -> list[type[errors.PolysemeError]]:
    """Every error class, by status and code."""
    found, waiting = [], [errors.PolysemeError]
    while waiting:
        error = waiting.pop()
        waiting += error.__subclasses__()
        found.append(error)
    return sorted(found, key=lambda error: (error.status, error.code))


def attended(text: str, query: int, count: int) -> list[tuple[str, str]]:
    """The words with the largest weights of a word by the bundled model, averaged over heads."""
    (sentence,) = polyseme.load().encode([text])
    weights = sentence.attention[-1][:, query].mean(axis=0)
    return [(sentence.words[key], f"{weights[key]:.2f}") for key in np.argsort(-weights)[:count]]


def contributed(text: str, query: int, key: int) -> float:
    """The contribution of a word to the contextual vector of another by the bundled model."""
    (sentence,) = polyseme.load().encode([text], include=["contributions"])
    return float(sentence.contributions[-1, query, key])


def nearness(distance: int) -> float:
    """The weight of a word at a distance relative to that of a distant word, in the closed form."""
    biases = closed_form.nearness()[0, 16:]
    return math.exp(biases[distance] - biases[16])


def printed_evaluation() -> str:
    """The output of `polyseme evaluate coarsewsd --compare`."""
    found, compared = results.result("coarsewsd"), results.result("coarsewsd-minilm")
    systems = {name: found["systems"][name] for name in (MOST_FREQUENT, *DEFAULT)}
    printed = Results(
        "coarsewsd",
        coarsewsd_title(len(found["words"]), found["sentences"]),
        COARSEWSD_COLUMNS,
        [
            ResultRow(
                *(name, one["title"], one["kind"]),
                {column: IntervalEstimate(**one[column]) for column in COARSEWSD_COLUMNS},
            )
            for name, one in [*systems.items(), *compared["systems"].items()]
        ],
        [
            Published(one["title"], one["source"], {name: one[name] for name in COARSEWSD_COLUMNS})
            for one in found["published"]
        ],
        notes=found["notes"],
    )
    return table(printed).strip()


def printed_senses(word: str, *, brief: bool = False) -> str:
    """The output of `polyseme senses`; in brief, without neighbors and examples."""
    printed: str = results.result("examples")["senses"][word]
    if brief:
        printed = re.sub(r"^   (?:neighbors|example) .*\n", "", printed, flags=re.MULTILINE)
    return printed.strip()


ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    autoescape=jinja2.select_autoescape(),  # only HTML is escaped
    undefined=jinja2.StrictUndefined,
    extensions=["jinja2.ext.do"],
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
ENVIRONMENT.globals |= dict(inspect.getmembers(results, inspect.isfunction))
for function in (default, bounds, error_tree, attended, contributed, nearness):
    ENVIRONMENT.globals[function.__name__] = function
for function in (printed_evaluation, printed_senses):
    ENVIRONMENT.globals[function.__name__] = function
ENVIRONMENT.globals |= {
    "settings": Settings.model_fields,
    "secret": SECRET,
}
ENVIRONMENT.filters |= {
    "number": results.number,
    "wrap": results.wrap,
    "from_zero": results.from_zero,
}


def page(name: str) -> str:
    """A page, rendered from its template."""
    return ENVIRONMENT.get_template(f"{name}.jinja").render()


NAMES = sorted(file.stem for file in TEMPLATES.glob("*.jinja"))
PAGES = {
    "README.md" if name == "README.md" else f"docs/{name}": functools.partial(page, name)
    for name in NAMES
}
"""What makes each file, by its path in the repository."""


def main() -> None:
    """Write every page and picture; remove pictures that are no longer made."""
    for name, make in PAGES.items():
        (results.ROOT / name).write_text(make(), encoding="utf-8")
    IMAGES.mkdir(exist_ok=True)
    drawn = charts.images()
    for name, data in drawn.items():
        (IMAGES / name).write_bytes(data)
    for file in IMAGES.glob("*.svg"):
        if file.name not in drawn:
            file.unlink()


if __name__ == "__main__":
    main()
