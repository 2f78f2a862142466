"""POST /v1/compare and /v1/neighbors."""

import httpx
import numpy as np
import pytest
from pydantic import TypeAdapter

from polyseme.models.model import Model
from polyseme.operations.compare import MappedComparison
from polyseme.operations.neighbors import Neighbors

FOUR = [
    ("Apple unveiled a faster laptop and new software in California.", "Apple"),
    ("Apple sued a rival maker of computers over its patents.", "Apple"),
    ("She peeled an apple and put the slices into the cake.", "apple"),
    ("The tree in the orchard bore a ripe apple every autumn.", "apple"),
]
OTHERS = [
    ("Apple launched a new phone.", "Apple"),
    ("Apple released its quarterly earnings.", "Apple"),
    ("I was eating an apple.", "apple"),
    ("She baked a pie with an apple and cinnamon.", "apple"),
]


def compare(client: httpx.Client, occurrences: list[dict], **body: object) -> dict:
    answer = client.post("/v1/compare", json={"occurrences": occurrences, **body})
    assert answer.status_code == 200, answer.text
    TypeAdapter(MappedComparison).validate_python(answer.json())
    return answer.json()


@pytest.mark.parametrize("sentences", [FOUR, OTHERS])
def test_compare_separates_the_company_from_the_fruit(
    client: httpx.Client, sentences: list[tuple[str, str]]
) -> None:
    occurrences = [{"text": text, "word": word} for text, word in sentences]
    similarity = np.array(compare(client, occurrences)["contextual_similarity"])
    company, fruit, across = similarity[0, 1], similarity[2, 3], similarity[:2, 2:]
    assert company > across.max() + 0.1
    assert fruit > across.max() + 0.1


def test_in_lower_case_context_separates_the_company_from_the_fruit(
    client: httpx.Client,
) -> None:
    occurrences = [{"text": text, "word": word} for text, word in FOUR]
    document = compare(client, occurrences, case="lower")
    np.testing.assert_allclose(document["static_similarity"], np.ones((4, 4)), atol=1e-6)
    similarity = np.array(document["contextual_similarity"])
    assert min(similarity[0, 1], similarity[2, 3]) > similarity[:2, 2:].max()


def test_a_money_bank_and_a_river_bank_get_different_vectors(client: httpx.Client) -> None:
    texts = ["Money bank grows", "River bank flows", "The bank lends money", "The bank of a river"]
    document = compare(client, [{"text": text, "word": "bank"} for text in texts])
    np.testing.assert_allclose(document["static_similarity"], np.ones((4, 4)), atol=1e-5)
    contextual = np.array(document["contextual_similarity"])
    assert contextual[0, 1] < 0.7
    assert contextual[0, 2] > contextual[0, 3]
    assert contextual[1, 3] > contextual[1, 2]
    assert len(document["notes"]) == 6
    assert all("share one vocabulary key" in note for note in document["notes"])


def test_an_occurrence_has_attended_tokens_and_neighbors(client: httpx.Client) -> None:
    text = "she went to the bank to deposit money near the river"
    occurrences = [{"text": text, "start": 16, "end": 20}, {"text": text, "word": "river"}]
    first, _ = compare(client, occurrences, neighbors=7)["occurrences"]
    assert first["token"]["text"] == "bank"
    assert 0 < first["shift"] < 1
    attended = [key["text"] for key in first["attends_to"]]
    weights = [key["weight"] for key in first["attends_to"]]
    assert attended[0] == "deposit"
    assert "money" in attended[:5]
    assert weights == sorted(weights, reverse=True)
    for key in first["attends_to"]:
        assert text[key["start"] : key["end"]] == key["text"]
    assert len(first["static_neighbors"]) == len(first["contextual_neighbors"]) == 7
    near = {one["word"].lower() for one in first["contextual_neighbors"]}
    assert not near & set(text.split())


def test_similarities_are_the_cosines_of_the_vectors_that_encode_gives(
    client: httpx.Client,
) -> None:
    texts = [text for text, _ in FOUR]
    results = client.post("/v1/encode", json={"input": texts}).json()["results"]
    places = [
        [t["text"] for t in r["tokens"]].index(w) for r, (_, w) in zip(results, FOUR, strict=True)
    ]
    document = compare(client, [{"text": text, "word": word} for text, word in FOUR])
    for part in ("static", "contextual"):
        rows = np.array([r[part][i] for r, i in zip(results, places, strict=True)], np.float64)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        np.testing.assert_allclose(document[f"{part}_similarity"], rows @ rows.T, atol=1e-5)


def test_the_nth_of_several_occurrences_can_be_chosen(client: httpx.Client) -> None:
    text = "the bank of the river and the bank that lends"
    pair = [{"text": text, "word": "bank", "nth": nth} for nth in (0, 1)]
    document = compare(client, pair)
    assert [one["token"]["start"] for one in document["occurrences"]] == [4, 30]
    assert document["contextual_similarity"][0][1] < 1


def test_an_unknown_word_is_compared_by_its_context(client: httpx.Client) -> None:
    # The word is too long to be composed of subwords.
    word = "qzxqzx" * 50
    pair = [
        {"text": f"a {word} of the river", "word": word},
        {"text": word, "start": 0, "end": len(word)},
    ]
    document = compare(client, pair)
    first, second = document["occurrences"]
    assert first["static_neighbors"] == [] and first["contextual_neighbors"]
    assert second["contextual_neighbors"] == [] and second["shift"] == 1
    assert document["contextual_similarity"][0][1] == 0
    assert sum("not in the vocabulary" in note for note in document["notes"]) == 2


def neighbors(client: httpx.Client, **body: object) -> list[dict]:
    answer = client.post("/v1/neighbors", json=body)
    assert answer.status_code == 200, answer.text
    TypeAdapter(Neighbors).validate_python(answer.json())
    return answer.json()["neighbors"]


@pytest.mark.parametrize("word", ["apple", "river", "Java"])
def test_neighbors_are_the_exact_cosines(client: httpx.Client, bundled: Model, word: str) -> None:
    table = np.asarray(bundled.vectors, np.float64)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    row = bundled.vocabulary.row(word)
    assert row is not None
    cosines = table @ table[row]
    best = np.argsort(-cosines)[1:11]
    found = neighbors(client, word=word)
    assert [one["word"] for one in found] == [bundled.vocabulary.word(i) for i in best]
    np.testing.assert_allclose([one["similarity"] for one in found], cosines[best], atol=1e-5)


def test_neighbors_have_the_resolution_of_the_word(client: httpx.Client) -> None:
    cases = {"river": "exact", "unbankable": "subword"}
    for word, resolution in cases.items():
        document = client.post("/v1/neighbors", json={"word": word, "k": 1}).json()
        assert (len(document["neighbors"]), document["resolution"]) == (1, resolution)
    document = client.post("/v1/neighbors", json={"vector": [1.0] * 300, "k": 1}).json()
    assert document["resolution"] is None
    refused = client.post("/v1/neighbors", json={"word": "river zxqwvv"})
    assert refused.json()["errors"][0]["pointer"] == "/word"
    assert (refused.status_code, refused.json()["code"]) == (422, "unknown_word")


def test_neighbors_of_a_vector_begin_with_its_word(client: httpx.Client) -> None:
    body = {"input": [["river"]], "include": ["static"]}
    vector = client.post("/v1/encode", json=body).json()["results"][0]["static"][0]
    for scale in (1.0, 1e-30, 1e300):
        found = neighbors(client, vector=[scale * x for x in vector], k=1)
        assert found[0]["word"] == "river"
        assert found[0]["similarity"] == pytest.approx(1, abs=1e-5)


def test_a_map_is_returned_on_request(client: httpx.Client) -> None:
    occurrences = [
        {"text": "River bank flows", "word": "bank"},
        {"text": "Money bank grows", "word": "bank"},
    ]
    body = {"occurrences": occurrences, "neighbors": 3}
    assert "map" not in client.post("/v1/compare", json=body).json()
    answer = client.post("/v1/compare", json={**body, "map": True})
    assert answer.status_code == 200
    TypeAdapter(MappedComparison).validate_python(answer.json())
    map_ = answer.json()["map"]
    assert map_["static"][0] == map_["static"][1]
    near = {
        neighbor["word"]
        for one in answer.json()["occurrences"]
        for kind in ("static_neighbors", "contextual_neighbors")
        for neighbor in one[kind]
    }
    assert {one["word"] for one in map_["neighbors"]} == near
    assert 0 < map_["explained_variance_ratio"][1] < map_["explained_variance_ratio"][0] < 1


def test_a_word_without_a_vector_has_no_position_on_the_map(client: httpx.Client) -> None:
    word = "qqzzxx" * 50
    occurrences = [{"text": word, "word": word}, {"text": "the bank", "word": "bank"}]
    answer = client.post("/v1/compare", json={"occurrences": occurrences, "map": True})
    TypeAdapter(MappedComparison).validate_python(answer.json())
    assert answer.json()["map"]["static"][0] is None


def test_a_larger_share_brings_the_occurrences_and_their_neighbors_together(client) -> None:
    occurrences = [{"text": text, "word": word} for text, word in FOUR]
    documents = [compare(client, occurrences, case="lower", share=s) for s in (0, 1, 4)]
    across = [np.array(one["contextual_similarity"])[0, 2] for one in documents]
    assert across == sorted(across)
    assert across[0] < 0.7 and across[2] > 0.9
    shifts = [one["occurrences"][0]["shift"] for one in documents]
    assert shifts == sorted(shifts, reverse=True)
    near = [[n["word"] for n in one["occurrences"][0]["contextual_neighbors"]] for one in documents]
    assert near[0] != near[2]
