"""docs/worked-examples.md: its arithmetic is right, and its numbers are those of the examples."""

import math
import re

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.engine.test_worked_examples import EXAMPLES, floats, trace_of

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


def flat(printed):
    """Every number in what the notes print."""
    if isinstance(printed, dict):
        return flat(list(printed.values()))
    return [n for one in printed for n in flat(one)] if isinstance(printed, list) else [printed]


def numbers_of(example):
    """Every number of an example, rounded to each number of digits that the page uses."""
    request = example["request"]
    arrays = [*trace_of(request).values(), floats(flat(example.get("printed", {})))]
    arrays.append(floats(re.findall(r"\d*\.\d+", " ".join(example.get("notes", [])))))
    arrays += [floats(one) for one in request.get("weights", {}).values()]
    arrays += [floats(request[name]) for name in ("queries", "keys", "values") if name in request]
    if example["name"].endswith("3x3"):  # the other convention, W·x
        arrays.append(floats(request["weights"]["query"]) @ floats(request["embeddings"]).T)
    every = np.concatenate([np.asarray(one, float).reshape(-1) for one in arrays])
    return {f"{one:.{digits}f}" for one in every for digits in (1, 2, 3, 4, 5)}


@pytest.mark.parametrize("section", SECTIONS[1:], ids=lambda text: text.splitlines()[0])
def test_the_numbers_of_a_worked_example_are_in_its_arrays(section):
    number = re.match(r"([1-6])\. ", section)
    examples = [EXAMPLES[int(number[1]) - 1]] if number else EXAMPLES
    by_hand = " ".join(re.findall(rf"{SIDE}(?:\s*=\s*{SIDE})+", section))
    allowed = set().union(*map(numbers_of, examples))
    found = set(re.findall(r"\d+\.\d+", section)) - set(re.findall(r"\d+\.\d+", by_hand))
    assert found <= allowed, sorted(found - allowed)
