"""The sections on training runs, learning curves and ideas that did not help."""

from collections.abc import Mapping, Sequence
from typing import Any

from docs.results import paragraph, table

Record = Mapping[str, Any]
TITLES = {
    "start": "start",
    "tags": "tags",
    "paragraphs": "paragraphs",
    "corpus": "corpus",
    "dimension": "d",
    "heads": "heads",
    "layers": "layers",
    "feed_forward": "feed-forward",
    "vectors_tuned": "vectors learned",
    "interpolate": "interpolated",
    "steps": "steps",
    "seed": "seed",
}
"""Settings in the order of the columns; a setting that is the same in all records has no column."""


def training_runs(records: Sequence[Record], *, pictured: bool) -> list[str]:
    """Every recorded run, with the settings in which the runs differ."""
    if not records:
        return []
    shown, measured = _differing(records), any("coarsewsd" in one for one in records)
    head = ["run", *(TITLES.get(key, key) for key in shown), "AUC", "macro-F1"]
    head += ["CoarseWSD-20 F1", "WiC dev"] if measured else []
    rows = [_row(one, shown, measured=measured) for one in records]
    text = """\
Each row is one run of `polyseme train`, with its scores on held-out lemmas before and after
training: the area under the curve of the cosine over pairs of occurrences, and the macro-F1 of the
nearest centroid. Runs with other data have other held-out lemmas, or pseudo-words if they have no
tags. Compare only rows with the same scores before training. The configurations are in
`lab/results/training-*.json`.
"""
    constant = _constant(records, shown)
    common = f" In all runs: {constant}." if constant else ""
    lines = ["## Training runs", *paragraph(text.strip() + common), "", *table(head, rows)]
    if pictured:
        lines += ["", "![learning curves of the runs](images/learning-curves.svg)"]
    return lines


def _differing(records: Sequence[Mapping[str, Any]]) -> list[str]:
    keys = dict.fromkeys([*TITLES, *(key for one in records for key in one["settings"])])
    values = {key: {str(one["settings"].get(key)) for one in records} for key in keys}
    return [key for key, found in values.items() if len(found) > 1]


def _constant(records: Sequence[Mapping[str, Any]], shown: Sequence[str]) -> str:
    settings = records[0]["settings"]
    kept = {key: settings[key] for key in [*TITLES, *settings] if key in settings}
    return ", ".join(
        f"{TITLES.get(key, key)} {value}"
        for key, value in kept.items()
        if key not in shown and value not in (None, "")
    )


def _row(one: Mapping[str, Any], shown: Sequence[str], *, measured: bool) -> list[Any]:
    settings = [one["settings"].get(key, "–") for key in shown]
    cells = [one["name"], *settings]
    cells += [f"{_score(one['before'][key])} → {_score(one['after'][key])}" for key in _SCORES]
    if measured:
        cells.append(one.get("coarsewsd", {}).get("macro_f1", ""))
        cells.append(one.get("wic", {}).get("dev_accuracy", ""))
    return cells


_SCORES = ("auc", "macro_f1")


def _score(score: float | None) -> str:
    return "–" if score is None else str(score)


def histories(own: Record, records: Sequence[Record]) -> dict[str, Sequence[Record]]:
    """The learning curves by name: the bundled model's, and those of the runs."""
    found = {own["name"]: own["training"].get("history")}
    found |= {one["name"]: one.get("history") for one in records}
    return {name: history for name, history in found.items() if history}


def not_helpful(tried: Sequence[Record] | None) -> list[str]:
    """Ideas that did not help."""
    if not tried:
        return []
    rows = [(one["tried"], one["measured"], one["without"], one["with"]) for one in tried]
    return [
        "## What did not help",
        *paragraph(
            "These ideas were tried and are not used. Each was measured once, by scripts that are"
            " not in the repository. Differences below one point may be chance."
        ),
        "",
        *table(("tried", "measured by", "without", "with"), rows),
    ]
