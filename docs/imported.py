"""The sections on imported files, from `benchmarks/results/`."""

from typing import Any

from docs.results import benchmark, table

HEAD = ("vector of an occurrence", "accuracy", "macro-F1", "WiC train", "WiC dev")


def imported() -> list[str]:
    """What genuine files give once they are imported."""
    lines = [
        "## Imported vectors",
        "Thousands of rows of genuine files, imported as `polyseme models import` does it, with",
        "the closed form that every import gets. Measured as above, on those of the words and",
        "those pairs of WiC that the vocabulary has (`benchmarks/imported.py`). No constant was",
        "chosen by these figures. With so few words and pairs, a point of accuracy or two of WiC",
        "mean nothing.",
    ]
    for name, file in benchmark("imported")["files"].items():
        pairs, coarse = file["wic_pairs"], file["coarsewsd_words"]
        lines += [
            "",
            f"**{name}**: {file['words']} words, {file['dimension']} wide.",
            f"{len(coarse)} of the words: {', '.join(coarse)}.",
            f"WiC: {pairs['train']} pairs of train, {pairs['dev']} of dev.",
            "",
            *table(HEAD, (_row(*one) for one in file["systems"].items())),
        ]
    return lines


def _row(name: str, figures: dict[str, dict[str, float]]) -> list[Any]:
    coarse, wic = figures["coarsewsd"], figures["wic"]
    title = "closed form" if name == "contextual vector" else name
    return [
        *(title, coarse["accuracy"], coarse["macro_f1"]),
        *(wic["train_accuracy"], wic["dev_accuracy"]),
    ]


def constants() -> list[str]:
    """How association by the vectors themselves got its form and its size."""
    files = benchmark("imported-constants")["files"]
    lines = [
        "## Association by the vectors themselves",
        "A file of vectors has no output vectors to say what attracts what, so their own products",
        "do, with the direction of their mean taken out",
        "([why](decisions/0003-closed-form.md)), at one scale: `spread` is the standard deviation",
        "of association over pairs of words. Form and spread were chosen by these figures on",
        "SemCor and MASC, as above but on every occurrence of the words that each vocabulary has;",
        "at spread 0.2 no file is more than a quarter of a point below its best F1. The other",
        "forms have that spread too, but for `products, no scale`, which is 0.2·x_i·x_j. wiki-en:",
        "the vectors of its first edition, treated like a file",
        "(`benchmarks/imported_constants.py`). Nouns, F1 / pairs, AUC:",
        "",
    ]
    rows = []
    for variant in next(iter(files.values()))["variants"]:
        found = [file["variants"][variant] for file in files.values()]
        rows.append([variant, *(f"{f['nouns_macro_f1']} / {f['pairs_auc']}" for f in found)])
    return [*lines, *table(["association", *files], rows)]
