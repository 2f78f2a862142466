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


PUBLISHED = {one["title"]: one for one in result("coarsewsd")["published"]}
BERT = PUBLISHED["BERT-base, nearest sense centroid"]
SYSTEMS = {
    "static vector": [*coarsewsd("static"), wic("static")],
    "plain mean of the context": [*coarsewsd("mean"), wic("mean")],
    "random projections": [*coarsewsd("random"), wic("random")],
    "closed form": [*coarsewsd("closed-form"), wic("closed-form")],
    "contextual vector (wiki-en)": [*coarsewsd("model"), wic("model")],
    "contextual vector (wiki-en-deep)": [
        *coarsewsd("model", "deep-coarsewsd"),
        wic("model", "deep-wic"),
    ],
    "all-MiniLM-L6-v2, last layer": coarsewsd("minilm", "coarsewsd-minilm"),
    "BERT-base (Loureiro et al. 2021, published)": [BERT["accuracy"], BERT["macro_f1"]],
}
REQUESTS = ("requests_per_second", "words", "20", "base64", "service", "requests_per_second")


QUOTES = [
    (
        "README.md",
        "right for {:.1f} %, that of BERT-base for {:.1f} %, and the mean of contexts for {:.1f} %",
        [coarsewsd("model")[0], BERT["accuracy"], coarsewsd("mean")[0]],
    ),
    *(
        ("docs/quality.md", f"| {title} |{' {:.1f} |' * len(figures)}", figures)
        for title, figures in SYSTEMS.items()
    ),
    ("docs/speed.md", "two workers | {:,.0f} | [requests]", [figure(*REQUESTS)]),
    (
        "README.md",
        "{:.0f} times as fast as all-MiniLM-L6-v2 with 8-bit weights in ONNX Runtime",
        [figure("lists", "ratios", "MiniLM int8, to wiki-en, one by one")],
    ),
    (
        "docs/speed.md",
        "{:,} responses had no error, and memory grew by {:.2f} %",
        [figure("reliability", "soak", key) for key in ("answered", "growth_percent")],
    ),
]


@pytest.mark.parametrize(("page", "text", "figures"), QUOTES, ids=[quote[1] for quote in QUOTES])
def test_quoted_figures_are_measured(page, text, figures):
    words = " ".join((ROOT / page).read_text("utf-8").split())
    assert text.format(*figures) in words


def test_results_are_of_the_bundled_models():
    manifest = json.loads((ROOT / "models/wiki-en/manifest.json").read_text("utf-8"))
    quality = manifest["quality"]
    assert quality["coarsewsd"]["macro_f1"] == coarsewsd("model")[1]
    assert quality["wic"]["dev_accuracy"] == wic("model")
