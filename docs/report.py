"""The page on quality: every figure in it comes from a file that a script measured."""

from collections.abc import Sequence
from typing import Any

from docs.explained import attention_explained
from docs.imported import constants, imported
from docs.results import manifest, result, result_if_any, table, trainings
from docs.senses import ablation, coarsewsd, wic
from docs.sentence_vectors import sentence_vectors
from docs.trainings import histories, not_helpful, training_runs
from models import pictures

WORDS = 4
"""Neighbours of a word that are shown."""

HEAD = """\
# How well contextual vectors separate senses

Made by `make docs` from what `make results` measured of the bundled model and the scripts in
`benchmarks/` of others; every figure is in one of `models/results/` and `benchmarks/results/`. All
figures in %. Nothing was trained on CoarseWSD-20, on WiC or on judgements of similarity, and the
words of CoarseWSD-20 were never targets of training. What is measured is explained in
[evaluation.md](evaluation.md), how models are trained in [training.md](training.md)."""

LIMITS = """\
## Limits
- CoarseWSD-20 and WiC are small. Intervals say how far chance reaches in the sentences; they say
  nothing of other words, other kinds of text or other languages. Only a part of CoarseWSD-20's
  words were measured, those at hand, and WiC's dev, since the answers of its test are not public.
- The constants of the closed form go back to a prototype with other vectors, which was measured on
  CoarseWSD-20 and WiC, too ([why](decisions/0003-closed-form.md)); what is trained starts from it.
- The nearest centroid is told the senses by labelled sentences. Without them the vectors only say
  that two occurrences differ.
- A transformer, trained on far more text, is better: the rows of BERT say by how much.
- The dictionary senses of SemCor and MASC are finer than a reader's: figures on them are low for
  every system, and their differences matter more than their height.
- Attention says what a vector was put together from, not why a person would choose a sense. It
  does not resolve pronouns: the pictures of the animal and the street show what “it” looks at.
- Imported files get the closed form, which is not trained; their rows are below."""


def quality() -> str:
    """The page."""
    records = trainings()
    sections: Sequence[list[str]] = (
        *(HEAD.splitlines(), coarsewsd(), wic(), ablation(result("ablation"))),
        *(attention_explained(result_if_any("explanation")), looked_at(), context_words()),
        sentence_vectors(),
        training_runs(records, pictured=bool(histories(manifest(), records))),
        *(not_helpful(result_if_any("not-helpful")), imported(), constants()),
        LIMITS.splitlines(),
    )
    return "\n\n".join("\n".join(one) for one in sections if one) + "\n"


def looked_at() -> list[str]:
    """The pictures of attention."""
    lines = [
        "## What a word looks at",
        "A row is the word that looks, a column what it looks at, a square a head; the fullest",
        "cell of a picture is its largest weight. Sentences that a model does badly at stay in.",
    ]
    for slug, one in result("examples")["sentences"].items():
        lines += ["", f"![attention in “{one['text']}”](images/attention-{slug}.svg)"]
    return lines


def context_words() -> list[str]:
    """Neighbours before and after context."""
    rows = [
        (f"{one['text']}", f"**{one['word']}**", *(_words(one[kind]) for kind in _KINDS))
        for one in result("examples")["words"]
    ]
    head = ("sentence", "word", "looks at", "nearest before context", "nearest after it")
    return [
        "## Neighbours before and after context",
        "The words whose static vectors are nearest to a word's static vector, without the word",
        "itself, and to its contextual one, without the sentence's own words.",
        "",
        *table(head, rows),
    ]


_KINDS = ("looks_at", "static", "contextual")


def _words(pairs: Sequence[tuple[str, float]]) -> str:
    return ", ".join(word for word, _ in pairs[:WORDS])


def images() -> dict[str, Any]:
    """The bytes of every picture, by its file's name."""
    coarse, pairs = result("coarsewsd"), result("wic")
    columns = {"accuracy": "accuracy", "macro_f1": "macro-F1"}
    drawn = {
        "coarsewsd.svg": pictures.bars(
            coarse, "CoarseWSD-20: nearest sense centroid, %", columns, "coarsewsd"
        ),
        "wic.svg": pictures.bars(
            pairs, "WiC", {"accuracy": f"{pairs['split']} accuracy"}, "wic", 50.0
        ),
    }
    for slug, one in result("examples")["sentences"].items():
        svg = pictures.heatmap(one["text"], one["tokens"], one["weights"])
        drawn[f"attention-{slug}.svg"] = svg.encode()
    if found := histories(manifest(), trainings()):
        drawn["learning-curves.svg"] = pictures.curves(found)
    return drawn
