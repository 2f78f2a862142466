"""Other models than the bundled one: more layers, more heads, other ways to find a word."""

from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

from polyseme.engine.attention import Scoring
from tests.conftest import Serve
from tests.page.conftest import Open
from tests.page.look_reader import choose, encoded, grid, look, point, readout, weights
from tests.tiny import SUBWORDS, VECTORS, full_layer, normal, write_tiny

TEXT = "apple bank river money did high end"
WORDS = TEXT.split()
HEBREW = ("שלום", "עולם", "טוב")


def twelve(seed: int):
    """A layer of twelve heads."""
    rng = np.random.default_rng(seed)
    return full_layer(seed, heads=12, scoring=Scoring(True, "other-words", normal(rng, 12, 13)))


@pytest.fixture(scope="module")
def models(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    place = tmp_path_factory.mktemp("models")
    write_tiny(
        place / "deep",
        layers=[full_layer(1), full_layer(2)],
        word_bias=normal(np.random.default_rng(3), 11),
    )
    write_tiny(place / "many", layers=[twelve(seed) for seed in range(12)])
    write_tiny(place / "parts", subwords=SUBWORDS)
    write_tiny(place / "small", words=("apple", "bank"), vectors=VECTORS[:2], cased=False)
    write_tiny(place / "hebrew", words=HEBREW, vectors=VECTORS[:3] + 0.5)
    return serve(models_dir=place)


def test_each_head_of_each_layer_is_shown(open_page: Open, models: httpx.Client) -> None:
    given = weights(models, TEXT, model="deep")
    reader = open_page(look(text=TEXT, model="deep"), service=models)
    for layer, head in [(0, 0), (0, 2), (1, 0), (1, 1)]:
        reader.page.get_by_role("button", name=f"Layer {layer}, head {head}", exact=True).click()
        reader.settle()
        expected = given[layer, head]
        for row, column in [(0, 3), (5, 2)]:
            point(reader, row, column, len(WORDS))
            assert readout(reader) == (
                f"{WORDS[row]} looks at {WORDS[column]}: {expected[row, column]:.4f}"
            ), (layer, head)


def test_the_mean_of_the_last_layer_is_what_a_word_looks_at_most(
    open_page: Open, models: httpx.Client
) -> None:
    row = weights(models, TEXT, model="deep", heads="mean")[-1, 2]
    reader = open_page(look(text=TEXT, model="deep", word=2), service=models)
    choose(reader, "Layer", "1")
    assert "layer=1" in reader.address
    name = reader.page.get_by_role("img", name="river looks most at").get_attribute("aria-label")
    best = np.argmax(row)
    assert name.startswith(f"river looks most at {WORDS[best]}: {row[best]:.2f}")


@pytest.mark.parametrize("width", [360, 1200])
def test_twelve_layers_of_twelve_heads_fit(
    open_page: Open, models: httpx.Client, width: int
) -> None:
    reader = open_page(
        look(text=TEXT, model="many", layer=11, head=11), service=models, width=width
    )
    small = reader.page.get_by_role("group", name="Layers and heads").get_by_role("button")
    assert small.count() == 12 * 13
    assert not reader.scrolls_sideways()
    small.first.focus()
    for key in ["ArrowDown", "ArrowDown", "ArrowRight", "Enter"]:
        reader.page.keyboard.press(key)
    reader.settle()
    assert "layer=2&head=0" in reader.address


def test_the_layers_of_another_model_need_not_be_there(
    open_page: Open, models: httpx.Client
) -> None:
    reader = open_page(look(text=TEXT, model="many", layer=9, head=9), service=models)
    choose(reader, "Model", "deep")
    assert reader.page.get_by_role("heading", name="Layer 0, mean of heads").is_visible()
    assert readout(reader).startswith("apple looks at ")


def test_a_word_says_in_which_form_it_was_found(open_page: Open, models: httpx.Client) -> None:
    reader = open_page(look(text="river", model="deep"), service=models)
    for model, text in [
        ("small", "Apple bank x"),
        ("parts", "gnu apple"),
        ("deep", "aPPLE Bank BANK x MONEY"),
    ]:
        reader.go(look(text=text, model=model))
        tokens = encoded(models, text, model=model)["tokens"]
        found = reader.page.locator("button.word small").all_text_contents()
        assert found == [
            "unknown" if token["resolution"] == "oov"
            else f"{token['resolution']}: {token['key']}"
            if token["key"] not in {None, token["text"]}
            else token["resolution"]
            for token in tokens
        ], model  # fmt: skip


def test_a_lower_case_model_and_subwords_are_said(open_page: Open, models: httpx.Client) -> None:
    reader = open_page(look(text="Apple gnu", model="small"), service=models)
    found = reader.page.locator("button.word small")
    assert found.all_text_contents() == ["lower: apple", "unknown"]
    choose(reader, "Model", "parts")
    assert found.all_text_contents() == ["exact", "subword"]
    assert reader.page.get_by_text("1 made from subwords").is_visible()


def test_the_heads_of_a_model_are_offered(open_page: Open, models: httpx.Client) -> None:
    reader = open_page(look(text=TEXT, model="deep", picture="lines"), service=models)
    offered = reader.page.get_by_label("Head", exact=True).locator("option")
    assert offered.all_text_contents() == ["mean of heads", "0", "1", "2", "each in its colour"]
    choose(reader, "Model", "small")
    assert offered.all_text_contents() == ["mean of heads", "0", "each in its colour"]


def test_words_that_run_from_right_to_left(open_page: Open, models: httpx.Client) -> None:
    text = " ".join(HEBREW)
    reader = open_page(look(text=text, model="hebrew"), service=models)
    expected = weights(models, text, model="hebrew")[0, 0]
    point(reader, 1, 2, 3)
    assert readout(reader) == f"{HEBREW[1]} looks at {HEBREW[2]}: {expected[1, 2]:.4f}"
    words = reader.page.locator("button.word")
    places = [word.bounding_box()["x"] for word in words.all()]
    assert places == sorted(places, reverse=True)
    words.first.focus()
    reader.page.keyboard.press("ArrowLeft")
    expect(words.nth(1)).to_be_focused()
    assert not reader.scrolls_sideways()


def test_one_word_alone_is_a_picture_too(open_page: Open, models: httpx.Client) -> None:
    reader = open_page(look(text="apple", model="deep"), service=models)
    assert readout(reader) == "apple looks at apple: 1.0000"
    grid(reader).focus()
    reader.page.keyboard.press("ArrowDown")
    assert readout(reader) == "apple looks at apple: 1.0000"


def test_what_is_known_is_not_asked_again(open_page: Open, models: httpx.Client) -> None:
    """A head, a word or a picture is chosen without a question to the service."""
    reader = open_page(look(text=TEXT, model="deep"), service=models)
    asked: list[str] = []
    reader.page.on("request", lambda request: asked.append(request.url))
    reader.page.get_by_role("button", name="Layer 1, head 0", exact=True).click()
    reader.page.get_by_role("button", name="Lines").click()
    reader.page.locator("button.word").nth(3).click()
    reader.settle()
    assert [url for url in asked if "/v1/" in url] == []
    assert "word=3" in reader.address
