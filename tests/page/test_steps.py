"""The view Step by step: worked examples, stored models and derivations; accessibility."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Route

from tests.page.conftest import Open
from tests.page.reader import Reader
from tests.page.steps import (
    CELLS,
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

pytestmark = pytest.mark.slow


FILE = Path(__file__).parents[2] / "service" / "polyseme" / "page" / "worked-examples.json"


EXAMPLES = json.loads(FILE.read_text("utf-8"))["examples"]


def test_an_example_has_its_correct_values(visit: Open) -> None:
    reader = visit("#steps")
    for number, example in enumerate(EXAMPLES, 1):
        reader.go(address(example=number))
        for label, right in example["right"].items():
            name, _, row = label.partition("_row_")
            shown = numbers(reader, name)
            # A number with a printed value may have more than four decimals.
            given = shown[int(row)] if row else shown
            assert np.round(given, 4).tolist() == right, (number, label)
    assert number == 6


def test_an_example_has_all_steps_of_the_service(visit: Open, client: httpx.Client) -> None:
    reader = visit("#steps")
    for number, example in enumerate(EXAMPLES, 1):
        request = example["request"]
        reader.go(address(example=number))
        names = [name for name in steps(reader) if not name.endswith("_weight")]
        assert names == list(traced(client, **request)), number
        assert [name for name in steps(reader) if name.endswith("_weight")] == [
            f"{name}_weight" for name in request.get("weights", {})
        ], number


def test_wrong_printed_values_are_struck_through(visit: Open) -> None:
    reader = visit(address(example=3))
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
    (6, "print 1 value for this example: it is correct.", 0, 1),
]


def test_the_number_of_wrong_printed_values_is_shown(visit: Open) -> None:
    reader = visit("#steps")
    for number, sentence, wrong, right in PRINTED:
        reader.go(address(example=number))
        assert sentence in reader.page.locator(".printed-sum").text_content()
        assert reader.page.locator(".step td.misprinted").count() == wrong, number
        correct = reader.page.locator(".step td.correctly-printed").all_text_contents()
        assert len(correct) == right, number
        for text in correct:
            assert "printed correctly in the notes" in text


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


def test_a_number_is_derived_as_by_hand(visit: Open) -> None:
    reader = visit("#steps")
    for number, cell, expected in DERIVED:
        reader.go(address(example=number, cell=cell))
        assert said(reader) == [expected], cell
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


@pytest.mark.parametrize("request_", [SMALL, turned(SMALL)], ids=["row", "column"])
def test_heads_and_conventions_select_the_correct_columns(visit: Open, request_: dict) -> None:
    reader = visit("#steps")
    for cell, head, expected in HEADS:
        reader.go(address(request_, cell=cell, head=head))
        assert said(reader) == [expected], (cell, head)
        assert "differ" not in panel(reader), (cell, head)


def test_weights_contexts_and_outputs_of_heads_are_derived(visit: Open) -> None:
    # Head 0: scores of a are 1·2 + 2·1 = 4 and 5, of head 1: 4·1 - 1·4 = 0 and 14.
    low, high = 4 / math.sqrt(2), 5 / math.sqrt(2)
    weight = math.exp(high) / (math.exp(low) + math.exp(high))
    reader = visit(address(SMALL, cell="weights:0:1", head="0"))
    assert said(reader) == [f"{weight:.4f} = e^{high:.4f} / (e^{low:.4f} + e^{high:.4f})"]
    context = (1 - weight) * 1 + weight * 3
    reader.go(address(SMALL, cell="context:0:0", head="0"))
    assert said(reader) == [f"{context:.4f} = {1 - weight:.4f} + {weight * 3:.4f}"]
    other = 1 / (1 + math.exp(14 / math.sqrt(2)))
    second = other * 4 + (1 - other) * 5
    reader.go(address(SMALL, cell="output:0:0"))
    shown = f"{context + 2 * second:.4f} = {context:.4f}·1 + {second:.4f}·2"
    assert said(reader) == [shown.replace("5.0000", "5")]


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
    (turned(SMALL), {"cell": "queries:1:0", "head": 1},
     {"embeddings:1:0", "embeddings:1:1", "query_weight:2:0", "query_weight:2:1"}),
    (SMALL, {"cell": "output:1:1"}, {"context:1:0", "output_weight:0:1", "output_weight:1:1"}),
    (turned(SMALL), {"cell": "output:1:1"},
     {"context:1:0", "output_weight:1:0", "output_weight:1:1"}),
]  # fmt: skip


def test_exactly_the_operands_of_a_number_are_highlighted(visit: Open) -> None:
    reader = visit("#steps")
    for request, fields, cells in OPERANDS:
        reader.go(address(request, **fields))
        assert lit(reader) == cells, fields
        name, *place = fields["cell"].split(":")
        assert chosen(reader) == [":".join([name, *place[-2:]])], fields


def test_highlighted_cells_have_an_outline(visit: Open) -> None:
    reader = visit(address(example=3, cell="scores:1:2"))
    styles = reader.page.evaluate(
        """() => ["td.lit", "td.chosen"].map((one) =>
          getComputedStyle(document.querySelector(one)).outlineStyle)"""
    )
    assert styles == ["dashed", "solid"]
    assert reader.page.locator("td.chosen").get_attribute("aria-selected") == "true"


def test_a_clicked_cell_is_in_the_address(visit: Open) -> None:
    reader = visit(address(example=3))
    cell = reader.page.locator("[data-step=weights] td[data-row='1'][data-column='0']")
    cell.click()
    reader.settle()
    assert reader.address == "#steps?example=3&cell=weights%3A1%3A0"
    assert said(reader) == ["0.2931 = e^1.116 / (e^1.116 + e^1.266 + e^1.339)"]
    assert reader.page.locator(".derived").get_attribute("role") == "status"


def test_arrow_keys_move_between_cells(visit: Open) -> None:
    reader = visit(address(example=3, cell="scores:1:1"))
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


def test_weighted_values_are_those_of_the_query_token(visit: Open, client: httpx.Client) -> None:
    given = traced(client, **EXAMPLES[2]["request"])["weighted_values"]
    reader = visit(address(example=3, cell="scores:2:0", decimals=6))
    assert numbers(reader, "weighted_values") == [[round(x, 6) for x in row] for row in given[2]]
    reader.page.get_by_label("Query token").select_option("love")
    reader.settle()
    assert numbers(reader, "weighted_values") == [[round(x, 6) for x in row] for row in given[1]]
    assert chosen(reader) == ["weighted_values:0:0"]


def test_the_reader_sets_the_decimals(visit: Open) -> None:
    reader = visit(address(example=3))
    reader.page.get_by_label("Decimals").select_option("2")
    reader.settle()
    assert numbers(reader, "weights")[0] == [0.30, 0.34, 0.36]
    assert reader.address == "#steps?example=3&decimals=2"


def test_shapes_are_shown_in_letters_and_in_numbers(visit: Open) -> None:
    reader = visit(address(example=3))
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


def test_exactly_the_letters_of_the_shapes_are_explained(
    visit: Open, tiny_models: httpx.Client
) -> None:
    reader = visit(address(source="sentence", text="bank river", model="deep"), service=tiny_models)
    shapes = reader.page.locator(".step .shape").all_text_contents()
    letters = set(re.findall(r"[A-Za-z]", " ".join(shapes)))
    assert letters == set(reader.page.locator(".letters dt").all_text_contents())


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
    reader = visit(address(**MALFORMED[0]))
    for fields in MALFORMED:
        reader.go(address(**fields))
        assert numbers(reader, "scores") == EXAMPLES[0]["right"]["scores"], fields
        assert chosen(reader) == ["scores:0:1"], fields
        reader.go(address(example=3, cell="weights:1:0"))
        assert chosen(reader) == ["weights:1:0"]


def test_the_shown_results_can_be_saved(visit: Open, tmp_path: Path) -> None:
    reader = visit(address(example=5, cell="weights:5:7"))
    assert reader.saved_json(tmp_path) == reader.run_command()
    svg = reader.saved(reader.page.get_by_role("button", name="Save SVG"), tmp_path).read_text()
    assert svg.startswith("<?xml")
    assert ">0.23</text>" in svg
    assert "animal" in svg
    assert "stroke-dasharray" in svg
    png = reader.saved(reader.page.get_by_role("button", name="Save PNG"), tmp_path).read_bytes()
    assert png.startswith(b"\x89PNG")


TEXT = "The bank raised its rates while we sat on the river bank"


ONLY_FORMULAS = {
    *("queries", "keys", "embeddings", "position_bias", "word_bias", "scaled_word_bias"),
    *("visible", "position"),
}
"""Steps of the bundled model whose cells have a formula but no sum."""


def test_every_step_of_a_stored_model_is_shown(visit: Open, client: httpx.Client) -> None:
    reader = visit(address(source="sentence", text=TEXT))
    assert steps(reader) == list(traced(client, text=TEXT))


def test_the_contextual_vectors_are_those_of_encode(visit: Open, client: httpx.Client) -> None:
    reader = visit(address(source="sentence", text=TEXT, decimals=6))
    encoded = client.post("/v1/encode", json={"input": TEXT}).json()["results"][0]["contextual"]
    shown = np.array(numbers(reader, "contextual"))
    assert shown.shape[1] >= 5
    np.testing.assert_allclose(shown, np.array(encoded)[:, : shown.shape[1]], atol=2e-5)


def places(given: dict[str, list], heads: int) -> Iterator[tuple[str, int]]:
    """A cell and a head for two of three corners of every step. Corners and heads take turns."""
    for number, (name, values) in enumerate(given.items()):
        # The axis of the heads, which is the first one if there is one, is left out.
        axes = 3 if name == "weighted_values" else 1 if name.endswith("word_bias") else 2
        shape = np.shape(values)[-axes:]
        corners = [[0] * axes, [size - 1 for size in shape], [*[0] * (axes - 1), shape[-1] - 1]]
        for turn in (number, number + 1):
            corner = corners[turn % len(corners)]
            cell = ":".join(map(str, [name, *corner, *([0] if axes == 1 else [])]))
            yield cell, turn % heads


def derived(reader: Reader, given: dict[str, list], heads: int, **fields: object) -> set[str]:
    """Choose cells of every step; return the names of the steps with sums.

    Check that each cell is chosen and that no sum differs from the service's number.
    """
    cells = list(dict.fromkeys(places(given, heads)))
    addresses = [address(**fields, cell=cell, head=head) for cell, head in cells]
    seen = reader.page.evaluate(VISIT, addresses)
    assert len(seen) == len(addresses)
    for (cell, head), one in zip(cells, seen, strict=True):
        name, *place = cell.split(":")
        assert one["chosen"] == [":".join([name, *place[-2:]])], (cell, head)
        assert "differ" not in one["panel"], (cell, head)
    return {cell.split(":")[0] for (cell, _), one in zip(cells, seen, strict=True) if one["sums"]}


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
      panel: document.querySelector(".derived").textContent,
      sums: document.querySelectorAll(".derived .sum").length,
    }});
  }}
  return seen;
}}"""


def test_no_derivation_of_the_bundled_model_contradicts_the_service(
    visit: Open, client: httpx.Client
) -> None:
    fields = {"source": "sentence", "text": "the bank and qqzzxx of the river"}
    given = traced(client, text=fields["text"])
    reader = visit(address(**fields))
    # The values have no sum, because the trace does not have their bias.
    assert derived(reader, given, 4, **fields) == set(given) - ONLY_FORMULAS - {"values"}


LAYERS = {"norm-before": 3, "norm-after": 3, "plain": 1}


@pytest.mark.parametrize("layer", LAYERS)
def test_no_derivation_of_any_kind_of_layer_contradicts_the_service(
    visit: Open, tiny_models: httpx.Client, layer: str
) -> None:
    fields = {"text": "bank river zebra bank", "model": layer, "layer": 1}
    given = traced(tiny_models, **fields)
    reader = visit(address(source="sentence", **fields), service=tiny_models)
    assert steps(reader) == list(given)
    found = derived(reader, given, LAYERS[layer], source="sentence", **fields)
    assert {"scores", "weights", "context", "residual", "contextual"} <= found


def test_a_step_with_only_a_formula_highlights_its_operands(
    visit: Open, tiny_models: httpx.Client
) -> None:
    reader = visit("#steps", service=tiny_models)
    for layer, step, sources in [
        ("norm-after", "attention_norm", {"residual"}),
        ("norm-after", "feed_forward_norm", {"attention_norm", "feed_forward"}),
        ("norm-before", "queries", {"attention_norm"}),
        ("norm-before", "feed_forward_norm", {"residual"}),
    ]:
        fields = {"text": "bank river", "model": layer, "layer": 1, "cell": f"{step}:1:0"}
        reader.go(address(source="sentence", **fields))
        expected = {f"{name}:1:{column}" for name in sources for column in range(5)}
        assert lit(reader) == expected, (layer, step)


def test_a_differing_number_is_marked(open_page: Open) -> None:
    reader = open_page("#models")

    def change_a_score(route: Route) -> None:
        response = route.fetch()
        body = response.json()
        next(step for step in body["steps"] if step["name"] == "scores")["values"][0][1] += 1e-6
        route.fulfill(response=response, json=body)

    reader.page.route("**/v1/trace", change_a_score)
    reader.go(address(example=1, cell="scores:0:1"))
    assert "but this arithmetic gives" in panel(reader)
    reader.go(address(example=1, cell="scores:0:2"))
    assert "differ" not in panel(reader)


def test_a_weight_sums_the_biases_and_excludes_masked_keys(
    visit: Open, client: httpx.Client
) -> None:
    text = "the river bank"
    given = traced(client, text=text)
    reader = visit(address(source="sentence", text=text, cell="weights:1:2", head=2))
    parts = [
        given["scores"][2][1][2],
        given["position_bias"][2][1][2],
        given["scaled_word_bias"][2][2],
    ]
    first, second = said(reader)
    assert first.startswith("score + position bias + word bias: ")
    shown = terms(first.split(": ")[1].replace(" =", " +"))
    np.testing.assert_allclose(shown, [*parts, sum(parts)], atol=1e-4)
    # "river" attends to the two others and not to itself.
    assert second.count("e^") == 3
    assert {"scores:1:0", "position_bias:1:1", "scaled_word_bias:2:0", "visible:1:2"} <= lit(reader)
    reader.go(address(source="sentence", text=text, cell="weights:1:1", head=2))
    assert "river does not attend to river" in panel(reader)


def terms(text: str) -> list[float]:
    """The numbers of a sum."""
    return [float(part.strip(" ()").replace("−", "-")) for part in text.split("+")]


def test_long_sums_show_their_first_terms_and_a_count(visit: Open) -> None:
    reader = visit(address(source="sentence", text="the river bank", cell="scores:0:1"))
    (line,) = said(reader)
    assert line.endswith("… and 12 more products")
    assert line.count("·") == 4


def test_the_reader_chooses_the_head(visit: Open, client: httpx.Client) -> None:
    reader = visit(address(source="sentence", text="the river bank"))
    reader.page.get_by_label("Head", exact=True).select_option("3")
    reader.settle()
    given = traced(client, text="the river bank")["weights"][3]
    assert numbers(reader, "weights") == [[round(x, 4) for x in row] for row in given]


def test_a_number_of_the_output_opens_its_head(visit: Open) -> None:
    reader = visit(address(source="sentence", text="the river bank", cell="output:0:74"))
    assert lit(reader) == {"context:0:74"}
    reader.page.locator("[data-step=output] td.chosen").focus()
    reader.page.keyboard.press("ArrowRight")
    reader.settle()
    assert chosen(reader) == ["output:0:75"]
    assert lit(reader) == {"context:0:0"}
    assert reader.page.get_by_label("Head", exact=True).input_value() == "1"


def test_wide_matrices_show_a_window(visit: Open, client: httpx.Client) -> None:
    text = "the river bank"
    reader = visit(address(source="sentence", text=text))
    static = np.array(traced(client, text=text)["embeddings"])
    shown = np.array(numbers(reader, "embeddings"))
    columns = shown.shape[1]
    assert 5 <= columns <= 20
    reader.page.get_by_role("button", name="Embeddings: later columns").click()
    np.testing.assert_allclose(
        numbers(reader, "embeddings"), static[:, columns : 2 * columns], atol=6e-5
    )
    reader.page.get_by_role("button", name="Embeddings: earlier columns").click()
    np.testing.assert_allclose(numbers(reader, "embeddings"), static[:, :columns], atol=6e-5)
    reader.go(address(source="sentence", text=text, cell="embeddings:1:299"))
    np.testing.assert_allclose(numbers(reader, "embeddings"), static[:, -columns:], atol=6e-5)
    assert chosen(reader) == ["embeddings:1:299"]


def test_back_restores_the_previous_sentence(open_page: Open) -> None:
    reader = open_page(address(source="sentence", text="river bank"))
    reader.page.get_by_label("Sentence", exact=True).fill("money bank")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert reader.address == "#steps?source=sentence&text=money+bank"
    assert reader.page.locator("[data-step=scores] th").first.text_content() == "money"
    reader.page.go_back()
    reader.settle()
    assert reader.page.locator("[data-step=scores] th").first.text_content() == "river"


def test_an_empty_sentence_sends_no_request(open_page: Open) -> None:
    reader = open_page("#models")
    requests: list[str] = []
    reader.page.on("request", lambda request: requests.append(request.url))
    for text in ("", "   "):
        requests.clear()
        reader.go(address(source="sentence", text=text))
        assert reader.problem.text_content() == "Type a sentence to see its steps."
        assert not [url for url in requests if url.endswith("/v1/trace")]
        assert not reader.page.locator(".step").first.is_visible()
        reader.go(address(source="sentence", text="bank"))
        assert not reader.problem.is_visible()


def test_a_missing_layer_is_reported(visit: Open) -> None:
    reader = visit(address(source="sentence", layer=7))
    assert "the model has one layer, 0" in reader.problem.text_content()
    reader.page.get_by_label("Layer").select_option("0")
    reader.settle()
    assert not reader.problem.is_visible()


def test_any_word_has_steps(visit: Open, client: httpx.Client) -> None:
    reader = visit("#steps")
    for text in ("bank", "qqzzxx", "bank bank bank", "שלום bank עולם"):
        reader.go(address(source="sentence", text=text))
        given = traced(client, text=text)["weights"][0]
        assert numbers(reader, "weights") == [[round(x, 4) for x in row] for row in given], text
        assert "differ" not in panel(reader), text


def test_repeated_words_are_numbered(visit: Open) -> None:
    reader = visit(address(source="sentence", text="bank of bank"))
    rows = reader.page.locator("[data-step=scores] th[scope=row]")
    assert rows.all_text_contents() == ["bank₁", "of", "bank₂"]


def test_the_command_gives_the_saved_response(visit: Open, tmp_path: Path) -> None:
    reader = visit(address(source="sentence", text="the l'amour bank", case="lower"))
    assert reader.saved_json(tmp_path) == reader.run_command()


VIEWS = {
    "example": address(example=3, cell="weights:1:0"),
    "example with columns": address(example=5, cell="weights:5:3"),
    "sentence": address(source="sentence", cell="weights:1:2", text="the bank of the river"),
    "numbers": address(SMALL, cell="output:0:0"),
    "a rejected request": address({**SMALL, "heads": 3}),
}


def overflowing(reader: Reader) -> int:
    """The number of tables that are wider than their cards."""
    return reader.page.locator(".matrix-place").evaluate_all(
        "(places) => places.filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    )


def test_it_is_accessible_and_fits(visit: Open, axe: Axe) -> None:
    reader = visit("#steps", width=320, theme="dark")
    for view, fragment in VIEWS.items():
        reader.go(fragment)
        assert reader.problem.is_visible() == (view == "a rejected request")
        assert reader.violations(axe) == [], view
        assert not reader.scrolls_sideways(), view
        assert overflowing(reader) == 0, view


@pytest.mark.parametrize("width", [700, 1600])
def test_nothing_is_wider_than_the_window(visit: Open, axe: Axe, width: int) -> None:
    reader = visit("#steps", width=width)
    for view, fragment in VIEWS.items():
        reader.go(fragment)
        assert not reader.scrolls_sideways(), view
        assert overflowing(reader) == 0, view
    if width == 1600:
        assert reader.violations(axe) == []


def test_an_invalid_cell_is_accessible(open_page: Open, axe: Axe) -> None:
    reader = open_page(VIEWS["numbers"])
    cell = reader.page.get_by_label("Embeddings X, row a, column c0")
    cell.fill("x")
    cell.blur()
    reader.settle()
    assert reader.violations(axe) == []
