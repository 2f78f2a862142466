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
    "removed_1": "without the first",
    "removed_2": "first two",
    "removed_3": "first three",
    "kept_1": "with the first alone",
    "kept_2": "two alone",
    "kept_3": "three alone",
}
QUALITY = {"pairs_auc": "pairs, AUC", "macro_f1": "macro-F1"}


def attention_explained(found: Mapping[str, Any] | None) -> list[str]:
    """How well attention rows rank the words that determine the sense, with baselines."""
    if found is None:
        return []
    text = f"""\
Whether a word attends to the words that determine its sense, on {found["occurrences"]}
occurrences of {found["lemmas"]} lemmas of SemCor and MASC. [explanation.md](explanation.md)
defines each figure and its limits. *Drop* is the loss of the model's own margin without a word,
*change* its absolute value; a *flip* is a word without which another sense is nearest; *evidence*
is the judgment of a classifier without vectors; *first* is how often the word that is ranked
first is such a word. ± is a standard error; all figures in hundredths. The model finds the right
sense of {found["right_sense"]} % of these occurrences, the classifier of
{found["judge_right_sense"]} %.
"""
    return [
        "## How well attention explains",
        *paragraph(text),
        "",
        *_estimates("what ranks the words", found["rankings"], AGREEMENT),
        "",
        "The loss of margin without the words ranked first (more is better), and with these words",
        "alone (less is better):",
        "",
        *_estimates("what ranks the words", found["rankings"], ERASURE),
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
    head = ("head", "distance of rows", *(f"{QUALITY[name]} lost" for name in shown))
    return [
        "Whether attention depends on the query token: the distance between a word's row and the",
        "row of another word of similar frequency in its place (0 if only positions count), and",
        f"the loss with zero queries. With queries: {whole}.",
        "",
        *table(head, rows),
    ]


def _estimates(head: str, found: Mapping[str, Estimates], titles: Mapping[str, str]) -> list[str]:
    shown = [name for name in titles if all(name in one for one in found.values())]
    rows = [[name, *(_figure(one[key]) for key in shown)] for name, one in found.items()]
    return table([head, *(titles[key] for key in shown)], rows)


def _figure(one: Mapping[str, float]) -> str:
    return f"{one['value']} ± {one['error']}"
