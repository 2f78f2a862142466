"""A sentence, as a person looks at it: what is typed, and how each word was found."""

from pathlib import Path

import httpx
from playwright.sync_api import expect

from tests.conftest import Serve
from tests.page.conftest import Open
from tests.page.look_reader import APPLE_WORDS, APPLES, choose, encoded, grid, look, readout
from tests.page.reader import Reader


def sentence(reader: Reader):
    return reader.page.get_by_label("Sentence", exact=True)


def words(reader: Reader):
    return (
        reader.page.get_by_role("region", name="Words")
        .get_by_role("list")
        .first.get_by_role("button")
    )


def written(reader: Reader) -> list[str]:
    return [word.locator("bdi").text_content() for word in words(reader).all()]


def test_the_first_look_is_at_two_apples(open_page: Open) -> None:
    reader = open_page()
    assert sentence(reader).input_value() == APPLES
    assert written(reader) == APPLE_WORDS
    assert words(reader).nth(0).get_attribute("aria-pressed") == "true"


def test_each_word_says_how_it_was_found(open_page: Open, client: httpx.Client) -> None:
    text = "Apple qqzx zebrA"
    tokens = encoded(client, text)["tokens"]
    assert [token["resolution"] for token in tokens] == ["exact", "oov", "lower"]
    reader = open_page(look(text=text))
    found = [word.locator("small").text_content() for word in words(reader).all()]
    assert found == ["exact", "unknown", "lower: zebra"]
    assert reader.page.get_by_text("3 words, 1 of them unknown").is_visible()


def test_typing_shows_the_new_sentence_after_a_pause(open_page: Open) -> None:
    reader = open_page()
    sentence(reader).fill("The river bank")
    expect(words(reader)).to_have_count(3)
    assert reader.address == "#look?text=The+river+bank"
    sentence(reader).press_sequentially(" too")
    expect(words(reader)).to_have_count(4)
    assert sentence(reader).input_value() == "The river bank too"


def test_back_leads_to_the_sentence_before_and_forward_to_the_one_after(open_page: Open) -> None:
    reader = open_page()
    sentence(reader).fill("The river bank")
    expect(words(reader)).to_have_count(3)
    sentence(reader).fill("A river")
    reader.page.keyboard.press("Enter")
    expect(words(reader)).to_have_count(2)
    reader.page.get_by_role("button", name="A pronoun").click()
    expect(words(reader).first).to_contain_text("The")
    seen = []
    for _ in range(2):
        reader.page.go_back()
        reader.settle()
        seen.append(sentence(reader).input_value())
    assert seen == ["A river", APPLES]
    assert written(reader) == APPLE_WORDS
    reader.page.go_forward()
    reader.settle()
    assert written(reader) == ["A", "river"]


def test_enter_sends_and_shift_enter_begins_a_line(open_page: Open) -> None:
    reader = open_page()
    sentence(reader).fill("one")
    reader.page.keyboard.press("Shift+Enter")
    reader.page.keyboard.type("two")
    reader.page.keyboard.press("Enter")
    expect(words(reader)).to_have_count(2)
    assert sentence(reader).input_value() == "one\ntwo"
    assert reader.address == "#look?text=one%0Atwo"


def test_the_button_sends_too(open_page: Open) -> None:
    reader = open_page()
    before = reader.page.evaluate("history.length")
    sentence(reader).fill("one two three")
    reader.page.get_by_role("button", name="Look", exact=True).click()
    expect(words(reader)).to_have_count(3)
    assert reader.page.evaluate("history.length") == before + 1


def test_no_sentence_is_no_question(open_page: Open) -> None:
    reader = open_page()
    asked: list[str] = []
    reader.page.on("request", lambda request: asked.append(request.url))
    for text, count in [("", 1), ("  \n ", 2)]:
        asked.clear()
        sentence(reader).fill(text)
        reader.page.keyboard.press("Enter")
        expect(reader.problem).to_have_text("Type a sentence to see what its words look at.")
        assert not grid(reader).is_visible()
        assert [url for url in asked if "/v1/" in url] == []
        sentence(reader).fill("river " * count)
        expect(words(reader)).to_have_count(count)
        assert not reader.problem.is_visible()


def test_a_sentence_over_the_limit_is_refused_in_the_services_words(
    open_page: Open, serve: Serve
) -> None:
    service = serve(max_sentence_tokens=5)
    reader = open_page(look(text="one two three four five"), service=service)
    assert len(written(reader)) == 5
    sentence(reader).fill("one two three four five six")
    expect(reader.problem).to_be_visible()
    told = service.post("/v1/encode", json={"input": "one two three four five six"}).json()
    assert told["status"] == 413
    assert told["detail"] in reader.problem.text_content()
    assert not words(reader).first.is_visible()


def test_a_model_that_is_not_there_is_said_in_the_services_words(
    open_page: Open, client: httpx.Client
) -> None:
    reader = open_page(look(model="nobody"))
    told = client.post("/v1/encode", json={"input": "a", "model": "nobody"}).json()
    assert told["detail"] in reader.problem.text_content()
    choose(reader, "Model", "")
    assert written(reader) == APPLE_WORDS


def test_unknown_words_can_be_refused(open_page: Open) -> None:
    reader = open_page(look(text="river qqzx"))
    choose(reader, "Unknown words", "error")
    assert "vocabulary" in reader.problem.text_content()
    choose(reader, "Unknown words", "zero")
    assert written(reader) == ["river", "qqzx"]
    assert "oov=zero" in reader.address


def test_case_changes_the_key_of_a_word(open_page: Open) -> None:
    reader = open_page(look(text="Apple"))
    choose(reader, "Case", "lower")
    assert words(reader).first.locator("small").text_content() == "lower: apple"
    assert reader.address == "#look?text=Apple&case=lower"


def test_an_address_opened_afresh_gives_the_same_view(open_page: Open) -> None:
    address = look(
        text=APPLES, case="lower", layer=0, head=2, picture="heatmap", word=4, row=3, column=1
    )
    reader = open_page(address)
    assert words(reader).nth(4).get_attribute("aria-pressed") == "true"
    assert readout(reader).startswith("new looks at launched: ")
    assert reader.page.get_by_label("Head", exact=True).input_value() == "2"
    assert reader.page.get_by_label("Case", exact=True).input_value() == "lower"


def test_an_address_that_names_what_is_not_there_shows_the_first(open_page: Open) -> None:
    reader = open_page(look(word=99))
    for state in ({"word": 99}, {"layer": 7, "head": "x"}, {"row": -1, "word": "e"}):
        reader.go(look(**state))
        assert words(reader).nth(0).get_attribute("aria-pressed") == "true", state
        assert reader.page.get_by_role("heading", name="Layer 0, mean of heads").is_visible(), state
        reader.go(look(word=4, head=2))
        assert words(reader).nth(0).get_attribute("aria-pressed") == "false"
        assert reader.page.get_by_role("heading", name="Layer 0, head 2").is_visible()


def test_what_is_typed_is_never_in_an_address_that_the_server_sees(open_page: Open) -> None:
    reader = open_page()
    asked: list[str] = []
    reader.page.on("request", lambda request: asked.append(request.url))
    sentence(reader).fill("a secret sentence")
    reader.page.keyboard.press("Enter")
    expect(words(reader)).to_have_count(3)
    reader.page.reload()
    reader.settle()
    assert written(reader) == ["a", "secret", "sentence"]
    assert len(asked) > 2
    assert [url for url in asked if "secret" in url.split("#")[0]] == []


def test_markup_stays_text(open_page: Open) -> None:
    text = "<img src=x onerror=alert(1)> <script>alert(2)</script>"
    reader = open_page()
    reader.page.on("dialog", lambda dialog: reader.wrong.append(f"dialog: {dialog.message}"))
    sentence(reader).fill(text)
    reader.page.keyboard.press("Enter")
    expect(words(reader).nth(1)).to_contain_text("img")
    words(reader).nth(1).click()
    reader.page.get_by_text("The numbers").click()
    assert reader.page.locator("main img, main script").count() == 0
    assert reader.page.get_by_role("heading", name="img looks most at").is_visible()


def test_astral_letters_and_emoji_are_words_too(open_page: Open, client: httpx.Client) -> None:
    text = "👩‍🚀 𝔘𝔫𝔦 river 😀"
    reader = open_page(look(text=text))
    assert written(reader) == [token["text"] for token in encoded(client, text)["tokens"]]


def test_a_very_long_word_fits(open_page: Open) -> None:
    reader = open_page(look(text="river " + "long" * 500), width=320)
    assert len(written(reader)) == 2
    assert not reader.scrolls_sideways()
    reader.go(look(text="river " + "long" * 500, picture="lines"))
    assert not reader.scrolls_sideways()


def test_the_answer_and_its_command_say_the_same(open_page: Open, tmp_path: Path) -> None:
    reader = open_page(look(text="It's the bank's \"river\" — $HOME `x`"))
    assert reader.saved_json(tmp_path) == reader.run_command()
    assert '{"input":' in reader.command()
    assert "model" not in reader.command()


def test_the_arrows_go_from_word_to_word(open_page: Open) -> None:
    reader = open_page()
    words(reader).nth(0).focus()
    for key in ["ArrowRight", "ArrowRight", "Home", "End", "ArrowLeft", "Enter"]:
        reader.page.keyboard.press(key)
    reader.settle()
    assert reader.address == "#look?word=10"
    assert reader.page.get_by_role("heading", name="apple looks most at").is_visible()
    assert [word.get_attribute("tabindex") for word in words(reader).all()].count("0") == 1
