"""The view Step by step: the reader's own numbers."""

import json

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.page.conftest import Visit
from tests.page.driver import EXAMPLES, PLAIN, SMALL, Reader, steps_address

pytestmark = pytest.mark.slow

X = "Embeddings X"


def check_context(reader: Reader, x: list[list[float]], scale: float = 1) -> None:
    """Check that the page shows parameter-free attention of the vectors x, computed by NumPy."""
    vectors = np.array(x, float)
    weights = np.exp(vectors @ vectors.T / scale)
    expected = weights / weights.sum(axis=1, keepdims=True) @ vectors
    np.testing.assert_allclose(reader.matrix("context"), expected, atol=5.1e-5)


def test_edited_numbers_give_numpys_result_and_are_in_the_address(visit: Visit) -> None:
    reader = visit(steps_address(PLAIN))
    check_context(reader, [[1, 2], [3, -1]])
    reader.write(X, "1 -0.5\n1e-1 7")
    check_context(reader, [[1, -0.5], [0.1, 7]])
    reader.page.get_by_label("divide by √k").check()
    reader.pause()
    check_context(reader, [[1, -0.5], [0.1, 7]], np.sqrt(2))
    other = visit(reader.address)
    assert other.field(X).input_value() == "1 -0.5\n0.1 7"
    check_context(other, [[1, -0.5], [0.1, 7]], np.sqrt(2))
    # What is typed is computed with after a pause, and the field keeps the focus.
    with other.page.expect_response("**/v1/trace"):
        other.field(X).press_sequentially("5")
    other.settle()
    assert other.field(X).evaluate("(field) => field === document.activeElement")


MATRICES = {
    "tabs": "0.5\t1\n-2\t4e-1\n3\t.5\n",
    "commas": "0.5,1\n-2, 4e-1\n3,.5",
    "semicolons": "0.5;1\r\n-2;4e-1\r\n3;.5\r\n",
    "spaces": "  0.5   1\n -2 4e-1\n3 .5",
    "JSON": "[[0.5, 1], [-2, 4e-1], [3, 0.5]]",
    "NumPy's str": "[[ 0.5  1. ]\n [-2.   0.4]\n [ 3.   0.5]]",
    "NumPy's repr": "array([[ 0.5,  1. ],\n       [-2. ,  0.4],\n       [ 3. ,  0.5]])",
    "a real minus": "0.5\t1\n−2\t4e−1\n3\t0.5",
    "wide spaces and digits": "0.5\u00a01\n-2\u20034e-1\n３ ０.５",
}
INVALID_MATRICES = [
    ("0,1\t0,2\n0,3\t0,4", "Write decimals with a point"),
    ("[[0,1 0,2]]", "Write decimals with a point"),
    ("0,5\n0,6", "Write decimals with a point"),
    ("-0,5\r\n,25\r\n", "Write decimals with a point"),
    ("1 2\n3", "Row 1 has 1 number, but row 0 has 2."),
    ("1,5 2\n3 4", "Row 1 has 2 numbers, but row 0 has 3. Write decimals with a point"),
    ("1 2\n3 x", "Row 1: “x” is not a number."),
    ("[[1, nan]]", "Row 0: “nan” is not a number."),
    ("1\t\t2", "Row 0: A number is missing."),
    ("[[], []]", "There are no numbers."),
    ("", "There are no numbers."),
    ("1e999 1", "Row 0: This number is too large."),
]
PARSE = """async (texts) => {
  const { parseMatrix } = await import("/page/steps/editor.js");
  return texts.map(parseMatrix);
}"""


def test_a_matrix_is_read_in_every_usual_form(visit: Visit) -> None:
    reader = visit("#steps")
    parsed = reader.page.evaluate(PARSE, list(MATRICES.values()))
    assert [one["rows"] for one in parsed] == [[[0.5, 1], [-2, 0.4], [3, 0.5]]] * len(MATRICES)
    found = reader.page.evaluate(PARSE, [text for text, _ in INVALID_MATRICES])
    for (text, message), one in zip(INVALID_MATRICES, found, strict=True):
        assert message in one["error"], text
    (parsed,) = reader.page.evaluate(PARSE, ["1, 2.50\n3e-2, 1.25e1"])
    assert parsed == {"rows": [[1, 2.5], [0.03, 12.5]], "digits": [[0, 2], [2, 1]]}


def test_an_invalid_matrix_is_marked_and_not_sent(visit: Visit) -> None:
    reader = visit(steps_address(PLAIN))
    reader.requests.clear()
    reader.write(X, "1 x\n3 4")
    matrix = reader.field(X)
    described = reader.page.locator(f"#{matrix.get_attribute('aria-describedby')}")
    assert described.text_content() == "Row 0: “x” is not a number."
    reader.page.get_by_label("divide by √k").check()
    reader.pause()
    assert reader.requests == []
    assert "Correct it" in reader.problem.text_content()
    assert not reader.page.locator(".step").first.is_visible()
    assert matrix.input_value() == "1 x\n3 4"
    reader.write(X, "1 2\n3 4")
    assert described.text_content() == ""
    assert not reader.problem.is_visible()
    check_context(reader, [[1, 2], [3, 4]], np.sqrt(2))


def test_the_services_error_marks_the_field_that_it_names(visit: Visit) -> None:
    reader = visit(steps_address(SMALL))
    marked = reader.page.locator(".editor [aria-invalid=true]")
    reader.write("Key weights Wk", "1 2 3 4\n5 6 7 8\n9 1 2 3")
    assert "The key weights take vectors of width 3" in reader.problem.text_content()
    assert marked.count() == 1
    reader.write("Key weights Wk", "1 2 3 4\n5 6 7 8")
    assert not reader.problem.is_visible()
    assert marked.count() == 0
    for heads, message in {"3": "3 heads do not divide 4 columns", "": "heads: "}.items():
        reader.write("Heads", heads)
        assert message in reader.problem.text_content()
        assert marked.count() == 1
        assert reader.field("Heads").get_attribute("aria-invalid") == "true"
    reader.write("Heads", "1")
    reader.write("Words", "a\nb\nc")
    message = "The number of words is 3, but the number of rows of the embeddings is 2."
    assert message in reader.problem.text_content()


def test_the_reader_sets_weights_and_convention(visit: Visit) -> None:
    reader = visit(steps_address(PLAIN))
    assert reader.field("Key weights Wk").get_attribute("placeholder") == "none"
    reader.write("Key weights Wk", "1 2\n3 4")
    assert reader.sent()["weights"] == {"key": [[1, 2], [3, 4]]}
    assert reader.matrix("keys") == [[7, 10], [0, 2]]
    reader.choose("Convention", "column")
    reader.pause()
    assert reader.matrix("keys") == [[5, 11], [1, 5]]
    reader.go(steps_address(example=3))
    reader.press("Edit these numbers")
    assert reader.button("Own numbers").get_attribute("aria-pressed") == "true"
    reader.write("Key weights Wk", "2 0.2\n0.3 0.5\n0.7 0.9")
    expected = EXAMPLES[2]["request"]["weights"]
    assert reader.sent()["weights"] == {**expected, "key": [[2, 0.2], [0.3, 0.5], [0.7, 0.9]]}


def test_matrices_are_kept_when_the_reader_starts_from_others(visit: Visit) -> None:
    reader = visit(steps_address(SMALL))
    reader.choose("Start from", "projected")
    reader.pause()
    assert set(reader.sent()) == {"tokens", "queries", "keys", "values", "heads", "scale"}
    reader.write("Keys K", "4 2\n3 -1")
    assert reader.sent()["keys"] == [[4, 2], [3, -1]]
    reader.choose("Start from", "embeddings")
    reader.pause()
    assert reader.sent() == {**SMALL, "scale": True, "convention": "row"}
    reader.choose("Start from", "projected")
    reader.pause()
    assert reader.field("Keys K").input_value() == "4 2\n3 -1"


MALFORMED = [
    "", "[]", "null", '{"tokens":"a","embeddings":[[1]]}', '{"tokens":["a"],"embeddings":[1]}',
    '{"tokens":["a"],"embeddings":[[1]],"weights":[1]}', '{"tokens":["a"],"queries":[[1]]}',
]  # fmt: skip
REJECTED = {
    '{"tokens":[],"embeddings":[[1]]}': "",
    '{"tokens":["a"],"embeddings":[["x"]]}': "",
    '{"tokens":["a"],"embeddings":[[1e200]]}': "The numbers are too large to compute with.",
}


def test_malformed_numbers_fall_back_to_the_example(visit: Visit) -> None:
    reader = visit("#steps")
    for text in MALFORMED:
        reader.go(steps_address(source="numbers", numbers=text, example=6))
        assert reader.sent()["tokens"] == ["The", "cat"], text
    for text, message in REJECTED.items():
        reader.go(steps_address(source="numbers", numbers=text))
        expect(reader.problem, text).to_contain_text(message)
        assert not reader.page.locator(".step").first.is_visible(), text


def test_words_of_other_directions_and_empty_words_are_kept(visit: Visit) -> None:
    words = ["bank", "שלום", ""]
    reader = visit(steps_address({"tokens": words, "embeddings": [[1, 0], [0, 1], [1, 1]]}))
    assert reader.row_names() == [*words[:2], "␣"]
    assert reader.field("Words").input_value() == "\n".join(words)
    reader.write(X, "1 0\n0 1\n1 2")
    assert reader.sent()["tokens"] == words
    for text in ("a\nb\nc\n\n", "a, b,c "):
        reader.write("Words", text)
        assert reader.sent()["tokens"] == ["a", "b", "c"]
    reader.write("Words", " \n")
    assert "Type the words." in reader.texts(".editor .error")


def test_numbers_that_exceed_an_address_are_still_shown(visit: Visit) -> None:
    x = np.arange(64 * 64).reshape(64, 64) / 4096
    reader = visit(steps_address({**PLAIN, "tokens": ["a"] * 64, "embeddings": [[1]] * 64}))
    reader.write(X, json.dumps(x.tolist()))
    assert np.shape(reader.sent()["embeddings"]) == (64, 64)
    scores = x @ x.T
    np.testing.assert_allclose(reader.matrix("scores"), scores[:24, :16], atol=5.1e-5)
    reader.choose("Scores: rows", "rows 24 to 47 of 64")
    np.testing.assert_allclose(reader.matrix("scores"), scores[24:48, :16], atol=5.1e-5)
