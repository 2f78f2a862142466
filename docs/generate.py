"""Write the pages and snapshots that are made from the code: settings, errors, OpenAPI.

make docs           (a test compares what is committed with what this writes)
"""

from pathlib import Path
from typing import Any

import orjson

from service import errors
from service.http.openapi import document
from service.settings import PREFIX, Settings

HERE = Path(__file__).parent
MODELS, RESULTS = HERE.parent / "models", HERE.parent / "benchmarks" / "results"


def settings() -> str:
    """The table of settings."""
    lines = [
        "# Settings",
        "",
        "Each is an environment variable and a flag of `polyseme serve`; the flag wins. Keys have",
        "no flag, because every user of a machine can read a command line. Made from",
        "`service/settings.py` by `make docs`.",
        "",
        "| variable | flag | default | bounds | what it sets |",
        "|---|---|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        flag = "" if name == "api_keys" else f"`--{name.replace('_', '-')}`"
        empty = field.default_factory is not None or field.default in {None, "", ()}
        default = "" if empty else f"`{field.default}`"
        bounds = ", ".join(
            f"{sign} {getattr(rule, kind)}"
            for rule in field.metadata
            for kind, sign in (("ge", "≥"), ("le", "≤"))
            if hasattr(rule, kind)
        )
        variable = f"`{PREFIX}{name.upper()}`"
        lines.append(f"| {variable} | {flag} | {default} | {bounds} | {field.description} |")
    return "\n".join(lines) + "\n"


def error_tree() -> list[type[errors.PolysemeError]]:
    """Every error that has a code of its own, by status."""
    found, waiting = [], [errors.PolysemeError]
    while waiting:
        one = waiting.pop()
        waiting += one.__subclasses__()
        found.append(one)
    return sorted(found, key=lambda one: (one.status, one.code))


def error_page() -> str:
    """The table of errors."""
    lines = [
        "# Errors",
        "",
        "Every error is `application/problem+json` (RFC 9457) with `type`, `title`, `status`,",
        "`detail`, `code`, `hint` and `request_id`; a 422 also has `errors`, each with a JSON",
        "`pointer` and a `message`; a 413 also has `limit`, `size` and `setting`. Nothing of what",
        'the caller sent is repeated, except the words that `oov: "error"` lists as `words`. Made',
        "from `service/errors.py` by `make docs`.",
        "",
        "| status | code | title | what to do |",
        "|---|---|---|---|",
    ]
    lines += [f"| {e.status} | `{e.code}` | {e.title} | {e.hint} |" for e in error_tree()]
    return "\n".join(lines) + "\n"


def openapi() -> str:
    """The OpenAPI document."""
    style = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(document(), option=style).decode()


def quality() -> str:
    """The figures that the scripts in `models/` and `benchmarks/` measured."""
    senses = orjson.loads((MODELS / "senses-wiki-en.json").read_bytes())["systems"]
    ablation = orjson.loads((MODELS / "ablation-wiki-en.json").read_bytes())
    lines = [
        "# How well contextual vectors separate senses",
        "",
        "Made by `make docs` from what the scripts in `models/` and `benchmarks/` measured. All",
        "figures in %.",
        "",
        "## Evaluation sets",
        "The bundled model on CoarseWSD-20 (ten of its words, lower-cased as it is): nearest",
        "sense centroid, means over the words. WiC: accuracy with the threshold that is best on",
        "train. Its dev split has 638 pairs: a standard error is 2. Nothing was trained on either,",
        "and no constant was changed by these figures (`models/senses.py`).",
        "",
        SENSES_HEAD,
        *(_senses_row(name, figures) for name, figures in senses.items()),
        "| BERT-base, nearest neighbour (Loureiro et al. 2021) | 94.7 | 93.3 | | |",
        "",
        "## What each part is worth",
        "On SemCor and MASC, text with dictionary senses, without the words of CoarseWSD-20:",
        "macro-F1 of the nearest sense centroid over 341 nouns, and the area under the curve of",
        "the cosine over pairs of occurrences of one lemma (same sense or another)",
        "(`models/ablation.py`).",
        "",
        "| layer | nouns, F1 | pairs, AUC | lower case: F1 | AUC |",
        "|---|---|---|---|---|",
    ]
    for name, cases in ablation.items():
        cells = [f"{f['nouns_macro_f1']} | {f['pairs_auc']}" for f in cases.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *imported(), "", *constants()]) + "\n"


SENSES_HEAD = """\
| vector of an occurrence | accuracy | macro-F1 | WiC train | WiC dev |
|---|---|---|---|---|"""


def _senses_row(name: str, figures: dict[str, dict[str, float]]) -> str:
    coarse, wic = figures["coarsewsd"], figures["wic"]
    cells = [coarse["accuracy"], coarse["macro_f1"], wic["train_accuracy"], wic["dev_accuracy"]]
    return f"| {' | '.join(map(str, [name, *cells]))} |"


def imported() -> list[str]:
    """What genuine files give once they are imported."""
    lines = [
        "## Imported vectors",
        "Thousands of rows of genuine files, imported as `polyseme models import` does it, with",
        "the closed form that every import gets. Measured as above, on those of the ten words and",
        "those pairs of WiC that the vocabulary has (`benchmarks/imported.py`). No constant was",
        "chosen by these figures. With so few words and pairs, a point of accuracy or two of WiC",
        "mean nothing.",
    ]
    for name, file in orjson.loads((RESULTS / "imported.json").read_bytes())["files"].items():
        pairs, coarse = file["wic_pairs"], file["coarsewsd_words"]
        lines += [
            "",
            f"**{name}**: {file['words']} words, {file['dimension']} wide.",
            f"{len(coarse)} of the ten words: {', '.join(coarse)}.",
            f"WiC: {pairs['train']} pairs of train, {pairs['dev']} of dev.",
            "",
            SENSES_HEAD,
        ]
        lines += [
            _senses_row("closed form" if system == "contextual vector" else system, figures)
            for system, figures in file["systems"].items()
        ]
    return lines


def constants() -> list[str]:
    """How association by the vectors themselves got its form and its size."""
    files = orjson.loads((RESULTS / "imported-constants.json").read_bytes())["files"]
    lines = [
        "## Association by the vectors themselves",
        "A file of vectors has no output vectors to say what attracts what, so their own products",
        "do, with the direction of their mean taken out",
        "([why](decisions/0003-closed-form.md)), at one scale: `spread` is the standard deviation",
        "of association over pairs of words. Form and spread were chosen by these figures on",
        "SemCor and MASC, as above, on the words that each vocabulary has; at spread 0.2 no file",
        "is more than a quarter of a point below its best F1. The other forms have that spread",
        "too, but for `products, no scale`, which is 0.2·x_i·x_j. wiki-en: the bundled vectors,",
        "treated like a file (`benchmarks/imported_constants.py`). Nouns, F1 / pairs, AUC:",
        "",
        f"| association | {' | '.join(files)} |",
        f"|---|{'---|' * len(files)}",
    ]
    for variant in next(iter(files.values()))["variants"]:
        found = [file["variants"][variant] for file in files.values()]
        cells = [f"{one['nouns_macro_f1']} / {one['pairs_auc']}" for one in found]
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    return lines


def measurements() -> str:
    """What an import, a start and a worker cost."""
    lines = [
        "# What an import, a start and a worker cost",
        "",
        "Made by `make docs` from `benchmarks/results/`, where each file has the machine, the",
        "versions and the date; the script of the same name makes it. What is compared was run in",
        "turn.",
        "",
    ]
    sections = (_import_costs, _start_costs, _worker_costs, _vocabulary_costs)
    return "\n".join(lines + [line for section in sections for line in section()])


def _result(name: str) -> Any:
    return orjson.loads((RESULTS / f"{name}.json").read_bytes())


def _import_costs() -> list[str]:
    found = _result("importing")
    text = f"""\
## An import
A synthetic GloVe file of {found["words"]:,} words of {found["width"]} numbers,
{found["file_mb"]:.0f} MB of text, on {found["machine"]["cores"]} processors; medians. gensim loads
it into memory; the import also checks every row, weighs, writes the model and reads it back. Memory
is that of the largest process.

| | seconds | to gensim | memory, MB |
|---|---|---|---|"""
    lines = text.splitlines()
    for name, seconds in found["median_seconds"].items():
        ratio, memory = found["ratio_to_gensim"][name], found["largest_process_mb"][name]
        lines.append(f"| {name} | {seconds} | {ratio} | {memory} |")
    return [*lines, ""]


def _start_costs() -> list[str]:
    found = _result("start")
    small, large = (found["median_seconds"][name] for name in ("wiki-en", "synthetic"))
    text = f"""\
## A start
From `polyseme serve` to the first answer: {small} s with the bundled model, {large} s with
{found["words"]:,} words of {found["width"]} numbers, every checksum compared and every number
looked at: {found["difference_seconds"]} s more.
"""
    return text.split("\n")


def _worker_costs() -> list[str]:
    found = _result("worker_memory")
    further = found["each_further_worker_mb"]
    text = f"""\
## A worker
Serving {found["words"]:,} words of {found["width"]} numbers: memory of gunicorn's master and its
workers together, under load and {found["requests"]:,} requests later, in MB. The table, mapped and
shared, is in PSS once.

| workers | PSS | private dirty | PSS later | private dirty later |
|---|---|---|---|---|"""
    lines = text.splitlines()
    for workers, at in found["workers"].items():
        cells = [at[when][kind] for when in ("under_load", "later") for kind in _MEMORY]
        lines.append(f"| {' | '.join(map(str, [workers, *cells]))} |")
    cells = [further[when][kind] for when in ("under_load", "later") for kind in _MEMORY]
    return [*lines, f"| each further | {' | '.join(map(str, cells))} |", ""]


_MEMORY = ("pss_mb", "private_dirty_mb")


def _vocabulary_costs() -> list[str]:
    found = _result("vocabulary")
    text = f"""\
## The index of words
{found["words"]:,} words ([why](decisions/0004-vocabulary-index.md)): what a worker has of its own,
how long thirty lookups take, and how long until the first.

| index | private, MB | 30 lookups, µs | ready, s |
|---|---|---|---|"""
    lines = text.splitlines()
    for name, at in found["median"].items():
        cells = (at["private_mb"], at["microseconds_30_words"], at["worker_ready_s"])
        lines.append(f"| {name} | {' | '.join(f'{cell:.3g}' for cell in cells)} |")
    return [*lines, ""]


PAGES = {
    "measurements.md": measurements,
    "settings.md": settings,
    "errors.md": error_page,
    "quality.md": quality,
    "openapi.json": openapi,
}


def main() -> None:
    """Write every page."""
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
