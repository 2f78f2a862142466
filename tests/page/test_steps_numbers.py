"""Step by step: the reader's own numbers."""

import json

import httpx
import numpy as np
import pytest

from tests.page.conftest import Open
from tests.page.reader import Reader
from tests.page.stepping import (
    SMALL,
    address,
    chosen,
    field,
    numbers,
    own,
    pasted,
    said,
    traced,
    typed,
)

PLAIN = {"tokens": ["a", "b"], "embeddings": [[1, 2], [3, -1]], "scale": False}
X = "Embeddings X"


def attention(x: list[list[float]], k: int | None = None) -> np.ndarray:
    """Parameter-free attention, by NumPy; k scales."""
    x = np.array(x, float)
    scores = x @ x.T / (1 if k is None else np.sqrt(k))
    shares = np.exp(scores)
    return shares / shares.sum(axis=1, keepdims=True) @ x


def right(reader: Reader, x: list[list[float]]) -> None:
    np.testing.assert_allclose(numbers(reader, "context"), attention(x), atol=5.1e-5)


def test_editing_a_number_changes_the_result_as_numpy_says(open_page: Open) -> None:
    reader = open_page(address(PLAIN))
    right(reader, [[1, 2], [3, -1]])
    typed(reader, X, 0, 1, "-0.5")
    right(reader, [[1, -0.5], [3, -1]])
    typed(reader, X, 1, 0, "1e-1")
    right(reader, [[1, -0.5], [0.1, -1]])


def test_the_address_keeps_the_numbers(open_page: Open) -> None:
    reader = open_page(address(PLAIN))
    typed(reader, X, 0, 1, "7")
    other = open_page(reader.address)
    assert own(other)["embeddings"] == [[1, 7], [3, -1]]
    assert field(other, X, 0, 1).input_value() == "7"
    right(other, [[1, 7], [3, -1]])


def test_numbers_start_from_the_example(open_page: Open) -> None:
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


def test_a_block_is_pasted(open_page: Open) -> None:
    expected = [[0.5, 1], [-2, 0.4], [3, 0.5]]
    reader = open_page("#steps")
    for form, text in BLOCKS.items():
        reader.go(address(PLAIN))
        assert own(reader)["embeddings"] == PLAIN["embeddings"]
        pasted(reader, X, text)
        assert own(reader)["embeddings"] == expected, form
        assert len(own(reader)["tokens"]) == 3, form
        right(reader, expected)


NO_BLOCKS = [
    ("0,1\t0,2\n0,3\t0,4", "Write decimals with a point"),
    ("0,1;0,2", "Write decimals with a point"),
    ("0,1 0,2", "Write decimals with a point"),
    ("[[0,1 0,2]]", "Write decimals with a point"),
    ("1 2\n3", "Row 1 has 1 numbers where row 0 has 2."),
    ("1 2\n3 x", "Row 1: “x” is no number."),
    ("[[1, nan]]", "Row 0: “nan” is no number."),
    ("[[1 ... 2]]", "Row 0: “...” is no number."),
    ("1\t\t2", "Row 0: A number is missing."),
    ("[[], []]", "There are no numbers in what was pasted."),
    ("1 " * 65, "There is room for 64 rows and 64 columns here."),
    ("1e999 1", "Row 0: This number is too large."),
]


def test_a_block_that_is_no_matrix_is_refused_with_a_sentence(open_page: Open) -> None:
    reader = open_page("#steps")
    for text, sentence in NO_BLOCKS:
        reader.go(address(PLAIN))
        wrong = reader.page.get_by_role("group", name=X, exact=True).locator(".wrong")
        assert wrong.text_content() == ""
        pasted(reader, X, text)
        assert sentence in wrong.text_content(), text
        assert own(reader)["embeddings"] == PLAIN["embeddings"], text
        # What is wrong is forgotten with the numbers it is about.
        reader.go(address(SMALL))


def test_what_is_no_number_is_marked_and_not_asked(open_page: Open) -> None:
    reader = open_page("#steps")
    asked = []
    reader.page.on("request", lambda request: asked.append(request.url))
    for text, sentence, width in [
        ("x", "“x” is no number.", 1100),
        ("", "A number is missing.", 1000),
        ("0,5", "Write decimals with a point", 900),
    ]:
        reader.go(address(PLAIN))
        right(reader, PLAIN["embeddings"])
        asked.clear()
        typed(reader, X, 0, 0, text)
        cell = field(reader, X, 0, 0)
        assert cell.get_attribute("aria-invalid") == "true", text
        described = reader.page.locator(f"#{cell.get_attribute('aria-describedby')}")
        assert sentence in described.text_content()
        typed(reader, X, 1, 1, "4")
        reader.resize(width)
        assert asked == [], text
        assert "mend it" in reader.problem.text_content(), text
        assert not reader.page.locator(".step").first.is_visible(), text
        typed(reader, X, 0, 0, "2")
        assert cell.get_attribute("aria-invalid") is None, text
        assert not reader.problem.is_visible(), text
        right(reader, [[2, 2], [3, 4]])


def test_a_refusal_marks_the_matrix_that_it_names(open_page: Open) -> None:
    reader = open_page(address(SMALL))
    pasted(reader, "Key weights Wk", "1 2 3 4\n5 6 7 8\n9 1 2 3")
    assert "takes vectors of width 3, the embeddings have 2" in reader.problem.text_content()
    marked = reader.page.locator("[data-refused]")
    assert marked.count() == 1
    assert "Key weights Wk takes vectors of width 3" in marked.text_content()
    pasted(reader, "Key weights Wk", "1 2 3 4\n5 6 7 8")
    assert not reader.problem.is_visible()
    assert reader.page.locator("[data-refused]").count() == 0


def test_heads_that_do_not_divide_are_said(open_page: Open) -> None:
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
def test_columns_are_added_to_all_that_have_to_fit(open_page: Open, convention: str) -> None:
    square = [[1, 2], [3, 4]]
    weights = dict.fromkeys(["query", "key", "value", "output"], square)
    reader = open_page(address({**PLAIN, "weights": weights, "convention": convention}))
    press(reader, "Embeddings X: add a column")
    press(reader, "Query weights Wq: add a column")
    press(reader, "Query weights Wq: add a column")
    press(reader, "Value weights Wv: remove the last column")
    assert not reader.problem.is_visible()
    request = own(reader)
    shapes = {name: np.shape(rows) for name, rows in request["weights"].items()}
    expected = {"query": (3, 4), "key": (3, 4), "value": (3, 1), "output": (1, 3)}
    if convention == "column":
        expected = {name: shape[::-1] for name, shape in expected.items()}
    assert shapes == expected
    assert np.shape(request["embeddings"]) == (2, 3)
    assert [row[:2] for row in request["weights"]["query"][:2]] == square


def test_weights_are_turned_on_and_off(open_page: Open) -> None:
    reader = open_page(address(PLAIN))
    box = reader.page.get_by_role("group", name="Weights", exact=True).get_by_label("key")
    box.check()
    reader.settle()
    assert own(reader)["weights"] == {"key": [[1, 0], [0, 1]]}
    right(reader, PLAIN["embeddings"])
    box.uncheck()
    reader.settle()
    assert "weights" not in own(reader)


def test_scale_and_convention_are_the_readers(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(address(PLAIN))
    reader.page.get_by_label("divide by √k").check()
    reader.settle()
    np.testing.assert_allclose(
        numbers(reader, "context"), attention(PLAIN["embeddings"], k=2), atol=5.1e-5
    )
    lop = {**PLAIN, "weights": {"key": [[1, 2], [3, 4]]}}
    reader.go(address(lop, decimals=0))
    assert numbers(reader, "keys") == [[7, 10], [0, 2]]
    reader.page.get_by_label("Weights are used as").select_option("column")
    reader.settle()
    assert numbers(reader, "keys") == [[5, 11], [1, 5]]
    assert traced(client, **own(reader))["keys"] == [[5, 11], [1, 5]]


def test_queries_keys_and_values_are_brought_themselves(open_page: Open) -> None:
    reader = open_page(address(PLAIN))
    reader.page.get_by_label("Start from").select_option("queries, keys, values")
    reader.settle()
    assert set(own(reader)) == {"tokens", "queries", "keys", "values", "scale"}
    typed(reader, "Keys K", 0, 0, "4")
    assert numbers(reader, "scores") == [[8, 1], [10, 10]]
    reader.page.get_by_label("Start from").select_option("embeddings")
    reader.settle()
    assert own(reader)["embeddings"] == PLAIN["embeddings"]


def test_cells_are_left_by_arrows_and_enter_as_in_a_spreadsheet(open_page: Open) -> None:
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


def test_all_is_done_with_the_keyboard(open_page: Open) -> None:
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


def test_malformed_numbers_fall_back_to_the_example(open_page: Open) -> None:
    reader = open_page(address(source="numbers", numbers=MALFORMED[0], example=6))
    for text in MALFORMED:
        reader.go(address(source="numbers", numbers=text, example=6))
        assert own(reader)["tokens"] == ["The", "cat"], text
        assert numbers(reader, "scores")[0] == [0.17, 0.19], text
        reader.go(address(SMALL))
        assert own(reader)["tokens"] == ["a", "b"]


def test_words_of_markup_and_of_other_directions_stay_text(open_page: Open) -> None:
    words = ["<img src=x onerror=alert(1)>", "שלום", ""]
    reader = open_page(address({"tokens": words, "embeddings": [[1, 0], [0, 1], [1, 1]]}))
    assert reader.page.locator("main img").count() == 0
    heads = reader.page.locator("[data-step=scores] th[scope=row] bdi")
    assert heads.all_text_contents()[:2] == words[:2]
    assert reader.page.get_by_label("Word 0").input_value() == words[0]
    assert numbers(reader, "scores") == [[1, 0, 1], [0, 1, 1], [1, 1, 2]]


def test_one_word_has_one_weight(open_page: Open) -> None:
    reader = open_page(address({"tokens": ["a"], "embeddings": [[2, 3]], "scale": False}))
    assert numbers(reader, "scores") == [[13]]
    assert chosen(reader) == ["scores:0:0"]
    assert said(reader) == ["13 = 2·2 + 3·3"]


def test_numbers_too_many_for_an_address_are_still_shown(open_page: Open) -> None:
    x = (np.arange(64 * 64).reshape(64, 64) / 4096).tolist()
    reader = open_page(address(PLAIN))
    pasted(reader, X, json.dumps(x))
    assert np.shape(own(reader)["embeddings"]) == (64, 64)
    assert len(numbers(reader, "scores")) == 24
    reader.page.get_by_role("button", name="Scores: later rows").click()
    expected = (np.array(x) @ np.array(x).T)[24:48]
    shown = np.array(numbers(reader, "scores"))
    np.testing.assert_allclose(shown, expected[:, : shown.shape[1]], atol=5.1e-5)
