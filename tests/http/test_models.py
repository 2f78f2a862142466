"""/v1/models, /readyz and /livez: the models and their states."""

import pytest
from docs.openapi import ModelResponse, ModelsResponse, NotReadyResponse, ReadyResponse

from polyseme.models.manifest import TABLES
from polyseme.models.reader import bundled_models, read_manifest
from tests.conftest import BUNDLED_NAMES
from tests.http.conftest import expect_problem, in_process, numbers, registry, total
from tests.models.damage import path
from tests.tiny import VECTORS, write_tiny

NAMES = ["one", "three", "two"]


@pytest.fixture
def models_dir(tmp_path):
    """A folder of three models, whose vectors are multiples of each other's; `two` is broken."""
    for name, factor in (("one", 1), ("two", 2), ("three", 3)):
        write_tiny(tmp_path / name, vectors=VECTORS * factor, source=name)
    vectors = path(tmp_path / "two", "vectors.npy")
    vectors.write_bytes(vectors.read_bytes()[:-4])
    yield tmp_path
    registry.cache_clear()  # The models of the user are others in later tests.


def first_number(client, name):
    body = {"input": [["apple"]], "include": ["static"], "model": name}
    answer = client.post("/v1/encode", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]["static"][0][0]


def test_every_model_of_a_folder_is_served_and_read_at_its_first_use(models_dir) -> None:
    def statuses(client):
        return {one["id"]: one["status"] for one in client.get("/readyz").json()["models"]}

    client = in_process(models_dir=models_dir, model="one")
    unread = dict.fromkeys([*NAMES, *BUNDLED_NAMES], "unloaded") | {"one": "loaded"}
    assert statuses(client) == unread | {"two": "broken"}
    assert (first_number(client, "three"), first_number(client, None)) == (3, 1)
    assert statuses(client) == unread | {"two": "broken", "three": "loaded"}
    preloaded = in_process(models_dir=models_dir, model="one", preload_models=True)
    assert set(statuses(preloaded).values()) == {"loaded", "broken"}


def test_a_model_over_the_bundled_one_is_served_with_its_tables(models_over_bundled) -> None:
    client = in_process(models_dir=models_over_bundled, model="upper")
    facts, bundled = (client.get(f"/v1/models/{n}").json() for n in ("upper", "wiki-en"))
    files = read_manifest(bundled_models() / "wiki-en").files
    tables = sum(files[name].bytes for name in TABLES)
    assert (facts["base"], bundled["base"]) == ("wiki-en", None)
    assert facts["bytes"] == bundled["bytes"] - tables
    for name in ("upper", "wiki-en"):
        assert client.post("/v1/encode", json={"input": "a", "model": name}).status_code == 200
    assert total(numbers(client), "models_loaded") == 2
    assert total(numbers(client), "mapped_bytes") == tables


def test_the_list_has_every_model_and_the_problem_of_a_broken_one(models_dir) -> None:
    (models_dir / "nothing").mkdir()
    client = in_process(models_dir=models_dir, model="one")
    listed = client.get("/v1/models").json()
    ModelsResponse.model_validate(listed)
    models = {one["id"]: one for one in listed["data"]}
    assert list(models) == sorted([*NAMES, *BUNDLED_NAMES])
    assert [name for name, one in models.items() if one["status"] == "broken"] == ["two"]
    assert models["two"]["problem"].endswith("the number of bytes differs from manifest.json.")
    assert (models["one"]["default"], models["three"]["default"]) == (True, False)
    assert models["three"]["source"] == "three"
    manifest = models_dir / "three" / "manifest.json"
    assert models["three"]["created"] == int(manifest.stat().st_mtime)
    for name, model in models.items():
        assert client.get(f"/v1/models/{name}").json() == model
        ModelResponse.model_validate(model)


def test_a_broken_model_is_reported_and_matters_only_as_the_default_model(models_dir):
    client = in_process(models_dir=models_dir, model="one")
    body = {"input": "a", "model": "two"}
    expect_problem(client.post("/v1/encode", json=body), 503, "broken_model")
    ReadyResponse.model_validate(client.get("/readyz").raise_for_status().json())
    client = in_process(models_dir=models_dir, model="two")
    assert client.get("/livez").json() == {"status": "alive"}
    answer = client.get("/readyz")
    document = expect_problem(answer, 503, "not_ready")
    NotReadyResponse.model_validate(document)
    assert document["detail"].startswith("The default model cannot be used: vectors-")
    assert int(answer.headers["retry-after"]) > 0
    assert "Repair the model" in document["hint"]
    (two,) = (one for one in document["models"] if one["id"] == "two")
    assert (two["default"], two["status"]) == (True, "broken")
    assert first_number(client, "one") == 1
    # A trace of given numbers needs no model.
    body = {"tokens": ["a"], "embeddings": [[1]]}
    assert client.post("/v1/trace", json=body).status_code == 200


def test_without_a_folder_the_models_of_the_user_are_served(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    write_tiny(tmp_path / "polyseme" / "models" / "mine")
    registry.cache_clear()
    listed = in_process().get("/v1/models").json()["data"]
    assert [one["id"] for one in listed] == ["mine", *BUNDLED_NAMES]
    registry.cache_clear()
