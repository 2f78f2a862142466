"""Step by step: worked examples, and how a number comes about."""

import json
import math
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.page.conftest import Open
from tests.page.stepping import (
    SMALL,
    address,
    chosen,
    lit,
    numbers,
    panel,
    said,
    steps,
    traced,
    turned,
)

FILE = Path(__file__).parents[2] / "service" / "polyseme" / "page" / "worked-examples.json"
EXAMPLES = json.loads(FILE.read_text("utf-8"))["examples"]


def test_an_example_has_its_right_values(open_page: Open) -> None:
    reader = open_page("#steps")
    for number, example in enumerate(EXAMPLES, 1):
        reader.go(address(example=number))
        for label, right in example["right"].items():
            name, _, row = label.partition("_row_")
            shown = numbers(reader, name)
            # Beside a printed value there may be more decimals than four.
            given = shown[int(row)] if row else shown
            assert np.round(given, 4).tolist() == right, (number, label)
    assert number == 6


def test_an_example_has_all_steps_of_the_service(open_page: Open, client: httpx.Client) -> None:
    reader = open_page("#steps")
    for number, example in enumerate(EXAMPLES, 1):
        request = example["request"]
        reader.go(address(example=number))
        names = [name for name in steps(reader) if not name.endswith("_weight")]
        assert names == list(traced(client, **request)), number
        assert [name for name in steps(reader) if name.endswith("_weight")] == [
            f"{name}_weight" for name in request.get("weights", {})
        ], number


def test_wrong_printed_values_stand_struck_through_beside_the_right_ones(open_page: Open) -> None:
    reader = open_page(address(example=3))
    row = reader.page.locator("[data-step=queries] tbody tr").nth(1)
    assert row.locator("s").all_text_contents() == ["0.59", "0.78"]
    assert row.locator("td").first.text_content() == "0.5000 printed in the notes: 0.59"
    struck = reader.page.locator(".step s").all_text_contents()
    printed = EXAMPLES[2]["printed"]
    assert len(struck) == sum(len(row) for row in [printed["queries_row_1"], *printed["keys"]]) + 12
    sentence = reader.page.locator(".printed-sum").text_content()
    assert "print 20 values for this example, and all of them are wrong" in sentence
    assert "2 in the queries (row love), 6 in the keys (rows I, love, statistics)" in sentence


PRINTED = [
    (1, "print 8 values for this example, and 5 are wrong: 2 in the weights (row Money)", 5, 3),
    (2, "print 9 values for this example, and 7 are wrong: 3 in the queries (row Bank)", 7, 2),
    (4, "The notes print no values for this example.", 0, 0),
    (5, "print 8 values for this example, and all of them are wrong", 8, 0),
    (6, "print 1 value for this example: it is right.", 0, 1),
]


def test_it_is_said_how_many_printed_values_are_wrong(open_page: Open) -> None:
    reader = open_page("#steps")
    for number, sentence, wrong, right in PRINTED:
        reader.go(address(example=number))
        assert sentence in reader.page.locator(".printed-sum").text_content()
        assert reader.page.locator(".step td.misprinted").count() == wrong, number
        rightly = reader.page.locator(".step td.rightly-printed").all_text_contents()
        assert len(rightly) == right, number
        for text in rightly:
            assert "printed rightly in the notes" in text


DERIVED = [
    (1, "scores:0:1", "0.32 = 0.1·0.4 + 0.2·0.5 + 0.3·0.6"),
    (3, "queries:1:0", "0.5 = 0.4·0.1 + 0.8·0.2 + 0.6·0.5"),
    (3, "scores:1:0", "1.116 = 0.5·0.76 + 0.8·0.92"),
    (4, "scaled_scores:1:0", "0.7891 = 1.116 / √2 = 1.116 / 1.4142"),
    (3, "weights:1:2", "0.3663 = e^1.339 / (e^1.116 + e^1.266 + e^1.339)"),
    (3, "weighted_values:1:0:1", "0.214 = 0.2931·0.73"),
    (3, "context:1:0", "0.5392 = 0.1407 + 0.2043 + 0.1942"),
    (1, "queries:2:1", "0.8 = 0.8"),
    (5, "scores:5:1", "0.77 = 0.6·0.6 + 0.5·0.5 + 0.4·0.4"),
]


def test_a_number_is_derived_as_by_hand(open_page: Open) -> None:
    reader = open_page("#steps")
    for number, cell, sum_ in DERIVED:
        reader.go(address(example=number, cell=cell))
        assert said(reader) == [sum_], cell
        assert "differ" not in panel(reader), cell


HEADS = [
    ("queries:1:0", "0", "3 = 3·1 + (−1)·0"),
    ("queries:1:0", "1", "5 = 3·2 + (−1)·1"),
    ("keys:0:1", "1", "4 = 1·0 + 2·2"),
    ("values:1:0", "1", "5 = 3·2 + (−1)·1"),
    ("scores:0:1", "0", "5 = 1·(−1) + 2·3"),
    ("scores:0:1", "1", "14 = 4·3 + (−1)·(−2)"),
    ("scaled_scores:0:1", "1", "9.8995 = 14 / √2 = 14 / 1.4142"),
]


@pytest.mark.parametrize("turn", [lambda request: request, turned], ids=["row", "column"])
def test_heads_and_conventions_take_the_right_columns(open_page: Open, turn) -> None:
    reader = open_page("#steps")
    for cell, head, sum_ in HEADS:
        reader.go(address(turn(SMALL), cell=cell, head=head))
        assert said(reader) == [sum_], (cell, head)
        assert "differ" not in panel(reader), (cell, head)


def test_weights_contexts_and_outputs_of_heads_are_derived(open_page: Open) -> None:
    # Head 0: scores of a are 1·2 + 2·1 = 4 and 5, of head 1: 4·1 - 1·4 = 0 and 14.
    low, high = 4 / math.sqrt(2), 5 / math.sqrt(2)
    weight = math.exp(high) / (math.exp(low) + math.exp(high))
    reader = open_page(address(SMALL, cell="weights:0:1", head="0"))
    assert said(reader) == [f"{weight:.4f} = e^{high:.4f} / (e^{low:.4f} + e^{high:.4f})"]
    context = (1 - weight) * 1 + weight * 3
    reader.go(address(SMALL, cell="context:0:0", head="0"))
    assert said(reader) == [f"{context:.4f} = {1 - weight:.4f} + {weight * 3:.4f}"]
    other = 1 / (1 + math.exp(14 / math.sqrt(2)))
    second = other * 4 + (1 - other) * 5
    reader.go(address(SMALL, cell="output:0:0"))
    shown = f"{context + 2 * second:.4f} = {context:.4f}·1 + {second:.4f}·2"
    assert said(reader) == [shown.replace("5.0000", "5")]


MADE_OF = [
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
    (turned(SMALL), {"cell": "queries:1:0", "head": 1},
     {"embeddings:1:0", "embeddings:1:1", "query_weight:2:0", "query_weight:2:1"}),
    (SMALL, {"cell": "output:1:1"}, {"context:1:0", "output_weight:0:1", "output_weight:1:1"}),
    (turned(SMALL), {"cell": "output:1:1"},
     {"context:1:0", "output_weight:1:0", "output_weight:1:1"}),
]  # fmt: skip


def test_exactly_the_cells_that_make_a_number_are_lit(open_page: Open) -> None:
    reader = open_page("#steps")
    for request, fields, cells in MADE_OF:
        reader.go(address(request, **fields))
        assert lit(reader) == cells, fields
        name, *place = fields["cell"].split(":")
        assert chosen(reader) == [":".join([name, *place[-2:]])], fields


def test_lit_cells_are_told_by_an_outline(open_page: Open) -> None:
    reader = open_page(address(example=3, cell="scores:1:2"))
    styles = reader.page.evaluate(
        """() => ["td.lit", "td.chosen"].map((one) =>
          getComputedStyle(document.querySelector(one)).outlineStyle)"""
    )
    assert styles == ["dashed", "solid"]
    assert reader.page.locator("td.chosen").get_attribute("aria-selected") == "true"


def test_a_click_chooses_and_the_address_keeps_it(open_page: Open) -> None:
    reader = open_page(address(example=3))
    cell = reader.page.locator("[data-step=weights] td[data-row='1'][data-column='0']")
    cell.click()
    reader.settle()
    assert reader.address == "#steps?example=3&cell=weights%3A1%3A0"
    assert said(reader) == ["0.2931 = e^1.116 / (e^1.116 + e^1.266 + e^1.339)"]
    assert reader.page.locator(".derived").get_attribute("role") == "status"


def test_arrows_go_from_cell_to_cell(open_page: Open) -> None:
    reader = open_page(address(example=3, cell="scores:1:1"))
    reader.page.locator("[data-step=scores] td.chosen").focus()
    for key, cell in [
        ("ArrowDown", "scores:2:1"), ("ArrowDown", "scores:2:1"), ("ArrowLeft", "scores:2:0"),
        ("ArrowUp", "scores:1:0"), ("End", "scores:1:2"), ("Control+Home", "scores:0:0"),
        ("ArrowRight", "scores:0:1"),
    ]:  # fmt: skip
        reader.page.keyboard.press(key)
        reader.settle()
        assert chosen(reader) == [cell]
        focused = reader.page.evaluate("document.activeElement.classList.contains('chosen')")
        assert focused
    tabbable = reader.page.locator("[data-step=scores] td[tabindex='0']")
    assert tabbable.count() == 1


def test_weighted_values_are_those_of_the_looking_word(
    open_page: Open, client: httpx.Client
) -> None:
    given = traced(client, **EXAMPLES[2]["request"])["weighted_values"]
    reader = open_page(address(example=3, cell="scores:2:0", decimals=6))
    assert numbers(reader, "weighted_values") == [[round(x, 6) for x in row] for row in given[2]]
    reader.page.get_by_label("Looking word").select_option("love")
    reader.settle()
    assert numbers(reader, "weighted_values") == [[round(x, 6) for x in row] for row in given[1]]
    assert chosen(reader) == ["weighted_values:0:0"]


def test_the_decimals_are_the_readers(open_page: Open) -> None:
    reader = open_page(address(example=3))
    reader.page.get_by_label("Decimals").select_option("2")
    reader.settle()
    assert numbers(reader, "weights")[0] == [0.30, 0.34, 0.36]
    assert reader.address == "#steps?example=3&decimals=2"


def test_shapes_are_said_in_letters_and_in_numbers(open_page: Open) -> None:
    reader = open_page(address(example=3))
    shapes = {
        name: reader.page.locator(f"[data-step={name}] .shape").text_content()
        for name in ("embeddings", "query_weight", "queries", "scores", "weighted_values")
    }
    assert shapes == {
        "embeddings": "[n, d] = [3, 3]",
        "query_weight": "[d, h·k] = [3, 2]",
        "queries": "[n, k] = [3, 2]",
        "scores": "[n, n] = [3, 3]",
        "weighted_values": "[n, n, v] = [3, 3, 2]",
    }
    reader.go(address(SMALL))
    assert (
        reader.page.locator("[data-step=queries] .shape").text_content() == "[h, n, k] = [2, 2, 2]"
    )


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


def test_a_malformed_state_falls_back(open_page: Open) -> None:
    reader = open_page(address(**MALFORMED[0]))
    for fields in MALFORMED:
        reader.go(address(**fields))
        assert numbers(reader, "scores") == EXAMPLES[0]["right"]["scores"], fields
        assert chosen(reader) == ["scores:0:1"], fields
        reader.go(address(example=3, cell="weights:1:0"))
        assert chosen(reader) == ["weights:1:0"]


def test_what_is_shown_can_be_taken_away(open_page: Open, tmp_path: Path) -> None:
    reader = open_page(address(example=5, cell="weights:5:7"))
    assert reader.saved_json(tmp_path) == reader.run_command()
    svg = reader.saved(reader.page.get_by_role("button", name="Save SVG"), tmp_path).read_text()
    assert svg.startswith("<?xml")
    assert ">0.23</text>" in svg
    assert "animal" in svg
    assert "stroke-dasharray" in svg
    png = reader.saved(reader.page.get_by_role("button", name="Save PNG"), tmp_path).read_bytes()
    assert png.startswith(b"\x89PNG")
