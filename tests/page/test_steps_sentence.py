"""Step by step: the steps of a stored model."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from polyseme.engine.attention import Scoring
from polyseme.engine.layers import Layer, Residual
from tests.conftest import Serve
from tests.page.conftest import Open
from tests.page.reader import Reader
from tests.page.stepping import CELLS, address, chosen, lit, numbers, panel, said, steps, traced
from tests.tiny import WORDS, full_layer, write_tiny

TEXT = "The bank raised its rates while we sat on the river bank"
ONLY_FORMULAS = {
    *("queries", "keys", "embeddings", "position_bias", "word_bias", "scaled_word_bias"),
    *("visible", "position"),
}


def test_every_step_of_a_stored_model_is_there(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(address(source="sentence", text=TEXT))
    assert steps(reader) == list(traced(client, text=TEXT))


def test_the_contextual_vectors_are_those_of_encode(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(address(source="sentence", text=TEXT, decimals=6))
    encoded = client.post("/v1/encode", json={"input": TEXT}).json()["results"][0]["contextual"]
    shown = np.array(numbers(reader, "contextual"))
    assert shown.shape[1] >= 5
    np.testing.assert_allclose(shown, np.array(encoded)[:, : shown.shape[1]], atol=2e-5)


def places(given: dict[str, list], heads: int) -> Iterator[tuple[str, int]]:
    """The first and the last cell, and that of another corner, of every step, in all heads.

    The corners take turns with the heads, and with each step another begins.
    """
    for at, (name, values) in enumerate(given.items()):
        # Of an array with heads, one head has the shape that matters.
        wide = 3 if name == "weighted_values" else 1 if name.endswith("word_bias") else 2
        shape = np.shape(values)[-wide:]
        corners = [[0] * wide, [size - 1 for size in shape], [*[0] * (wide - 1), shape[-1] - 1]]
        for turn in range(max(heads, len(corners))):
            corner = corners[(at + turn) % len(corners)]
            cell = ":".join(map(str, [name, *corner, *([0] if wide == 1 else [])]))
            yield cell, turn % heads


def derived(reader: Reader, given: dict[str, list], heads: int, **fields: object) -> set[str]:
    """The steps of which a sum is written out, where every cell is chosen and none contradicts."""
    cells = list(dict.fromkeys(places(given, heads)))
    walk = [address(**fields, cell=cell, head=head) for cell, head in cells]
    seen = reader.page.evaluate(WALK, walk)
    assert len(seen) == len(walk)
    for (cell, head), one in zip(cells, seen, strict=True):
        name, *place = cell.split(":")
        assert one["chosen"] == [":".join([name, *place[-2:]])], (cell, head)
        assert "differ" not in one["panel"], (cell, head)
    return {cell.split(":")[0] for (cell, _), one in zip(cells, seen, strict=True) if one["sums"]}


# Many addresses in one go: each is drawn when its change has been told, as nothing new is asked.
WALK = f"""async (addresses) => {{
  const seen = [];
  for (const address of addresses) {{
    const told = new Promise((done) => addEventListener("popstate", done, {{ once: true }}));
    location.hash = address;
    await told;
    await new Promise((done) => setTimeout(done));
    if (document.querySelector("[aria-busy=true]")) throw new Error(`${{address}} asked anew`);
    seen.push({{
      chosen: ({CELLS})("chosen"),
      panel: document.querySelector(".derived").textContent,
      sums: document.querySelectorAll(".derived .sum").length,
    }});
  }}
  return seen;
}}"""


def test_no_derivation_of_the_bundled_model_contradicts_the_service(
    open_page: Open, client: httpx.Client
) -> None:
    fields = {"source": "sentence", "text": "the bank and qqzzxx of the river"}
    given = traced(client, text=fields["text"])
    reader = open_page(address(**fields))
    assert derived(reader, given, 4, **fields) == set(given) - ONLY_FORMULAS


LAYERS = {
    "norm before": full_layer(1),
    "norm after": full_layer(2, norm="after", residual=Residual("unit", 0.5, 0.25)),
    "plain": replace(Layer(), residual=Residual("add"), scoring=Scoring(looks_at="others")),
}


@pytest.fixture(scope="module")
def tiny(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> httpx.Client:
    """A service with models of every kind of layer, each the second of its model."""
    folder = tmp_path_factory.mktemp("layers")
    bias = np.linspace(-1, 1, len(WORDS)).astype(np.float32)
    for name, layer in LAYERS.items():
        first, own = (full_layer(5), {"word_bias": bias}) if layer.heads > 1 else (Layer(), {})
        write_tiny(folder / name.replace(" ", "-"), layers=[first, layer], **own)
    return serve(models_dir=folder, model="plain", workers=1)


@pytest.mark.parametrize("layer", LAYERS)
def test_no_derivation_of_any_kind_of_layer_contradicts_the_service(
    open_page: Open, tiny: httpx.Client, layer: str
) -> None:
    fields = {"text": "bank river zebra bank", "model": layer.replace(" ", "-"), "layer": 1}
    given = traced(tiny, **fields)
    reader = open_page(address(source="sentence", **fields), service=tiny)
    assert steps(reader) == list(given)
    found = derived(reader, given, LAYERS[layer].heads, source="sentence", **fields)
    assert {"scores", "weights", "context", "residual", "contextual"} <= found


def test_a_step_with_only_a_formula_lights_what_it_works_on(
    open_page: Open, tiny: httpx.Client
) -> None:
    reader = open_page("#steps", service=tiny)
    for layer, step, sources in [
        ("norm-after", "attention_norm", {"residual"}),
        ("norm-after", "feed_forward_norm", {"attention_norm", "feed_forward"}),
        ("norm-before", "queries", {"attention_norm"}),
        ("norm-before", "feed_forward_norm", {"residual"}),
    ]:
        fields = {"text": "bank river", "model": layer, "layer": 1, "cell": f"{step}:1:0"}
        reader.go(address(source="sentence", **fields))
        expected = {f"{name}:1:{column}" for name in sources for column in range(5)}
        assert lit(reader) == expected, (layer, step)


def test_a_number_that_does_not_come_out_is_said_to_differ(open_page: Open) -> None:
    reader = open_page("#models")

    def falsified(route) -> None:
        answer = route.fetch()
        body = answer.json()
        next(step for step in body["steps"] if step["name"] == "scores")["values"][0][1] += 1e-6
        route.fulfill(response=answer, json=body)

    reader.page.route("**/v1/trace", falsified)
    reader.go(address(example=1, cell="scores:0:1"))
    assert "they differ" in panel(reader)
    reader.go(address(example=1, cell="scores:0:2"))
    assert "differ" not in panel(reader)


def test_a_weight_adds_up_the_biases_and_leaves_out_what_is_hidden(
    open_page: Open, client: httpx.Client
) -> None:
    text = "the river bank"
    given = traced(client, text=text)
    reader = open_page(address(source="sentence", text=text, cell="weights:1:2", head=2))
    parts = [
        given["scores"][2][1][2],
        given["position_bias"][2][1][2],
        given["scaled_word_bias"][2][2],
    ]
    first, second = said(reader)
    assert first.startswith("score + position bias + word bias: ")
    assert np.allclose(
        plain(first.split(": ")[1].replace(" =", " +")), [*parts, sum(parts)], atol=1e-4
    )
    # "river" looks at the two others and not at itself.
    assert second.count("e^") == 3
    assert {"scores:1:0", "position_bias:1:1", "scaled_word_bias:2:0", "visible:1:2"} <= lit(reader)
    reader.go(address(source="sentence", text=text, cell="weights:1:1", head=2))
    assert "river may not look at river" in panel(reader)


def plain(text: str) -> list[float]:
    return [float(part.strip(" ()").replace("−", "-")) for part in text.split("+")]


def test_long_sums_show_their_first_terms_and_how_many_more(open_page: Open) -> None:
    reader = open_page(address(source="sentence", text="the river bank", cell="scores:0:1"))
    (line,) = said(reader)
    assert line.endswith("… and 12 more products")
    assert line.count("·") == 4


def test_the_head_is_chosen(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(address(source="sentence", text="the river bank"))
    reader.page.get_by_label("Head", exact=True).select_option("3")
    reader.settle()
    given = traced(client, text="the river bank")["weights"][3]
    assert numbers(reader, "weights") == [[round(x, 4) for x in row] for row in given]


def test_a_number_of_the_output_leads_to_its_head(open_page: Open) -> None:
    reader = open_page(address(source="sentence", text="the river bank", cell="output:0:74"))
    assert lit(reader) == {"context:0:74"}
    reader.page.locator("[data-step=output] td.chosen").focus()
    reader.page.keyboard.press("ArrowRight")
    reader.settle()
    assert chosen(reader) == ["output:0:75"]
    assert lit(reader) == {"context:0:0"}
    assert reader.page.get_by_label("Head", exact=True).input_value() == "1"


def test_wide_matrices_are_seen_through_a_window(open_page: Open, client: httpx.Client) -> None:
    text = "the river bank"
    reader = open_page(address(source="sentence", text=text))
    static = np.array(traced(client, text=text)["embeddings"])
    shown = np.array(numbers(reader, "embeddings"))
    many = shown.shape[1]
    assert 5 <= many <= 20
    reader.page.get_by_role("button", name="Embeddings: later columns").click()
    np.testing.assert_allclose(numbers(reader, "embeddings"), static[:, many : 2 * many], atol=6e-5)
    reader.page.get_by_role("button", name="Embeddings: earlier columns").click()
    np.testing.assert_allclose(numbers(reader, "embeddings"), static[:, :many], atol=6e-5)
    reader.go(address(source="sentence", text=text, cell="embeddings:1:299"))
    np.testing.assert_allclose(numbers(reader, "embeddings"), static[:, -many:], atol=6e-5)
    assert chosen(reader) == ["embeddings:1:299"]


def test_a_sentence_is_typed_and_back_leads_to_the_one_before(open_page: Open) -> None:
    reader = open_page(address(source="sentence", text="river bank"))
    reader.page.get_by_label("Sentence", exact=True).fill("money bank")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert reader.address == "#steps?source=sentence&text=money+bank"
    assert reader.page.locator("[data-step=scores] th").first.text_content() == "money"
    reader.page.go_back()
    reader.settle()
    assert reader.page.locator("[data-step=scores] th").first.text_content() == "river"


def test_no_sentence_is_no_question(open_page: Open) -> None:
    reader = open_page(address(source="sentence", text=""))
    for text in ("", "   "):
        reader.go(address(source="sentence", text=text))
        assert reader.problem.text_content() == "Type a sentence to see its steps."
        assert not reader.page.locator(".step").first.is_visible()
        reader.go(address(source="sentence", text="bank"))
        assert not reader.problem.is_visible()


def test_a_layer_that_is_not_there_is_said(open_page: Open) -> None:
    reader = open_page(address(source="sentence", layer=7))
    assert "the model's layers are 0 to 0" in reader.problem.text_content()
    reader.page.get_by_label("Layer").select_option("0")
    reader.settle()
    assert not reader.problem.is_visible()


def test_any_words_have_steps(open_page: Open, client: httpx.Client) -> None:
    reader = open_page("#steps")
    for text in ("bank", "qqzzxx", "bank bank bank", "שלום bank עולם"):
        reader.go(address(source="sentence", text=text))
        given = traced(client, text=text)["weights"][0]
        assert numbers(reader, "weights") == [[round(x, 4) for x in row] for row in given], text
        assert "differ" not in panel(reader), text


def test_a_word_that_comes_again_is_numbered(open_page: Open) -> None:
    reader = open_page(address(source="sentence", text="bank of bank"))
    rows = reader.page.locator("[data-step=scores] th[scope=row]")
    assert rows.all_text_contents() == ["bank₁", "of", "bank₂"]


def test_the_command_gives_the_saved_answer(open_page: Open, tmp_path: Path) -> None:
    reader = open_page(address(source="sentence", text="the l'amour bank", case="lower"))
    assert reader.saved_json(tmp_path) == reader.run_command()
