"""The Open Inference Protocol: tensors as JSON and as bytes, and errors."""

import io
import json

import httpx
import numpy as np
import pytest
from docs.openapi import (
    InferenceProblemResponse,
    ModelMetadataResponse,
    ServerResponse,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.http.conftest import SECRET, expect_problem
from tests.http.tensors import (
    KEY,
    LENGTH,
    binary_request,
    packed,
    post,
    request,
    tensors_of,
    unpacked,
)
from tests.models.damage import path
from tests.tiny import VECTORS, full_layer, write_tiny

TEXTS = ["apple Apple river.", "", "qzxqzx", "Zoë didn’t end the high-river bank!"]
EVERY = ["static", "contextual", "attention", "offsets", "attention_offsets", "tokens"]


@pytest.fixture(scope="module")
def models_dir(tmp_path_factory):
    """`tiny`, small enough to compute by hand; `deep`, with two layers of three heads; `cut`."""
    folder = tmp_path_factory.mktemp("models")
    write_tiny(folder / "tiny")
    write_tiny(folder / "deep", layers=[full_layer(1), full_layer(2)], word_bias=VECTORS[:, 0])
    vectors = path(write_tiny(folder / "cut"), "vectors.npy")
    vectors.write_bytes(vectors.read_bytes()[:-4])
    return folder


@pytest.fixture(scope="module")
def guarded(make_client, models_dir) -> httpx.Client:
    """A service that requires a key."""
    settings = {"models_dir": models_dir, "model": "tiny"}
    limits = {"max_sentences": 40, "max_sentence_tokens": 200}
    return make_client(api_keys="plain-key", metrics="open", **settings, **limits)


def infer(client, texts=TEXTS, model="tiny", **fields) -> dict[str, np.ndarray]:
    return tensors_of(post(client, request(texts, **fields), model))


@pytest.mark.parametrize("model", ["tiny", "deep"])
@pytest.mark.parametrize("heads", ["all", "mean"])
def test_json_and_binary_tensors_have_the_bits_of_encode(guarded, model, heads):
    body = {"model": model, "input": TEXTS, "heads": heads}
    accept = {"Accept": "application/x-npz", **KEY}
    file = io.BytesIO(guarded.post("/v1/encode", json=body, headers=accept).content)
    with np.load(file) as archive:
        expected = dict(archive)
    in_json = infer(guarded, model=model, parameters={"heads": heads})
    parameters = {"heads": heads, "binary_data_output": True}
    body, length = binary_request(TEXTS, parameters=parameters)
    answer = post(guarded, body, model, {LENGTH: str(length)})
    assert answer.headers["content-type"] == "application/octet-stream"
    documents = json.loads(expected["tokens"].tobytes())
    words = [token["text"] for one in documents for token in one["tokens"]]
    for found in (in_json, tensors_of(answer)):
        assert list(found) == EVERY
        for part in ("offsets", "static", "contextual"):
            np.testing.assert_array_equal(found[part], expected[part])
            assert found[part].dtype == expected[part].dtype
        parts = np.split(found["attention"], found["attention_offsets"][1:-1])
        for number, part in enumerate(parts):
            np.testing.assert_array_equal(part, expected[f"attention_{number}"].reshape(-1))
        assert list(found["tokens"]) == words


def test_requested_outputs_keep_their_order_and_form(guarded):
    outputs = [
        {"name": "tokens", "parameters": {"binary_data": True}},
        {"name": "static", "parameters": {"binary_data": False}},
        {"name": "offsets"},
    ]
    body = request(outputs=outputs, id="seven", parameters={"binary_data_output": True})
    answer = post(guarded, body)
    document = json.loads(answer.content[: int(answer.headers[LENGTH])])
    facts = (document[name] for name in ("id", "model_name", "model_version"))
    assert list(facts) == ["seven", "tiny", "1"]
    assert ["data" in one for one in document["outputs"]] == [False, True, False]
    found = tensors_of(answer)
    assert list(found) == ["tokens", "static", "offsets"]
    assert list(found["tokens"]) == ["apple", "bank"]
    np.testing.assert_array_equal(found["static"], VECTORS[[0, 3]])
    timing = answer.headers["server-timing"]
    assert "parse;" in timing and "attention;" not in timing


def test_parameters_do_what_the_fields_of_encode_do(guarded):
    whole = infer(guarded, ["apple bank"], "deep")["attention"].reshape(2, 3, 2, 2)
    for value, layers in (("last", [1]), (0, [0]), ("0,1", [0, 1]), ([1], [1])):
        answer = post(guarded, request(parameters={"layers": value}), "deep")
        part = tensors_of(answer)["attention"].reshape(len(layers), 3, 2, 2)
        np.testing.assert_array_equal(part, whole[layers])
        assert answer.json()["parameters"]["layers"] == len(layers)
    lower = infer(guarded, ["APPLE"], parameters={"case": "lower"})
    np.testing.assert_array_equal(lower["static"], VECTORS[[0]])
    answer = post(guarded, request(["apple qzxqzx"], parameters={"oov": "error"}))
    document = expect_problem(answer, 422, "unknown_word")
    assert document["errors"][0]["pointer"] == "/inputs/0/data/0"
    texts, outputs = ["apple " * 201], [{"name": "offsets"}]
    found = post(guarded, request(texts, parameters={"truncate": True}, outputs=outputs)).json()
    assert found["outputs"][0]["data"] == [0, 200]
    assert {"tokens": 200, "oov": 0, "truncated": 1}.items() <= found["parameters"].items()


@pytest.mark.parametrize("data", [[[text] for text in TEXTS], TEXTS])
def test_texts_may_have_the_shape_of_one_column(guarded, data):
    found = infer(guarded, data, shape=[4, 1])
    for name, tensor in infer(guarded, TEXTS).items():
        np.testing.assert_array_equal(found[name], tensor)


def test_the_server_and_its_models_have_metadata(guarded):
    server = guarded.get("/v2").json()
    ServerResponse.model_validate(server)
    assert "binary_tensor_data" in server["extensions"]
    model = guarded.get("/v2/models/tiny", headers=KEY).json()
    ModelMetadataResponse.model_validate(model)
    assert model["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    outputs = {one["name"]: (one["datatype"], one["shape"]) for one in model["outputs"]}
    assert list(outputs) == [*EVERY[:2], "features", *EVERY[2:]]
    assert outputs["static"] == outputs["contextual"] == ("FP32", [-1, 5])
    assert outputs["features"] == ("FP32", [-1, 10])
    assert (outputs["offsets"], outputs["tokens"]) == (("INT64", [-1]), ("BYTES", [-1]))
    assert guarded.get("/v2/models/tiny/versions/1", headers=KEY).json() == model
    for name in ("tiny/ready", "tiny/versions/1/ready"):
        ready = guarded.get(f"/v2/models/{name}", headers=KEY).json()
        assert ready == {"name": "tiny", "ready": True}
    answer = post(guarded, request(), "tiny/versions/1")
    assert answer.content == post(guarded, request()).content
    answer = guarded.get("/v2/models/tiny/versions/2", headers=KEY)
    expect_problem(answer, 404, "unknown_route")


def test_health_and_the_server_need_no_key_and_everything_else_does(guarded):
    assert guarded.get("/v2/health/live").json() == {"live": True}
    assert guarded.get("/v2/health/ready").json() == {"ready": True}
    assert guarded.get("/v2").status_code == 200
    for url in ("/v2/models/tiny", "/v2/models/tiny/ready", "/v2/", "/v2/models/tiny/x"):
        document = expect_problem(guarded.get(url), 401, "unauthorised")
        assert document["error"] == f"{document['detail']} {document['hint']}"


def test_a_broken_model_is_not_ready(guarded, make_client, models_dir):
    document = expect_problem(guarded.get("/v2/models/cut/ready", headers=KEY), 503, "broken_model")
    assert "the number of bytes differs" in document["error"]
    broken = make_client(models_dir=models_dir, model="cut")
    assert broken.get("/v2/health/live").status_code == 200
    expect_problem(broken.get("/v2/health/ready"), 503, "not_ready")


def tensor(**changes) -> dict:
    """A request whose only tensor has these fields; None removes one."""
    fields = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["apple"], **changes}
    return {"inputs": [{name: value for name, value in fields.items() if value is not None}]}


def without_data(**parameters) -> dict:
    """The changes that make a tensor one of binary data."""
    return {"data": None, "parameters": parameters}


ROOT = "/inputs/0"
INVALID = [
    ({"inputs": []}, "/inputs"),
    (tensor(name=SECRET), f"{ROOT}/name"),
    (tensor(datatype="FP32"), f"{ROOT}/datatype"),
    (tensor(shape=[2], data=["a", 1]), f"{ROOT}/data/1"),
    (tensor(shape=[0], data=[]), f"{ROOT}/shape/0"),
    (tensor(shape=[10**30]), f"{ROOT}/shape/0"),
    (tensor(shape=[1, 1, 1]), f"{ROOT}/shape"),
    (tensor(shape=[1, 2], data=["a", "b"]), f"{ROOT}/shape"),
    (tensor(shape=[2]), f"{ROOT}/data"),
    (tensor(data=[["a"]]), f"{ROOT}/data"),
    (tensor(shape=[2, 1], data=[["a"], "b"]), f"{ROOT}/data/1"),
    (tensor(shape=[1, 1], data=[["a", "b"]]), f"{ROOT}/data"),
    (tensor(data=None), ROOT),
    (tensor(data="apple"), f"{ROOT}/data"),
    (tensor(parameters={"binary_data_size": 9}), ROOT),
    (tensor(**without_data(binary_data_size=(1 << 64) - 1)), f"{ROOT}/parameters/binary_data_size"),
    (tensor(**without_data(shared_memory=1)), f"{ROOT}/parameters/shared_memory"),
    ({**tensor(), "outputs": [{"name": SECRET}]}, "/outputs/0/name"),
    ({**tensor(), "outputs": [{"name": "static"}] * 2}, "/outputs/1/name"),
    ({**tensor(), "parameters": {"layers": "9,9,9"}}, "/parameters/layers"),
    ({**tensor(), "id": SECRET * 100}, "/id"),
]


@pytest.mark.parametrize(("body", "pointer"), INVALID)
def test_an_invalid_field_is_named_by_one_error(guarded, body, pointer):
    sent = json.dumps(body).encode()
    answer = post(guarded, sent, headers={"Content-Type": "application/json"})
    document = expect_problem(answer, 422, "invalid")
    InferenceProblemResponse.model_validate(document)
    assert [one["pointer"] for one in document["errors"]] == [pointer]


HEAD = json.dumps(tensor(**without_data(binary_data_size=9))).encode()
"""The JSON of a request whose text follows as nine bytes."""
NINE = packed(["apple"])
TEXT_IN_JSON = json.dumps(tensor()).encode()
TEXT_TWICE = json.dumps(tensor(parameters={"binary_data_size": 9})).encode()


@pytest.mark.parametrize(
    ("length", "content", "status"),
    [
        (len(HEAD), HEAD + NINE, 200),
        (None, HEAD + NINE, 400),
        (len(HEAD) + 1, HEAD + NINE, 400),
        (len(HEAD + NINE) + 1, HEAD + NINE, 400),
        (-1, HEAD + NINE, 400),
        (len(HEAD), HEAD + NINE + b"x", 422),
        (len(HEAD), HEAD + NINE[:-1], 422),
        (len(TEXT_IN_JSON), TEXT_IN_JSON, 200),
        (len(TEXT_TWICE), TEXT_TWICE + NINE, 422),
    ],
)
def test_only_a_json_length_that_fits_the_body_is_accepted(guarded, length, content, status):
    headers = {"Content-Type": "application/json"} | (
        {} if length is None else {LENGTH: str(length)}
    )
    answer = post(guarded, content, headers=headers)
    if status == 200:
        np.testing.assert_array_equal(tensors_of(answer)["static"], VECTORS[[0]])
    else:
        code = "invalid" if status == 422 else "not_json"
        InferenceProblemResponse.model_validate(expect_problem(answer, status, code))


def test_a_body_is_declared_as_json_or_bytes_or_has_the_length_of_its_json(guarded):
    content, expected = json.dumps(request()).encode(), post(guarded, request()).content
    # A page of another origin may not send the header of the length.
    for headers in ({"Content-Type": "application/octet-stream"}, {LENGTH: str(len(content))}):
        assert post(guarded, content, headers=headers).content == expected
    expect_problem(post(guarded, content, headers={}), 415, "unsupported_media")


def test_input_over_a_limit_is_rejected_in_every_format(guarded):
    texts = ["a"] * 41
    body, length = binary_request(texts)
    for answer in (
        post(guarded, request(texts)),
        post(guarded, body, headers={LENGTH: str(length)}),
        post(guarded, tensor(shape=[(1 << 31) - 1])),
        post(guarded, b" " * (5 << 20), headers={LENGTH: "1"}),
    ):
        document = expect_problem(answer, 413, "too_large")
        assert document["detail"] in document["error"]


ELEMENT = st.binary(max_size=3).map(lambda content: len(content).to_bytes(4, "little") + content)


def is_valid(data: bytes, count: int) -> bool:
    """Whether binary data has so many texts."""
    try:
        texts = unpacked(data)
    except UnicodeDecodeError:
        return False
    return len(texts) == count and packed(texts) == data


ANY_BYTES = st.binary(max_size=64) | st.lists(ELEMENT | st.binary(max_size=6)).map(b"".join)
VALID_TEXTS = st.lists(st.text(max_size=3), min_size=1, max_size=4)


@given(
    st.tuples(ANY_BYTES, st.integers(1, 4))
    | VALID_TEXTS.map(lambda texts: (packed(texts), len(texts)))
)
@settings(deadline=None, max_examples=100, derandomize=True)
def test_bytes_are_accepted_if_they_are_as_many_texts_as_the_shape_says(guarded, data_and_count):
    data, count = data_and_count
    body = tensor(data=None, shape=[count], parameters={"binary_data_size": len(data)})
    body["outputs"] = [{"name": "tokens"}]
    head = json.dumps(body).encode()
    answer = post(guarded, head + data, headers={LENGTH: str(len(head))})
    if is_valid(data, count):
        assert answer.status_code == 200
    else:
        expect_problem(answer, 422, "invalid")
