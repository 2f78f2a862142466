"""The sections on training runs: what changed with what, their curves, what did not help."""

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
"""Settings in the order they are shown; those in which no two records differ are not."""


def training_runs(records: Sequence[Record], *, pictured: bool) -> list[str]:
    """Every recorded run, with the settings in which they differ; nothing where there is none."""
    if not records:
        return []
    shown, measured = _differing(records), any("coarsewsd" in one for one in records)
    head = ["run", *(TITLES.get(key, key) for key in shown), "AUC", "macro-F1"]
    head += ["CoarseWSD-20 F1", "WiC dev"] if measured else []
    rows = [_row(one, shown, measured=measured) for one in records]
    text = """\
Each row is one run of `polyseme train` and what it gave on lemmas that it was not trained on,
before and after: the area under the curve of the cosine over pairs of occurrences, and macro-F1 of
the nearest centroid. Runs with other data hold out others, or pseudo-words where there are no tags,
so that only rows with the same figure before are of the same lemmas. The recipes are in the files
`models/results/training-*.json`.
"""
    constant = _constant(records, shown)
    told = f" In all of them: {constant}." if constant else ""
    lines = ["## Training runs", *paragraph(text.strip() + told), "", *table(head, rows)]
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
    cells += [f"{_told(one['before'][key])} → {_told(one['after'][key])}" for key in _SCORES]
    if measured:
        cells.append(one.get("coarsewsd", {}).get("macro_f1", ""))
        cells.append(one.get("wic", {}).get("dev_accuracy", ""))
    return cells


_SCORES = ("auc", "macro_f1")


def _told(score: float | None) -> str:
    return "–" if score is None else str(score)


def histories(own: Record, records: Sequence[Record]) -> dict[str, Sequence[Record]]:
    """The learning curves there are by name: that of a manifest, and each run's."""
    found = {own["name"]: own["training"].get("history")}
    found |= {one["name"]: one.get("history") for one in records}
    return {name: history for name, history in found.items() if history}


def not_helpful(tried: Sequence[Record] | None) -> list[str]:
    """What was tried and did not help."""
    if not tried:
        return []
    rows = [(one["tried"], one["measured"], one["without"], one["with"]) for one in tried]
    return [
        "## What did not help",
        *paragraph(
            "Tried and left out, without it and with it. Each was measured once, while exploring,"
            " by scripts that are not kept here, and written down by hand: differences of less than"
            " a point may be chance."
        ),
        "",
        *table(("tried", "measured by", "without", "with"), rows),
    ]
