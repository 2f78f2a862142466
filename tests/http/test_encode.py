"""POST /v1/encode: vectors, formats and streams."""

import base64
import io
import json
import math
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from pydantic import TypeAdapter

from polyseme.http.responses import ProblemResponse
from polyseme.operations.serialize import EncodeDocument
from tests.http.conftest import SECRET, expect_problem
from tests.tiny import VECTORS, WORDS, full_layer, write_tiny

SENTENCE = "Apple launched a new phone while I was eating an apple."

DOCUMENT = TypeAdapter(EncodeDocument)


def encode(client: httpx.Client, **body: object) -> dict:
    answer = client.post("/v1/encode", json=body)
    assert answer.status_code == 200, answer.text
    document = answer.json()
    DOCUMENT.validate_python(document)
    return document


def arrays(result: dict, part: str) -> np.ndarray:
    return np.array(result[part], np.float32)


def test_two_apples_of_a_sentence_have_different_vectors(client: httpx.Client) -> None:
    result = encode(client, input=SENTENCE)["results"][0]
    tokens = result["tokens"]
    assert [t["text"] for t in tokens] == [*SENTENCE[:-1].split(), "."]
    assert all(SENTENCE[t["start"] : t["end"]] == t["text"] for t in tokens)
    static, contextual = arrays(result, "static"), arrays(result, "contextual")
    assert not np.array_equal(static[0], static[10])
    assert not np.array_equal(contextual[0], contextual[10])


def test_in_lower_case_the_apples_share_the_static_vector_and_not_the_contextual_one(
    client: httpx.Client,
) -> None:
    result = encode(client, input=SENTENCE, case="lower")["results"][0]
    assert [t["key"] for t in result["tokens"]].count("apple") == 2
    assert result["tokens"][0]["resolution"] == "lower"
    static, contextual = arrays(result, "static"), arrays(result, "contextual")
    np.testing.assert_array_equal(static[0], static[10])
    cosine = contextual[0] @ contextual[10]
    cosine /= np.linalg.norm(contextual[0]) * np.linalg.norm(contextual[10])
    assert cosine < 0.95


def test_attention_has_layers_heads_and_rows_that_sum_to_one(client: httpx.Client) -> None:
    document = encode(client, input=SENTENCE)
    attention = arrays(document["results"][0], "attention")
    n = len(document["results"][0]["tokens"])
    assert attention.shape == (document["layers"], document["heads"], n, n)
    np.testing.assert_allclose(attention.sum(axis=-1), 1, atol=1e-5)
    mean = arrays(encode(client, input=SENTENCE, heads="mean")["results"][0], "attention")
    np.testing.assert_allclose(mean, attention.mean(axis=1), atol=1e-6)


@pytest.mark.parametrize(
    "text", ["apple eats apple", "apple apple", "the bank by the bank", "a a a a"]
)
def test_two_occurrences_of_a_word_differ_in_any_sentence(client: httpx.Client, text: str) -> None:
    result = encode(client, input=text, include=["contextual"])["results"][0]
    rows: dict[str, list[np.ndarray]] = {}
    for token, row in zip(result["tokens"], arrays(result, "contextual"), strict=True):
        rows.setdefault(token["text"], []).append(row)
    assert any(len(same) > 1 for same in rows.values())
    for same in rows.values():
        assert len({row.tobytes() for row in same}) == len(same)


def test_a_sentence_gets_the_same_bits_alone_in_a_batch_and_in_any_thread(
    client: httpx.Client,
) -> None:
    sentences = [" ".join(SENTENCE.split()[: 1 + i % 11] * (1 + i % 3)) for i in range(40)]
    include = ["static", "contextual", "attention"]
    batch = encode(client, input=sentences, encoding="base64", include=include)["results"]

    def alone(sentence: str) -> dict:
        return encode(client, input=sentence, encoding="base64", include=include)["results"][0]

    with ThreadPoolExecutor(8) as pool:
        for together, one in zip(batch, pool.map(alone, sentences), strict=True):
            assert together == one


def test_bits_do_not_depend_on_whether_attention_is_requested(client: httpx.Client) -> None:
    text = " ".join(SENTENCE.split() * 30)
    body = {"input": text, "encoding": "base64"}
    with_it = encode(client, **body)["results"][0]
    without = encode(client, **body, include=["contextual"])["results"][0]
    assert with_it["contextual"] == without["contextual"]
    assert "attention" not in without


def test_base64_float_and_npz_are_the_same_numbers(client: httpx.Client) -> None:
    body = {
        "input": [SENTENCE, "", "River bank flows"],
        "include": ["static", "contextual", "attention", "queries", "keys", "values", "scores"],
    }
    floats = encode(client, **body)["results"]
    coded = encode(client, **body, encoding="base64")["results"]
    answer = client.post("/v1/encode", json=body, headers={"Accept": "application/x-npz"})
    assert answer.headers["content-type"] == "application/x-npz"
    archive = np.load(io.BytesIO(answer.content), allow_pickle=False)
    offsets = archive["offsets"]
    assert offsets.dtype == np.int64
    documents = json.loads(archive["tokens"].tobytes())
    for number, (plain, packed) in enumerate(zip(floats, coded, strict=True)):
        assert documents[number] == {"tokens": plain["tokens"], "truncated": 0}
        for part in body["include"]:
            data = base64.b64decode(packed[part]["data"])
            array = np.frombuffer(data, "<f4").reshape(packed[part]["shape"])
            np.testing.assert_array_equal(array, arrays(plain, part).reshape(array.shape))
            rows = slice(offsets[number], offsets[number + 1])
            key = part if part in {"static", "contextual"} else f"{part}_{number}"
            stored = archive[key][rows] if key == part else archive[key]
            np.testing.assert_array_equal(stored, array)
            assert stored.dtype == np.float32


def test_float16_halves_the_output_and_rounds_the_values(client: httpx.Client) -> None:
    body = {"input": SENTENCE, "include": ["contextual"], "encoding": "base64"}
    full = encode(client, **body)["results"][0]["contextual"]
    half = encode(client, **body, dtype="float16")["results"][0]["contextual"]
    assert half["dtype"] == "float16"
    exact = np.frombuffer(base64.b64decode(full["data"]), "<f4")
    rounded = np.frombuffer(base64.b64decode(half["data"]), "<f2")
    np.testing.assert_array_equal(rounded, exact.astype(np.float16))
    floats = encode(client, input=SENTENCE, include=["contextual"], dtype="float16")
    np.testing.assert_array_equal(
        np.array(floats["results"][0]["contextual"], np.float16).ravel(), rounded
    )


def test_an_unknown_word_is_zero_masked_and_counted(client: httpx.Client) -> None:
    document = encode(client, input="the river qzxqzx flows", oov="zero")
    result = document["results"][0]
    assert result["tokens"][2]["resolution"] == "oov"
    assert result["tokens"][2]["key"] is None
    assert not arrays(result, "static")[2].any()
    assert not arrays(result, "attention")[..., 2].any()
    assert arrays(result, "contextual")[2].any()
    assert document["usage"] == {"tokens": 4, "oov": 1, "truncated": 0}


def test_a_sentence_of_unknown_words_gives_no_nan(client: httpx.Client) -> None:
    result = encode(client, input="qzxqzx wvwvxx", oov="zero")["results"][0]
    assert not arrays(result, "contextual").any()
    np.testing.assert_array_equal(arrays(result, "attention")[0, 0], np.eye(2))


def test_pre_tokenized_words_are_not_split(client: httpx.Client) -> None:
    result = encode(client, input=[["didn't", "new york", "Apple"], []])["results"][0]
    assert [t["text"] for t in result["tokens"]] == ["didn't", "new york", "Apple"]
    assert all(t["start"] is None and t["end"] is None for t in result["tokens"])


def test_a_word_the_vocabulary_lacks_is_tried_in_its_pieces(client: httpx.Client) -> None:
    tokens = encode(client, input="She didn’t go.", include=[])["results"][0]["tokens"]
    assert [t["text"] for t in tokens] == ["She", "did", "n’t", "go", "."]
    assert tokens[2]["key"] == "n't"


@pytest.mark.parametrize(
    ("case", "resolutions"),
    [
        ("auto", ["exact", "capitalised", "lower", "upper"]),
        ("exact", ["exact", "oov", "oov", "oov"]),
        ("lower", ["lower", "oov", "lower", "oov"]),
    ],
)
def test_case_is_chosen_by_the_request_and_reported(
    client: httpx.Client, case: str, resolutions: list[str]
) -> None:
    words = [["The", "china", "WATERFALL", "ibm"]]
    tokens = encode(client, input=words, case=case, include=[], oov="zero")["results"][0]["tokens"]
    assert [t["resolution"] for t in tokens] == resolutions


def test_offsets_are_code_points_of_the_input(client: httpx.Client) -> None:
    text = "👩‍👩‍👧 𝕏 Zoë ate cafe\u0301 🇫🇷!"
    for token in encode(client, input=text, include=[])["results"][0]["tokens"]:
        assert text[token["start"] : token["end"]] == token["text"]


def test_truncation_happens_on_request_and_is_reported(make_client) -> None:
    small = make_client(max_sentence_tokens=5)
    document = encode(small, input=[SENTENCE, "short"], truncate=True)
    assert [r["truncated"] for r in document["results"]] == [7, 0]
    assert document["usage"]["truncated"] == 7
    assert len(document["results"][0]["contextual"]) == 5


def test_layers_are_chosen_by_number(make_client, tmp_path) -> None:
    write_tiny(tmp_path / "deep", layers=[full_layer(1), full_layer(2)], word_bias=VECTORS[:, 0])
    deep = make_client(models_dir=tmp_path, model="deep")
    body = {"input": "apple bank", "include": ["attention"]}
    both = encode(deep, **body, layers=[0, 1])["results"][0]["attention"]
    for layers, expected in (("last", [1]), ([0], [0]), ([1], [1])):
        document = encode(deep, **body, layers=layers)
        assert document["layers"] == 2  # of the model
        (result,) = document["results"]
        assert result["attention"] == [both[layer] for layer in expected]


def test_an_empty_text_has_an_empty_result(client: httpx.Client) -> None:
    result = encode(client, input="")["results"][0]
    assert result["tokens"] == [] and result["static"] == [] and result["contextual"] == []


def test_every_response_has_a_request_id_and_stages(client: httpx.Client) -> None:
    answer = client.post("/v1/encode", json={"input": "x"}, headers={"X-Request-ID": "a-1.B_2"})
    assert answer.headers["x-request-id"] == "a-1.B_2"
    stages = [entry.split(";dur=") for entry in answer.headers["server-timing"].split(", ")]
    assert {"parse", "tokens", "static", "attention", "write", "total"} == {n for n, _ in stages}
    assert all(math.isfinite(float(ms)) and float(ms) >= 0 for _, ms in stages)
    for sent in ("", "x" * 200, "<script>"):
        own = client.get("/livez", headers={"X-Request-ID": sent}).headers["x-request-id"]
        assert own != sent and len(own) == 32


NDJSON, NPZ = "application/x-ndjson", "application/x-npz"
TEXTS = ["The bank of the river.", "", "Zoë didn’t go to the bank: qzxqzx!", "river " * 300]


def lines(client: httpx.Client, **body: object) -> list[dict]:
    """The lines of an NDJSON response."""
    response = client.post("/v1/encode", json=body, headers={"Accept": NDJSON})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == NDJSON
    assert "content-length" not in response.headers
    assert response.text.endswith("\n")
    return [json.loads(line) for line in response.text.splitlines()]


@pytest.mark.parametrize(
    "body",
    [
        {"include": ["static", "contextual", "attention", "scores"], "encoding": "base64"},
        {"include": ["contextual", "attention"], "heads": "mean", "dtype": "float16"},
        {"include": []},
    ],
)
def test_ndjson_has_the_results_of_json_and_a_last_line_with_the_usage(
    client: httpx.Client, body: dict
) -> None:
    whole = client.post("/v1/encode", json={"input": TEXTS, **body}).json()
    *results, last = lines(client, input=TEXTS, **body)
    assert results == whole["results"]
    assert last == {"complete": True, "usage": whole["usage"]}


def test_an_ndjson_body_takes_its_fields_from_the_query(client: httpx.Client) -> None:
    content = "\n".join([*map(json.dumps, TEXTS), ""])
    query = "?include=static,contextual&layers=0,0&truncate=true&encoding=base64&case=lower"
    headers = {"Content-Type": NDJSON}
    found = client.post(f"/v1/encode{query}", content=content, headers=headers).json()
    body = {"include": ["static", "contextual"], "layers": [0], "truncate": True}
    body |= {"encoding": "base64", "case": "lower"}
    wanted = client.post("/v1/encode", json={"input": TEXTS, **body}).json()["results"]
    assert found["results"] == wanted
    response = client.post("/v1/encode", content='["river", "bank"]\n["a"]', headers=headers)
    first, _ = response.json()["results"]
    assert [token["text"] for token in first["tokens"]] == ["river", "bank"]
    for query, content, status, code, pointer in (
        ("?dtype=float64", '"a"', 422, "invalid", "/dtype"),
        ("?truncate=yes", '"a"', 422, "invalid", "/truncate"),
        ("?input=a", '"a"', 422, "invalid", "/input"),
        ("", '"a"\n5', 422, "invalid", "/input/1"),
        ("", '"a"\n{', 400, "not_json", None),
    ):
        response = client.post(f"/v1/encode{query}", content=content, headers=headers)
        document = expect_problem(response, status, code)
        if pointer:
            assert document["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize("accept", ["application/json", NDJSON, NPZ])
def test_every_rejection_comes_before_the_first_byte(make_client, accept: str) -> None:
    limited = make_client(max_sentence_tokens=400, max_tokens=900)
    for body, status, code in (
        ({"input": [*TEXTS, "river " * 401]}, 413, "too_large"),
        ({"input": TEXTS * 5}, 413, "too_large"),
        ({"input": TEXTS, "oov": "error"}, 422, "unknown_word"),
        ({"input": TEXTS, "layers": [7]}, 422, "invalid"),
    ):
        headers = {"Accept": f"{accept}, */*;q=0.1"}
        expect_problem(limited.post("/v1/encode", json=body, headers=headers), status, code)


def test_the_size_limit_is_per_line_for_streams_and_per_response_otherwise(make_client) -> None:
    limited = make_client(max_answer_bytes=2_000_000)
    body = {"input": ["river " * 50] * 40, "include": ["contextual"]}
    for accept in ("application/json", NPZ):
        response = limited.post("/v1/encode", json=body, headers={"Accept": accept})
        document = expect_problem(response, 413, "too_large")
        assert document["setting"] == "max_answer_bytes"
        assert "application/x-ndjson" in document["hint"] and "polyseme bulk" in document["hint"]
    assert len(lines(limited, **body)) == 41
    long = {**body, "input": ["river " * 500], "include": ["attention", "scores"]}
    response = limited.post("/v1/encode", json=long, headers={"Accept": NDJSON})
    assert (response.status_code, response.json()["setting"]) == (413, "max_answer_bytes")


@pytest.fixture(scope="module")
def far(make_client, tmp_path_factory) -> httpx.Client:
    """A service whose model has one vector, that of `end`, beyond the range of float16."""
    vectors = VECTORS.copy()
    vectors[WORDS.index("end")] *= np.float32(1e6)
    folder = tmp_path_factory.mktemp("models")
    write_tiny(folder / "far", vectors=vectors)
    return make_client(models_dir=folder, model="far")


def test_an_error_in_the_middle_of_a_stream_is_its_last_line(far: httpx.Client, caplog) -> None:
    body = {"input": ["bank river", "the end", "money"], "dtype": "float16", "include": ["static"]}
    first, last = lines(far, **body)
    assert [token["text"] for token in first["tokens"]] == ["bank", "river"]
    assert last["complete"] is False
    ProblemResponse.model_validate(last["error"])
    assert (last["error"]["status"], last["error"]["code"]) == (422, "out_of_range")
    expect_problem(far.post("/v1/encode", json=body), 422, "out_of_range")
    assert not caplog.records


def test_an_internal_error_in_a_stream_is_logged_and_leaks_nothing(
    client: httpx.Client, monkeypatch, caplog
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr("polyseme.http.routes.sentence_json", fail)
    (last,) = lines(client, input=TEXTS)
    assert (last["complete"], last["error"]["code"]) == (False, "internal")
    assert SECRET not in json.dumps(last)
    (record,) = caplog.records
    assert record.fields == {"event": "fault", "request_id": last["error"]["request_id"]}


@pytest.mark.parametrize("media", ["application/json", "application/x-npz", "application/x-ndjson"])
def test_features_and_share_are_in_every_format(client: httpx.Client, media: str) -> None:
    body = {"input": SENTENCE, "include": ["features", "static", "contextual"], "share": 0}
    response = client.post("/v1/encode", json=body, headers={"Accept": media})
    assert response.status_code == 200
    if media == "application/x-npz":
        found = np.load(io.BytesIO(response.content), allow_pickle=False)
    else:
        first = json.loads(response.content.splitlines()[0])
        found = first["results"][0] if media == "application/json" else first
    features, static, contextual = (
        np.array(found[part], np.float64) for part in ("features", "static", "contextual")
    )
    n, d = static.shape
    assert features.shape == (n, 2 * d)
    norms = np.linalg.norm(static, axis=1, keepdims=True)
    np.testing.assert_allclose(features[:, :d], static / norms, atol=1e-6)
    # Without a share of the static vector, only the position is added to the context.
    cosines = np.vecdot(features[:, d:], contextual) / np.linalg.norm(contextual, axis=1)
    assert cosines.min() > 0.99


def test_the_query_string_may_have_a_share(client: httpx.Client) -> None:
    found = [
        client.post(
            f"/v1/encode?include=contextual{share}",
            content=json.dumps(SENTENCE),
            headers={"Content-Type": "application/x-ndjson"},
        ).json()["results"][0]["contextual"]
        for share in ("&share=1.5", "")
    ]
    expected = encode(client, input=SENTENCE, include=["contextual"], share=1.5)
    assert found[0] == expected["results"][0]["contextual"] != found[1]


def test_phrases_of_the_vocabulary_are_one_token_if_asked_for(client: httpx.Client) -> None:
    text = "A well known high-speed train"
    (whole,) = encode(client, input=text, phrases=True)["results"]
    assert whole["tokens"][1] == {
        "text": "well known",
        "start": 2,
        "end": 12,
        "key": "well-known",
        "resolution": "exact",
    }
    assert len(whole["tokens"]) == len(whole["static"]) == 4
    (words,) = encode(client, input=[text.split()], phrases=True)["results"]
    assert [token["key"] for token in words["tokens"]] == [t["key"] for t in whole["tokens"]]
    assert words["contextual"] == whole["contextual"]
    assert len(encode(client, input=text)["results"][0]["tokens"]) == 5
    response = client.post(
        "/v1/encode?phrases=true",
        content=json.dumps(text),
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert response.json()["results"] == [whole]


def test_an_address_is_one_token_without_a_vector(client: httpx.Client) -> None:
    text = "See https://example.org/river?x=1, @bbc: 20% #Apple"
    (found,) = encode(client, input=text)["results"]
    assert [(t["text"], t["key"], t["resolution"]) for t in found["tokens"]] == [
        ("See", "See", "exact"),
        ("https://example.org/river?x=1", None, "oov"),
        (",", ",", "exact"),
        ("@bbc", "BBC", "upper"),
        (":", ":", "exact"),
        ("20%", "%", "exact"),
        ("#Apple", "Apple", "exact"),
    ]


@pytest.mark.parametrize("share", [-0.1, 4.01, "1", True, [1]])
def test_a_share_out_of_range_is_rejected(client: httpx.Client, share: object) -> None:
    response = client.post("/v1/encode", json={"input": "bank", "share": share})
    problem = expect_problem(response, 422, "invalid")
    assert problem["errors"][0]["pointer"] == "/share"
