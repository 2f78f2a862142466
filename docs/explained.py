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
    """What attention rows say of the words that tell the sense, beside controls."""
    if found is None:
        return []
    text = f"""\
Which words of its sentence a word looks at, against which words tell its sense, on
{found["occurrences"]} occurrences of {found["lemmas"]} lemmas of SemCor and MASC. How each figure
is defined, and what it does not say, is in [explanation.md](explanation.md). *Drop* is how much of
the model's own margin goes with a word, *change* how much of it changes either way; a *flip* is a
word without which another sense is nearest; *evidence* is what a judge that knows no vectors takes
a word for; *first* is how often the word that is ranked first is such a word. ± is a standard
error; all figures in hundredths. The model finds the
right sense of {found["right_sense"]} % of these occurrences, the judge that of
{found["judge_right_sense"]} %.
"""
    return [
        "## How well attention explains",
        *paragraph(text),
        "",
        *_estimates("what ranks the words", found["rankings"], AGREEMENT),
        "",
        "How much of the margin is lost without the words ranked first, where more is better, and",
        "with them alone, where less is better:",
        "",
        *_estimates("what ranks the words", found["rankings"], ERASURE),
        "",
        *_dependence(found),
    ]


def _dependence(found: Mapping[str, Any]) -> list[str]:
    """Whether it matters who looks: swaps, and what Wq = 0 costs."""
    shown = [name for name in QUALITY if name in found["quality"]]
    cost = {name: [_told(one[measure]) for measure in shown] for name, one in found["cost"].items()}
    rows = [
        [name, _told(found["swaps"][name]) if name in found["swaps"] else "", *of_quality]
        for name, of_quality in cost.items()
    ]
    rows += [
        [name, _told(one), *[""] * len(shown)]
        for name, one in found["swaps"].items()
        if name not in cost
    ]
    whole = ", ".join(f"{QUALITY[name]} {_told(found['quality'][name])}" for name in shown)
    head = ("head", "distance of rows", *(f"{QUALITY[name]} lost" for name in shown))
    return [
        "Whether it matters who looks: the distance between a word's row and that of another word",
        "of like frequency in its place (nought where only places count), and what is lost where",
        f"the queries are put to nought. With them: {whole}.",
        "",
        *table(head, rows),
    ]


def _estimates(head: str, found: Mapping[str, Estimates], titles: Mapping[str, str]) -> list[str]:
    shown = [name for name in titles if all(name in one for one in found.values())]
    rows = [[name, *(_told(one[key]) for key in shown)] for name, one in found.items()]
    return table([head, *(titles[key] for key in shown)], rows)


def _told(one: Mapping[str, float]) -> str:
    return f"{one['value']} ± {one['error']}"
