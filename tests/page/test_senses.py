"""The view Senses: sentences, files, the map and the cards."""

import csv
import json
import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Locator, expect

from polyseme.senses.inventory import load_inventory
from tests.page.conftest import Open
from tests.page.driver import HEBREW, Reader, address, paste

pytestmark = pytest.mark.slow

RIVER = ("river", "stream", "muddy water", "lake", "canal")
MONEY = ("loan", "savings account", "credit card", "interest rate", "central government")
BANKS = [
    f"The {[*RIVER, *MONEY][i % 10]} is near the bank, which number {i} describes."
    for i in range(500)
]


def field(reader: Reader) -> Locator:
    """The text field of the sentences."""
    return reader.field("Sentences, one on each line")


def points(reader: Reader) -> Locator:
    """The marks of the map."""
    return reader.page.locator("svg.senses-map [role=button]")


def cards(reader: Reader) -> Locator:
    """The cards of the senses."""
    return reader.page.get_by_role("article", name="Sense ")


def chosen_occurrence(reader: Reader) -> Locator:
    """The occurrence that the reader chose on the map."""
    return reader.page.get_by_role("status", name="Chosen occurrence")


def test_it_opens_with_an_example_and_the_services_senses(
    visit: Open, client: httpx.Client
) -> None:
    reader = visit("#senses")
    assert reader.field("Word").input_value() == "apple"
    given = client.post("/v1/senses", json=reader.sent()).raise_for_status().json()
    senses, occurrences = given["senses"], given["occurrences"]
    (summary,) = reader.texts(".summary")
    assert summary == (
        f"{len(occurrences)} occurrences of “apple” in {len(reader.sent()['texts'])}"
        f" lines: {len(senses)} senses. Their separation is {given['separation']:.2f},"
        " where 1 is complete."
    )
    assert reader.texts(".notes li") == given["notes"]
    assert points(reader).count() == len(occurrences)
    for card, sense in zip(cards(reader).all(), senses, strict=True):
        assert f"({sense['size']})" in card.text_content()
        near = card.locator(".near-word").all_text_contents()
        assert near == [one["word"] for one in sense["keywords"] + sense["neighbors"]]
        texts = [reader.sent()["texts"][occurrences[i]["text"]] for i in sense["examples"][:3]]
        assert card.locator("blockquote").all_text_contents() == texts
        marked = card.locator("mark").all_text_contents()
        assert [one.lower() for one in marked] == ["apple"] * len(texts)


def test_each_example_has_its_senses_and_a_history_entry(open_page: Open) -> None:
    reader = open_page("#senses")
    found = {}
    for button in reader.examples().all():
        button.click()
        reader.settle()
        assert not reader.problem.is_visible()
        assert button.get_attribute("aria-pressed") == "true"
        word = button.text_content()
        assert reader.field("Word").input_value() == word
        assert 12 <= len(reader.sent()["texts"]) <= 20
        found[word] = cards(reader).count()
    assert found == {"apple": 2, "bank": 2, "spring": 3}
    reader.back()
    assert reader.examples().nth(1).get_attribute("aria-pressed") == "true"
    assert reader.sent()["word"] == "bank"


def test_five_hundred_pasted_sentences_have_senses_and_survive_a_reload(open_page: Open) -> None:
    reader = open_page("#senses")
    paste(field(reader), "\n".join(BANKS))
    expect(reader.text("500 lines.")).to_be_visible()
    frequent = reader.page.get_by_role("group", name="Frequent words").get_by_role("button")
    expect(frequent.first).to_have_text("bank 500")
    assert not [text for text in frequent.all_text_contents() if text.startswith("the ")]
    # The result of another text is not shown.
    expect(reader.page.locator(".results")).to_be_hidden()
    assert "Press “Find senses”" in reader.problem.text_content()
    reader.record_announcements(".notices")
    frequent.first.click()
    expect(points(reader)).to_have_count(500)
    reader.settle()
    assert reader.sent()["texts"] == BANKS
    announced = [one for one in reader.announced() if not one.startswith("Waiting")]
    assert announced == reader.texts(".summary")
    assert announced[0].startswith("500 occurrences of “bank” in 500 lines: ")
    reader.reload()
    assert points(reader).count() == 500
    assert field(reader).input_value() == "\n".join(BANKS)


BATS = (
    "The bat flew out of the cave. A bat hung from the roof. He hit the ball with his bat. The bat"
    " sleeps by day. She swung the wooden bat. A bat eats insects at night. The bat broke as he hit"
    " the ball. The player raised his bat. A bat has wings."
)


def test_the_page_judges_from_as_many_occurrences_as_the_service(open_page: Open) -> None:
    reader = open_page("#senses")
    evidence = reader.page.get_by_role("region", name="Evidence for each number of senses")
    lines = [*BANKS[:4], *BANKS[-4:]]
    for count, is_judged in ((7, False), (8, True)):
        paste(field(reader), "\n".join(lines[:count]))
        reader.field("Word").fill("bank")
        reader.button("Find senses").click()
        reader.settle()
        assert ("probability of several senses" in evidence.text_content()) == is_judged
        notes = " ".join(reader.texts(".notes li"))
        assert ("too few to judge" in notes) != is_judged


def test_a_chosen_number_of_senses_is_called_the_chosen_one(open_page: Open) -> None:
    evidence = "section[aria-label='Evidence for each number of senses'] .status"
    chosen = "their number is the chosen one"
    reader = open_page(address("senses", text="\n".join(BANKS), word="bank", senses="2"))
    assert chosen in reader.texts(evidence)[0]
    equal = "\n".join(["The bank gave a loan.", "The river bank was muddy."] * 4)
    reader = open_page(address("senses", text=equal, word="bank", senses="4"))
    assert "of the chosen 4, 2 have occurrences" in reader.texts(evidence)[0]
    reader = open_page(address("senses", text="\n".join(BANKS), word="bank"))
    assert chosen not in reader.texts(evidence)[0]
    assert "from 33% on, several are shown" in reader.texts(evidence)[0]


def test_back_returns_to_sentences_that_an_example_replaced(open_page: Open) -> None:
    reader = open_page("#senses")
    paste(field(reader), BATS)
    reader.page.get_by_role("group", name="Examples").get_by_role("button").last.click()
    expect(field(reader)).not_to_have_value(BATS)
    reader.page.go_back()
    expect(field(reader)).to_have_value(BATS)


ABBREVIATED = {
    "Dr. Smith works at the bank. He sat on the river bank.": 2,
    "Mr. Jones owns a bank. Mrs. Hill sat on the bank.": 2,
    "He lives in the U.S. The bank is there. The U.S. Bank of America lent money.": 3,
    "J. R. R. Tolkien went to the bank. We had plan B. It failed.": 3,
    "Was it the bank? No. It was the river bank.": 3,
    "1. The bank lent money.\n2. A bank rose.": 2,
    "Er traf Dr. Müller am 3. Mai in der Bank, z. B. um Geld. Dann ging er.": 2,
}


@pytest.mark.parametrize("text", ABBREVIATED)
def test_abbreviations_do_not_end_sentences(open_page: Open, text: str) -> None:
    reader = open_page("#senses")
    paste(field(reader), text)
    if "\n" not in text:
        reader.press(f"Split into {ABBREVIATED[text]} sentences")
    expect(reader.button("Split into")).to_be_hidden()
    assert len(field(reader).input_value().splitlines()) == ABBREVIATED[text]


FREQUENT = """async (text) => {
  const { frequentWords } = await import("/page/senses/sentences.js");
  return frequentWords(text);
}"""


def test_frequent_words_are_content_words_in_their_most_frequent_form(visit: Open) -> None:
    page = visit("#models").page
    text = (
        "The bank's Bank isn’t a bank. We couldn't; they’ve l'amour, l'amour. Une forêt, FORÊT!"
        " twenty-one twenty-one 12 12 x x"
    )
    found = page.evaluate(FREQUENT, text)
    assert found == [["bank", 3], ["forêt", 2], ["l'amour", 2], ["twenty-one", 2]]
    text = (
        "bank, https://bank.example/?bank me@bank.example #bank @bank www.bank.example 5bank BANK"
    )
    assert page.evaluate(FREQUENT, text) == [["bank", 2]]


def test_a_text_too_long_for_the_address_stays_in_the_tab(open_page: Open) -> None:
    reader = open_page("#senses")
    long = [*BANKS[:40], *["Yes, of course."] * 9000]
    paste(field(reader), "\n".join(long))
    expect(reader.text("9,040 lines.")).to_be_visible()
    reader.field("Word").fill("bank")
    reader.press("Find senses")
    assert points(reader).count() == 40
    assert len(reader.address) < 200
    reader.back()
    assert reader.sent()["word"] == "apple"
    reader.page.go_forward()
    reader.settle()
    assert reader.sent()["texts"] == long
    link = reader.address
    reader.reload()
    reader.press("Find senses")
    assert reader.sent()["texts"] == long
    reader = open_page(link)
    expect(reader.problem).to_have_text(
        "The address does not contain the sentences, which are too long for it."
        " Choose or paste them again."
    )


def test_errors_of_the_service_are_shown(open_page: Open) -> None:
    reader = open_page("#senses")
    reader.submit("Word", "qqzzxx")
    expect(reader.problem).to_contain_text("The sentences do not have this as a word.")
    paste(field(reader), f"The bank\n\n{'bank ' * 1025}\nno such word")
    reader.submit("Word", "bank")
    expect(reader.problem).to_contain_text("Line 3 has 1025 tokens")
    paste(field(reader), "a\n" * 16_385)
    reader.submit("Word", "a")
    expect(reader.problem).to_contain_text("16384")
    paste(field(reader), "The bank\nA bank")
    reader.field("Word").fill("bank")
    reader.choose("Number of senses", "3")
    expect(reader.problem).to_contain_text("must be at most 2, the number of occurrences")
    reader.choose("Number of senses", "automatic")
    assert not reader.problem.is_visible()
    assert cards(reader).count() == 1


def test_the_reader_chooses_the_number_of_senses(open_page: Open, client: httpx.Client) -> None:
    reader = open_page("#senses")
    number = reader.field("Number of senses")
    assert number.locator("option").count() == 21
    evidence = reader.page.get_by_role("region", name="Evidence for each number of senses")
    given = client.post("/v1/senses", json=reader.sent()).json()
    rows = evidence.locator("li")
    assert rows.locator(".number").all_text_contents() == [
        f"{one['separation']:.2f}".replace("-", "\u2212") for one in given["alternatives"][1:]
    ]
    assert f"several senses is {given['several']:.0%}" in evidence.text_content()
    reader.choose("Number of senses", "4")
    assert reader.address == "#senses?senses=4"
    assert reader.sent()["senses"] == 4
    assert cards(reader).count() == 4
    expect(rows.nth(2)).to_have_attribute("aria-current", "true")
    # Senses differ in color and in shape.
    legend = reader.page.locator("svg.senses-map > g > .mark").evaluate_all(
        "(all) => all.map((one) => [one.getAttribute('fill'), one.getAttribute('points')])"
    )[:4]
    assert len({color for color, _ in legend}) == len({shape for _, shape in legend}) == 4
    # A choice submits what is typed.
    paste(field(reader), "\n".join(BANKS[:40]))
    reader.field("Word").fill("bank")
    reader.choose("Number of senses", "2")
    assert reader.sent()["texts"] == BANKS[:40]
    assert cards(reader).count() == 2
    reader.choose("Number of senses", "5")
    assert reader.sent()["senses"] == 5
    assert cards(reader).count() == 5


def test_labels_are_saved_in_the_inventory_and_the_csv(open_page: Open, tmp_path: Path) -> None:
    reader = open_page("#senses?senses=2")
    fields = reader.page.get_by_label("Label")
    fields.first.fill("fruit")
    saved = json.loads(reader.saved(reader.button("Save the inventory"), tmp_path).read_text())
    inventory = load_inventory(tmp_path / "apple.senses")
    assert inventory.senses[0].label == "fruit"
    assert len(inventory.senses) == len(saved["senses"]) == 2
    fields.last.fill("=1+1")
    with reader.saved(reader.button("Save CSV"), tmp_path).open(newline="") as file:
        labels = {(row["sense"], row["label"]) for row in csv.DictReader(file)}
    assert labels == {("1", "fruit"), ("2", "'=1+1")}  # as the cards are numbered


def test_right_to_left_sentences_keep_their_direction(
    open_page: Open, tiny_models: httpx.Client
) -> None:
    one, two, three = HEBREW
    text = "\n".join([f"{one} {two}", f"{three} {one}", f"{two} {one} {three}"] * 3)
    state = address("senses", text=text, word=one, model="hebrew", senses="2")
    reader = open_page(state, service=tiny_models)
    assert not reader.problem.is_visible()
    assert points(reader).count() == 9
    for shown in ("textarea", "blockquote"):
        found = reader.page.locator(shown).first
        assert found.evaluate("(one) => getComputedStyle(one).direction") == "rtl"
    points(reader).first.press("Enter")
    expect(chosen_occurrence(reader).locator("mark")).to_have_text(one)
    chosen_occurrence(reader).get_by_role("link", name="Open in Attention").click()
    reader.settle()
    assert reader.field("Sentence").input_value() in text.splitlines()
    assert reader.heading(f"{one} is made of").is_visible()


def test_a_mark_opens_its_occurrence_in_other_views(open_page: Open) -> None:
    reader = open_page("#senses")
    mark, chosen = points(reader).nth(3), chosen_occurrence(reader)
    name = mark.get_attribute("aria-label")
    mark.hover(force=True)
    expect(reader.page.locator(".pointed")).to_have_text(re.compile("^Sense "))
    mark.click(force=True)
    expect(chosen.get_by_role("link")).to_have_count(2)
    sentence = chosen.locator("blockquote").text_content()
    assert name == f"{chosen.locator('p').first.text_content().strip()}: {sentence}"
    assert chosen.locator("mark").first.text_content().lower() == "apple"
    assert "Shares of the evidence" in chosen.text_content()
    assert mark.get_attribute("aria-pressed") == "true"
    # The address has the chosen occurrence.
    reader.reload()
    expect(chosen.locator("blockquote")).to_have_text(sentence)
    chosen.get_by_role("link", name="Open in Attention").click()
    reader.settle()
    assert reader.page.title() == "Attention · Polyseme"
    assert reader.field("Sentence").input_value() == sentence
    heading = reader.heading("is made of").text_content()
    assert heading.lower() == "apple is made of"
    reader.back()
    chosen.get_by_role("link", name="Open in Compare").click()
    reader.settle()
    rows = json.loads(reader.query["occurrences"])
    assert [row[1].lower() for row in rows] == ["apple", "apple"]
    assert rows[0][0] == sentence
    assert rows[1][0] != sentence
    assert not reader.problem.is_visible()


def test_the_form_and_the_map_are_usable_by_keyboard(open_page: Open) -> None:
    reader = open_page("#senses")
    press = reader.page.keyboard.press
    reader.field("Word").fill("tree")
    field(reader).focus()
    for _ in range(3):
        press("Tab")
    expect(reader.button("Find senses")).to_be_focused()
    reader.keys("Enter")
    assert reader.sent()["word"] == "tree"
    press("Tab")
    frequent = reader.page.get_by_role("group", name="Frequent words").locator(":focus")
    expect(frequent).to_have_text(re.compile("apple 16", re.IGNORECASE))
    reader.keys("Enter")
    reader.button("Save PNG").focus()
    press("Tab")
    expect(points(reader).first).to_be_focused()
    press("End")
    expect(points(reader).last).to_be_focused()
    press("ArrowLeft")
    mark = points(reader).nth(14)
    expect(mark).to_be_focused()
    assert mark.evaluate("(one) => getComputedStyle(one).strokeWidth") == "6px"
    press("Enter")
    expect(mark).to_have_attribute("aria-pressed", "true")
    expect(chosen_occurrence(reader).get_by_role("link")).to_have_count(2)
    expect(mark).to_be_focused()
    # A change of the theme draws the map again.
    reader.page.emulate_media(color_scheme="dark")
    reader.settle()
    expect(mark).to_be_focused()
    press("Tab")
    expect(chosen_occurrence(reader).get_by_role("link").first).to_be_focused()
    # A click beside a mark chooses the nearest.
    box = points(reader).first.bounding_box()
    reader.page.mouse.click(box["x"] - 5, box["y"] + box["height"] / 2)
    expect(points(reader).first).to_have_attribute("aria-pressed", "true")


def test_the_occurrences_can_be_saved_as_csv(visit: Open, tmp_path: Path) -> None:
    sentences = ["The bank, on the left", 'A "bank" here', "=The bank of the river"]
    reader = visit(address("senses", text="\n".join(sentences), word="bank", senses="2"))
    response = reader.saved_json(tmp_path)
    saved = reader.saved(reader.button("Save CSV"), tmp_path)
    with saved.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = ("start", "end", "confidence")
    assert rows == [
        {
            **{name: str(one[name]) for name in names},
            "line": str(one["text"] + 1),
            "sense": str(one["sense"] + 1),
            "label": "",
            # A spreadsheet would compute a text that begins with =.
            "sentence": sentences[one["text"]].replace("=", "'="),
        }
        for one in response["occurrences"]
    ]


NOT_TEXT = "is not a text file in UTF-8."


def test_files_are_read_in_the_browser(open_page: Open, tmp_path: Path) -> None:
    reader = open_page("#senses")
    files = reader.field("Text files, chosen or dropped on this field")
    status = reader.page.locator(".senses-form .buttons .status").first
    for name, content, message in [
        ("utf-8.txt", "\ufeffThe bank\r\n\r\nA bänk".encode(), "2 lines."),
        ("latin.txt", "A bänk".encode("latin-1"), f"latin.txt {NOT_TEXT}"),
        ("image.png", b"\x89PNG\x00\x00", f"image.png {NOT_TEXT}"),
        ("zeros.bin", b"\x00" * 10, f"zeros.bin {NOT_TEXT}"),
        ("large.txt", b"a" * 4_000_001, "large.txt: 4.0 MB is too large. The page reads at most"),
    ]:
        path = tmp_path / name
        path.write_bytes(content)
        files.set_input_files(path)
        expect(status).to_contain_text(message)
        assert field(reader).input_value().split() == ["The", "bank", "A", "bänk"]
    path = tmp_path / "banks.txt"
    path.write_text("\n".join(BANKS[:20]))
    files.set_input_files(path)
    expect(status).to_have_text("20 lines.")
    reader.press("bank 20")
    expect(points(reader)).to_have_count(20)
    assert reader.sent()["texts"] == BANKS[:20]
