"""The settings and the learning curves of training runs."""

from collections.abc import Mapping, Sequence
from typing import Any

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
"""The titles of settings, in the order of the columns."""


def differing_settings(records: Sequence[Record]) -> dict[str, str]:
    """The settings in which the runs differ, with their titles."""
    keys = dict.fromkeys([*TITLES, *(key for one in records for key in one["settings"])])
    values = {key: {str(one["settings"].get(key)) for one in records} for key in keys}
    return {key: TITLES.get(key, key) for key, found in values.items() if len(found) > 1}


def constant_settings(records: Sequence[Record]) -> str:
    """The settings that are the same in all runs, with their values."""
    settings, differing = records[0]["settings"], differing_settings(records)
    kept = {key: settings[key] for key in [*TITLES, *settings] if key in settings}
    return ", ".join(
        f"{TITLES.get(key, key)} {value}"
        for key, value in kept.items()
        if key not in differing and value not in (None, "")
    )


def histories(own: Record, records: Sequence[Record]) -> dict[str, Sequence[Record]]:
    """The learning curves by name: the bundled model's, and those of the runs."""
    found = {own["name"]: own["training"].get("history")}
    found |= {one["name"]: one.get("history") for one in records}
    return {name: history for name, history in found.items() if history}
