"""The view Senses: sentences, files, the map and the cards."""

import csv
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from polyseme.senses.inventory import load_inventory
from tests.page.conftest import Visit
from tests.page.driver import Reader, address, paste

pytestmark = pytest.mark.slow

RIVER = ("river", "stream", "muddy water", "lake", "canal")
MONEY = ("loan", "savings account", "credit card", "interest rate", "central government")
BANKS = [
    f"The {[*RIVER, *MONEY][i % 10]} is near the bank, which number {i} describes."
    for i in range(500)
]


def field(reader: Reader) -> Locator:
    return reader.field("Sentences, one on each line")


def points(reader: Reader) -> Locator:
    return reader.page.locator("svg.senses-map [role=button]")


def cards(reader: Reader) -> Locator:
    return reader.page.get_by_role("article", name="Sense ")


def chosen_occurrence(reader: Reader) -> Locator:
    """The occurrence that the reader chose on the map."""
    return reader.page.get_by_role("status", name="Chosen occurrence")


def test_it_opens_with_an_example_and_the_services_senses(visit: Visit) -> None:
    reader = visit("#senses")
    assert reader.field("Word").input_value() == "apple"
    given = reader.post("senses", reader.sent())
    senses, occurrences = given["senses"], given["occurrences"]
    separation = f"Their separation is {given['separation']:.2f}, where 1 is complete."
    summary = f"16 occurrences of “apple” in 16 lines: 2 senses. {separation}"
    assert reader.texts(".summary") == [summary]
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


def test_each_example_has_its_senses_and_a_history_entry(visit: Visit) -> None:
    reader = visit("#senses")
    found = {}
    for button in reader.examples().all():
        button.click()
        reader.settle()
        assert button.get_attribute("aria-pressed") == "true"
        assert reader.field("Word").input_value() == button.text_content()
        found[button.text_content()] = cards(reader).count()
    assert found == {"apple": 2, "bank": 2, "spring": 3}
    reader.back()
    assert reader.examples().nth(1).get_attribute("aria-pressed") == "true"
    assert reader.sent()["word"] == "bank"
    # An example replaces typed sentences, and back returns to them.
    paste(field(reader), "The bat flew out.")
    reader.examples().last.click()
    expect(field(reader)).not_to_have_value("The bat flew out.")
    reader.page.go_back()
    expect(field(reader)).to_have_value("The bat flew out.")


def test_five_hundred_pasted_sentences_have_senses_and_survive_a_reload(visit: Visit) -> None:
    reader = visit("#senses")
    paste(field(reader), "\n".join(BANKS))
    expect(reader.text("500 lines.")).to_be_visible()
    frequent = reader.page.get_by_role("group", name="Frequent words").get_by_role("button")
    expect(frequent.first).to_have_text("bank 500")
    # The result of another text is not shown.
    expect(reader.page.locator(".results")).to_be_hidden()
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


def test_a_pasted_paragraph_is_split_into_sentences(visit: Visit) -> None:
    sentences = BANKS[:10]
    reader = visit("#senses")
    paste(field(reader), " ".join(sentences))
    reader.pause()
    reader.press("Split into 10 sentences")
    reader.pause()
    reader.button("bank 10").first.click()
    reader.settle()
    assert field(reader).input_value().splitlines() == sentences
    assert not reader.button("Split into").is_visible()
    assert reader.texts(".summary")[0].startswith("10 occurrences of “bank” in 10 lines: ")


SENTENCES = {
    "Dr. Smith works at the bank. He sat on the river bank.": 2,
    "He lives in the U.S. The bank is there. The U.S. Bank of America lent money.": 3,
    "J. R. R. Tolkien went to the bank. We had plan B. It failed.": 3,
    "Was it the bank? No. It was the river bank.": 3,
    "1. The bank lent money.\n2. A bank rose.": 2,
    "Er traf Dr. Müller am 3. Mai in der Bank, z. B. um Geld. Dann ging er.": 2,
}
FREQUENT = {
    "The bank's Bank isn’t a bank. We couldn't; they’ve l'amour, l'amour. Une forêt, FORÊT!"
    " twenty-one twenty-one 12 12 x x": [
        *(["bank", 3], ["forêt", 2], ["l'amour", 2], ["twenty-one", 2]),
    ],
    "bank, https://bank.example/?bank me@bank.example #bank @bank www.bank.example 5bank BANK": [
        ["bank", 2],
    ],
}
OF_TEXTS = """async ([sentences, words]) => {
  const { frequentWords, sentencesOf } = await import("/page/senses/sentences.js");
  return [sentences.map((text) => sentencesOf(text).length), words.map(frequentWords)];
}"""


def test_texts_have_sentences_and_frequent_content_words(visit: Visit) -> None:
    page = visit("#models").page
    assert page.evaluate(OF_TEXTS, [[*SENTENCES], [*FREQUENT]]) == [
        *([*SENTENCES.values()], [*FREQUENT.values()]),
    ]


def test_a_text_too_long_for_the_address_stays_in_the_tab(visit: Visit) -> None:
    reader = visit("#senses")
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
    reader = visit(reader.address)
    expect(reader.problem).to_have_text(
        "The address does not contain the sentences, which are too long for it."
        " Choose or paste them again."
    )


def test_the_evidence_says_how_the_number_of_senses_was_chosen(visit: Visit) -> None:
    reader = visit("#senses")
    evidence = reader.page.get_by_role("region", name="Evidence for each number of senses")
    given = reader.post("senses", reader.sent())
    assert evidence.locator("li .number").all_text_contents() == [
        f"{one['separation']:.2f}".replace("-", "\u2212") for one in given["alternatives"][1:]
    ]
    assert f"several senses is {given['several']:.0%}" in evidence.text_content()
    reader.choose("Number of senses", "4")
    assert reader.address == "#senses?senses=4"
    assert reader.sent()["senses"] == cards(reader).count() == 4
    expect(evidence.locator("li").nth(2)).to_have_attribute("aria-current", "true")
    equal = ["The bank gave a loan.", "The river bank was muddy."] * 4
    for lines, senses, text, is_judged in [
        (BANKS[:7], "auto", "", False),
        (BANKS[:8], "auto", "from 33% on, several are shown", True),
        (BANKS[:8], "2", "their number is the chosen one", True),
        (equal, "4", "of the chosen 4, 2 have occurrences", True),
    ]:
        reader.go(address("senses", text="\n".join(lines), word="bank", senses=senses))
        status = evidence.locator(".status").text_content()
        assert text in status
        # The page judges from as many occurrences as the service.
        assert ("probability of several senses" in status) == is_judged


def test_labels_and_occurrences_are_saved(visit: Visit, tmp_path: Path) -> None:
    sentences = ["The bank, on the left", 'A "bank" here', "=The bank of the river"]
    reader = visit(address("senses", text="\n".join(sentences), word="bank", senses="2"))
    labels = reader.page.get_by_label("Label")
    labels.first.fill("left")
    labels.last.fill("=1+1")
    saved = reader.saved(reader.button("Save the inventory"), tmp_path)
    assert [one.label for one in load_inventory(saved).senses] == ["left", "=1+1"]
    response = reader.saved_json(tmp_path)
    with reader.saved(reader.button("Save CSV"), tmp_path).open(newline="") as file:
        rows = list(csv.DictReader(file))
    # A spreadsheet would compute a text that begins with =.
    assert rows == [
        {
            **{name: str(one[name]) for name in ("start", "end", "confidence")},
            "line": str(one["text"] + 1),
            "sense": str(one["sense"] + 1),
            "label": ["left", "'=1+1"][one["sense"]],
            "sentence": sentences[one["text"]].replace("=", "'="),
        }
        for one in response["occurrences"]
    ]


def test_a_mark_opens_its_occurrence_in_other_views(visit: Visit) -> None:
    reader = visit("#senses")
    mark, chosen = points(reader).nth(3), chosen_occurrence(reader)
    mark.hover(force=True)
    expect(reader.page.locator(".pointed")).to_have_text(re.compile("^Sense "))
    mark.click(force=True)
    expect(chosen.get_by_role("link")).to_have_count(2)
    sentence = chosen.locator("blockquote").text_content()
    assert mark.get_attribute("aria-label").endswith(f": {sentence}")
    # The address has the chosen occurrence.
    reader.reload()
    expect(chosen.locator("blockquote")).to_have_text(sentence)
    chosen.get_by_role("link", name="Open in Attention").click()
    reader.settle()
    assert reader.field("Sentence").input_value() == sentence
    assert reader.heading("is made of").text_content().lower() == "apple is made of"
    reader.back()
    chosen.get_by_role("link", name="Open in Compare").click()
    reader.settle()
    rows = json.loads(reader.query["occurrences"])
    assert [row[1].lower() for row in rows] == ["apple", "apple"]
    assert rows[0][0] == sentence
    assert rows[1][0] != sentence


def test_the_form_and_the_map_are_usable_by_keyboard(visit: Visit) -> None:
    reader = visit("#senses")
    press = reader.page.keyboard.press
    reader.field("Word").fill("Apple")
    field(reader).focus()
    for _ in range(3):
        press("Tab")
    expect(reader.button("Find senses")).to_be_focused()
    reader.keys("Enter")
    assert reader.sent()["word"] == "Apple"
    reader.button("Save PNG").focus()
    press("Tab")
    expect(points(reader).first).to_be_focused()
    press("End")
    expect(points(reader).last).to_be_focused()
    press("ArrowLeft")
    mark = points(reader).nth(14)
    press("Enter")
    expect(mark).to_have_attribute("aria-pressed", "true")
    # A click beside a mark chooses the nearest.
    box = points(reader).first.bounding_box()
    reader.page.mouse.click(box["x"] - 5, box["y"] + box["height"] / 2)
    expect(points(reader).first).to_have_attribute("aria-pressed", "true")


NOT_TEXT = "is not a text file in UTF-8."


def test_files_are_read_in_the_browser(visit: Visit, tmp_path: Path) -> None:
    reader = visit("#senses")
    files = reader.field("Text files, chosen or dropped on this field")
    status = reader.page.locator(".senses-form .buttons .status").first
    for name, content, message in [
        ("utf-8.txt", "\ufeffThe bank\r\n\r\nA bänk".encode(), "2 lines."),
        ("latin.txt", "A bänk".encode("latin-1"), f"latin.txt {NOT_TEXT}"),
        ("zeros.bin", b"\x00" * 10, f"zeros.bin {NOT_TEXT}"),
        ("large.txt", b"a" * 4_000_001, "large.txt: 4.0 MB is too large. The page reads at most"),
    ]:
        path = tmp_path / name
        path.write_bytes(content)
        files.set_input_files(path)
        expect(status).to_contain_text(message)
        assert field(reader).input_value().split() == ["The", "bank", "A", "bänk"]
