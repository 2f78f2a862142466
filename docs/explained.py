"""The section on how well attention explains, head by head."""

from collections.abc import Mapping
from typing import Any

from docs.results import paragraph, table

Estimates = Mapping[str, Mapping[str, float]]

AGREEMENT = {
    "drop_correlation": "drop, ρ",
    "change_correlation": "change, ρ",
    "flip_auc": "flips, AUC",
    "flip_at_1": "flips, first",
    "evidence_correlation": "evidence, ρ",
    "evidence_auc": "evidence, AUC",
    "evidence_at_1": "evidence, first",
}
ERASURE = {
    "removed_1": "one removed",
    "removed_2": "two removed",
    "removed_3": "three removed",
    "kept_1": "one kept",
    "kept_2": "two kept",
    "kept_3": "three kept",
}
QUALITY = {"pairs_auc": "pairs, AUC", "macro_f1": "macro-F1"}


def attention_explained(found: Mapping[str, Any] | None) -> list[str]:
    """How well attention rows rank the words that determine the sense, with baselines."""
    if found is None:
        return []
    text = f"""\
This section measures whether a word attends to the words that determine its sense, on
{found["occurrences"]} occurrences of {found["lemmas"]} lemmas of SemCor and MASC.
[explanation.md](explanation.md) defines the figures and their limits. *Drop* is the loss of the
model's margin if a word is removed, and *change* is its absolute value. A *flip* is a word whose
removal changes the nearest sense. *Evidence* is the judgment of a naive Bayes classifier, which has
no vectors. *First* is how often the first word of the ranking is a flip or has evidence. ± is a
standard error, and all figures are × 100. The model finds the correct sense of
{found["right_sense"]} % of these occurrences, the classifier of {found["judge_right_sense"]} %.
"""
    return [
        "## How well attention explains",
        *paragraph(text),
        "",
        *_estimates("ranking", found["rankings"], AGREEMENT),
        "",
        "The loss of margin if the first words of the ranking are removed (a larger loss is",
        "better), and if only these words are kept (a smaller loss is better):",
        "",
        *_estimates("ranking", found["rankings"], ERASURE),
        "",
        *_dependence(found),
    ]


def _dependence(found: Mapping[str, Any]) -> list[str]:
    """Whether attention depends on the query token: swaps, and the cost of Wq = 0."""
    shown = [name for name in QUALITY if name in found["quality"]]
    cost = {
        name: [_figure(one[measure]) for measure in shown] for name, one in found["cost"].items()
    }
    rows = [
        [name, _figure(found["swaps"][name]) if name in found["swaps"] else "", *of_quality]
        for name, of_quality in cost.items()
    ]
    rows += [
        [name, _figure(one), *[""] * len(shown)]
        for name, one in found["swaps"].items()
        if name not in cost
    ]
    whole = ", ".join(f"{QUALITY[name]} {_figure(found['quality'][name])}" for name in shown)
    columns = ("head", "distance of rows", *(f"{QUALITY[name]} lost" for name in shown))
    return [
        *paragraph(
            f"""\
The next table shows whether attention depends on the query token. *Distance of rows* compares the
row of a word with the row of another word of similar frequency in its place; it is 0 if rows depend
on positions only. The other columns are the loss of the model with Wq = 0. The scores with queries
are: {whole}."""
        ),
        "",
        *table(columns, rows),
    ]


def _estimates(first: str, found: Mapping[str, Estimates], titles: Mapping[str, str]) -> list[str]:
    shown = [name for name in titles if all(name in one for one in found.values())]
    rows = [[name, *(_figure(one[key]) for key in shown)] for name, one in found.items()]
    return table([first, *(titles[key] for key in shown)], rows)


def _figure(one: Mapping[str, float]) -> str:
    return f"{one['value']} ± {one['error']}"
