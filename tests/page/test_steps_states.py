"""Step by step: what stays as it was left, and states that nobody meant."""

import json
import math
from pathlib import Path

import httpx
import numpy as np
import pytest

from polyseme.engine.layers import Layer, Residual
from tests.conftest import Serve
from tests.page.conftest import Open
from tests.page.reader import Reader
from tests.page.stepping import (
    SMALL,
    address,
    field,
    numbers,
    own,
    panel,
    pasted,
    said,
    traced,
    typed,
)
from tests.tiny import WORDS, full_layer, write_tiny

FILE = Path(__file__).parents[2] / "service" / "polyseme" / "page" / "worked-examples.json"
EXAMPLES = json.loads(FILE.read_text("utf-8"))["examples"]
PLAIN = {"tokens": ["a", "b"], "embeddings": [[1, 2], [3, -1]], "scale": False}
LONG = "pneumonoultramicroscopicsilicovolcanoconiosis" * 3


def press(reader: Reader, name: str) -> None:
    reader.page.get_by_role("button", name=name, exact=True).click()
    reader.settle()


def focused(reader: Reader) -> str | None:
    return reader.page.evaluate("document.activeElement.getAttribute('aria-label')")


def overflowing(reader: Reader) -> int:
    """How many tables are wider than their cards."""
    return reader.page.locator(".matrix-place").evaluate_all(
        "(places) => places.filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    )


def test_a_link_with_more_words_than_can_be_edited_falls_back(open_page: Open) -> None:
    reader = open_page("#steps")
    for count, fits in [(64, True), (65, False), (100_000, False)]:
        reader.go(address({**PLAIN, "tokens": ["a"] * count, "embeddings": [[1]] * 64}))
        words = reader.page.get_by_role("group", name="Words", exact=True).locator("input")
        assert words.count() == (64 if fits else 5), count
        assert len(own(reader)["tokens"]) == words.count(), count


def test_a_long_word_is_shown_cut_and_sent_whole(open_page: Open, client: httpx.Client) -> None:
    reader = open_page("#steps", width=320)
    request = {**PLAIN, "tokens": ["x" * 50_000, "b"]}
    for there in (address(request), address(source="sentence", text=f"a {LONG} b")):
        reader.go(there)
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


def test_words_that_are_cut_alike_are_told_apart(open_page: Open) -> None:
    reader = open_page(address({**PLAIN, "tokens": [f"{LONG}a", f"{LONG}b"]}))
    rows = reader.page.locator("[data-step=scores] th[scope=row]").all_text_contents()
    assert len(set(rows)) == 2


def test_a_number_beside_a_printed_one_has_as_many_decimals(open_page: Open) -> None:
    request = EXAMPLES[0]["request"]
    x = np.array(request["embeddings"])
    shares = np.exp(x @ x.T)[0]
    weights = shares / shares.sum()
    reader = open_page("#steps", width=1200)
    for decimals, width in [(4, 1200), (2, 320), (0, 700), (10, 320)]:
        reader.resize(width)
        reader.go(address(example=1, decimals=decimals))
        cell = reader.page.locator("[data-step=context] td.misprinted").first
        assert cell.locator("s").text_content() == "0.40505"
        shown = cell.locator(".number").text_content()
        assert shown == f"{weights @ x[:, 0]:.{max(decimals, 5)}f}"
        for wrong in reader.page.locator(".step td.misprinted").all():
            right = wrong.locator(".number").text_content()
            assert right != wrong.locator("s").text_content()
        # A cell without a printed value has what the reader asked for.
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
    for count, there in [
        (3, "Remove the last word"), (2, "Remove the last word"), (1, "Add a word"),
    ]:  # fmt: skip
        reader.page.keyboard.press("Enter")
        reader.settle()
        assert len(own(reader)["tokens"]) == count
        assert focused(reader) == there
    typed(reader, "Embeddings X", 0, 0, "4")
    reader.page.get_by_label("Word 0").focus()
    reader.page.keyboard.type("c")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert focused(reader) == "Word 0"


def test_a_sentence_that_is_being_typed_stays(open_page: Open) -> None:
    reader = open_page(address(source="sentence", text="river bank"), width=1200)
    box = reader.page.get_by_label("Sentence", exact=True)
    box.fill("money ba")
    reader.resize(900)
    reader.page.get_by_label("Case").select_option("lower")
    reader.settle()
    reader.page.emulate_media(color_scheme="dark")
    reader.settle()
    assert box.input_value() == "money ba"
    # Another address has its own sentence, and so has the way back.
    reader.go(address(source="sentence", text="open door"))
    assert box.input_value() == "open door"
    box.fill("river")
    reader.page.keyboard.press("Enter")
    reader.settle()
    reader.page.go_back()
    reader.settle()
    assert box.input_value() == "open door"


def test_without_its_examples_the_view_says_so_and_waits_for_nothing(open_page: Open) -> None:
    reader = open_page("#models")
    reader.page.route("**/worked-examples.json", lambda route: route.abort())
    reader.go("#steps")
    assert "did not come" in reader.problem.text_content()
    assert reader.page.locator("[aria-busy]").count() == 0


FEW_DECIMALS = [
    (1, "scores:0:1", 0, "0.32 = 0.1·0.4 + 0.2·0.5 + 0.3·0.6"),
    (3, "scores:1:0", 0, "1.1 = 0.5·0.76 + 0.8·0.92"),
    (4, "scaled_scores:1:0", 1, "0.79 = 1.1 / √2 = 1.1 / 1.4"),
    (5, "scores:5:1", 2, "0.77 = 0.6·0.6 + 0.5·0.5 + 0.4·0.4"),
]
TINY = [
    ([[1e-5, 0], [2, 0]], 4, "1.00e−5", "2.00e−5 = 1.00e−5·2 + 0·0"),
    ([[0.0003, 0], [2, 0]], 2, "0.0003", "0.0006 = 0.0003·2 + 0·0"),
    ([[4e12, 0], [2, 0]], 4, "4.00e12", "8.00e12 = 4.00e12·2 + 0·0"),
    ([[40000000, 0], [2, 0]], 4, "40000000", "80000000 = 40000000·2 + 0·0"),
]


def test_powers_of_ten_are_for_tiny_and_huge_numbers(open_page: Open) -> None:
    reader = open_page("#steps")
    for number, cell, decimals, sum_ in FEW_DECIMALS:
        reader.go(address(example=number, cell=cell, decimals=decimals))
        assert said(reader) == [sum_], (cell, decimals)
    for rows, decimals, number, sum_ in TINY:
        request = {**PLAIN, "embeddings": rows}
        reader.go(address(request, cell="queries:0:0", decimals=decimals))
        assert said(reader) == [f"{number} = {number}"]
        reader.go(address(request, cell="scores:0:1", decimals=decimals))
        assert said(reader) == [sum_]


def test_a_case_that_is_not_there_is_refused_by_the_service(open_page: Open) -> None:
    reader = open_page(address(source="sentence", case="UPPER"))
    assert "/case" in reader.problem.text_content()
    reader.page.get_by_label("Case").select_option("lower")
    reader.settle()
    assert not reader.problem.is_visible()
    assert own(reader)["case"] == "lower"


def test_real_minus_signs_and_decimal_commas_in_what_is_pasted(open_page: Open) -> None:
    reader = open_page(address(PLAIN))
    wrong = reader.page.get_by_role("group", name="Embeddings X", exact=True).locator(".wrong")
    pasted(reader, "Embeddings X", "−1e−5 2\n3 −4")
    assert own(reader)["embeddings"] == [[-1e-5, 2], [3, -4]]
    for text in ("0,5\n0,6", "-0,5\r\n,25\r\n", "−1,5\n2,5\n3,5"):
        pasted(reader, "Embeddings X", text)
        assert "Write decimals with a point" in wrong.text_content(), text
        assert own(reader)["embeddings"] == [[-1e-5, 2], [3, -4]], text
    pasted(reader, "Embeddings X", "1, 2\n3, 4")
    assert own(reader)["embeddings"] == [[1, 2], [3, 4]]
    typed(reader, "Embeddings X", 0, 0, "−1e−5")
    assert own(reader)["embeddings"][0][0] == -1e-5


def test_weights_stay_while_queries_keys_and_values_are_brought(open_page: Open) -> None:
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
    # Other numbers bring their own.
    reader.go(address(PLAIN))
    start.select_option("queries, keys, values")
    reader.settle()
    assert own(reader)["keys"] == PLAIN["embeddings"]


@pytest.fixture(scope="module")
def normed(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> httpx.Client:
    """A service with models whose layer has a norm before it: with weights, and without any."""
    folder = tmp_path_factory.mktemp("normed")
    norm = full_layer(3).attention_norm
    bare = Layer(residual=Residual("add"), norm="before", attention_norm=norm)
    write_tiny(folder / "bare", layers=[bare])
    bias = np.zeros(len(WORDS), np.float32)
    write_tiny(folder / "full", layers=[full_layer(1)], word_bias=bias)
    return serve(models_dir=folder, model="bare", workers=1)


def test_queries_come_out_of_the_norm_where_there_is_one(
    open_page: Open, normed: httpx.Client
) -> None:
    reader = open_page("#models", service=normed)
    for model, formula, symbols, column in [
        ("bare", "Q = X̂", "Q[1,2] = X̂[1,2]", 2),
        ("full", "Q = X̂·Wq + bq", "Q = X̂·Wq + bq", 1),
    ]:
        fields = {"text": "bank river", "model": model}
        given = traced(normed, **fields)
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
