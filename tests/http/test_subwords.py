"""Words composed of subwords, with fastText's vectors."""

import base64
import io
import json
from pathlib import Path

import httpx
import numpy as np
import pytest
from pydantic import TypeAdapter

from polyseme.engine.subwords import LONGEST, Subwords
from polyseme.models.writer import write_model
from polyseme.operations.compare import MappedComparison
from polyseme.operations.neighbors import Neighbors
from polyseme.operations.serialize import EncodeDocument
from polyseme.settings import BUNDLED
from tests.tokenizer.vocabularies import AWKWARD

UNKNOWN = [
    "qz",
    "zebraic",
    "Gnus",
    "naïveté",
    "日本語",
    "👩🏽\u200d🚒",
    "e\u0301e\u0301",
    "electroencephalographs",
]


@pytest.fixture(scope="module")
def fasttext(tmp_path_factory):
    """A fastText file as gensim reads it, and a folder of models with its vectors."""
    gensim = pytest.importorskip("gensim.models.fasttext", reason="gensim is not installed")
    data = Path(gensim.__file__).parents[1] / "test" / "test_data" / "crime-and-punishment.bin"
    if not data.exists():
        pytest.skip("this gensim comes without its test data")
    vectors = gensim.load_facebook_vectors(data)
    folder = tmp_path_factory.mktemp("models")
    subwords = Subwords(vectors.vectors_ngrams, vectors.min_n, vectors.max_n)
    words, table = vectors.index_to_key, vectors.vectors
    write_model(folder / "fast", words, table, subwords=subwords, cased=True)
    write_model(folder / "bare", words, table, cased=True)
    return vectors, folder


@pytest.fixture(scope="module")
def gensim_vectors(fasttext):
    """fastText's vectors as gensim computes them."""
    return fasttext[0]


@pytest.fixture(scope="module")
def fast(make_client, fasttext) -> httpx.Client:
    """A service whose default model has subwords; `bare` has none."""
    return make_client(models_dir=fasttext[1], model="fast")


def encode(client: httpx.Client, **body: object) -> dict:
    answer = client.post("/v1/encode", json=body)
    assert answer.status_code == 200, answer.text
    document = answer.json()
    TypeAdapter(EncodeDocument).validate_python(document)
    return document


def tokens(document: dict) -> list[tuple[str, str]]:
    (result,) = document["results"]
    return [(token["text"], token["resolution"]) for token in result["tokens"]]


def rejection(client: httpx.Client, **body: object) -> dict:
    answer = client.post("/v1/encode", json=body)
    assert answer.status_code == 422
    return answer.json()


def test_words_in_and_out_of_the_vocabulary_have_the_vectors_that_gensim_gives(
    fast: httpx.Client, gensim_vectors
) -> None:
    unknown = [f"{word}zq" for word in gensim_vectors.index_to_key] + UNKNOWN
    assert not set(unknown) & set(gensim_vectors.index_to_key)
    words = [*gensim_vectors.index_to_key, *unknown]
    document = encode(fast, input=[words], include=["static"], case="exact")
    expected = np.array([gensim_vectors.get_vector(word) for word in words])
    np.testing.assert_allclose(document["results"][0]["static"], expected, rtol=0, atol=1e-6)
    found = [token["resolution"] for token in document["results"][0]["tokens"]]
    assert found == ["exact"] * len(gensim_vectors.index_to_key) + ["subword"] * len(unknown)
    assert {t["key"] for t in document["results"][0]["tokens"]} == {
        None,
        *gensim_vectors.index_to_key,
    }
    assert document["usage"]["oov"] == 0


def test_a_text_is_composed_word_by_word(fast: httpx.Client, gensim_vectors) -> None:
    text = "The landlady unbankable 👍🏽."
    document = encode(fast, input=text)
    result = document["results"][0]
    for token, row in zip(result["tokens"], result["static"], strict=True):
        assert text[token["start"] : token["end"]] == token["text"]
        expected = gensim_vectors.get_vector(token["key"] or token["text"])
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-6)
    assert ("unbankable", "subword") in tokens(document)
    assert (np.array(result["attention"]) > 0).all()


def test_the_request_selects_the_treatment_of_unknown_words(fast: httpx.Client) -> None:
    body = {"input": "the unbankable was"}
    assert tokens(encode(fast, **body)) == tokens(encode(fast, **body, oov="subword"))
    zero = encode(fast, **body, oov="zero")
    assert tokens(zero)[1] == ("unbankable", "oov")
    assert zero["usage"]["oov"] == 1
    assert not np.any(zero["results"][0]["static"][1])
    assert rejection(fast, **body, oov="error")["words"] == ["unbankable"]
    document = encode(fast, **body, model=BUNDLED)
    assert tokens(document)[1] == ("unbankable", "subword")


def test_a_model_without_subwords_rejects_oov_subword(fast: httpx.Client) -> None:
    problem = rejection(fast, input="the qzxqzx", model="bare", oov="subword")
    assert problem["code"] == "invalid"
    assert problem["errors"] == [
        {"pointer": "/oov", "message": "this model has no subword vectors"}
    ]


def test_a_word_that_is_too_long_is_unknown(fast: httpx.Client) -> None:
    for length, resolution in ((LONGEST, "subword"), (LONGEST + 1, "oov")):
        document = encode(fast, input=[["x" * length]], include=[])
        assert [resolution for _, resolution in tokens(document)] == [resolution]
        assert document["usage"]["oov"] == (resolution == "oov")


def test_composed_words_get_the_same_bits_alone_in_a_batch_and_in_an_archive(
    fast: httpx.Client,
) -> None:
    texts = [f"the {word} and qzx-{word}" for word in UNKNOWN]
    batch = encode(fast, input=texts, encoding="base64")["results"]
    for text, together in zip(texts, batch, strict=True):
        assert encode(fast, input=text, encoding="base64")["results"] == [together]
    accept = {"Accept": "application/x-npz"}
    answer = fast.post("/v1/encode", json={"input": texts}, headers=accept)
    archive = np.load(io.BytesIO(answer.content), allow_pickle=False)
    rows = b"".join(base64.b64decode(one["static"]["data"]) for one in batch)
    assert archive["static"].tobytes() == rows
    documents = json.loads(archive["tokens"].tobytes())
    assert [one["tokens"] for one in documents] == [one["tokens"] for one in batch]


@pytest.mark.parametrize("case", ["auto", "exact", "lower"])
def test_any_unicode_gives_finite_vectors(fast: httpx.Client, case: str) -> None:
    words = [word for word in AWKWARD if word.encode("utf-8", "replace").decode() == word]
    for texts in (words, [words], [" ".join(words)], ["".join(words)]):
        document = encode(fast, input=texts, case=case)
        for result in document["results"]:
            for part in ("static", "contextual", "attention"):
                assert np.isfinite(np.array(result[part], np.float64)).all()


def test_a_composed_word_is_compared_and_has_neighbors(fast: httpx.Client, gensim_vectors) -> None:
    pair = [
        {"text": "the qzxqzx was", "word": "qzxqzx"},
        {"text": "a qzxqzx", "start": 2, "end": 8},
    ]
    document = fast.post("/v1/compare", json={"occurrences": pair}).json()
    TypeAdapter(MappedComparison).validate_python(document)
    assert document["static_similarity"][0][1] == pytest.approx(1, abs=1e-6)
    assert any("subwords of one spelling" in note for note in document["notes"])
    assert document["occurrences"][0]["token"]["resolution"] == "subword"

    found = fast.post("/v1/neighbors", json={"word": "qzxqzx", "k": 5}).json()
    TypeAdapter(Neighbors).validate_python(found)
    table = gensim_vectors.vectors.astype(np.float64)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    vector = gensim_vectors.get_vector("qzxqzx").astype(np.float64)
    cosines = np.sort(table @ (vector / np.linalg.norm(vector)))[::-1][:5]
    similarities = [one["similarity"] for one in found["neighbors"]]
    np.testing.assert_allclose(similarities, cosines, rtol=0, atol=1e-6)
    assert document["occurrences"][0]["static_neighbors"] == found["neighbors"]


def test_a_trace_begins_with_the_composed_vector(fast: httpx.Client, gensim_vectors) -> None:
    document = fast.post("/v1/trace", json={"text": "the qzxqzx"}).json()
    assert document["tokens"] == ["the", "qzxqzx"]
    embeddings = document["steps"][0]["values"]
    np.testing.assert_allclose(
        embeddings[1], gensim_vectors.get_vector("qzxqzx"), rtol=0, atol=1e-6
    )
