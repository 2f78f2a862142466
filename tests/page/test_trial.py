"""What a reader could take for a wrong result, or lose: cases from trials of the page."""

import numpy as np
import pytest
from playwright.sync_api import Route, expect

from tests.page.conftest import Visit
from tests.page.driver import (
    BANKS,
    PLAIN,
    SMALL,
    Reader,
    address,
    compare_address,
    paste,
    sentence_address,
    steps_address,
)

pytestmark = pytest.mark.slow


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def test_a_temperature_divides_the_scores_and_not_the_biases(visit: Visit) -> None:
    text = "The bank of the river"
    reader = visit(sentence_address(text, cell="weights:1:0", head=2))
    given = reader.traced(text=text)
    bias = np.array(given["position_bias"])[2] + np.array(given["scaled_word_bias"])[2]
    logits = np.where(given["visible"], np.array(given["scores"])[2] / 5 + bias, -np.inf)
    reader.text("What scaling does").click()
    reader.page.get_by_label("Temperature T").fill("5")
    shown = reader.page.locator("[data-step=weights] output").text_content()
    assert f"row bank: The {softmax(logits)[1, 0]:.2f}, " in shown
    assert "Scaling has T = √k = 4.00. The biases are not divided" in shown


def test_a_step_without_weights_says_whose_numbers_it_has(visit: Visit) -> None:
    reader = visit(sentence_address("The bank of the river", cell="values:0:0"))
    assert "The numbers of “Emb" in reader.texts("[data-step=values] > p.muted")[0]
    # The first column of head 1 is column 75 of all.
    reader.go(sentence_address("The bank of the river", cell="values:1:0", head=1))
    assert "V[1,0] = X[1,75] + its bias" in reader.panel()
    assert reader.lit() == {"embeddings:1:75"}
    reader.go(sentence_address("My zzkqx eats fish", cell="values:1:1"))
    assert "V[1,1] = 0" in reader.panel() and "is not in the vocabulary" in reader.panel()
    assert reader.lit() == set()


def test_the_pair_that_changes_most_does_not_depend_on_shown_decimals(visit: Visit) -> None:
    texts = [
        "He deposited cash at the bank on Monday",
        "The muddy bank of the river collapsed",
        "The bank raised its interest rates",
        "We fished from the grassy bank",
        "A bank of clouds hid the bank of the lake",
    ]
    rows = [[text, "bank"] for text in texts]
    reader = visit(compare_address(rows, model="wiki-en-deep"), service="several")
    cosines = np.array(reader.compared(rows, model="wiki-en-deep")["contextual_similarity"])
    i, j = sorted(np.unravel_index(cosines.argmin(), cosines.shape))
    pair = f"(the pair {'ABCDE'[i]} and {'ABCDE'[j]}, which context changes most)"
    assert pair in " ".join(reader.texts("figcaption, strong, h3, svg text, .headline"))


def steps_of_two(queries: list, keys: list) -> str:
    """The address of the first weight of two words with queries and keys."""
    request = {"tokens": ["x", "y"], "queries": queries, "keys": keys, "values": [[1], [2]]}
    return steps_address({**request, "scale": False}, cell="weights:0:0")


CAFES, BANK = "The cafe\u0301 and the café", "ba\u00adnk"
"""Words with marks that are not seen, which are the same words."""
ZERO = "Static vectors of unknown words are zero, and"
COMPOSED = "not in the vocabulary: a composed vector"
SIGNS = "; in a sum, write a space before each sign"
SENTENCES = [
    ("client", ".usage", {
        address("attention", text="river bank"): "\n2 words and marks, none unknown.\n",
        address("attention", text="qqzx"):
            f"\n1 word or mark, 1 unknown. {ZERO} each attends to itself.\n",
        address("attention", text="river qqzx vvwk"):
            f"\n3 words and marks, 2 unknown. {ZERO} no word attends to them.\n",
    }),
    ("client", "figcaption", {
        address("attention", text="Привет мир"):
            "those of a zero vector to 0: no word that it attends to is known",
        address("attention", text=CAFES, word=1):
            "attends to no occurrence of itself, so in its row their columns are 0",
    }),
    ("client", ".occurrence-card", {
        compare_address([["Привет мир", "мир"], ["river bank", "bank"]]):
            "Its contextual vector is zero: no word around it is known.",
    }),
    ("client", ".compare-form .status", {
        compare_address([["A Bank lent", "lent"], ["A bank", "bank"]]):
            "The chosen words differ: lent and bank.",
        compare_address([[f"The {BANK} lent", BANK], ["A bank rose", "bank"]]): "once.\n\n",
    }),
    ("client", ".summary, blockquote", {
        address("senses", text=CAFES.replace(" and", "\n"), word="cafe\u0301"):
            "\n2 occurrences of “café”",
        address("senses", text="apple\nI ate an apple pie.", word="apple"): "\napple\n",
    }),
    ("client", ".derived", {
        steps_of_two([[27, 0], [0, 1]], [[27, 0], [1, 0]]):
            "= 1 / 1, with 729 subtracted from each exponent",
        steps_of_two([[30, 0], [0, 1]], [[-30, 0], [-30.1, 0]]):
            "= 1 / 1.0498, with −900 subtracted from each",
        steps_of_two([[2, 0], [0, 1]], [[1, 0], [0, 1]]): "= 7.3891 / 8.3891",
    }),
    ("client", "[role=alert]", {
        "#neighbors?word=king+-+qqzzxx": "A word of the sum is not in the vocabulary of the model.",
        "#neighbors?word=bank+-+bank": "The sum is zero, so it has no neighbors.",
        "#neighbors?word=qqzzxx": "The word is not in the vocabulary of the model.",
        "#senses?word=qqzzxx": "The sentences do not have this as a word.",
        address("senses", text="A bank", word="bank", senses="2"): "at most 1, the number of",
        address("senses", text=f"A bank\n\n{'bank ' * 1025}", word="bank"):
            "Line 3 has 1025 tokens",
    }),
    ("tiny_models", "[role=alert]", {
        compare_address(BANKS, model="plain", share="2"):
            "This model has no factor of the static vector",
    }),
    ("several", "section[aria-label=Words] strong", {
        address("attention", text="I like my iPhone and your iphone."):
            "(iphone is not in the vocabulary: its vector is made of parts of words)\n",
        address("attention", text="The Bank and a bank"):
            "(two words of the vocabulary; with the case “lower”, they are one)\n",
        address("attention", text="zqxjk and zqxjk"):
            "(zqxjk is not in the vocabulary: its static vector is zero)\n",
        address("attention", text=CAFES, word=1): "1.00 static",
    }),
    ("several", "figure h3", {
        address("neighbors", word=word): f"\nNearest to {heading}\n" for word, heading in {
            "unbankable": f"unbankable, {COMPOSED}",
            "king-man": f"king-man, {COMPOSED}{SIGNS}",
            ",": ",",
            "-": "-",
            "- river": "− river, which are left out",
            "1,000 + river": "1,000 + river, which are left out",
            "king -man +woman": "king + woman − man, which are left out",
        }.items()
    }),
]  # fmt: skip
"""What the page says in elements of a service's page, by address; a text begins and ends with a
line break."""


@pytest.mark.parametrize(("service", "selector", "sentences"), SENTENCES)
def test_the_page_says_what_is_special(
    visit: Visit, service: str, selector: str, sentences: dict[str, str]
) -> None:
    reader = visit("#models", service=service)
    for fragment, sentence in sentences.items():
        reader.go(fragment)
        assert sentence in "\n".join(["", *reader.texts(selector), ""]), fragment


def test_the_first_click_after_typing_chooses_the_cell(visit: Visit) -> None:
    reader = visit(steps_address(PLAIN))
    cell = reader.page.locator("[data-step=weights] td[data-row='1'][data-column='0']")

    def press(*routes: Route) -> None:
        cell.hover()
        reader.page.mouse.down()
        for route in routes:
            route.continue_()

    for is_between in (False, True):
        if is_between:
            # The response arrives between the two halves of the click.
            reader.page.route("**/v1/trace", press, times=1)
        with reader.page.expect_response("**/v1/trace"):
            reader.field("Embeddings X").press_sequentially("1")
        reader.settle()
        if not is_between:
            press()
        reader.page.mouse.up()
        reader.settle()
        assert reader.chosen() == ["weights:1:0"]
        reader.page.locator("[data-step=scores] td").first.click()
        reader.settle()
    # A screen reader clicks without a pointer.
    cell.evaluate("(td) => td.click()")
    reader.settle()
    assert reader.chosen() == ["weights:1:0"]


def own_result(reader: Reader, step: str, text: str | None = None) -> str:
    """Type an own result of a step, if there is a text; return what the page says."""
    own = reader.page.locator(f"[data-step={step}] .own-result")
    if text is not None:
        own.evaluate("(details) => { details.open = true; }")
        own.locator("textarea").fill(text)
    return own.get_by_role("status").text_content()


MARKED = """(all) => all.map(({ dataset }) => `${dataset.row}:${dataset.column}`).join(" ")"""


def test_a_typed_part_is_compared_with_the_part_that_it_equals(visit: Visit) -> None:
    reader = visit(steps_address(example=3, hide=1))
    for step, text, status, right in [
        ("scores", "1.116 1.266 1.339", "row love. Right to 3 decimals: 3 of 3", "1:0 1:1 1:2"),
        ("queries", "0.68\n0.8\n0.81", "column c1. Right to 1 to 2 decimals: 3 of 3",
         "0:1 1:1 2:1"),
        ("scores", "1\n2\n3\n4", "do not fit: this step has 3 rows of 3 numbers", ""),
        # What is wrong belongs to the row of the derivation, which the notes compute.
        ("scores", "1.1 1.3 9", "row love. Right to 1 decimal: 2 of 3", "1:0 1:1"),
    ]:  # fmt: skip
        assert status in own_result(reader, step, text), text
        marks = reader.page.locator(f"[data-step={step}] td:has(.own.right)")
        assert marks.evaluate_all(MARKED) == right, text
    # A number is shown as it was typed, so that its rounding is not taken for right.
    reader.go(steps_address(example=1, hide=1))
    own_result(reader, "weights", "0.17606 0.21076 0.25229 0.17954 0.18134")
    assert reader.texts("[data-step=weights] td:has(.own)")[0].startswith("0.17606")
    # Beside the number of the page, the mark says whose number is right or wrong.
    reader.go(steps_address(PLAIN))
    own_result(reader, "scores", "5 7")
    assert reader.texts("[data-step=scores] .own") == [" yours: 5.0 ✓ right", " yours: 7.0 ✗ wrong"]


def test_own_results_are_kept(visit: Visit) -> None:
    reader = visit(steps_address(example=3, hide=1))
    own_result(reader, "scores", "1.116 1.266 1.339")
    area = reader.page.locator("[data-step=scores] .own-result textarea")
    reader.choose("Example", "4")
    expect(area).to_have_value("")
    reader.open_view("Attention")
    reader.settle()
    for leave in (reader.back, reader.back, reader.reload):
        leave()
    expect(area).to_have_value("1.116 1.266 1.339")
    assert "3 of 3 numbers" in own_result(reader, "scores")
    # Own numbers are corrected while the result stays, and is compared with the new numbers.
    reader.go(steps_address(PLAIN))
    own_result(reader, "scores", "5 1\n1 10")
    reader.write("Embeddings X", "1 2\n3 0")
    assert "1 of 4 numbers" in own_result(reader, "scores")
    # Each head has a result of its own.
    reader.go(steps_address(SMALL, head=0))
    own_result(reader, "scores", "4 5")
    for head, text in (("1", ""), ("0", "4 5")):
        reader.choose("Head", head)
        expect(area).to_have_value(text)


TYPED = [
    ("#senses", "Senses", {"Sentences, one on each line": "A bat flew.\nHis bat broke."}),
    (steps_address(PLAIN), "Step by step", {"Words": "a\nb\nc", "Embeddings X": "1 2\n3"}),
    ("#attention", "Attention", {"Sentence": "The river"}),
    (compare_address(BANKS), "Compare", {"Sentence 1": "A bank", "Sentence 2": "My bank"}),
]


@pytest.mark.parametrize(("fragment", "title", "fields"), TYPED)
def test_a_reload_keeps_what_is_typed(
    visit: Visit, fragment: str, title: str, fields: dict
) -> None:
    reader = visit(fragment)
    for label, text in fields.items():
        reader.field(label).fill(text)
    # In Attention and Compare it is shown after a pause; elsewhere it is not submitted.
    reader.open_view("Models")
    reader.reload()
    reader.open_view(title)
    for label, text in fields.items():
        expect(reader.field(label)).to_have_value(text)


APPLES = "The apple is ripe.\nAn apple fell.\nApple makes phones.\nShares of Apple rose."


def test_no_result_of_another_text_comes_back(visit: Visit) -> None:
    reader = visit("#senses")
    area = reader.field("Sentences, one on each line")
    paste(area, APPLES)
    expect(reader.text("4 lines.")).to_be_visible()
    reader.open_view("Compare")
    reader.settle()
    reader.open_view("Senses")
    reader.settle()
    assert area.input_value() == APPLES
    assert "Press “Find senses”" in reader.problem.text_content()
    assert not reader.page.locator(".results").is_visible()
    reader.press("Find senses")
    assert "4 occurrences of “apple” in 4 lines" in reader.texts(".summary")[0]
    reader.back()
    assert "16 occurrences of “apple” in 16 lines" in reader.texts(".summary")[0]
    assert len(area.input_value().splitlines()) == 16


def test_a_model_and_a_number_of_senses_submit_what_is_typed(visit: Visit) -> None:
    reader = visit("#senses", service="several")
    area = reader.field("Sentences, one on each line")
    for label, value in {"Model": "second", "Number of senses": "1"}.items():
        paste(area, f"{APPLES}\nAn apple {label}.")
        reader.choose(label, value)
        assert "5 occurrences of “apple” in 5 lines" in reader.texts(".summary")[0]
    # A typed word stays while the sentences are typed.
    reader.field("Word").fill("crane")
    area.press_sequentially(" A crane.")
    reader.press("Find senses")
    assert reader.texts(".summary")[0].startswith("1 occurrence of “crane”")


def test_labels_are_kept_in_the_address(visit: Visit) -> None:
    reader = visit("#senses?senses=2")
    labels = reader.page.get_by_label("Label")
    shown = lambda: [label.input_value() for label in labels.all()]  # noqa: E731
    labels.first.fill("fruit")
    labels.last.fill("company")
    reader.choose("Number of senses", "3")
    assert set(shown()) == {""}
    reader.back()
    reader.reload()
    assert shown() == ["fruit", "company"]


def test_words_for_another_sense_are_listed_too(visit: Visit) -> None:
    reader = visit("#senses")
    reader.press("bank")
    area = reader.field("Sentences, one on each line")
    text = "The bank of the river gave a loan to the lender after the flood."
    area.fill(f"{area.input_value()}\n{text}")
    reader.press("Find senses")
    response = reader.post("senses", reader.sent())
    i = len(response["occurrences"]) - 1
    sense = response["senses"][response["occurrences"][i]["sense"]]
    evidence = sense["evidence"][sense["examples"].index(i)]
    total = sum(abs(one["weight"]) for one in evidence)
    reader.go(f"{reader.address}&point={i}")
    against = [one for one in evidence if one["weight"] < 0][:4]
    shares = [f"{one['word']} {-one['weight'] / total:.2f}" for one in against]
    (status,) = reader.texts(".chosen-occurrence .status")
    assert status.endswith(f"; for another sense (orange): {', '.join(shares)}")
    assert {"river", "loan"} <= set(reader.texts(".chosen-occurrence .evidence"))


def test_a_chosen_word_stays_when_the_sentence_is_edited_elsewhere(visit: Visit) -> None:
    reader = visit("#attention")
    reader.press("A pronoun")
    note = reader.texts(".example-note")
    sentence = reader.field("Sentence")
    text = sentence.input_value()
    wide = f"Yesterday, {text.replace('tired', 'wide')}"
    for edited, word, shown in [
        (text.replace("tired", "wide"), "it", note),
        (wide, "it", note),
        (wide.replace(" it ", " she "), "she", note),
        # Another sentence has another word.
        ("Money in the bank", "Money", [""]),
    ]:
        with reader.page.expect_response("**/v1/encode"):
            sentence.fill(edited)
        reader.settle()
        assert reader.texts(".attention button.word[aria-pressed=true] span") == [word], edited
        assert reader.texts(".example-note") == shown
