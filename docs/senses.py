"""The sections on evaluation sets and on what each part of the model is worth."""

from collections.abc import Iterator
from typing import Any

from docs.results import interval, paragraph, result, result_if_any, table


def _systems(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The measured systems of a set; a transformer that was measured by itself comes last."""
    yield from result(name)["systems"].items()
    beside = result_if_any(f"{name}-minilm")
    if beside:
        yield from beside["systems"].items()


def coarsewsd() -> list[str]:
    """CoarseWSD-20, the model beside its controls and what others published."""
    found = result("coarsewsd")
    rows = [
        (one["title"], interval(one["accuracy"]), interval(one["macro_f1"]))
        for _, one in _systems("coarsewsd")
    ]
    rows += [
        (f"*{one['title']} ({one['source']}, published)*", one["accuracy"], one["macro_f1"])
        for one in [*found["published"], *result("published")["coarsewsd_controls"]]
    ]
    lacking = f" The vocabulary lacks {', '.join(found['lacking'])}." if found["lacking"] else ""
    text = f"""\
Which of a few coarse senses a word has, in {found["sentences"]:,} test sentences of
{len(found["words"])} words, lower-cased as the set is: nearest sense centroid, means over the
words, in brackets {found["interval"]["percent"]} % intervals.{lacking} Published figures are of the
same words and sentences where their row does not say otherwise; they were not measured here.
"""
    return [
        "## CoarseWSD-20",
        *paragraph(text),
        "",
        *table(("vector of an occurrence", "accuracy", "macro-F1"), rows),
        "",
        "![the same as bars](images/coarsewsd.svg)",
        "",
        "Word by word, accuracy / macro-F1:",
        "",
        *_by_word(found),
    ]


def _by_word(found: dict[str, Any]) -> list[str]:
    titles = {"most-frequent": "most frequent sense", "mean": "plain mean", "model": "the model"}
    shown = {name: title for name, title in titles.items() if name in found["systems"]}
    of_system = [found["systems"][name]["words"] for name in shown]
    rows = [
        [word, *(f"{one[word]['accuracy']} / {one[word]['macro_f1']}" for one in of_system)]
        for word in found["words"]
    ]
    return table(["word", *shown.values()], rows)


def wic() -> list[str]:
    """WiC and the similarity of words without context."""
    found = result("wic")
    rows = [
        (one["title"], one["train_accuracy"], interval(one["accuracy"]))
        for _, one in _systems("wic")
    ]
    rows += [
        (f"*{one['title']} ({one['source']}, published, of test)*", "", one["accuracy"])
        for one in result("published")["wic_test"]
    ]
    text = f"""\
Whether a word means the same in two sentences: the cosine against the threshold that is best on
train, on {found["pairs"]} pairs of {found["split"]}. Published figures are of test, whose answers
are not public, and so of other pairs.
"""
    head = ("vector of an occurrence", "train", f"{found['split']} accuracy")
    bars = ["", "![the same as bars](images/wic.svg)", ""]
    return ["## WiC", *paragraph(text), "", *table(head, rows), *bars, *similarity()]


def similarity() -> list[str]:
    """Static similarity."""
    found = result("similarity")
    sets = list(found["pairs"])
    rows = [
        [one["title"], *(interval(one[name]) for name in sets)] for one in found["systems"].values()
    ]
    counts = ", ".join(f"{found['pairs'][name]} pairs of {name}" for name in sets)
    text = f"""\
Whether the cosines of static vectors order pairs of words as people do: Spearman's correlation, in
hundredths, on {counts}; {sum(found["lacking"].values())} more have a word that is not in the
vocabulary. Context does not enter here, and nothing was tuned on it.
"""
    return [
        "## Words without context",
        *paragraph(text),
        "",
        *table(("", *sets), rows),
    ]


def ablation(found: dict[str, Any]) -> list[str]:
    """What becomes of the model without each part."""
    sample, base, *others = found["sample"], *found["variants"].items()
    apart = "that the model was not trained on" if sample["held_out"] else "of the text"
    text = f"""\
On SemCor and MASC, text with dictionary senses, without the words of CoarseWSD-20
(`models/ablation.py`): macro-F1 of the nearest sense centroid in folds, the mean over
{sample["nouns"]} nouns, and the area under the curve of the cosine over pairs of occurrences of one
lemma, same sense or another. {sample["lemmas"]} lemmas {apart}, drawn at random, with
{sample["occurrences"]:,} occurrences in {sample["sentences"]:,} sentences; ± is a standard error
over lemmas. Differences are taken on the same occurrences, so that they are surer than the figures;
one that is smaller than twice its error means nothing.
"""
    rows = [_base_row(*base), *(_variant_row(*one) for one in others)]
    head = ("layer", "nouns, F1", "to the model", "pairs, AUC", "to the model")
    return ["## What each part is worth", *paragraph(text), "", *table(head, rows)]


def _base_row(name: str, found: dict[str, dict[str, float]]) -> list[str]:
    cells: list[str] = []
    for one in found.values():
        cells += [f"{one['value']} ± {one['error']}", ""]
    return [f"**{name}**", *cells]


def _variant_row(name: str, found: dict[str, dict[str, float]]) -> list[str]:
    cells: list[str] = []
    for one in found.values():
        cells += [str(one["value"]), f"{one['difference']:+} ± {one['difference_error']}"]
    return [name, *cells]
