"""Figures that pages quote are those of the files of results."""

import json
from functools import cache

import pytest

from tests.conftest import ROOT


@cache
def result(name):
    """The content of a JSON file of results."""
    (file,) = ROOT.glob(f"*/results/{name}.json")
    return json.loads(file.read_text("utf-8"))


def figure(name, *keys):
    """The number at a path of keys in a file of results."""
    found = result(name)
    for key in keys:
        found = found[key]
    return found["value"] if isinstance(found, dict) else found


def coarsewsd(system, file="coarsewsd"):
    return [figure(file, "systems", system, score) for score in ("accuracy", "macro_f1")]


def wic(system, file="wic"):
    return figure(file, "systems", system, "accuracy")


def both(name, *keys):
    """The figures of wiki-en and wiki-en-deep."""
    return [figure(name, *keys), figure(f"deep-{name}", *keys)]


PSEUDOWORDS, TAGS = ("pseudowords", "systems"), ("tagging-pos", "systems")
FOUND = ("senses", "sets", "coarsewsd", "systems", "model", "ari_given")
SEVERAL = ("senses", "sets", "pseudowords", "systems", "model", "auc")
CORRELATION = {
    name: figure("sentences", "systems", name, "spearman")
    for name in ("static-mean", "whitened", "mean")
}
REQUESTS = ("requests_per_second", "words", "20", "base64")
PUBLISHED = {
    one["title"]: one for one in result("coarsewsd")["published"] if one["title"][:4] == "BERT"
}
BERT = PUBLISHED["BERT-base, nearest sense centroid"]

CHINESE, JAPANESE = ("words of other texts", "jieba"), ("", ", jieba", ", janome")

QUOTES = [
    (
        "README.md",
        "right for {:.1f} %, that of BERT-base for {:.1f} %, and the mean of contexts for {:.1f} %",
        [coarsewsd("model")[0], BERT["accuracy"], coarsewsd("mean")[0]],
    ),
    *(
        ("docs/quality.md", f"| {title} | {{:.1f}} | {{:.1f}} | {{:.1f}} |", figures)
        for title, figures in {
            "static vector": [*coarsewsd("static"), wic("static")],
            "plain mean of the context": [*coarsewsd("mean"), wic("mean")],
            "random projections": [*coarsewsd("random"), wic("random")],
            "closed form": [*coarsewsd("closed-form"), wic("closed-form")],
            "contextual vector (wiki-en)": [*coarsewsd("model"), wic("model")],
            "contextual vector (wiki-en-deep)": [
                *coarsewsd("model", "deep-coarsewsd"),
                wic("model", "deep-wic"),
            ],
        }.items()
    ),
    (
        "docs/quality.md",
        "| all-MiniLM-L6-v2, last layer | {:.1f} | {:.1f} |",
        coarsewsd("minilm", "coarsewsd-minilm"),
    ),
    (
        "docs/quality.md",
        "| BERT-base (Loureiro et al. 2021, published) | {:.1f} | {:.1f} |",
        [BERT["accuracy"], BERT["macro_f1"]],
    ),
    (
        "docs/quality.md",
        "macro-F1 | {:.1f} | {:.1f} | {:.1f} |",
        [figure(*PSEUDOWORDS, "mean", "balanced"), *both(*PSEUDOWORDS, "model", "balanced")],
    ),
    (
        "docs/quality.md",
        "linear, accuracy | {:.1f} | {:.1f} | {:.1f} |",
        [figure(*TAGS, "static", "score"), *both(*TAGS, "features", "score")],
    ),
    (
        "docs/quality.md",
        "a linear tagger has {:.1f} with it",
        [figure(*TAGS, "contextual", "score")],
    ),
    (
        "docs/quality.md",
        "{:.1f} with equal weights and {:.1f} whitened; a mean of contextual vectors has {:.1f}",
        CORRELATION.values(),
    ),
    *(
        ("docs/languages.md", f"{title} | {{:.2f}}", [figure("languages", "not found", name)])
        for title, name in {
            "`ß` in capitals: `STRASSE`": "German ß in capitals",
            "if the language is known": "Turkish in capitals",
            "`е` for `ё`, `ё` for `е`": "Russian, е for ё",
            "with vowel marks; with tatweel": "Arabic with vowel marks",
        }.items()
    ),
    (
        "docs/languages.md",
        "of other texts | {:.3f} | {:.3f} |",
        [figure("languages", "segmentation", f"Chinese news, {name}") for name in CHINESE],
    ),
    (
        "docs/languages.md",
        "of `ja_ginza` | {:.3f} | {:.3f} | {:.3f} |",
        [figure("languages", "segmentation", f"Japanese{name}") for name in JAPANESE],
    ),
    ("docs/quality.md", "adjusted Rand index | | {:.1f} | {:.1f} |", both(*FOUND)),
    ("docs/quality.md", "area under the curve | | {:.1f} | {:.1f} |", both(*SEVERAL)),
    (
        "docs/speed.md",
        "two workers | {:,.0f} | [requests]",
        [figure(*REQUESTS, "service", "requests_per_second")],
    ),
    ("docs/speed.md", "prepared response | {:.2f} |", [figure(*REQUESTS, "ratio")]),
    (
        "README.md",
        "{:.0f} times as fast as all-MiniLM-L6-v2 with 8-bit weights in ONNX Runtime",
        [figure("lists", "ratios", "MiniLM int8, to wiki-en, one by one")],
    ),
    *(
        ("docs/speed.md", f"| {title} {cells}", [figure("lists", "microseconds", c) for c in names])
        for title, cells, names in [
            (
                "`wiki-en`",
                "| {:,.0f} | {:,.0f} | " + f"{coarsewsd('model')[0]:.1f}",
                ["one by one", "lists of 64"],
            ),
            (
                "`wiki-en-deep`",
                "| {:,.0f} | {:,.0f} | " + f"{coarsewsd('model', 'deep-coarsewsd')[0]:.1f}",
                ["deep, one by one", "deep, lists of 64"],
            ),
            (
                "`wiki-en-deep`, [exported](cli.md), ONNX Runtime, 8-bit weights",
                "| {:,.0f} |",
                ["deep in ONNX Runtime, int8"],
            ),
            (
                "all-MiniLM-L6-v2, ONNX Runtime, 8-bit weights",
                "| {:,.0f} | {:,.0f} |",
                ["MiniLM int8, one by one", "MiniLM int8, batches of 32"],
            ),
            (
                "the same, 32-bit weights",
                "| {:,.0f} | {:,.0f} |",
                ["MiniLM float32, one by one", "MiniLM float32, batches of 32"],
            ),
            (
                "attention in forty lines of NumPy, the same vectors",
                "| {:,.0f} |",
                ["plain attention"],
            ),
            ("sentence vectors of `wiki-en`", "| | {:,.0f} |", ["sentence vectors"]),
            ("`StaticModel` of model2vec, the same vectors", "| | {:,.0f} |", ["model2vec"]),
            ("mean in NumPy of gensim's, the same vectors", "| | {:,.0f} |", ["NumPy mean"]),
        ]
    ),
    (
        "docs/speed.md",
        "of the engine's time | {:.2f} |",
        [figure("lists", "ratios", "products alone, to engine")],
    ),
    (
        "docs/speed.md",
        "power {} of its length and its memory with {}, or with {} and {} without",
        [
            figure("growth", "exponents", name, key)
            for name in ("with attention", "without")
            for key in ("ms", "peak_mb")
        ],
    ),
    (
        "docs/speed.md",
        "{:.0f} ms after the start",
        [figure("growth", "words of a vocabulary", "3000000", "first_sentence_ms")],
    ),
    (
        "docs/speed.md",
        "takes {:.0f} s, gensim's load {:.0f} s",
        [
            figure("growth", "words of a vocabulary", "3000000", key)
            for key in ("import_s", "gensim_s")
        ],
    ),
    *(
        (
            "docs/speed.md",
            f"{case}{rest} | {{:,}} |",
            [figure("bulk", "cases", case, "bulk_sentences_a_second")],
        )
        for case, rest in {
            "sentence vectors": ", two workers",
            "contextual vectors": " of every token",
        }.items()
    ),
    (
        "docs/speed.md",
        "{:,} responses had no error, and memory grew by {:.2f} %",
        [figure("reliability", "soak", key) for key in ("answered", "growth_percent")],
    ),
    ("docs/speed.md", "Of {:,} hostile requests", [figure("reliability", "hostile", "sent")]),
    (
        "docs/speed.md",
        "took at most {:.2f} s meanwhile",
        [figure("attack", "worst", "longest_other_seconds")],
    ),
]


@pytest.mark.parametrize(("page", "text", "figures"), QUOTES, ids=[quote[1] for quote in QUOTES])
def test_quoted_figures_are_measured(page, text, figures):
    words = " ".join((ROOT / page).read_text("utf-8").split())
    assert text.format(*figures) in words


def test_all_requests_of_the_load_were_answered():
    assert figure("reliability", "soak", "lost") == 0


def test_results_are_of_the_bundled_models():
    manifest = json.loads((ROOT / "models/wiki-en/manifest.json").read_text("utf-8"))
    quality = manifest["quality"]
    assert quality["coarsewsd"]["macro_f1"] == coarsewsd("model")[1]
    assert quality["wic"]["dev_accuracy"] == wic("model")
