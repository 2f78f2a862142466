"""Figures in hand-written text agree with the measurements, the model and the code."""

import json
import math
import re

import numpy as np
import pytest

import polyseme
from polyseme.bulk.run import _MAX_DEATHS
from polyseme.bulk.sources import _SHARD_BYTES
from polyseme.bulk.tables import _GROUP_NUMBERS
from polyseme.cli.bulk import _SHARD_ROWS
from polyseme.importing.closed_form import nearness
from tests.conftest import ROOT
from tests.engine.test_worked_examples import EXAMPLES, floats, trace_of

APPLES = "Apple launched a new phone while I was eating an apple."


def page(name):
    """The text of a page, with line breaks as spaces."""
    return " ".join((ROOT / name).read_text("utf-8").split())


def measured(name):
    return json.loads((ROOT / name).read_text("utf-8"))


README, API = page("README.md"), page("docs/api.md")


def test_readmes_attention_weights_are_the_models():
    (sentence,) = polyseme.load().encode([APPLES])
    weights = sentence.attention[-1].mean(axis=0)
    (stated,) = re.findall(r"\*Apple\* attends to (.*?), and \*apple\* to (.*?\))\.", README)
    for place, one in zip((0, 10), stated, strict=True):
        pairs = re.findall(r"\*(\w+)\* \((0\.\d\d)\)", one)
        best = np.argsort(-weights[place])[: len(pairs)]
        found = [(sentence.words[key], f"{weights[place, key]:.2f}") for key in best]
        assert found == pairs != []


def test_readmes_description_of_the_model_is_that_of_its_manifest():
    model = measured("models/wiki-en/manifest.json")
    size = f"{model['dimension']}-dimensional {model['dtype']} vectors for"
    assert f"{size} {model['vocabulary_size']:,} cased words" in README
    assert model["heads"] == 4 and "four attention heads" in README
    assert model["cased"]


def test_readmes_figures_of_speed_are_those_measured():
    requests = measured("benchmarks/results/requests_per_second.json")["words"]["20"]["base64"]
    service, bare = (requests[one]["requests_per_second"] for one in ("service", "bare"))
    assert f"{round(service, -2):.0f} requests per second with sentences of 20 words" in README
    assert round(bare / service) == 3 and "answers three times as many" in README
    sentences = measured("benchmarks/results/engine.json")["sentences"]
    one, many = (
        round(sentences[count]["ratios"]["text with attention, to MiniLM"])
        for count in ("1", "1000")
    )
    assert f"processes {one} times as many words per second as all-MiniLM-L6-v2" in README
    assert f"and {many} times as many in batches" in README
    ready = measured("benchmarks/results/start.json")["median_ready_seconds"]["wiki-en"]
    assert f"ready after {ready:.1f} seconds" in README
    worker = measured("benchmarks/results/worker_memory.json")["each_further_worker_mb"]["later"]
    assert f"each additional worker takes {worker['pss_mb']:.0f} MB" in README


def test_the_scores_of_features_and_of_senses_are_those_measured():
    tagging = measured("lab/results/tagging-pos.json")["systems"]
    contextual, features = (tagging[name]["score"]["value"] for name in ("contextual", "features"))
    stated = f"{contextual:.0f} % of the tokens with `contextual`, and for {features:.0f} % with"
    assert stated in API
    pseudo = measured("lab/results/senses.json")["sets"]["pseudowords"]["systems"]["model"]
    one, two = (f"{pseudo[name]['value']:.0f} %" for name in ("one_right", "two_right"))
    stated = f"correct for {one} of words and for {two} of pseudo-words"
    assert stated in page("docs/senses.md")


def test_the_dimensions_that_are_enough_are_those_measured():
    found = measured("lab/results/sentence-vectors.json")["systems"]["static, sif"]
    halves = {int(size): one["halves"] for size, one in found.items()}
    text = page("docs/openai.md")
    assert "192 of 300 dimensions are as good as all, and 128 nearly as good; below 64" in text
    assert halves[192]["value"] > halves[300]["low"]
    assert 0.9 < halves[128]["value"] / halves[300]["value"] < 1
    assert max(halves[32]["value"], halves[16]["value"]) < 0.6 * halves[300]["value"]


def test_the_defaults_of_bulk_are_those_of_the_code():
    text = page("docs/bulk.md")
    rows = {name: f"{count:,}" for name, count in _SHARD_ROWS.items()}
    assert f"A shard has {rows['tokens']} rows of the input, or {rows['few vectors']}" in text
    assert f"of {rows['npz']} rows each" in text
    assert f"exceed {_SHARD_BYTES >> 20} MB" in text
    assert f"about {4 * _GROUP_NUMBERS >> 20} MB of vectors" in text
    assert _MAX_DEATHS == 3 and "died three times" in text


def test_the_weights_of_distances_are_those_of_the_closed_form():
    near, sixth, far = (math.exp(nearness()[0, 16 + distance]) for distance in (1, 6, 16))
    text = page("docs/closed-form.md")
    assert round(near / far) == 3 and "adjacent word is three times that of a distant" in text
    assert f"the weight of the sixth word {sixth / far:.1f} times" in text


def test_the_screenshots_show_the_bundled_model():
    files = measured("models/wiki-en/manifest.json")["files"]
    shown = measured("docs/page/model.json")["files"]
    assert shown == {name: entry["sha256"] for name, entry in files.items()}, (
        "run `python docs/screenshots.py`"
    )


# Worked examples

NUMBER = r"(?:e\^|√)?\d+(?:\.\d+)?"
SIDE = rf"{NUMBER}(?:\s*[·+/]\s*{NUMBER})*"
WORKED = (ROOT / "docs/worked-examples.md").read_text("utf-8")
SECTIONS = re.split(r"^## ", WORKED, flags=re.MULTILINE)


def value(side):
    """The value of an expression such as `0.6·0.5 + e^0.14`."""
    total = 0.0
    for term in side.split("+"):
        product = 1.0
        for sign, factor in re.findall(rf"([·/]?)\s*({NUMBER})", term):
            number = float(factor.lstrip("e^√"))
            number = math.exp(number) if factor.startswith("e") else number
            number = math.sqrt(number) if factor.startswith("√") else number
            product = product / number if sign == "/" else product * number
        total += product
    return total


def test_the_arithmetic_by_hand_is_right():
    equations = re.findall(rf"{SIDE}(?:\s*=\s*{SIDE})+", WORKED)
    assert len(equations) > 12
    for equation in equations:
        first, *others = map(str.strip, equation.split("="))
        for side in others:
            digits = len(re.search(r"(?:\.(\d+))?$", side)[1] or "")
            assert abs(value(side) - value(first)) <= 0.51 * 10**-digits, equation


def numbers_of(example):
    """Every number of an example, rounded to each number of digits that the page uses."""
    request = example["request"]
    arrays = [*trace_of(request).values(), *map(floats, example.get("printed", {}).values())]
    arrays += [floats(one) for one in request.get("weights", {}).values()]
    arrays += [floats(request[name]) for name in ("queries", "keys", "values") if name in request]
    if example["name"].endswith("3x3"):  # the other convention, W·x
        arrays.append(floats(request["weights"]["query"]) @ floats(request["embeddings"]).T)
    flat = np.concatenate([np.asarray(one, float).reshape(-1) for one in arrays])
    return {f"{one:.{digits}f}" for one in flat for digits in (1, 2, 4, 5)}


@pytest.mark.parametrize("section", SECTIONS[1:], ids=lambda text: text.splitlines()[0])
def test_the_numbers_of_a_worked_example_are_in_its_arrays(section):
    number = re.match(r"([1-6])\. ", section)
    examples = [EXAMPLES[int(number[1]) - 1]] if number else EXAMPLES
    by_hand = " ".join(re.findall(rf"{SIDE}(?:\s*=\s*{SIDE})+", section))
    allowed = set().union(*map(numbers_of, examples))
    found = set(re.findall(r"\d+\.\d+", section)) - set(re.findall(r"\d+\.\d+", by_hand))
    assert found <= allowed, sorted(found - allowed)
