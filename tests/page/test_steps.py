"""The view Step by step: worked examples and stored models, their numbers and derivations."""

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.page.conftest import Visit
from tests.page.driver import (
    CELLS,
    EXAMPLES,
    LONG_WORD,
    PLAIN,
    SMALL,
    TURNED,
    sentence_address,
    steps_address,
)
from tests.pages import value_of

pytestmark = pytest.mark.slow

PRINTED = [
    ("39 printed values, 7 of them wrong", 7, 0, "weights:0:0", ""),
    ("9 printed values, 7 of them wrong", 7, 0, "queries:1:0", ""),
    ("27 printed values, 26 of them wrong", 26, 0, "queries:1:0", "love: 0.5392, 0.8203."),
    ("The notes print no values for this example.", 0, 0, "weights:1:0", ""),
    ("58 printed values, 41 of them wrong", 41, 12, "scores:5:0", "it: 0.4735, 0.4236, 0.3651."),
    ("11 printed values, 4 of them wrong", 4, 5, "scores:0:0", "0.2000; their sum is 1.00."),
]
"""What the page says of the notes of each example, the numbers of wrong values and of values that
cannot be computed from the notes, the row that the notes compute, and a right value beside a wrong
idea."""


def test_each_example_has_its_steps_and_right_values_beside_the_printed(visit: Visit) -> None:
    reader = visit("#steps")
    rows = enumerate(zip(EXAMPLES, PRINTED, strict=True), 1)
    for number, (example, (text, wrong, unknown, cell, idea)) in rows:
        reader.go(steps_address(example=number))
        given = reader.traced(**example["request"])
        weights = [f"{name}_weight" for name in example["request"].get("weights", {})]
        assert [name for name in reader.steps() if name.endswith("_weight")] == weights, number
        assert [name for name in reader.steps() if name not in weights] == list(given), number
        for label, right in example["right"].items():
            name, _, row = label.partition("_row_")
            if name not in given:
                continue
            shown = reader.matrix(name)
            # A number with a printed value may have more than four decimals.
            shown = shown if name == "weighted_values" or not row else shown[int(row)]
            assert np.round(shown, 4).tolist() == right, (number, label)
        assert reader.chosen() == [cell]
        assert text in reader.page.locator(".printed-sum").text_content()
        printed = int(text.split()[0]) if text[0].isdigit() else 0
        assert reader.page.locator(".results .note").count() == printed, number
        assert reader.page.locator(".results .misprinted s").count() == wrong, number
        assert reader.page.locator(".checks td:not([class])").count() == unknown, number
        listed = reader.texts(".ideas > li")
        assert [one.partition("Right: ")[0] for one in listed] == example.get("notes", [])
        assert idea in "".join(one.partition("Right: ")[2] for one in listed)


def test_next_step_walks_through_all_steps(visit: Visit) -> None:
    reader = visit(steps_address(example=3, cell="embeddings:1:0"))
    walked = []
    for _ in range(len(reader.steps()) - 1):
        reader.press("Next step ›")
        walked += reader.chosen()
        assert reader.page.locator("td.chosen").is_visible()
    assert [cell.split(":")[0] for cell in walked] == reader.steps()[1:]
    assert {"scores:1:0", "context:1:0"} <= set(walked)
    assert reader.button("Next step ›").is_disabled()
    reader.press("‹ Previous step")
    assert reader.chosen()[0].startswith("weighted_values")


def test_results_are_hidden_and_an_own_result_is_checked(visit: Visit) -> None:
    reader = visit(steps_address(example=3))
    reader.press("Hide results")
    assert reader.query["hide"] == "1"
    queries = reader.page.locator("[data-step=queries]")
    assert set(queries.locator("td .number").all_text_contents()) == {"?"}
    # The printed values are shown, and not whether they are right.
    assert queries.locator("td .note").all_text_contents() == [
        f" printed in the notes: {one}" for one in ("0.59", "0.78")
    ]
    assert queries.locator("s").count() == 0
    assert "Which of them are wrong?" in reader.texts(".printed-sum")[0]
    assert "?" not in reader.page.locator("[data-step=embeddings] td").first.text_content()
    assert reader.sums() == []
    # The right values are 0.47, 0.68; 0.5, 0.8; 0.58, 0.81.
    own = queries.get_by_label("My result: Queries")
    own.fill("0.47 0.68\n0.59 0.78\n0.58 0.81")
    assert queries.get_by_role("status").text_content() == "Right to 2 decimals: 4 of 6 numbers."
    assert queries.locator("td .own.wrong").count() == 2
    number = reader.page.get_by_label("My result: this number")
    for text, mark in {"0.5": "right", "0.50": "right", "0.51": "wrong", "x": None}.items():
        number.fill(text)
        for kind in ("right", "wrong"):
            count = reader.page.locator(f".derivation .own.{kind}").count()
            assert count == (kind == mark), text
    reader.press("Show results")
    assert "hide" not in reader.query
    assert queries.locator("td .number").first.text_content() == "0.4700"
    # What nobody can compute is shown: a trace of a sentence has no weights.
    reader.go("#steps?source=sentence&hide=1")
    shown = dict.fromkeys(("embeddings", "queries", "position_bias"), False)
    for step, hidden in {**shown, "scores": True, "context": True, "contextual": True}.items():
        assert ("?" in reader.texts(f"[data-step={step}] td .number")[0]) == hidden, step


def test_a_linked_cell_is_in_the_window(visit: Visit) -> None:
    for width in (1280, 390):
        reader = visit(steps_address(example=5, cell="context:5:0"), width=width)
        box = reader.page.locator("td.chosen").bounding_box()
        assert 0 <= box["y"] < 900, width


def test_a_number_has_as_many_decimals_as_its_printed_value(visit: Visit) -> None:
    x = np.array(EXAMPLES[0]["request"]["embeddings"])
    weights = np.exp(x @ x.T)[0]
    context = weights / weights.sum() @ x[:, 0]
    reader = visit("#steps")
    for decimals in (2, 10):
        reader.choose("Decimals", str(decimals))
        cell = reader.page.locator("[data-step=context] td.misprinted").first
        assert cell.locator("s").text_content() == "0.40505"
        assert cell.locator(".number").text_content() == f"{context:.{max(decimals, 5)}f}"
        # A cell without a printed value has the chosen precision.
        plain = reader.page.locator("[data-step=context] td[data-row='1'] .number").first
        assert len(plain.text_content().partition(".")[2]) == decimals


DERIVED = [
    (None, {
        "example=3&cell=queries:1:0": ("0.5 = 0.4·0.1 + 0.8·0.2 + 0.6·0.5", ""),
        "example=4&cell=scaled_scores:1:0": ("0.7891 = 1.116 / √2 = 1.116 / 1.4142", "scores:1:0"),
        "example=3&cell=weights:1:2": (
            "0.3663 = e^1.339 / (e^1.116 + e^1.266 + e^1.339)", "scores:1:0 scores:1:1 scores:1:2"),
        "example=3&cell=weighted_values:1:0:1": ("0.214 = 0.2931·0.73", "weights:1:0 values:0:1"),
        "example=3&cell=context:1:0": (
            "0.5392 = 0.1407 + 0.2043 + 0.1942",
            "weighted_values:0:0 weighted_values:1:0 weighted_values:2:0"),
        "example=1&cell=queries:2:1": ("0.8 = 0.8", "embeddings:2:1"),
        # At least two significant digits.
        "example=1&cell=scores:0:1&decimals=0": ("0.32 = 0.1·0.4 + 0.2·0.5 + 0.3·0.6", ""),
        "example=3&cell=scores:1:0&decimals=0": (
            "1.1 = 0.5·0.76 + 0.8·0.92", "queries:1:0 queries:1:1 keys:0:0 keys:0:1"),
    }),
    # The columns of a head, and weights that are multiplied from the other side.
    (SMALL, {"cell=queries:1:0&head=1": (
        "5 = 3·2 + (−1)·1", "embeddings:1:0 embeddings:1:1 query_weight:0:2 query_weight:1:2")}),
    (TURNED, {
        "cell=queries:1:0&head=1": (
            "5 = 3·2 + (−1)·1", "embeddings:1:0 embeddings:1:1 query_weight:2:0 query_weight:2:1"),
        "cell=output:1:1": (
            "", "concatenation:1:0 concatenation:1:1 output_weight:1:0 output_weight:1:1"),
    }),
]  # fmt: skip
"""Requests and chosen cells, with the sum that is shown first and the cells of its operands."""
SMALL_AND_LARGE = [
    (1e-5, 4, "1.00e−5", "2.00e−5 = 1.00e−5·2 + 0·0"),
    (4e12, 4, "4.00e12", "8.00e12 = 4.00e12·2 + 0·0"),
    (40000000, 4, "40000000", "80000000 = 40000000·2 + 0·0"),
]


def test_a_number_is_derived_as_by_hand(visit: Visit) -> None:
    reader = visit("#steps")
    for request, cells in DERIVED:
        for fields, (text, operands) in cells.items():
            reader.go(steps_address(request, **dict(parse_qsl(fields))))
            assert text in reader.sums()[0], fields
            assert reader.lit() == set(operands.split()) or not operands, fields
    for number, decimals, shown, score in SMALL_AND_LARGE:
        request = {**PLAIN, "embeddings": [[number, 0], [2, 0]]}
        for cell, text in {"queries:0:0": f"{shown} = {shown}", "scores:0:1": score}.items():
            reader.go(steps_address(request, cell=cell, decimals=decimals))
            assert reader.sums()[0] == text


def test_a_clicked_cell_is_in_the_address_and_outlined(visit: Visit) -> None:
    reader = visit(steps_address(example=3))
    reader.page.locator("[data-step=weights] td[data-row='1'][data-column='0']").click()
    reader.settle()
    assert reader.address == "#steps?example=3&cell=weights%3A1%3A0"
    assert reader.sums()[1] == "= 3.0526 / 10.4145"
    assert reader.page.locator("td.chosen").get_attribute("aria-selected") == "true"
    reader.page.mouse.move(0, 0)
    for kind, style in {"lit": "dashed", "chosen": "solid"}.items():
        expect(reader.page.locator(f"td.{kind}").first).to_have_css("outline-style", style)


def test_keys_move_between_cells_and_to_the_steps_they_are_computed_from(visit: Visit) -> None:
    reader = visit(steps_address(example=3, cell="scores:1:1"))
    reader.page.locator("[data-step=scores] td.chosen").focus()
    for key, cell in [
        ("ArrowDown", "scores:2:1"), ("ArrowDown", "scores:2:1"), ("ArrowLeft", "scores:2:0"),
        ("End", "scores:2:2"), ("Control+Home", "scores:0:0"), ("PageDown", "scores:2:0"),
    ]:  # fmt: skip
        reader.keys(key)
        assert reader.chosen() == [cell]
        assert reader.page.evaluate("document.activeElement.classList.contains('chosen')")
    assert reader.page.locator("[data-step=scores] td[tabindex='0']").count() == 1
    reader.page.locator("[data-step=weights] td[tabindex='0']").press("Enter")
    reader.settle()
    assert reader.chosen() == ["weights:0:0"]
    reader.page.locator(".made-from button", has_text="Scores").press("Enter")
    assert reader.page.evaluate("document.activeElement.textContent") == "Scores"


def test_weighted_values_are_those_of_the_query_token(visit: Visit) -> None:
    reader = visit(steps_address(example=3, cell="scores:2:0", decimals=6))
    given = np.round(reader.traced(**EXAMPLES[2]["request"])["weighted_values"], 6).tolist()
    assert reader.matrix("weighted_values") == given[2]
    reader.choose("Query token", "love")
    assert reader.matrix("weighted_values") == given[1]
    assert "Weighted values, query love, row I" in reader.panel()


def test_shapes_are_shown_in_letters_and_in_numbers(visit: Visit) -> None:
    reader = visit(steps_address(TURNED), service="tiny_models")
    assert reader.texts("[data-step=queries] .muted.number") == ["[h, n, k] = [2, 2, 2]"]
    assert reader.texts("[data-step=value_weight] .muted.number") == ["[h·v, d] = [2, 2]"]
    reader.go(sentence_address("bank river", model="deep"))
    all_shapes = " ".join(reader.texts(".step .muted.number"))
    assert set(re.findall(r"[A-Za-z]", all_shapes)) == set(reader.texts(".letters dt"))


MALFORMED = [
    {"source": "nothing", "example": "99", "head": "-1", "cell": "scores", "decimals": "x"},
    {"example": "", "cell": "nothing:0:0", "layer": "x"},
    {"cell": "weighted_values:0:0", "head": "0.5"},
    {"cell": "__proto__:0:0"},
    {"cell": "scores:0:9"},
]


def test_a_malformed_state_falls_back_to_the_first_example(visit: Visit) -> None:
    reader = visit("#steps")
    for fields in MALFORMED:
        reader.go(steps_address(**fields))
        assert reader.matrix("scores") == EXAMPLES[0]["right"]["scores"], fields
        assert reader.chosen() == ["weights:0:0"], fields
        reader.go(steps_address(example=3, cell="weights:1:0"))
        assert reader.chosen() == ["weights:1:0"]


def corners(given: dict[str, list], heads: int) -> Iterator[tuple[str, int]]:
    """The last cells of the first and of the last row of every step, in heads that take turns."""
    for number, (name, values) in enumerate(given.items()):
        # The axis of the heads, which is the first one if there is one, is left out.
        axes = 3 if name == "weighted_values" else 1 if name.endswith("word_bias") else 2
        shape = [*np.shape(values)[-axes:], 1][: max(axes, 2)]
        last = [size - 1 for size in shape]
        for place in ([*[0] * (len(shape) - 1), last[-1]], last):
            yield ":".join(map(str, [name, *place])), number % heads


# Visits many addresses in one script. None needs a request, so each is drawn in the task after
# `popstate`.
VISIT = f"""async (addresses) => {{
  const seen = [];
  for (const address of addresses) {{
    const changed = new Promise((done) => addEventListener("popstate", done, {{ once: true }}));
    location.hash = address;
    await changed;
    await new Promise((done) => setTimeout(done));
    if (document.querySelector("[aria-busy=true]")) throw new Error(`${{address}} sent a request`);
    seen.push({{
      chosen: ({CELLS})("chosen"),
      sums: [...document.querySelectorAll(".derived .sum")].map((line) => line.textContent),
    }});
  }}
  return seen;
}}"""
WITHOUT_SUM = {
    *("queries", "keys", "values", "embeddings", "position_bias", "word_bias", "scaled_word_bias"),
    *("visible", "position"),
}
"""Steps of the bundled model whose cells have a formula but no sum."""
BUNDLED = {"text": "the bank and qqzzxx of the river"}
TINY = {"text": "bank river zebra bank"}


@pytest.mark.parametrize(
    ("fields", "heads"),
    [
        (BUNDLED, 4),
        ({**TINY, "model": "norm-before", "layer": 1}, 3),
        ({**TINY, "model": "norm-after", "layer": 1}, 3),
        ({**TINY, "model": "plain", "layer": 1}, 1),
        ({**TINY, "model": "bare", "layer": 0}, 1),
    ],
)
def test_the_arithmetic_of_every_step_is_right(visit: Visit, fields: dict, heads: int) -> None:
    service = "client" if fields is BUNDLED else "tiny_models"
    reader = visit(sentence_address(**fields), service=service)
    given = reader.traced(**fields)
    assert reader.steps() == list(given)
    cells = list(dict.fromkeys(corners(given, heads)))
    addresses = [
        sentence_address(**fields, cell=cell, head=head, decimals=10) for cell, head in cells
    ]
    with_sum = set()
    for (cell, head), seen in zip(cells, reader.page.evaluate(VISIT, addresses), strict=True):
        name, *place = cell.split(":")
        assert seen["chosen"] == [":".join([name, *place[-2:]])], (cell, head)
        for line in seen["sums"]:
            if "…" in line:
                continue
            arithmetic = line.rpartition(": ")[2].removeprefix("= ")
            sides = [value_of(side) for side in arithmetic.split(" = ")]
            np.testing.assert_allclose(sides, sides[0], rtol=1e-7, atol=1e-8, err_msg=line)
        if seen["sums"]:
            with_sum.add(name)
    result = "layer_output" if "layer_output" in given else "contextual"
    assert {"scores", "weights", "context", "residual", result} <= with_sum
    if fields is BUNDLED:
        assert with_sum == set(given) - WITHOUT_SUM


def test_a_step_with_only_a_formula_highlights_its_operands(visit: Visit) -> None:
    reader = visit("#steps", service="tiny_models")
    for model, step, formula, sources in [
        ("norm-after", "attention_norm", "X̂ = LayerNorm(R)", {"residual"}),
        ("norm-after", "feed_forward_norm", "LayerNorm(X̂ + F)", {"attention_norm", "feed_forward"}),
        ("norm-before", "queries", "Q = X̂·Wq + bq", {"attention_norm"}),
        ("norm-before", "feed_forward_norm", "x = LayerNorm(R)", {"residual"}),
    ]:
        reader.go(sentence_address("bank river", model=model, layer=1, cell=f"{step}:1:0"))
        expected = {f"{name}:1:{column}" for name in sources for column in range(5)}
        assert reader.lit() == expected, (model, step)
        assert reader.texts(f"[data-step={step}] p code") == [formula]
        assert formula in reader.panel()
    reader.go(sentence_address("bank river", model="bare", cell="queries:1:2"))
    assert "Q[1,2] = X̂[1,2]" in reader.panel()
    assert reader.lit() == {"attention_norm:1:2"}


def test_a_weight_sums_the_biases_and_excludes_masked_keys(visit: Visit) -> None:
    text = "the river bank"
    reader = visit(sentence_address(text, cell="weights:1:2", head=2))
    first, second, _ = reader.sums()
    assert first.startswith("score + position bias + word bias: ")
    # "river" attends to the two others and not to itself.
    assert second.count("e^") == 3
    cells = {"scores:1:0", "position_bias:1:1", "scaled_word_bias:2:0", "visible:1:2"}
    assert cells <= reader.lit()
    reader.go(sentence_address(text, cell="weights:1:1", head=2))
    assert "river does not attend to river" in reader.panel()
    # A long sum shows its first terms and a count.
    reader.go(sentence_address(text, cell="scores:0:1"))
    (line,) = reader.sums()
    assert line.endswith("… and 12 more products")
    assert line.count("·") == 4


def test_a_number_of_the_concatenation_opens_its_head(visit: Visit) -> None:
    reader = visit(sentence_address("the river bank", cell="concatenation:0:74"))
    reader.page.locator("[data-step=concatenation] td.chosen").press("ArrowRight")
    reader.settle()
    assert reader.chosen() == ["concatenation:0:75"]
    assert reader.lit() == {"context:0:0"}
    assert reader.field("Head").input_value() == "1"


def test_large_matrices_are_shown_in_blocks(visit: Visit) -> None:
    text = "the river bank"
    reader = visit(sentence_address(text))
    static = np.round(reader.traced(text=text)["embeddings"], 4)
    assert reader.matrix("embeddings") == static[:, :16].tolist()
    reader.choose("Head", "3")
    weights = np.round(reader.traced(text=text)["weights"][3], 4)
    assert reader.matrix("weights") == weights.tolist()
    reader.choose("Embeddings: columns", "columns 16 to 31 of 300")
    assert reader.matrix("embeddings") == static[:, 16:32].tolist()
    reader.go(sentence_address(text, cell="embeddings:1:299"))
    assert reader.matrix("embeddings") == static[:, 288:].tolist()
    assert reader.chosen() == ["embeddings:1:299"]
    # A key moves to the next block, and the focus follows.
    reader.page.locator("td.chosen").press("Home")
    reader.settle()
    assert reader.matrix("embeddings") == static[:, :16].tolist()
    assert reader.page.evaluate("document.activeElement.dataset.column") == "0"


def test_an_unknown_word_has_steps_and_rows_of_equal_words_differ(visit: Visit) -> None:
    reader = visit(sentence_address("qqzzxx"))
    assert reader.matrix("weights") == [[1]]
    reader.go(sentence_address("bank of bank"))
    assert reader.row_names() == ["bank₁", "of", "bank₂"]
    # These words are equal after they are shortened.
    reader.go(steps_address({**PLAIN, "tokens": [f"{LONG_WORD}a", f"{LONG_WORD}b"]}))
    assert len(set(reader.row_names())) == 2
