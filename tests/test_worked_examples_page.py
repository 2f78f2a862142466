"""docs/worked-examples.md: its arithmetic is right, and its numbers are those of the examples."""

import math
import re

from tests.conftest import ROOT

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
