"""The view Step by step: the reader's own numbers, and input that survives changes."""

import json
import math
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.page.conftest import Open
from tests.page.reader import Reader
from tests.page.steps import (
    SMALL,
    address,
    chosen,
    field,
    numbers,
    own,
    panel,
    pasted,
    said,
    traced,
    typed,
)

pytestmark = pytest.mark.slow


PLAIN = {"tokens": ["a", "b"], "embeddings": [[1, 2], [3, -1]], "scale": False}


X = "Embeddings X"


SQUARE = [[1, 2], [3, 4]]


def attention(x: list[list[float]], k: int | None = None) -> np.ndarray:
    """Parameter-free attention by NumPy, scaled by 1/√k if k is given."""
    x = np.array(x, float)
    scores = x @ x.T / (1 if k is None else np.sqrt(k))
    weights = np.exp(scores)
    return weights / weights.sum(axis=1, keepdims=True) @ x


def check_context(reader: Reader, x: list[list[float]]) -> None:
    """Check that the page shows the attention of the vectors x."""
    np.testing.assert_allclose(numbers(reader, "context"), attention(x), atol=5.1e-5)


def test_an_edited_number_gives_numpys_result(open_page: Open) -> None:
    reader = open_page(address(PLAIN))
    check_context(reader, [[1, 2], [3, -1]])
    typed(reader, X, 0, 1, "-0.5")
    check_context(reader, [[1, -0.5], [3, -1]])
    typed(reader, X, 1, 0, "1e-1")
    check_context(reader, [[1, -0.5], [0.1, -1]])


def test_the_address_keeps_the_numbers(open_page: Open) -> None:
    reader = open_page(address(PLAIN))
    typed(reader, X, 0, 1, "7")
    other = open_page(reader.address)
    assert own(other)["embeddings"] == [[1, 7], [3, -1]]
    assert field(other, X, 0, 1).input_value() == "7"
    check_context(other, [[1, 7], [3, -1]])


def test_own_numbers_start_from_the_example(open_page: Open) -> None:
    reader = open_page(address(example=3))
    reader.page.get_by_role("button", name="Edit these numbers").click()
    reader.settle()
    assert (
        reader.page.get_by_role("tab", name="Own numbers").get_attribute("aria-selected") == "true"
    )
    typed(reader, "Key weights Wk", 0, 0, "2")
    request = own(reader)
    assert request["weights"]["key"] == [[2, 0.2], [0.3, 0.5], [0.7, 0.9]]
    expected = np.array(request["embeddings"]) @ np.array(request["weights"]["key"])
    np.testing.assert_allclose(numbers(reader, "keys"), expected, atol=5.1e-5)
    assert not reader.page.locator(".step s").count()


BLOCKS = {
    "tabs": "0.5\t1\n-2\t4e-1\n3\t.5\n",
    "commas": "0.5,1\n-2,4e-1\n3,.5",
    "commas and spaces": "0.5, 1\n-2, 4e-1\n3, .5",
    "semicolons": "0.5;1\r\n-2;4e-1\r\n3;.5\r\n",
    "spaces": "  0.5   1\n -2 4e-1\n3 .5",
    "JSON": "[[0.5, 1], [-2, 4e-1], [3, 0.5]]",
    "NumPy's str": "[[ 0.5  1. ]\n [-2.   0.4]\n [ 3.   0.5]]",
    "NumPy's repr": "array([[ 0.5,  1. ],\n       [-2. ,  0.4],\n       [ 3. ,  0.5]])",
    "a real minus": "0.5\t1\n−2\t0.4\n3\t0.5",
}


def test_a_matrix_is_pasted(open_page: Open) -> None:
    expected = [[0.5, 1], [-2, 0.4], [3, 0.5]]
    reader = open_page(address(PLAIN))
    pasted(reader, X, BLOCKS["tabs"])
    assert own(reader)["embeddings"] == expected
    assert len(own(reader)["tokens"]) == 3
    check_context(reader, expected)
    found = reader.page.evaluate(PARSE, list(BLOCKS.values()))
    assert found == [{"rows": expected}] * len(BLOCKS)


PARSE = """async (texts) => {
  const { parseMatrix } = await import("/page/steps/matrix_field.js");
  return texts.map(parseMatrix);
}"""


INVALID_MATRICES = [
    ("0,1\t0,2\n0,3\t0,4", "Write decimals with a point"),
    ("0,1;0,2", "Write decimals with a point"),
    ("0,1 0,2", "Write decimals with a point"),
    ("[[0,1 0,2]]", "Write decimals with a point"),
    ("1 2\n3", "Row 1 has 1 numbers, but row 0 has 2."),
    ("1 2\n3 x", "Row 1: “x” is not a number."),
    ("[[1, nan]]", "Row 0: “nan” is not a number."),
    ("[[1 ... 2]]", "Row 0: “...” is not a number."),
    ("1\t\t2", "Row 0: A number is missing."),
    ("[[], []]", "The pasted text contains no numbers."),
    ("1 " * 65, "A matrix has at most 64 rows and 64 columns here."),
    ("1e999 1", "Row 0: This number is too large."),
]


def test_an_invalid_matrix_is_rejected_with_a_message(open_page: Open) -> None:
    reader = open_page(address(PLAIN))
    message = reader.page.get_by_role("group", name=X, exact=True).locator(".error")
    pasted(reader, X, "1 2\n3")
    assert message.text_content() == "Row 1 has 1 numbers, but row 0 has 2."
    assert own(reader)["embeddings"] == PLAIN["embeddings"]
    # Other numbers clear the message.
    reader.go(address(SMALL))
    assert message.text_content() == ""
    found = reader.page.evaluate(PARSE, [text for text, _ in INVALID_MATRICES])
    for (text, sentence), one in zip(INVALID_MATRICES, found, strict=True):
        assert sentence in one["error"], text


def test_an_invalid_number_is_marked_and_not_sent(open_page: Open) -> None:
    reader = open_page("#steps")
    requests = []
    reader.page.on("request", lambda request: requests.append(request.url))
    for text, sentence, width in [
        ("x", "“x” is not a number.", 1100),
        ("", "A number is missing.", 1000),
        ("0,5", "Write decimals with a point", 900),
    ]:
        reader.go(address(PLAIN))
        check_context(reader, PLAIN["embeddings"])
        requests.clear()
        typed(reader, X, 0, 0, text)
        cell = field(reader, X, 0, 0)
        assert cell.get_attribute("aria-invalid") == "true", text
        described = reader.page.locator(f"#{cell.get_attribute('aria-describedby')}")
        assert sentence in described.text_content()
        typed(reader, X, 1, 1, "4")
        reader.resize(width)
        assert requests == [], text
        assert "Correct it" in reader.problem.text_content(), text
        assert not reader.page.locator(".step").first.is_visible(), text
        typed(reader, X, 0, 0, "2")
        assert cell.get_attribute("aria-invalid") is None, text
        assert not reader.problem.is_visible(), text
        check_context(reader, [[2, 2], [3, 4]])


def test_an_error_marks_the_matrix_that_it_names(open_page: Open) -> None:
    reader = open_page(address(SMALL))
    pasted(reader, "Key weights Wk", "1 2 3 4\n5 6 7 8\n9 1 2 3")
    assert "takes vectors of width 3, but the embeddings have 2" in reader.problem.text_content()
    marked = reader.page.locator("[data-rejected]")
    assert marked.count() == 1
    assert "Key weights Wk takes vectors of width 3" in marked.text_content()
    pasted(reader, "Key weights Wk", "1 2 3 4\n5 6 7 8")
    assert not reader.problem.is_visible()
    assert reader.page.locator("[data-rejected]").count() == 0


def test_heads_that_do_not_divide_the_width_are_reported(open_page: Open) -> None:
    reader = open_page(address(SMALL))
    reader.page.get_by_label("Heads").fill("3")
    reader.page.get_by_label("Heads").blur()
    reader.settle()
    assert "3 heads do not divide 4 columns" in reader.problem.text_content()
    assert reader.page.get_by_label("Heads").get_attribute("aria-invalid") == "true"
    reader.page.get_by_label("Heads").fill("0")
    reader.page.get_by_label("Heads").blur()
    assert "whole number from 1 to 64" in reader.problem.text_content()
    reader.page.get_by_label("Heads").fill("1")
    reader.page.get_by_label("Heads").blur()
    reader.settle()
    assert not reader.problem.is_visible()


def press(reader: Reader, name: str) -> None:
    reader.page.get_by_role("button", name=name, exact=True).click()
    reader.settle()


def test_words_are_added_and_removed_in_all_matrices(open_page: Open) -> None:
    projected = {
        "tokens": ["a", "b"],
        "queries": [[1], [2]],
        "keys": [[3], [4]],
        "values": [[5], [6]],
    }
    reader = open_page(address(projected))
    press(reader, "Add a word")
    request = own(reader)
    assert (request["queries"], request["keys"], request["values"]) == (
        [[1], [2], [0]],
        [[3], [4], [0]],
        [[5], [6], [0]],
    )
    assert len(request["tokens"]) == 3
    assert np.shape(numbers(reader, "weights")) == (3, 3)
    press(reader, "Remove the last word")
    press(reader, "Remove the last word")
    assert own(reader)["queries"] == [[1]]
    assert reader.page.get_by_role("button", name="Remove the last word").is_disabled()
    assert numbers(reader, "weights") == [[1]]


@pytest.mark.parametrize("convention", ["row", "column"])
def test_a_column_is_added_to_all_matrices_that_must_match(
    open_page: Open, convention: str
) -> None:
    weights = dict.fromkeys(["query", "key", "value", "output"], SQUARE)
    reader = open_page(address({**PLAIN, "weights": weights, "convention": convention}))
    press(reader, "Embeddings X: add a column")
    line = "row" if convention == "column" else "column"
    press(reader, f"Query weights Wq: add a {line}")
    press(reader, f"Query weights Wq: add a {line}")
    press(reader, f"Value weights Wv: remove the last {line}")
    assert not reader.problem.is_visible()
    request = own(reader)
    shapes = {name: np.shape(rows) for name, rows in request["weights"].items()}
    expected = {"query": (3, 4), "key": (3, 4), "value": (3, 1), "output": (1, 3)}
    if convention == "column":
        expected = {name: shape[::-1] for name, shape in expected.items()}
    assert shapes == expected
    assert np.shape(request["embeddings"]) == (2, 3)
    assert [row[:2] for row in request["weights"]["query"][:2]] == SQUARE


@pytest.mark.parametrize("convention", ["row", "column"])
@pytest.mark.parametrize(
    ("weight", "matrix", "shape"),
    [
        ("query", "Embeddings X", (3, 3)),
        ("query", "Query weights Wq", (3, 3)),
        ("key", "Embeddings X", (3, 3)),
        ("key", "Key weights Wk", (3, 3)),
        ("value", "Value weights Wv", (2, 3)),
        ("output", "Embeddings X", (3, 3)),
    ],
)
def test_a_column_is_added_without_the_other_weights(
    visit: Open, weight: str, matrix: str, shape: tuple[int, int], convention: str
) -> None:
    request = {**PLAIN, "weights": {weight: SQUARE}, "convention": convention}
    reader = visit(address(request))
    line = "row" if convention == "column" and "weights" in matrix else "column"
    press(reader, f"{matrix}: add a {line}")
    assert not reader.problem.is_visible()
    rows = own(reader)["weights"][weight]
    assert np.shape(rows) == (shape if convention == "row" else shape[::-1])
    press(reader, f"{matrix}: remove the last {line}")
    assert not reader.problem.is_visible()
    assert own(reader) == request


def test_weights_are_added_and_removed(open_page: Open) -> None:
    reader = open_page(address(PLAIN))
    box = reader.page.get_by_role("group", name="Weights", exact=True).get_by_label("key")
    box.check()
    reader.settle()
    assert own(reader)["weights"] == {"key": [[1, 0], [0, 1]]}
    check_context(reader, PLAIN["embeddings"])
    box.uncheck()
    reader.settle()
    assert "weights" not in own(reader)


def test_the_reader_sets_scale_and_convention(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(address(PLAIN))
    reader.page.get_by_label("divide by √k").check()
    reader.settle()
    np.testing.assert_allclose(
        numbers(reader, "context"), attention(PLAIN["embeddings"], k=2), atol=5.1e-5
    )
    asymmetric = {**PLAIN, "weights": {"key": SQUARE}}
    reader.go(address(asymmetric, decimals=0))
    assert numbers(reader, "keys") == [[7, 10], [0, 2]]
    reader.page.get_by_label("Convention").select_option("column")
    reader.settle()
    assert numbers(reader, "keys") == [[5, 11], [1, 5]]
    press(reader, "Key weights Wk: add a row")
    assert own(reader)["weights"]["key"] == [[1, 2, 0], [3, 4, 0], [0, 0, 0]]
    press(reader, "Key weights Wk: remove the last row")
    assert traced(client, **own(reader))["keys"] == [[5, 11], [1, 5]]


def test_own_queries_keys_and_values_are_used(open_page: Open) -> None:
    reader = open_page(address(PLAIN))
    reader.page.get_by_label("Start from").select_option("queries, keys, values")
    reader.settle()
    assert set(own(reader)) == {"tokens", "queries", "keys", "values", "scale"}
    typed(reader, "Keys K", 0, 0, "4")
    assert numbers(reader, "scores") == [[8, 1], [10, 10]]
    reader.page.get_by_label("Start from").select_option("embeddings")
    reader.settle()
    assert own(reader)["embeddings"] == PLAIN["embeddings"]


def test_arrows_and_enter_move_between_cells_as_in_a_spreadsheet(open_page: Open) -> None:
    reader = open_page(address(PLAIN))
    field(reader, X, 0, 0).focus()
    keyboard = reader.page.keyboard
    keyboard.type("5")
    keyboard.press("ArrowRight")
    keyboard.type("6")
    keyboard.press("Enter")
    keyboard.type("7")
    keyboard.press("Shift+Tab")
    keyboard.type("8")
    keyboard.press("ArrowUp")
    reader.settle()
    assert own(reader)["embeddings"] == [[5, 6], [8, 7]]
    assert reader.page.evaluate("document.activeElement.getAttribute('aria-label')") == (
        "Embeddings X, row a, column c0"
    )
    field(reader, X, 1, 1).focus()
    keyboard.type("9")
    keyboard.press("Enter")
    reader.settle()
    assert own(reader)["embeddings"] == [[5, 6], [8, 9]]


def test_sources_and_cells_are_usable_by_keyboard(open_page: Open) -> None:
    reader = open_page(address(example=3))
    keyboard = reader.page.keyboard
    reader.page.get_by_role("tab", name="Worked example").focus()
    keyboard.press("ArrowRight")
    reader.settle()
    assert "source=sentence" in reader.address
    keyboard.press("End")
    reader.settle()
    assert "source=numbers" in reader.address
    keyboard.press("ArrowRight")
    reader.settle()
    assert reader.address == "#steps?example=3"
    reader.page.locator("[data-step=weights] td[tabindex='0']").focus()
    keyboard.press("Enter")
    reader.settle()
    assert chosen(reader) == ["weights:0:0"]
    assert said(reader)[0].startswith("0.2978 = e^")
    reader.page.locator(".made-from button", has_text="Scores").focus()
    keyboard.press("Enter")
    assert reader.page.evaluate("document.activeElement.textContent") == "Scores"


MALFORMED = [
    "", "x", "{}", "[]", "null", "1", '{"tokens":[]}', '{"tokens":["a"],"embeddings":[]}',
    '{"tokens":["a"],"embeddings":[[]]}', '{"tokens":["a"],"embeddings":[["1"]]}',
    '{"tokens":["a"],"embeddings":[[1],[2,3]]}',
    '{"tokens":["a"],"embeddings":[[1]],"text":"x"}',
    '{"tokens":["a"],"embeddings":[[1]],"weights":[1]}', '{"tokens":["a"],"queries":[[1]]}',
    '{"tokens":["a"],"embeddings":[[1]],"heads":"2"}',
    '{"tokens":["a"],"embeddings":[[1e999]]}',
    '{"tokens":["a"],"embeddings":[[1]],"queries":[[1]]}', '{"tokens":[1],"embeddings":[[1]]}',
    '{"tokens":["a"],"embeddings":[[1]],"weights":null}',
]  # fmt: skip


def test_malformed_numbers_fall_back_to_the_example(visit: Open) -> None:
    reader = visit(address(source="numbers", numbers=MALFORMED[0], example=6))
    assert own(reader)["tokens"] == ["The", "cat"]
    assert numbers(reader, "scores")[0] == [0.17, 0.19]
    requests = reader.page.evaluate(REQUESTS, [*MALFORMED, json.dumps(SMALL)])
    assert requests == [*["the example"] * len(MALFORMED), SMALL]


REQUESTS = """async (all) => {
  const { requestOf } = await import("/page/steps/sources.js");
  const examples = [{ request: "the example" }];
  return all.map((numbers) => requestOf({ source: "numbers", example: "1", numbers }, examples));
}"""


def test_words_of_markup_and_of_other_directions_stay_text(visit: Open) -> None:
    words = ["<img src=x onerror=alert(1)>", "שלום", ""]
    reader = visit(address({"tokens": words, "embeddings": [[1, 0], [0, 1], [1, 1]]}))
    assert reader.page.locator("main img").count() == 0
    heads = reader.page.locator("[data-step=scores] th[scope=row] bdi")
    assert heads.all_text_contents()[:2] == words[:2]
    assert reader.page.get_by_label("Word 0").input_value() == words[0]
    assert numbers(reader, "scores") == [[1, 0, 1], [0, 1, 1], [1, 1, 2]]


def test_one_word_has_one_weight(visit: Open) -> None:
    reader = visit(address({"tokens": ["a"], "embeddings": [[2, 3]], "scale": False}))
    assert numbers(reader, "scores") == [[13]]
    assert chosen(reader) == ["scores:0:0"]
    assert said(reader) == ["13 = 2·2 + 3·3"]


def test_numbers_that_exceed_an_address_are_still_shown(open_page: Open) -> None:
    x = (np.arange(64 * 64).reshape(64, 64) / 4096).tolist()
    reader = open_page(address(PLAIN))
    pasted(reader, X, json.dumps(x))
    assert np.shape(own(reader)["embeddings"]) == (64, 64)
    assert len(numbers(reader, "scores")) == 24
    reader.page.get_by_role("button", name="Scores: later rows").click()
    expected = (np.array(x) @ np.array(x).T)[24:48]
    shown = np.array(numbers(reader, "scores"))
    np.testing.assert_allclose(shown, expected[:, : shown.shape[1]], atol=5.1e-5)


FILE = Path(__file__).parents[2] / "service" / "polyseme" / "page" / "worked-examples.json"


EXAMPLES = json.loads(FILE.read_text("utf-8"))["examples"]


LONG = "pneumonoultramicroscopicsilicovolcanoconiosis" * 3


def focused(reader: Reader) -> str | None:
    return reader.page.evaluate("document.activeElement.getAttribute('aria-label')")


def overflowing(reader: Reader) -> int:
    """The number of tables that are wider than their cards."""
    return reader.page.locator(".matrix-place").evaluate_all(
        "(places) => places.filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    )


def test_a_link_with_more_words_than_can_be_edited_falls_back(visit: Open) -> None:
    reader = visit("#steps")
    for count, fits in [(64, True), (65, False), (100_000, False)]:
        reader.go(address({**PLAIN, "tokens": ["a"] * count, "embeddings": [[1]] * 64}))
        words = reader.page.get_by_role("group", name="Words", exact=True).locator("input")
        assert words.count() == (64 if fits else 5), count
        assert len(own(reader)["tokens"]) == words.count(), count


def test_a_long_word_is_shown_shortened_and_sent_whole(visit: Open, client: httpx.Client) -> None:
    reader = visit("#steps", width=320)
    request = {**PLAIN, "tokens": ["x" * 50_000, "b"]}
    for fragment in (address(request), address(source="sentence", text=f"a {LONG} b")):
        reader.go(fragment)
        assert not reader.scrolls_sideways()
        assert overflowing(reader) == 0
        texts = reader.page.locator(".step option, .step th, .derived").all_text_contents()
        longest = max(len(text) for text in texts)
        assert 20 < longest < 300
        assert any("…" in text for text in texts)
    reader.resize(1200)
    reader.go(address(request))
    assert own(reader)["tokens"] == request["tokens"]
    assert numbers(reader, "scores") == traced(client, **request)["scores"]


def test_words_with_equal_shortened_forms_are_distinguished(visit: Open) -> None:
    reader = visit(address({**PLAIN, "tokens": [f"{LONG}a", f"{LONG}b"]}))
    rows = reader.page.locator("[data-step=scores] th[scope=row]").all_text_contents()
    assert len(set(rows)) == 2


def test_a_number_has_as_many_decimals_as_its_printed_value(visit: Open) -> None:
    request = EXAMPLES[0]["request"]
    x = np.array(request["embeddings"])
    weights = np.exp(x @ x.T)[0]
    weights /= weights.sum()
    reader = visit("#steps", width=1200)
    for decimals, width in [(4, 1200), (2, 320), (0, 700), (10, 320)]:
        reader.resize(width)
        reader.go(address(example=1, decimals=decimals))
        cell = reader.page.locator("[data-step=context] td.misprinted").first
        assert cell.locator("s").text_content() == "0.40505"
        shown = cell.locator(".number").text_content()
        assert shown == f"{weights @ x[:, 0]:.{max(decimals, 5)}f}"
        for misprinted in reader.page.locator(".step td.misprinted").all():
            correct = misprinted.locator(".number").text_content()
            assert correct != misprinted.locator("s").text_content()
        # A cell without a printed value has the chosen precision.
        plain = reader.page.locator("[data-step=context] td[data-row='1'] .number").first
        assert len(plain.text_content().partition(".")[2]) == decimals
        assert overflowing(reader) == 0, decimals


def test_adding_and_removing_words_by_keyboard_keeps_the_focus(open_page: Open) -> None:
    reader = open_page(address(PLAIN))
    reader.page.get_by_role("button", name="Add a word").focus()
    for count in (3, 4):
        reader.page.keyboard.press("Enter")
        reader.settle()
        assert len(own(reader)["tokens"]) == count
        assert focused(reader) == "Add a word"
    reader.page.get_by_role("button", name="Remove the last word").focus()
    for count, button in [
        (3, "Remove the last word"), (2, "Remove the last word"), (1, "Add a word"),
    ]:  # fmt: skip
        reader.page.keyboard.press("Enter")
        reader.settle()
        assert len(own(reader)["tokens"]) == count
        assert focused(reader) == button
    typed(reader, "Embeddings X", 0, 0, "4")
    reader.page.get_by_label("Word 0").focus()
    reader.page.keyboard.type("c")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert focused(reader) == "Word 0"


def test_a_typed_sentence_is_kept(open_page: Open) -> None:
    reader = open_page(address(source="sentence", text="river bank"), width=1200)
    box = reader.page.get_by_label("Sentence", exact=True)
    box.fill("money ba")
    reader.resize(900)
    reader.page.get_by_label("Case").select_option("lower")
    reader.settle()
    reader.page.emulate_media(color_scheme="dark")
    reader.settle()
    assert box.input_value() == "money ba"
    # The sentence of another address, also of the previous one, replaces the typed text.
    reader.go(address(source="sentence", text="open door"))
    assert box.input_value() == "open door"
    box.fill("river")
    reader.page.keyboard.press("Enter")
    reader.settle()
    reader.page.go_back()
    reader.settle()
    assert box.input_value() == "open door"


def test_missing_examples_are_reported_without_waiting(open_page: Open) -> None:
    reader = open_page("#models")
    reader.page.route("**/worked-examples.json", lambda route: route.abort())
    reader.go("#steps")
    assert "could not be loaded" in reader.problem.text_content()
    assert reader.page.locator("[aria-busy]").count() == 0


FEW_DECIMALS = [
    (1, "scores:0:1", 0, "0.32 = 0.1·0.4 + 0.2·0.5 + 0.3·0.6"),
    (3, "scores:1:0", 0, "1.1 = 0.5·0.76 + 0.8·0.92"),
    (4, "scaled_scores:1:0", 1, "0.79 = 1.1 / √2 = 1.1 / 1.4"),
    (5, "scores:5:1", 2, "0.77 = 0.6·0.6 + 0.5·0.5 + 0.4·0.4"),
]


SMALL_AND_LARGE = [
    ([[1e-5, 0], [2, 0]], 4, "1.00e−5", "2.00e−5 = 1.00e−5·2 + 0·0"),
    ([[0.0003, 0], [2, 0]], 2, "0.0003", "0.0006 = 0.0003·2 + 0·0"),
    ([[4e12, 0], [2, 0]], 4, "4.00e12", "8.00e12 = 4.00e12·2 + 0·0"),
    ([[40000000, 0], [2, 0]], 4, "40000000", "80000000 = 40000000·2 + 0·0"),
]


def test_tiny_and_huge_numbers_have_powers_of_ten(visit: Open) -> None:
    reader = visit("#steps")
    for number, cell, decimals, expected in FEW_DECIMALS:
        reader.go(address(example=number, cell=cell, decimals=decimals))
        assert said(reader) == [expected], (cell, decimals)
    for rows, decimals, number, expected in SMALL_AND_LARGE:
        request = {**PLAIN, "embeddings": rows}
        reader.go(address(request, cell="queries:0:0", decimals=decimals))
        assert said(reader) == [f"{number} = {number}"]
        reader.go(address(request, cell="scores:0:1", decimals=decimals))
        assert said(reader) == [expected]


def test_an_unknown_case_shows_the_services_error(visit: Open) -> None:
    reader = visit(address(source="sentence", case="UPPER"))
    assert "/case" in reader.problem.text_content()
    reader.page.get_by_label("Case").select_option("lower")
    reader.settle()
    assert not reader.problem.is_visible()
    assert own(reader)["case"] == "lower"


def test_pasted_minus_signs_and_decimal_commas_are_read(open_page: Open) -> None:
    reader = open_page(address(PLAIN))
    message = reader.page.get_by_role("group", name="Embeddings X", exact=True).locator(".error")
    pasted(reader, "Embeddings X", "−1e−5 2\n3 −4")
    assert own(reader)["embeddings"] == [[-1e-5, 2], [3, -4]]
    for text in ("0,5\n0,6", "-0,5\r\n,25\r\n", "−1,5\n2,5\n3,5"):
        pasted(reader, "Embeddings X", text)
        assert "Write decimals with a point" in message.text_content(), text
        assert own(reader)["embeddings"] == [[-1e-5, 2], [3, -4]], text
    pasted(reader, "Embeddings X", "1, 2\n3, 4")
    assert own(reader)["embeddings"] == [[1, 2], [3, 4]]
    typed(reader, "Embeddings X", 0, 0, "−1e−5")
    assert own(reader)["embeddings"][0][0] == -1e-5


def test_weights_are_kept_when_queries_keys_and_values_are_given(open_page: Open) -> None:
    reader = open_page(address({**SMALL, "convention": "row"}))
    start = reader.page.get_by_label("Start from")
    start.select_option("queries, keys, values")
    reader.settle()
    assert "weights" not in own(reader)
    typed(reader, "Keys K", 0, 0, "7")
    start.select_option("embeddings")
    reader.settle()
    assert own(reader) == {**SMALL, "convention": "row"}
    start.select_option("queries, keys, values")
    reader.settle()
    assert field(reader, "Keys K", 0, 0).input_value() == "7"
    press(reader, "Add a word")
    start.select_option("embeddings")
    reader.settle()
    assert own(reader)["weights"] == SMALL["weights"]
    assert own(reader)["embeddings"] == [*SMALL["embeddings"], [0, 0]]
    assert not reader.problem.is_visible()
    # Other embeddings replace the kept queries, keys and values.
    reader.go(address(PLAIN))
    start.select_option("queries, keys, values")
    reader.settle()
    assert own(reader)["keys"] == PLAIN["embeddings"]


def test_queries_use_the_output_of_the_norm(visit: Open, tiny_models: httpx.Client) -> None:
    reader = visit("#models", service=tiny_models)
    for model, formula, symbols, column in [
        ("bare", "Q = X̂", "Q[1,2] = X̂[1,2]", 2),
        ("full", "Q = X̂·Wq + bq", "Q = X̂·Wq + bq", 1),
    ]:
        fields = {"text": "bank river", "model": model}
        given = traced(tiny_models, **fields)
        cell = f"queries:1:{column}"
        reader.go(address(source="sentence", **fields, cell=cell, decimals=6))
        assert reader.page.locator("[data-step=queries] .formula").text_content() == formula
        assert symbols in panel(reader)
        assert "differ" not in panel(reader)
        if model == "bare":
            number = given["attention_norm"][1][2]
            assert not math.isclose(number, given["embeddings"][1][2], abs_tol=1e-3)
            assert [float(one.replace("−", "-")) for one in said(reader)[0].split(" = ")] == [
                round(number, 6)
            ] * 2
