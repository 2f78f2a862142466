"""The view Step by step: worked examples and stored models, their numbers and derivations."""

import math
import re
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from tests.page.conftest import Open
from tests.page.driver import (
    CELLS,
    EXAMPLES,
    LONG_WORD,
    PLAIN,
    SMALL,
    TURNED,
    chosen,
    lit,
    numbers,
    panel,
    row_names,
    sentence_address,
    steps,
    steps_address,
    sums,
    traced,
)

pytestmark = pytest.mark.slow


PRINTED = [
    ("39 printed values, 7 of them wrong", 0, 7, 0),
    ("9 printed values, 7 of them wrong", 0, 7, 0),
    ("27 printed values, 26 of them wrong", 3, 26, 0),
    ("The notes print no values for this example.", 0, 0, 0),
    ("58 printed values, 41 of them wrong", 3, 41, 12),
    ("11 printed values, 4 of them wrong", 1, 4, 5),
]
"""What the page says of the notes, and the numbers of wrong ideas, of wrong values and of values
that cannot be computed from the notes."""


def count_of(printed: object) -> int:
    """The number of values in what the notes print."""
    if isinstance(printed, dict):
        return sum(map(count_of, printed.values()))
    return sum(map(count_of, printed)) if isinstance(printed, list) else 1


def test_all_printed_values_and_wrong_ideas_are_beside_the_right_ones(visit: Open) -> None:
    reader = visit("#steps")
    total = ideas = 0
    for number, (example, printed) in enumerate(zip(EXAMPLES, PRINTED, strict=True), 1):
        reader.go(steps_address(example=number))
        text, wrong_ideas, wrong, unknown = printed
        assert text in reader.page.locator(".printed-sum").text_content()
        shown = reader.page.locator(".results .note")
        assert shown.count() == count_of(example.get("printed", {})), number
        assert reader.page.locator(".results .misprinted s").count() == wrong, number
        assert reader.page.locator(".checks td:not([class])").count() == unknown, number
        listed = reader.page.locator(".ideas > li")
        assert [one.partition("Right: ")[0] for one in listed.all_text_contents()] == example.get(
            "notes", []
        )
        assert listed.locator("strong", has_text="Right").count() == wrong_ideas
        total, ideas = total + shown.count(), ideas + listed.count()
    assert (total, ideas) == (144, 7)


RIGHT = [
    (3, 0, "Context of love: 0.5392, 0.8203."),
    (3, 1, "Weights of love: 0.2931, 0.3405, 0.3663; their sum is 1.00."),
    (5, 2, "Context of it: 0.4735, 0.4236, 0.3651."),
    (
        6,
        0,
        "Softmax of the five scores: 0.1980, 0.2040, 0.1960, 0.2020, 0.2000; their sum is 1.00.",
    ),
]


def test_a_wrong_idea_has_the_right_value_beside_it(visit: Open) -> None:
    reader = visit("#steps")
    for number, i, right in RIGHT:
        reader.go(steps_address(example=number))
        assert (
            reader.page.locator(".ideas > li").nth(i).locator("p").text_content()
            == f"Right: {right}"
        )


def test_an_example_has_all_steps_and_its_correct_values(visit: Open, client: httpx.Client) -> None:
    reader = visit("#steps")
    for number, example in enumerate(EXAMPLES, 1):
        reader.go(steps_address(example=number))
        given = traced(client, **example["request"])
        for label, right in example["right"].items():
            name, _, row = label.partition("_row_")
            if name not in given:
                continue
            shown = numbers(reader, name)
            # A number with a printed value may have more than four decimals.
            shown = shown if name == "weighted_values" or not row else shown[int(row)]
            assert np.round(shown, 4).tolist() == right, (number, label)
        option = reader.field("Example").locator("option:checked").text_content()
        assert option.lower() == f"{number}. {example['name']}".lower()
        weights = [f"{name}_weight" for name in example["request"].get("weights", {})]
        assert [name for name in steps(reader) if name.endswith("_weight")] == weights, number
        names = [name for name in steps(reader) if name not in weights]
        assert names == list(given), number


def test_an_example_opens_at_the_row_that_the_notes_compute(visit: Open) -> None:
    reader = visit("#steps")
    opened = []
    for number in range(1, 7):
        reader.go(steps_address(example=number))
        opened += chosen(reader)
    assert opened == [
        *("weights:0:0", "queries:1:0", "queries:1:0", "weights:1:0", "scores:5:0", "scores:0:0"),
    ]


def test_next_step_walks_through_all_steps(open_page: Open) -> None:
    reader = open_page(steps_address(example=3, cell="embeddings:1:0"))
    walked = []
    for _ in range(len(steps(reader)) - 1):
        reader.press("Next step ›")
        walked += chosen(reader)
        assert reader.page.locator("td.chosen").is_visible()
    assert [cell.split(":")[0] for cell in walked] == steps(reader)[1:]
    assert {cell.split(":")[1] for cell in walked if cell.startswith(("scores", "context"))} == {
        "1"
    }
    assert reader.button("Next step ›").is_disabled()
    reader.press("‹ Previous step")
    assert chosen(reader)[0].startswith("weighted_values")


def test_results_are_hidden_and_an_own_result_is_checked(open_page: Open) -> None:
    reader = open_page(steps_address(example=3))
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
    assert sums(reader) == []
    assert not reader.page.locator(".printed").is_visible()
    # The right values are 0.47, 0.68; 0.5, 0.8; 0.58, 0.81.
    own = queries.get_by_label("My result: Queries")
    own.fill("0.47 0.68\n0.59 0.78\n0.58 0.81")
    assert queries.get_by_role("status").text_content() == "Right to 2 decimals: 4 of 6 numbers."
    assert queries.locator("td .own.wrong").count() == 2
    number = reader.page.get_by_label("My result: this number")
    number.fill("0.5")
    assert reader.page.locator(".derivation .own.right").count() == 1
    reader.press("Show results")
    assert "hide" not in reader.query
    assert queries.locator("td .number").first.text_content() == "0.4700"
    # A link has the exercise without what was typed, for own numbers too.
    reader.press("Edit these numbers")
    reader.press("Hide results")
    other = open_page(reader.address)
    assert set(other.texts("[data-step=context] td .number")) == {"?"}
    assert "0.59" not in other.page.content()


def test_what_nobody_can_compute_is_not_hidden(open_page: Open) -> None:
    """A trace of a sentence has no weights; the output and the contextual vectors are copies."""
    reader = open_page("#steps?source=sentence&hide=1")
    hidden = {
        card.get_attribute("data-step")
        for card in reader.page.locator("[data-step]").all()
        if "?" in card.locator("td .number").first.text_content()
    }
    assert {"scores", "weights", "context", "concatenation", "output", "residual"} <= hidden
    assert "contextual" in hidden
    assert not hidden & {"embeddings", "queries", "keys", "position_bias", "scaled_word_bias"}


def test_a_number_is_right_to_the_shown_decimals(open_page: Open) -> None:
    reader = open_page(steps_address(example=3, cell="weights:1:0", hide=1, decimals=2))
    own = reader.page.get_by_label("My result: this number")
    for text, mark in [
        ("0.3", "right"), ("0.29", "right"), ("0.2931", "right"), ("0.30", "wrong"), ("x", None),
    ]:  # fmt: skip
        own.fill(text)
        for kind in ("right", "wrong"):
            count = reader.page.locator(f".derivation .own.{kind}").count()
            assert count == (kind == mark), text
    # What is typed stays for the same number, and goes with another one.
    reader.choose("Decimals", "3")
    assert own.input_value() == "x"
    reader.press("Next step ›")
    assert own.input_value() == ""


def test_the_derivation_hides_no_matrix_and_a_linked_cell_is_in_the_window(visit: Open) -> None:
    for width in (1280, 390):
        reader = visit(steps_address(example=5, cell="context:5:0"), width=width)
        reader.reload()
        box = reader.page.locator("td.chosen").bounding_box()
        assert 0 <= box["y"] < 900, width
        derivation = reader.page.locator(".derivation").bounding_box()
        for card in reader.page.locator(".step").all():
            other = card.bounding_box()
            beside = other["x"] + other["width"] <= derivation["x"]
            above = other["y"] + other["height"] <= derivation["y"]
            below = derivation["y"] + derivation["height"] <= other["y"]
            assert beside or above or below, width


@pytest.mark.parametrize("width", [1280, 1440])
def test_the_table_of_the_first_example_is_not_cut_off(visit: Open, width: int) -> None:
    reader = visit(steps_address(example=1), width=width)
    table = reader.page.locator("[data-step=weights] .wide")
    assert table.evaluate("wide => wide.scrollWidth - wide.clientWidth") == 0


def test_a_number_has_as_many_decimals_as_its_printed_value(visit: Open) -> None:
    x = np.array(EXAMPLES[0]["request"]["embeddings"])
    weights = np.exp(x @ x.T)[0]
    context = weights / weights.sum() @ x[:, 0]
    reader = visit("#steps")
    for decimals in (4, 2, 0, 10):
        reader.go(steps_address(example=1, decimals=decimals))
        cell = reader.page.locator("[data-step=context] td.misprinted").first
        assert cell.locator("s").text_content() == "0.40505"
        assert cell.locator(".number").text_content() == f"{context:.{max(decimals, 5)}f}"
        correct = reader.texts(".step td.misprinted .number")
        assert all(map(str.__ne__, correct, reader.texts(".step td.misprinted s")))
        # A cell without a printed value has the chosen precision.
        plain = reader.page.locator("[data-step=context] td[data-row='1'] .number").first
        assert len(plain.text_content().partition(".")[2]) == decimals


DERIVED = [
    (1, "scores:0:1", 4, "0.32 = 0.1·0.4 + 0.2·0.5 + 0.3·0.6"),
    (3, "queries:1:0", 4, "0.5 = 0.4·0.1 + 0.8·0.2 + 0.6·0.5"),
    (3, "scores:1:0", 4, "1.116 = 0.5·0.76 + 0.8·0.92"),
    (4, "scaled_scores:1:0", 4, "0.7891 = 1.116 / √2 = 1.116 / 1.4142"),
    (3, "weights:1:2", 4, "0.3663 = e^1.339 / (e^1.116 + e^1.266 + e^1.339)"),
    (3, "weighted_values:1:0:1", 4, "0.214 = 0.2931·0.73"),
    (3, "context:1:0", 4, "0.5392 = 0.1407 + 0.2043 + 0.1942"),
    (1, "queries:2:1", 4, "0.8 = 0.8"),
    (5, "scores:5:1", 4, "0.77 = 0.6·0.6 + 0.5·0.5 + 0.4·0.4"),
    # At least two significant digits.
    (1, "scores:0:1", 0, "0.32 = 0.1·0.4 + 0.2·0.5 + 0.3·0.6"),
    (3, "scores:1:0", 0, "1.1 = 0.5·0.76 + 0.8·0.92"),
    (4, "scaled_scores:1:0", 1, "0.79 = 1.1 / √2 = 1.1 / 1.4"),
    (5, "scores:5:1", 2, "0.77 = 0.6·0.6 + 0.5·0.5 + 0.4·0.4"),
]
HEADS = [
    ("queries:1:0", 0, "3 = 3·1 + (−1)·0"),
    ("queries:1:0", 1, "5 = 3·2 + (−1)·1"),
    ("keys:0:1", 1, "4 = 1·0 + 2·2"),
    ("values:1:0", 1, "5 = 3·2 + (−1)·1"),
    ("scores:0:1", 0, "5 = 1·(−1) + 2·3"),
    ("scores:0:1", 1, "14 = 4·3 + (−1)·(−2)"),
    ("scaled_scores:0:1", 1, "9.8995 = 14 / √2 = 14 / 1.4142"),
]
SMALL_AND_LARGE = [
    (1e-5, 4, "1.00e−5", "2.00e−5 = 1.00e−5·2 + 0·0"),
    (0.0003, 2, "0.0003", "0.0006 = 0.0003·2 + 0·0"),
    (4e12, 4, "4.00e12", "8.00e12 = 4.00e12·2 + 0·0"),
    (40000000, 4, "40000000", "80000000 = 40000000·2 + 0·0"),
]


def derivations() -> Iterator[tuple[str, str]]:
    """Addresses and the sums that they show."""
    for number, cell, decimals, text in DERIVED:
        yield steps_address(example=number, cell=cell, decimals=decimals), text
    for request in (SMALL, TURNED):
        for cell, head, text in HEADS:
            yield steps_address(request, cell=cell, head=head), text
    for number, decimals, shown, score in SMALL_AND_LARGE:
        request = {**PLAIN, "embeddings": [[number, 0], [2, 0]]}
        same = f"{shown} = {shown}"
        yield steps_address(request, cell="queries:0:0", decimals=decimals), same
        yield steps_address(request, cell="scores:0:1", decimals=decimals), score
    # Head 0: scores of a are 1·2 + 2·1 = 4 and 5, of head 1: 4·1 - 1·4 = 0 and 14.
    low, high = 4 / math.sqrt(2), 5 / math.sqrt(2)
    weight = math.exp(high) / (math.exp(low) + math.exp(high))
    power = f"{weight:.4f} = e^{high:.4f} / (e^{low:.4f} + e^{high:.4f})"
    yield steps_address(SMALL, cell="weights:0:1", head="0"), power
    context = (1 - weight) * 1 + weight * 3
    values = f"{context:.4f} = {1 - weight:.4f} + {weight * 3:.4f}"
    yield steps_address(SMALL, cell="context:0:0", head="0"), values
    other = 1 / (1 + math.exp(14 / math.sqrt(2)))
    second = other * 4 + (1 - other) * 5
    output = f"{context + 2 * second:.4f} = {context:.4f}·1 + {second:.4f}·2"
    yield steps_address(SMALL, cell="output:0:0"), output.replace("5.0000", "5")


def test_a_number_is_derived_as_by_hand(visit: Open) -> None:
    reader = visit("#steps")
    for fragment, expected in derivations():
        reader.go(fragment)
        assert sums(reader)[0] == expected, fragment


OPERANDS = [
    (None, {"example": 3, "cell": "scores:1:2"},
     {"queries:1:0", "queries:1:1", "keys:2:0", "keys:2:1"}),
    (None, {"example": 3, "cell": "weights:1:2"}, {"scores:1:0", "scores:1:1", "scores:1:2"}),
    (None, {"example": 4, "cell": "weights:0:2"}, {f"scaled_scores:0:{j}" for j in range(3)}),
    (None, {"example": 4, "cell": "scaled_scores:2:0"}, {"scores:2:0"}),
    (None, {"example": 3, "cell": "context:2:1"}, {f"weighted_values:{j}:1" for j in range(3)}),
    (None, {"example": 3, "cell": "weighted_values:2:0:1"}, {"weights:2:0", "values:0:1"}),
    (None, {"example": 1, "cell": "keys:3:2"}, {"embeddings:3:2"}),
    (None, {"example": 3, "cell": "embeddings:0:0"}, set()),
    (SMALL, {"cell": "queries:1:0", "head": 1},
     {"embeddings:1:0", "embeddings:1:1", "query_weight:0:2", "query_weight:1:2"}),
    (TURNED, {"cell": "queries:1:0", "head": 1},
     {"embeddings:1:0", "embeddings:1:1", "query_weight:2:0", "query_weight:2:1"}),
    (SMALL, {"cell": "output:1:1"},
     {"concatenation:1:0", "concatenation:1:1", "output_weight:0:1", "output_weight:1:1"}),
    (TURNED, {"cell": "output:1:1"},
     {"concatenation:1:0", "concatenation:1:1", "output_weight:1:0", "output_weight:1:1"}),
    (SMALL, {"cell": "concatenation:1:0"}, {"context:1:0"}),
]  # fmt: skip


def test_exactly_the_operands_of_a_number_are_highlighted(visit: Open) -> None:
    reader = visit("#steps")
    for request, fields, cells in OPERANDS:
        reader.go(steps_address(request, **fields))
        assert lit(reader) == cells, fields
        name, *place = fields["cell"].split(":")
        assert chosen(reader) == [":".join([name, *place[-2:]])], fields


def test_a_clicked_cell_is_in_the_address_and_outlined(visit: Open) -> None:
    reader = visit(steps_address(example=3))
    reader.page.locator("[data-step=weights] td[data-row='1'][data-column='0']").click()
    reader.settle()
    assert reader.address == "#steps?example=3&cell=weights%3A1%3A0"
    assert sums(reader) == [
        "0.2931 = e^1.116 / (e^1.116 + e^1.266 + e^1.339)",
        "= 3.0526 / 10.4145",
    ]
    assert "Numbers are rounded for display" in panel(reader)
    assert reader.page.locator(".derived").get_attribute("role") == "status"
    assert reader.page.locator("td.chosen").get_attribute("aria-selected") == "true"
    style = "(td) => getComputedStyle(td).outlineStyle"
    reader.page.mouse.move(0, 0)
    assert reader.page.locator("td.lit").first.evaluate(style) == "dashed"
    assert reader.page.locator("td.chosen").evaluate(style) == "solid"


def test_keys_move_between_cells_and_to_the_steps_they_are_computed_from(visit: Open) -> None:
    reader = visit(steps_address(example=3, cell="scores:1:1"))
    reader.page.locator("[data-step=scores] td.chosen").focus()
    for key, cell in [
        ("ArrowDown", "scores:2:1"), ("ArrowDown", "scores:2:1"), ("ArrowLeft", "scores:2:0"),
        ("ArrowUp", "scores:1:0"), ("End", "scores:1:2"), ("Control+Home", "scores:0:0"),
        ("ArrowRight", "scores:0:1"), ("PageDown", "scores:2:1"), ("Control+End", "scores:2:2"),
    ]:  # fmt: skip
        reader.keys(key)
        assert chosen(reader) == [cell]
        assert reader.page.evaluate("document.activeElement.classList.contains('chosen')")
    assert reader.page.locator("[data-step=scores] td[tabindex='0']").count() == 1
    reader.page.locator("[data-step=weights] td[tabindex='0']").press("Enter")
    reader.settle()
    assert chosen(reader) == ["weights:0:0"]
    reader.page.locator(".made-from button", has_text="Scores").press("Enter")
    assert reader.page.evaluate("document.activeElement.textContent") == "Scores"


def test_weighted_values_are_those_of_the_query_token(visit: Open, client: httpx.Client) -> None:
    given = np.round(traced(client, **EXAMPLES[2]["request"])["weighted_values"], 6).tolist()
    reader = visit(steps_address(example=3, cell="scores:2:0", decimals=6))
    assert numbers(reader, "weighted_values") == given[2]
    reader.choose("Query token", "love")
    assert numbers(reader, "weighted_values") == given[1]
    assert chosen(reader) == ["weighted_values:0:0"]


def test_shapes_are_shown_in_letters_and_in_numbers(visit: Open, tiny_models: httpx.Client) -> None:
    reader = visit("#steps", service=tiny_models)
    for fragment, shapes in {
        steps_address(example=3): {
            "embeddings": "[n, d] = [3, 3]",
            "query_weight": "[d, h·k] = [3, 2]",
            "queries": "[n, k] = [3, 2]",
            "scores": "[n, n] = [3, 3]",
            "weighted_values": "[n, n, v] = [3, 3, 2]",
        },
        steps_address(TURNED): {
            "queries": "[h, n, k] = [2, 2, 2]",
            "value_weight": "[h·v, d] = [2, 2]",
        },
    }.items():
        reader.go(fragment)
        for name, shape in shapes.items():
            assert reader.texts(f"[data-step={name}] .muted.number") == [shape]
    reader.go(sentence_address("bank river", model="deep"))
    all_shapes = " ".join(reader.texts(".step .muted.number"))
    assert set(re.findall(r"[A-Za-z]", all_shapes)) == set(reader.texts(".letters dt"))


MALFORMED = [
    {"source": "nothing", "example": "99", "head": "-1", "cell": "scores", "decimals": "x"},
    {"example": "1e1", "head": "7", "cell": "scores:9:9", "decimals": "99"},
    {"example": "", "cell": "nothing:0:0", "layer": "x"},
    {"cell": "weighted_values:0:0", "head": "0.5"},
    {"cell": "weighted_values:9:0:0"},
    {"cell": "scores:1:1:1"},
    {"cell": "__proto__:0:0"},
    {"cell": "scores:-1:0"},
    {"cell": "scores:0:9"},
]


def test_a_malformed_state_falls_back_to_the_first_example(visit: Open) -> None:
    reader = visit("#steps")
    for fields in MALFORMED:
        reader.go(steps_address(**fields))
        assert numbers(reader, "scores") == EXAMPLES[0]["right"]["scores"], fields
        assert chosen(reader) == ["weights:0:0"], fields
        reader.go(steps_address(example=3, cell="weights:1:0"))
        assert chosen(reader) == ["weights:1:0"]


def test_the_contextual_vectors_are_those_of_encode(visit: Open, client: httpx.Client) -> None:
    text = "The bank raised its rates while we sat on the river bank"
    reader = visit(sentence_address(text, decimals=6))
    encoded = client.post("/v1/encode", json={"input": text}).json()["results"][0]["contextual"]
    expected = np.array(encoded)[:, :16]
    np.testing.assert_allclose(numbers(reader, "contextual"), expected, rtol=0, atol=2e-5)


def corners(given: dict[str, list], heads: int) -> Iterator[tuple[str, int]]:
    """A cell and a head for two of three corners of every step. Corners and heads take turns."""
    for number, (name, values) in enumerate(given.items()):
        # The axis of the heads, which is the first one if there is one, is left out.
        axes = 3 if name == "weighted_values" else 1 if name.endswith("word_bias") else 2
        shape = np.shape(values)[-axes:]
        places = [[0] * axes, [size - 1 for size in shape], [*[0] * (axes - 1), shape[-1] - 1]]
        for turn in (number, number + 1):
            place = [*places[turn % len(places)], *([0] if axes == 1 else [])]
            yield ":".join(map(str, [name, *place])), turn % heads


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


def value_of(text: str) -> float:
    """The value of arithmetic as the page writes it: `e^(−1.5) / (e^2 + 1) + 0.5·x/√2`."""
    text = re.sub(r"(\d)e([−\d]+)", r"\1E\2", text).replace("−", "-").replace("·", "*")
    text = re.sub(r"√(\d+)", r"math.sqrt(\1)", text)
    text = re.sub(r"e\^(\([^)]*\)|[\d.]+)", r"math.exp(\1)", text)
    return eval(text, {"math": math})


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
def test_the_arithmetic_of_every_step_is_right(
    visit: Open, client: httpx.Client, tiny_models: httpx.Client, fields: dict, heads: int
) -> None:
    service = client if fields is BUNDLED else tiny_models
    given = traced(service, **fields)
    reader = visit(sentence_address(**fields), service=service)
    assert steps(reader) == list(given)
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


def test_a_step_with_only_a_formula_highlights_its_operands(
    visit: Open, tiny_models: httpx.Client
) -> None:
    reader = visit("#steps", service=tiny_models)
    for model, step, formula, sources in [
        ("norm-after", "attention_norm", "X̂ = LayerNorm(R)", {"residual"}),
        ("norm-after", "feed_forward_norm", "LayerNorm(X̂ + F)", {"attention_norm", "feed_forward"}),
        ("norm-before", "queries", "Q = X̂·Wq + bq", {"attention_norm"}),
        ("norm-before", "feed_forward_norm", "x = LayerNorm(R)", {"residual"}),
    ]:
        reader.go(sentence_address("bank river", model=model, layer=1, cell=f"{step}:1:0"))
        expected = {f"{name}:1:{column}" for name in sources for column in range(5)}
        assert lit(reader) == expected, (model, step)
        assert reader.texts(f"[data-step={step}] p code") == [formula]
        assert formula in panel(reader)
    reader.go(sentence_address("bank river", model="bare", cell="queries:1:2"))
    assert "Q[1,2] = X̂[1,2]" in panel(reader)
    assert lit(reader) == {"attention_norm:1:2"}


def test_a_weight_sums_the_biases_and_excludes_masked_keys(
    visit: Open, client: httpx.Client
) -> None:
    text = "the river bank"
    given = traced(client, text=text)
    reader = visit(sentence_address(text, cell="weights:1:2", head=2))
    scores, biases = given["scores"][2][1][2], given["position_bias"][2][1][2]
    parts = [scores, biases, given["scaled_word_bias"][2][2]]
    first, second, _ = sums(reader)
    assert first.startswith("score + position bias + word bias: ")
    terms = first.split(": ")[1].replace(" =", " +").split("+")
    shown = [float(term.strip(" ()").replace("−", "-")) for term in terms]
    np.testing.assert_allclose(shown, [*parts, sum(parts)], atol=1e-4)
    # "river" attends to the two others and not to itself.
    assert second.count("e^") == 3
    assert {"scores:1:0", "position_bias:1:1", "scaled_word_bias:2:0", "visible:1:2"} <= lit(reader)
    reader.go(sentence_address(text, cell="weights:1:1", head=2))
    assert "river does not attend to river" in panel(reader)
    # A long sum shows its first terms and a count.
    reader.go(sentence_address(text, cell="scores:0:1"))
    (line,) = sums(reader)
    assert line.endswith("… and 12 more products")
    assert line.count("·") == 4


def test_the_reader_chooses_the_head_and_the_decimals(visit: Open, client: httpx.Client) -> None:
    reader = visit(sentence_address("the river bank"))
    reader.choose("Head", "3")
    given = traced(client, text="the river bank")["weights"][3]
    assert numbers(reader, "weights") == np.round(given, 4).tolist()
    reader.choose("Decimals", "2")
    assert numbers(reader, "weights") == np.round(given, 2).tolist()
    assert reader.address.endswith("&head=3&decimals=2")


def test_a_number_of_the_concatenation_opens_its_head(visit: Open) -> None:
    reader = visit(sentence_address("the river bank", cell="concatenation:0:74"))
    assert lit(reader) == {"context:0:74"}
    reader.page.locator("[data-step=concatenation] td.chosen").press("ArrowRight")
    reader.settle()
    assert chosen(reader) == ["concatenation:0:75"]
    assert lit(reader) == {"context:0:0"}
    assert reader.field("Head").input_value() == "1"


VISIBLE = """(td) => {
  const cell = td.getBoundingClientRect(), card = td.closest(".wide").getBoundingClientRect();
  return card.left <= cell.left && cell.right <= card.right;
}"""


def test_large_matrices_are_shown_in_blocks(open_page: Open, client: httpx.Client) -> None:
    text = "the river bank"
    reader = open_page(sentence_address(text))
    static = np.round(traced(client, text=text)["embeddings"], 4)
    assert numbers(reader, "embeddings") == static[:, :16].tolist()
    reader.choose("Embeddings: columns", "columns 16 to 31 of 300")
    assert numbers(reader, "embeddings") == static[:, 16:32].tolist()
    reader.go(sentence_address(text, cell="embeddings:1:299"))
    assert numbers(reader, "embeddings") == static[:, 288:].tolist()
    assert chosen(reader) == ["embeddings:1:299"]
    # A key moves to the next block, and the focus follows.
    reader.page.locator("td.chosen").press("Home")
    reader.settle()
    assert numbers(reader, "embeddings") == static[:, :16].tolist()
    assert reader.page.evaluate("document.activeElement.dataset.column") == "0"
    reader.resize(390)
    reader.go(sentence_address(text, cell="embeddings:0:15"))
    # A narrow card scrolls its table to the chosen cell.
    assert reader.page.locator("td.chosen").evaluate(VISIBLE)


def test_any_word_has_steps_and_rows_of_equal_words_differ(
    visit: Open, client: httpx.Client
) -> None:
    reader = visit("#steps")
    for text in ("bank", "qqzzxx", "bank bank bank", "שלום bank עולם"):
        reader.go(sentence_address(text))
        given = traced(client, text=text)["weights"][0]
        assert numbers(reader, "weights") == np.round(given, 4).tolist(), text
    reader.go(sentence_address("bank of bank"))
    assert row_names(reader) == ["bank₁", "of", "bank₂"]
    # These words are equal after they are shortened.
    reader.go(steps_address({**PLAIN, "tokens": [f"{LONG_WORD}a", f"{LONG_WORD}b"]}))
    assert len(set(row_names(reader))) == 2
