"""OpenAI's embeddings API: its fields and errors; `tests/operations` tests the vectors."""

import base64

import httpx
import numpy as np
import pytest
from docs.openapi import OpenAIProblemResponse
from pydantic import TypeAdapter

from polyseme.operations.embed import Embeddings
from tests.http.conftest import SECRET, expect_problem
from tests.tiny import VECTORS, write_tiny

PATH = "/v1/embeddings"


@pytest.fixture(scope="module")
def models_dir(tmp_path_factory):
    """`tiny`, and `other`, whose vectors differ."""
    folder = tmp_path_factory.mktemp("models")
    write_tiny(folder / "tiny")
    write_tiny(folder / "other", vectors=VECTORS[::-1])
    return folder


@pytest.fixture(scope="module")
def tiny(make_client, models_dir) -> httpx.Client:
    """A service that pools contextual vectors; the default pools static ones."""
    return make_client(models_dir=models_dir, model="tiny", pooling="informativeness")


def ask(client, texts, **fields):
    """The response, with its form checked."""
    answer = client.post(PATH, json={"input": texts, **fields})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    document = answer.json()
    TypeAdapter(Embeddings).validate_python(document)
    assert [one["index"] for one in document["data"]] == list(range(len(document["data"])))
    return document


def vectors(client, texts, **fields):
    """The vectors of an answer."""
    return [one["embedding"] for one in ask(client, texts, **fields)["data"]]


def test_the_setting_or_the_request_selects_the_pooling(make_client, models_dir, tiny):
    default = make_client(models_dir=models_dir, model="tiny")
    found = []
    for client, setting, pooled in (
        (default, "whitened", "static"),
        (tiny, "informativeness", "contextual"),
    ):
        shown = client.get("/v1/models/tiny").json()["embeddings"]
        assert shown == {"pooling": setting, "vectors": pooled}
        found.append(vectors(client, ["river bank"]))
        for other in (default, tiny):
            assert vectors(other, ["river bank"], pooling=setting) == found[-1]
    assert found[0] != found[1]


def test_base64_is_the_same_numbers_and_usage_counts_all_tokens(tiny):
    # river bank | apple qzx , end | did n't
    texts = ["river bank", "apple qzx, end", "didn't"]
    document = ask(tiny, texts, user="somebody", wordless="zero")
    assert document["usage"] == {"prompt_tokens": 8, "total_tokens": 8}
    encoded = vectors(tiny, texts, encoding_format="base64", wordless="zero")
    for one, text in zip(document["data"], encoded, strict=True):
        assert base64.b64decode(text) == np.array(one["embedding"], "<f4").tobytes()


def test_a_text_without_a_known_word_is_rejected_by_its_index(tiny):
    texts = ["river bank", "qzx", "", " \n"]
    document = expect_problem(tiny.post(PATH, json={"input": texts}), 422, "unknown_word")
    assert [one["pointer"] for one in document["errors"]] == ["/input/1", "/input/2", "/input/3"]
    assert document["error"]["message"].startswith(
        "`input[1]`: no word is in the vocabulary. There are 2 more errors."
    )
    cut_to_zero = {"input": ["bank", "Apple"], "dimensions": 1}
    document = expect_problem(tiny.post(PATH, json=cut_to_zero), 422, "invalid")
    assert [one["pointer"] for one in document["errors"]] == ["/input/1"]


def test_settings_are_the_defaults_of_wordless_and_of_long_texts(make_client):
    client = make_client(wordless="zero", truncate=True, max_sentence_tokens=3)
    texts = ["bank a b c", "bank a b", ""]
    long, short, empty = vectors(client, texts)
    assert long == short
    assert not any(empty)
    for field, status, code in (
        ({"truncate": False}, 413, "too_large"),
        ({"wordless": "refuse"}, 422, "unknown_word"),
    ):
        expect_problem(client.post(PATH, json={"input": texts, **field}), status, code)


def test_the_model_is_chosen_by_name_and_an_unknown_one_is_a_404(tiny):
    assert ask(tiny, "river bank", model="other")["model"] == "other"
    assert vectors(tiny, "river bank", model="other") != vectors(tiny, "river bank")
    assert ask(tiny, "bank", model=None)["model"] == "tiny"
    for name in ("text-embedding-3-small", "", "../tiny"):
        answer = tiny.post(PATH, json={"input": "bank", "model": name})
        assert "/v1/models" in expect_problem(answer, 404, "unknown_model")["error"]["message"]


def expect_both(answer, status, code, openai_code, openai_type="invalid_request_error"):
    """Check that an error is a problem document and an OpenAI error that agree."""
    document = expect_problem(answer, status, code)
    OpenAIProblemResponse.model_validate(document)
    assert document["error"] == {
        "message": f"{document['detail']} {document['hint']}",
        "type": openai_type,
        "param": None,
        "code": openai_code,
    }
    return document


@pytest.mark.parametrize(
    ("method", "path", "status", "code", "openai_code"),
    [
        ("POST", PATH, 404, "unknown_model", "model_not_found"),
        ("GET", f"/v1/models/{SECRET}", 404, "unknown_model", "model_not_found"),
        ("GET", f"{PATH}/", 404, "unknown_route", "unknown_route"),
        ("DELETE", "/v1/models", 405, "method_not_allowed", "method_not_allowed"),
    ],
)
def test_unknown_models_routes_methods_and_keys_are_errors(
    make_client, method, path, status, code, openai_code
):
    client = make_client(api_keys="right-key")
    body = {"input": "a", "model": SECRET} if method == "POST" else None
    answer = client.request(method, path, json=body, headers={"Authorization": "Bearer right-key"})
    expect_both(answer, status, code, openai_code)
    answer = client.request(method, path, json=body)
    expect_both(answer, 401, "unauthorised", "invalid_api_key")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_the_limit_of_a_response_counts_sent_and_not_computed_arrays(make_client):
    # A vector of 300 numbers, each of at most 16 bytes in JSON and 16/3 bytes in base64.
    tight = make_client(max_answer_bytes=3000)
    body = {"input": "the river bank is near the money bank " * 20}
    document = expect_both(tight.post(PATH, json=body), 413, "too_large", "too_large")
    assert document["setting"] == "max_answer_bytes"
    answer = tight.post(PATH, json={**body, "encoding_format": "base64"})
    assert answer.status_code == 200
    assert 1600 < len(answer.content) <= 3000


def test_a_broken_model_and_a_rate_limit_are_errors_with_retry_after(make_client, broken_models):
    broken = make_client(models_dir=broken_models, model="broken")
    limited = make_client(rate_limit="1/hour", max_sentences=1)
    assert limited.post(PATH, json={"input": "the river"}).status_code == 200
    for client, *expected in (
        (broken, 503, "broken_model", "broken_model", "server_error"),
        (limited, 429, "rate_limited", "rate_limit_exceeded", "rate_limit_error"),
    ):
        answer = client.post(PATH, json={"input": "the river"})
        expect_both(answer, *expected)
        assert int(answer.headers["retry-after"]) > 0


def test_problem_documents_of_other_routes_have_no_openai_members(client):
    assert "error" not in expect_problem(client.get("/v1/encode"), 405, "method_not_allowed")
