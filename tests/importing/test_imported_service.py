"""Imported models behind a real gunicorn: responses have the contents of the files."""

import base64
import io

import httpx
import numpy as np
import pytest

from polyseme.engine.quantization import quantize
from polyseme.models.reader import read_model
from tests.importing import files
from tests.importing.comparison import GENSIM_DATA, composed_of_known, facebook, word2vec
from tests.importing.conftest import run
from tests.importing.weight_files import BIASES, ROW, D, H, K, V, written
from tests.tiny import VECTORS, WORDS

TEXT = "apple bank river money high end bank"
COMPOSED = ["landladyship", "unfriendliness", "Australianism", "reportingly"]
OTHER = ["qzx", "日本語", "привета", "שלומות", "नमस्ते", "👩🏽\u200d🚒", "e\u0301x"]
"""Words whose n-grams the words of the file do not have."""
FAST = "lee_fasttext_new.bin"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not GENSIM_DATA.exists(), reason="this gensim is without its test data"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of six imported models."""
    place = tmp_path_factory.mktemp("files")
    (place / "tiny.txt").write_bytes(files.rows(WORDS, VECTORS))
    weights = written(place / "weights.safetensors", {**ROW, **BIASES}, {"heads": str(H)})
    column = {name: tensor.T if tensor.ndim == 2 else tensor for name, tensor in ROW.items()}
    column = written(place / "column.safetensors", column)
    models = tmp_path_factory.mktemp("models")
    for name, file, *options in [
        ("weighted", place / "tiny.txt", "--weights", weights),
        (
            "column",
            place / "tiny.txt",
            *("--weights", column, "--convention", "column"),
            "--heads",
            H,
        ),
        ("free", place / "tiny.txt", "--no-weights"),
        ("fast", GENSIM_DATA / FAST),
        ("half", GENSIM_DATA / "test_glove.txt", "--dtype", "float16", "--licence", "PDDL"),
        ("small", GENSIM_DATA / FAST, "--dtype", "int8"),
    ]:
        done = run("models", "import", file, "--name", name, "--models-dir", models, *options)
        assert done.code == 0, done.err
    return models


@pytest.fixture(scope="module")
def client(serve, folder) -> httpx.Client:
    return serve(models_dir=folder, model="fast")


@pytest.fixture(scope="module")
def oracle():
    return facebook(GENSIM_DATA / FAST)


@pytest.fixture(scope="module")
def coverage(folder):
    return read_model(folder / "fast").subwords.coverage


def encode(client, **body):
    response = client.post("/v1/encode", json=body)
    assert response.status_code == 200, response.text
    (result,) = response.json()["results"]
    return result


def test_words_of_fasttext_have_the_vectors_of_gensim(client, oracle, coverage):
    words = [*oracle.index_to_key, *COMPOSED, *OTHER]
    assert not {*COMPOSED, *OTHER} & set(oracle.index_to_key)
    expected = {"subword": COMPOSED, "oov": OTHER}
    for start in range(0, len(words), 400):
        some = words[start : start + 400]
        result = encode(client, input=[some], include=["static"], case="exact")
        right = np.array([vector_of(oracle, coverage, word) for word in some])
        np.testing.assert_allclose(result["static"], right, rtol=0, atol=1e-6)
        resolutions = [token["resolution"] for token in result["tokens"]]
        assert resolutions == [
            next((name for name, lacking in expected.items() if word in lacking), "exact")
            for word in some
        ]


def vector_of(oracle, coverage, word):
    """The vector of a word of the file, or the composed one, zero if it is unknown."""
    if word in oracle.key_to_index:
        return oracle[word]
    return composed_of_known(oracle, coverage, word)


def test_a_text_of_known_and_composed_words_is_encoded(client, oracle, coverage):
    text = "The landladyship of Australia qzx."
    result = encode(client, input=text)
    tokens = {token["text"]: token for token in result["tokens"]}
    assert tokens["Australia"]["resolution"] == "exact"
    found = [(tokens[word]["resolution"], tokens[word]["key"]) for word in ("landladyship", "qzx")]
    assert found == [("subword", None), ("oov", None)]
    for token, row in zip(result["tokens"], result["static"], strict=True):
        right = vector_of(oracle, coverage, token["key"] or token["text"])
        np.testing.assert_allclose(row, right, rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.sum(result["attention"], axis=-1), 1, rtol=0, atol=1e-5)


def attention(x, biases):
    """Multi-head attention by einsum, in float64. [n, d] -> [n, d], [h, n, n]"""
    q, k, v = (
        (x @ ROW[name] + biases.get(f"{name}_bias", 0)).reshape(len(x), H, -1)
        for name in ("query", "key", "value")
    )
    e = np.exp(np.einsum("ihk,jhk->hij", q, k) / np.sqrt(K))
    a = e / e.sum(axis=2, keepdims=True)
    context = np.einsum("hij,jhv->ihv", a, v).reshape(len(x), H * V)
    return context @ ROW["output"] + biases.get("output_bias", 0), a


@pytest.mark.parametrize(("name", "biases"), [("weighted", BIASES), ("column", {})])
def test_given_weights_are_those_of_multi_head_attention(client, name, biases):
    result = encode(client, input=TEXT, model=name, case="exact")
    x = VECTORS[[WORDS.index(word) for word in TEXT.split()]].astype(np.float64)
    assert result["static"] == x.tolist()
    contextual, weights = attention(x, biases)
    np.testing.assert_allclose(result["contextual"], contextual, rtol=0, atol=1e-5)
    np.testing.assert_allclose(result["attention"][0], weights, rtol=0, atol=1e-6)


def test_a_trace_has_the_steps_of_the_given_weights(client):
    body = {"text": TEXT, "model": "weighted", "layer": 0}
    steps = {step["name"]: step for step in client.post("/v1/trace", json=body).json()["steps"]}
    x = np.array(steps["embeddings"]["values"])
    contextual, weights = attention(x, BIASES)
    assert steps["queries"]["shape"] == [H, len(x), K]
    np.testing.assert_allclose(steps["weights"]["values"], weights, rtol=0, atol=1e-6)
    np.testing.assert_allclose(steps["output"]["values"], contextual, rtol=0, atol=1e-5)


def test_without_weights_attention_is_parameter_free(client):
    result = encode(client, input=TEXT, model="free", case="exact")
    x = np.array(result["static"])
    e = np.exp(x @ x.T / np.sqrt(D))
    a = e / e.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result["attention"], a[None, None], rtol=0, atol=1e-6)
    np.testing.assert_allclose(result["contextual"], a @ x, rtol=0, atol=1e-5)


def test_float16_vectors_are_served_as_stored(client):
    right = word2vec(GENSIM_DATA / "test_glove.txt", no_header=True)
    response = client.post(
        "/v1/encode",
        json={"input": [right.index_to_key], "model": "half", "include": ["static"]},
        headers={"Accept": "application/x-npz"},
    )
    static = np.load(io.BytesIO(response.content), allow_pickle=False)["static"]
    assert np.array_equal(static, right.vectors.astype(np.float16).astype(np.float32))


def test_quantized_rows_are_served_as_scales_times_integers(client, oracle, coverage):
    words = [*oracle.index_to_key[:50], "landladyship"]
    result = encode(client, input=[words], model="small", include=["static"], case="exact")
    right = quantize(oracle.vectors[:50])[:]
    assert np.array(result["static"][:50], np.float32).tobytes() == right.tobytes()
    composed = composed_of_known(oracle, coverage, "landladyship")
    np.testing.assert_allclose(result["static"][50], composed, rtol=0, atol=1e-2)
    shown = client.get("/v1/models/small").json()
    assert (shown["dtype"], shown["subwords"]) == ("int8", True)


def test_neighbors_of_quantized_rows_are_those_of_all_cosines(client, oracle):
    table = quantize(oracle.vectors)[:].astype(np.float64)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    body = {"vector": [1, -2, 3, 0, 5, 7, -11, 1, 1, 1], "k": 20, "model": "small"}
    response = client.post("/v1/neighbors", json=body)
    assert response.status_code == 200, response.text
    found = response.json()["neighbors"]
    cosines = table @ np.array(body["vector"]) / np.linalg.norm(body["vector"])
    best = np.sort(cosines)[::-1][:20]
    np.testing.assert_allclose([one["similarity"] for one in found], best, rtol=0, atol=1e-6)
    places = [oracle.key_to_index[one["word"]] for one in found]
    np.testing.assert_allclose(cosines[places], best, rtol=0, atol=1e-6)


def test_models_are_described_by_their_manifests(client):
    shown = {name: client.get(f"/v1/models/{name}").json() for name in ("weighted", "half", "fast")}
    assert [one["heads"] for one in shown.values()] == [H, 1, 1]
    assert [one["cased"] for one in shown.values()] == [True, False, True]
    assert [one["source"] for one in shown.values()] == ["tiny.txt", "test_glove.txt", FAST]
    assert [one["training"]["attention"] for one in shown.values()] == [
        *("stored weights", "closed form", "closed form")
    ]
    assert shown["half"]["licence"] == "PDDL"
    assert shown["fast"]["training"]["informativeness"] == "counts in the file"


def test_a_batch_has_the_bits_of_its_sentences_alone(client):
    texts = [TEXT, "the fire", "qzx landladyship", "qzx qzx", ""]
    for name in ("weighted", "fast", "half", "small"):
        body = {"model": name, "encoding": "base64"}
        batch = client.post("/v1/encode", json={"input": texts, **body}).json()["results"]
        assert [encode(client, input=text, **body) for text in texts] == batch
        assert base64.b64decode(batch[0]["contextual"]["data"])
