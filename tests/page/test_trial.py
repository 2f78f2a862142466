"""What a reader could take for a wrong result, or lose: cases from trials of the page."""

from collections.abc import Callable

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

from tests.page.conftest import Open
from tests.page.driver import (
    BANKS,
    PLAIN,
    SMALL,
    VIEWS,
    Reader,
    address,
    card,
    chosen,
    compare_address,
    lit,
    numbers,
    panel,
    paste,
    readout,
    sentence_address,
    steps_address,
    traced,
    words,
    write,
)

pytestmark = pytest.mark.slow


def softmax(logits: np.ndarray) -> np.ndarray:
    """The softmax of each row."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def test_a_temperature_divides_the_scores_and_not_the_biases(
    open_page: Open, client: httpx.Client
) -> None:
    text = "The bank of the river"
    given = traced(client, text=text)
    bias = np.array(given["position_bias"])[2] + np.array(given["scaled_word_bias"])[2]
    logits = np.where(given["visible"], np.array(given["scores"])[2] / 5 + bias, -np.inf)
    reader = open_page(sentence_address(text, cell="weights:1:0", head=2))
    reader.text("What scaling does").click()
    reader.page.get_by_label("Temperature T").fill("5")
    shown = reader.page.locator("[data-step=weights] output").text_content()
    assert f"row bank: The {softmax(logits)[1, 0]:.2f}, " in shown
    assert "Scaling has T = √k = 4.00. The biases are not divided" in shown
    reader.go(steps_address(example=4, cell="weights:1:0"))
    for temperature in ("2", "8.7"):
        reader.page.get_by_label("Temperature T").fill(temperature)
        weights = softmax(np.array([1.116, 1.266, 1.339]) / float(temperature))
        text = reader.texts("[data-step=weights] output")[0]
        assert f"row love: I {weights[0]:.2f}, love {weights[1]:.2f}" in text
    assert "Scaling has T = √k = 1.41. The smaller T, the more weight" in text


PARTS = "is not in the vocabulary: its vector is made of parts of words"
FORMS = [
    ("I like my iPhone and your iphone.", f"(iphone {PARTS})"),
    ("YouTube met my youtube there", f"(youtube {PARTS})"),
    ("The Bank and a bank", "(two words of the vocabulary; with the case “lower”, they are one)"),
    ("river bank and bank", "in context"),
    ("zqxjk and zqxjk", "(zqxjk is not in the vocabulary: its static vector is zero)"),
]


def test_two_forms_of_a_word_are_called_what_they_are(
    open_page: Open, several: httpx.Client
) -> None:
    reader = open_page("#attention", service=several)
    headline = "section[aria-label=Words] strong"
    for text, expected in FORMS:
        reader.go(address("attention", text=text))
        assert reader.texts(headline)[0].endswith(expected), text
        composed = "1 composed of subwords" if text == FORMS[0][0] else ""
        assert composed in reader.texts(".usage")[0]
    reader.go(compare_address([[FORMS[0][0], "iPhone"], [FORMS[0][0], "iphone"]]))
    assert reader.texts(".notes li") == [f"B {PARTS}."]
    reader.go(address("neighbors", word="iphone"))
    assert reader.heading("Nearest to iphone, not in the vocabulary").is_visible()


def test_a_step_without_weights_says_whose_numbers_it_has(visit: Open) -> None:
    reader = visit(sentence_address("The bank of the river", cell="values:0:0"))
    for step, text in {
        "queries": "A projection of each word, to compare with the keys.",
        "values": "The numbers of “Embeddings” plus a bias, which is the same for every known"
        " word; an unknown word has zeros.",
        "output": "The numbers of “Concatenation”, unchanged: this step has no weights.",
        "contextual": "The numbers of “Residual”, unchanged: this step has no weights.",
    }.items():
        assert reader.texts(f"[data-step={step}] > p.muted") == [text]
    assert "The bias of a model is not shown" in panel(reader)
    # The first column of head 1 is column 75 of all.
    reader.go(sentence_address("The bank of the river", cell="values:1:0", head=1))
    assert "V[1,0] = X[1,75] + its bias" in panel(reader)
    assert lit(reader) == {"embeddings:1:75"}
    reader.go(sentence_address("My zzkqx eats fish", cell="values:1:1"))
    assert "V[1,1] = 0" in panel(reader) and "is not in the vocabulary" in panel(reader)
    assert lit(reader) == set()
    reader.go(steps_address(example=1))
    text = "The numbers of “Embeddings”, unchanged: this step has no weights."
    assert reader.texts("[data-step=queries] > p.muted") == [text]


def test_the_pair_that_changes_most_does_not_depend_on_shown_decimals(
    open_page: Open, several: httpx.Client
) -> None:
    texts = [
        "He deposited cash at the bank on Monday",
        "The muddy bank of the river collapsed",
        "The bank raised its interest rates",
        "We fished from the grassy bank",
        "A bank of clouds hid the bank of the lake",
    ]
    rows = [{"text": text, "word": "bank"} for text in texts]
    body = {"occurrences": rows, "model": "wiki-en-deep"}
    cosines = np.array(several.post("/v1/compare", json=body).json()["contextual_similarity"])
    i, j = np.unravel_index(cosines.argmin(), cosines.shape)
    reader = open_page(
        compare_address([[text, "bank"] for text in texts], model="wiki-en-deep"), service=several
    )
    pair = f"(the pair {'ABCDE'[min(i, j)]} and {'ABCDE'[max(i, j)]}, which context changes most)"
    assert pair in " ".join(reader.texts("figcaption, strong, h3, svg text, .headline"))


def test_a_quotient_of_huge_powers_has_finite_numbers(visit: Open) -> None:
    for q, k, expected in [
        ([[27, 0], [0, 1]], [[27, 0], [1, 0]], "= 1 / 1, with 729 subtracted from each exponent"),
        ([[30, 0], [0, 1]], [[-30, 0], [-30.1, 0]], "= 1 / 1.0498, with −900 subtracted from each"),
        ([[2, 0], [0, 1]], [[1, 0], [0, 1]], "= 7.3891 / 8.3891"),
    ]:
        numbers = {"tokens": ["x", "y"], "queries": q, "keys": k, "values": [[1], [2]]}
        reader = visit(steps_address({**numbers, "scale": False}, cell="weights:0:0"))
        assert expected in panel(reader)


def test_an_example_shows_a_word_without_context_once(open_page: Open) -> None:
    reader = open_page("#senses")
    paste(reader.field("Sentences, one on each line"), "apple\nI ate an apple pie.")
    reader.field("Word").fill("apple")
    reader.button("Find senses").click()
    reader.settle()
    assert "apple" in reader.texts("blockquote") and "appleapple" not in reader.texts("blockquote")


def test_the_map_says_with_what_the_cosines_of_neighbors_are(visit: Open) -> None:
    texts = ["A zzkqx barked loudly", "The zzkqx flew over trees", "Trees grow"]
    for chosen_words, isolated, known in [
        (["zzkqx", "zzkqx"], False, False),
        (["zzkqx", "flew"], True, True),
        (["A", "flew"], False, True),
    ]:
        reader = visit(compare_address([*map(list, zip(texts, chosen_words, strict=False))]))
        caption = " ".join(reader.texts("figcaption"))
        assert ("Their cosines are those with this point" in caption) == known
        assert ("A word without a static vector has those" in caption) == isolated


def test_the_first_click_after_typing_chooses_the_cell(open_page: Open) -> None:
    reader = open_page(steps_address(PLAIN))
    cell = reader.page.locator("[data-step=weights] td[data-row='1'][data-column='0']")
    for pause in (1000, 0):
        reader.field("Embeddings X").press_sequentially("1")
        reader.page.wait_for_timeout(pause)
        # The field loses the focus, and the response arrives between the two halves of the click.
        cell.hover()
        reader.page.mouse.down()
        reader.page.wait_for_timeout(500)
        reader.page.mouse.up()
        reader.settle()
        assert chosen(reader) == ["weights:1:0"]
        reader.page.locator("[data-step=scores] td").first.click()
        reader.settle()
    # A screen reader clicks without a pointer.
    cell.evaluate("(td) => td.click()")
    reader.settle()
    assert chosen(reader) == ["weights:1:0"]


def test_captions_say_of_what_contributions_and_vectors_are(open_page: Open) -> None:
    """A deep layer has a feed-forward network after the sum that contributions divide."""
    text = "The bank by the river bank told us about a new bank."
    reader = open_page(address("attention", text=text, model="wiki-en-deep", word=11, layer=2))
    captions = " ".join(reader.texts("figcaption"))
    assert "exact share in the sum of the layer's input and its attention" in captions
    assert "the sum that is its input of layer 2 and the attention there" in captions
    expect(reader.page.get_by_text("(with the first other one of 3)")).to_be_visible()
    reader.go(address("attention", text="The bank by the river bank."))
    assert "exact share in the contextual vector" in " ".join(reader.texts("figcaption"))
    expect(reader.page.get_by_text("first other one")).to_have_count(0)
    reader.go(sentence_address(text))
    expect(reader.page.locator("[data-step=embeddings]")).to_contain_text("the layer before")


@pytest.mark.parametrize("text", ["Привет мир банк", "🎉", "qqzzxx"])
def test_a_sentence_without_a_known_word_has_no_shares(open_page: Open, text: str) -> None:
    reader = open_page(address("attention", text=text))
    captions = " ".join(reader.texts("figcaption"))
    assert "those of a zero vector to 0: no word that it attends to is known" in captions
    assert "Its vector is zero, so it has no parts" in captions
    assert "All parts sum to 1" not in captions
    reader.press("Lines")
    assert "those of a zero vector to 0" in reader.texts("figcaption")[0]
    word = text.split(maxsplit=1)[0]
    reader.go(compare_address([[text, word], ["river bank", "bank"]]))
    article = card(reader, f"A: {word}").text_content()
    assert "Its contextual vector is zero: no word around it is known." in article
    reader.go(sentence_address(text))
    assert not np.any(numbers(reader, "contextual"))
    reader.go(address("attention", text=f"{text} river bank"))
    assert "zero vector" not in " ".join(reader.texts("figcaption"))


def own_result(reader: Reader, step: str, text: str) -> str:
    """Type an own result of a step; return what the page says."""
    details = reader.page.locator(f"[data-step={step}] .own-result")
    details.evaluate("(details) => { details.open = true; }")
    details.locator("textarea").fill(text)
    return status_of(reader, step)


def status_of(reader: Reader, step: str) -> str:
    """What the page says about the own result of a step."""
    return reader.page.locator(f"[data-step={step}] .own-result [role=status]").text_content()


def own_marks(reader: Reader, step: str) -> list[str]:
    """The rows and columns of the marked cells of a step, and whether they are right."""
    return reader.page.locator(f"[data-step={step}] td:has(.own)").evaluate_all(
        "(all) => all.map((td) => `${td.dataset.row}:${td.dataset.column}"
        "${td.querySelector('.own.right') ? '' : ' wrong'}`)"
    )


def test_a_typed_part_is_compared_with_the_part_that_it_equals(open_page: Open) -> None:
    reader = open_page(steps_address(example=3, hide=1))
    for step, text, status, marks in [
        ("scores", "1.116 1.266 1.339", "row love. Right to 3 decimals: 3 of 3", "1:0 1:1 1:2"),
        ("weights", "0.293 0.341 0.366", "row love. Right to 3 decimals: 3 of 3", "1:0 1:1 1:2"),
        ("context", "0.539 0.820", "row love. Right to 3 decimals: 2 of 2", "1:0 1:1"),
        ("queries", "0.47 0.68", "row I. Right to 2 decimals: 2 of 2", "0:0 0:1"),
        ("queries", "0.68\n0.8\n0.81", "column c1. Right to 1 to 2 decimals: 3 of 3",
         "0:1 1:1 2:1"),
        ("queries", "0.5 0.8\n0.58 0.81", "love to statistics. Right to 1 to 2 decimals: 4 of 4",
         "1:0 1:1 2:0 2:1"),
        # What is wrong belongs to the row of the derivation, which the notes compute.
        ("scores", "1.1 1.3 9", "row love. Right to 1 decimal: 2 of 3", "1:0 1:1 1:2 wrong"),
        ("scores", "1\n2\n3\n4", "do not fit: this step has 3 rows of 3 numbers", ""),
        ("queries", "0.47 0.68 0.5 0.8 0.58 0.81", "Right to 1 to 2 decimals: 6 of 6",
         "0:0 0:1 1:0 1:1 2:0 2:1"),
    ]:  # fmt: skip
        assert status in own_result(reader, step, text), text
        assert " ".join(own_marks(reader, step)) == marks, text
    # It stays compared with this row when another cell is chosen.
    own_result(reader, "scores", "1.1 1.3 9")
    reader.page.locator("[data-step=weights] td[data-row='0']").first.click()
    reader.settle()
    assert "row love. Right to 1 decimal: 2 of 3" in status_of(reader, "scores")
    reader.go(steps_address(example=1))
    row = "0.32 0.77 1.22 0.37 0.47"
    expected = next(
        i
        for i, one in enumerate(numbers(reader, "scores"))
        if np.allclose(one, [*map(float, row.split())], atol=0.005)
    )
    assert "Right to 2 decimals: 5 of 5" in own_result(reader, "scores", row)
    assert own_marks(reader, "scores") == [f"{expected}:{i}" for i in range(5)]
    # A number is shown as it was typed, so that its rounding is not taken for right.
    reader.go(steps_address(example=1, hide=1))
    own_result(reader, "weights", "0.17606 0.21076 0.25229 0.17954 0.18134")
    assert reader.texts("[data-step=weights] td:has(.own)")[0].startswith("0.17606")
    # Beside the number of the page, the mark says whose number is right or wrong.
    reader.go(steps_address(PLAIN))
    own_result(reader, "scores", "5 7")
    assert reader.texts("[data-step=scores] .own") == [" yours: 5.0 ✓ right", " yours: 7.0 ✗ wrong"]


def test_own_results_are_kept(open_page: Open) -> None:
    reader = open_page(steps_address(example=3, hide=1))
    own_result(reader, "scores", "1.116 1.266 1.339")
    reader.page.get_by_label("My result: this number").fill("0.5")
    area = reader.page.locator("[data-step=scores] .own-result textarea")
    for leave in (
        lambda: reader.choose("Example", "4"),
        lambda: reader.press("A sentence"),
        lambda: reader.open_view("Attention"),
    ):
        leave()
        reader.settle()
        if area.count():
            expect(area).to_have_value("")
        reader.back()
        expect(area).to_have_value("1.116 1.266 1.339")
        assert "3 of 3 numbers" in status_of(reader, "scores")
    reader.reload()
    expect(area).to_have_value("1.116 1.266 1.339")
    assert area.is_visible()
    expect(reader.page.get_by_label("My result: this number")).to_have_value("0.5")
    # Own numbers are corrected while the result stays, and is compared with the new numbers.
    reader.go(steps_address(PLAIN))
    own_result(reader, "scores", "5 1\n1 10")
    write(reader, "Words", "a\nbank")
    assert area.input_value() == "5 1\n1 10"
    assert "4 of 4 numbers" in status_of(reader, "scores")
    write(reader, "Embeddings X", "1 2\n3 0")
    assert "1 of 4 numbers" in status_of(reader, "scores")
    # Each head has a result of its own.
    reader.go(steps_address(SMALL, head=0))
    own_result(reader, "scores", "4 5")
    reader.choose("Head", "1")
    expect(area).to_have_value("")
    reader.choose("Head", "0")
    expect(area).to_have_value("4 5")


COMBINED = "cafe\u0301"
"""The word "café" with the accent as a letter of its own."""
SOFT = "ba\u00adnk"
"""The word "bank" with a soft hyphen."""


def test_words_with_marks_that_are_not_seen_are_the_same_words(open_page: Open) -> None:
    reader = open_page(address("attention", text=f"The {COMBINED} and the café", word=1))
    assert "1.00 static" in reader.texts("section[aria-label=Words] strong")[0]
    caption = reader.texts("figcaption")[0]
    assert "attends to no occurrence of itself, so in its row their columns are 0" in caption
    rows = [[f"The {COMBINED} opened", ""], ["A café closed", ""], [f"The {SOFT} lent", SOFT]]
    reader.go(compare_address(rows[:2]))
    assert reader.texts(".models-beside > figure h3")[0].startswith(f"{COMBINED}: 1.00 static")
    reader.go(compare_address([rows[2], ["A bank rose", "bank"]]))
    assert not reader.text("The chosen words differ").is_visible()
    text = f"A {COMBINED} is here.\nThe café lent."
    reader.go(address("senses", text=text, word=COMBINED))
    assert "2 occurrences of “café”" in reader.texts(".summary")[0]
    assert reader.button("café 2").is_visible()


def test_the_link_to_the_shown_view_is_in_a_narrow_window(open_page: Open) -> None:
    reader = open_page("#models", width=390)
    box = reader.page.locator("nav [aria-current]").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


TYPED = [
    ("#senses", {"Sentences, one on each line": "A bat flew.\nHis bat broke.", "Word": "bat"}),
    ("#neighbors?word=river", {"Word": "half a wo"}),
    (sentence_address("river bank"), {"Sentence": "the bank of"}),
    (steps_address(PLAIN), {"Words": "a\nb\nc", "Embeddings X": "1 2\n3"}),
    ("#attention", {"Sentence": "The river"}),
    (compare_address(BANKS), {"Sentence 1": "A bank", "Sentence 2": "My bank"}),
]


@pytest.mark.parametrize(("fragment", "fields"), TYPED)
def test_a_reload_keeps_what_is_typed(open_page: Open, fragment: str, fields: dict) -> None:
    reader = open_page(fragment)
    for label, text in fields.items():
        reader.field(label).fill(text)
    # In Attention and Compare it is shown after a pause; elsewhere it is not submitted.
    for leave in (reader.reload, lambda: (reader.open_view("Models"), reader.reload())):
        leave()
        if reader.address == "#models":
            reader.open_view(VIEWS[fragment[1:].partition("?")[0]][0])
        for label, text in fields.items():
            expect(reader.field(label)).to_have_value(text)
    if fragment == "#senses":
        assert "Press “Find senses”" in reader.problem.text_content()
    # A link has what is submitted.
    other = open_page(fragment)
    for label, text in fields.items():
        assert other.field(label).input_value() != text


APPLES = "The apple is ripe.\nAn apple fell.\nApple makes phones.\nShares of Apple rose."
REDRAWS: dict[str, Callable[[Reader], object]] = {
    "theme": lambda reader: reader.theme("dark"),
    "width": lambda reader: reader.resize(800),
    "another view": lambda reader: (
        reader.open_view("Compare"), reader.settle(), reader.open_view("Senses"), reader.settle(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", REDRAWS)
def test_no_result_of_another_text_comes_back(open_page: Open, how: str) -> None:
    reader = open_page("#senses")
    area = reader.field("Sentences, one on each line")
    paste(area, APPLES)
    expect(reader.text("4 lines.")).to_be_visible()
    REDRAWS[how](reader)
    assert area.input_value() == APPLES
    assert "Press “Find senses”" in reader.problem.text_content()
    assert not reader.page.locator(".results").is_visible()
    reader.press("Find senses")
    assert "4 occurrences of “apple” in 4 lines" in reader.texts(".summary")[0]
    reader.back()
    assert "16 occurrences of “apple” in 16 lines" in reader.texts(".summary")[0]
    assert len(area.input_value().splitlines()) == 16


def test_a_model_and_a_number_of_senses_submit_what_is_typed(
    open_page: Open, several: httpx.Client
) -> None:
    reader = open_page("#senses", service=several)
    for label, value in {"Model": "second", "Number of senses": "1"}.items():
        paste(reader.field("Sentences, one on each line"), f"{APPLES}\nAn apple {label}.")
        reader.choose(label, value)
        assert "5 occurrences of “apple” in 5 lines" in reader.texts(".summary")[0]
    assert reader.sent()["model"] == "second"
    # The lines of a link may end as in Windows.
    reader.go(address("senses", text=APPLES.replace("\n", "\r\n"), word="apple"))
    assert "4 occurrences" in reader.texts(".summary")[0]


def test_a_typed_word_stays_while_the_sentences_are_typed(open_page: Open) -> None:
    reader = open_page("#senses")
    area = reader.field("Sentences, one on each line")
    area.fill("")
    reader.field("Word").fill("crane")
    area.press_sequentially("The crane lifted steel.")
    reader.press("Find senses")
    assert reader.texts(".summary")[0].startswith("1 occurrence of “crane” in 1 line: 1 sense.")
    assert reader.texts(".notes li")[-1].startswith("1 occurrence is too few")
    # One occurrence has no number of senses to judge.
    assert not reader.page.locator(".senses-number").is_visible()
    reader.submit("Word", "")
    assert reader.problem.text_content() == "Type the word whose senses to find."


def test_labels_are_kept_in_the_address(open_page: Open, several: httpx.Client) -> None:
    reader = open_page("#senses?senses=2", service=several)
    labels = reader.page.get_by_label("Label")
    shown = lambda: [label.input_value() for label in labels.all()]  # noqa: E731
    labels.first.fill("fruit")
    labels.last.fill("company")
    reader.theme("dark")
    for leave in (
        lambda: reader.choose("Number of senses", "3"),
        lambda: reader.choose("Model", "second"),
        lambda: reader.press("bank"),
    ):
        leave()
        reader.settle()
        assert set(shown()) == {""}
        reader.back()
        assert shown() == ["fruit", "company"]
    reader.reload()
    assert shown() == ["fruit", "company"]
    # The labels are not those of the senses of another model.
    reader.open_view("Neighbors")
    reader.settle()
    reader.choose("Model", "second")
    reader.open_view("Senses")
    reader.settle()
    assert shown() == ["", ""]
    reader.go("#senses?senses=2&labels=x")
    assert shown() == ["", ""]


def test_words_for_another_sense_are_listed_too(open_page: Open, client: httpx.Client) -> None:
    reader = open_page("#senses")
    reader.press("bank")
    area = reader.field("Sentences, one on each line")
    text = "The bank of the river gave a loan to the lender after the flood."
    area.fill(f"{area.input_value()}\n{text}")
    reader.press("Find senses")
    response = client.post("/v1/senses", json=reader.sent()).json()
    i = len(response["occurrences"]) - 1
    sense = response["senses"][response["occurrences"][i]["sense"]]
    evidence = sense["evidence"][sense["examples"].index(i)]
    total = sum(abs(one["weight"]) for one in evidence)
    reader.go(f"{reader.address}&point={i}")
    status = reader.page.locator(".chosen-occurrence .status").text_content()
    speaking, against = status.removeprefix("Shares of the evidence ").split("; ")
    for listed, sign, what in [
        (speaking, 1, "this sense (blue)"),
        (against, -1, "another sense (orange)"),
    ]:
        words_ = [one for one in evidence if one["weight"] * sign > 0][:4]
        shares = [f"{one['word']} {abs(one['weight']) / total:.2f}" for one in words_]
        assert listed == f"for {what}: {', '.join(shares)}"
    assert "loan" in against
    marked = reader.page.locator(".chosen-occurrence .evidence")
    assert {"river", "loan", "lender"} <= set(marked.all_text_contents())
    colors = marked.evaluate_all("(all) => all.map((one) => one.style.background)")
    assert len(set(colors)) > 2


def test_compare_says_which_words_its_lists_leave_out(open_page: Open) -> None:
    reader = open_page(compare_address(BANKS))
    note = reader.page.locator(".results > p.muted").text_content()
    assert "leave out the word itself in capitals and small letters (Bank beside bank);" in note
    assert "near a contextual vector, all words of its sentence likewise" in note
    near = {word.lower() for word in reader.texts("article .near:not(.wide-words) .near-word")}
    assert "bank" not in near


def test_a_factor_that_a_model_does_not_have_is_explained(
    open_page: Open, tiny_models: httpx.Client
) -> None:
    reader = open_page(compare_address(BANKS, model="plain", share="2"), service=tiny_models)
    assert "This model has no factor of the static vector" in reader.problem.text_content()


def test_compare_opens_the_layer_whose_weights_it_shows(
    open_page: Open, tiny_models: httpx.Client
) -> None:
    rows = [["bank river money", "bank"], ["apple bank", "bank"]]
    reader = open_page(compare_address(rows, model="deep"), service=tiny_models)
    article = card(reader, "A: bank")
    heading = "Attends to: mean weights of the heads of the last layer"
    assert article.get_by_role("heading", name=heading).is_visible()
    first = article.locator("ol.wide-words li").first
    word, weight = (first.locator(each).text_content() for each in (".near-word", ".number"))
    article.get_by_role("link", name="Open in Attention").click()
    reader.settle()
    assert reader.heading("Layer 1, mean of heads").is_visible()
    assert readout(reader).startswith(f"bank attends to {word}: {weight}"[:-1])


def pressed_word(reader: Reader) -> str:
    """The chosen word of Attention."""
    return reader.page.locator(".attention button.word[aria-pressed=true] span").text_content()


def test_a_chosen_word_stays_when_the_sentence_is_edited_elsewhere(open_page: Open) -> None:
    reader = open_page("#attention")
    reader.press("A pronoun")
    note = reader.texts(".example-note")
    sentence = reader.field("Sentence")
    text = sentence.input_value()
    wide = f"Yesterday, {text.replace('tired', 'wide')}"
    for edited, word, shown in [
        (text.replace("tired", "wide"), "it", note),
        (wide, "it", note),
        (f"{wide} And then?", "it", note),
        (f"{wide.replace(' it ', ' she ')} And then?", "she", note),
        # Another sentence has another word.
        ("Money in the bank", "Money", [""]),
    ]:
        with reader.page.expect_response("**/v1/encode"):
            sentence.fill(edited)
        reader.settle()
        assert pressed_word(reader) == word, edited
        assert reader.texts(".example-note") == shown
    reader.press("Two banks")
    words(reader).nth(12).click()
    assert pressed_word(reader) == "loan"
    sentence.press("End")
    sentence.press_sequentially(" for the first of our new houses", delay=60)
    expect(words(reader).last).to_have_text("houses")
    assert pressed_word(reader) == "loan"
    reader.back()
    assert pressed_word(reader) == "loan"
