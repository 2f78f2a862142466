"""/v1/models, /readyz and /livez: the models and their states."""

import re

import pytest
from docs.openapi import (
    ModelResponse,
    ModelsResponse,
    NotReadyResponse,
    ReadyResponse,
)

from polyseme.models.manifest import TABLES
from polyseme.models.reader import bundled_models, read_manifest
from tests.conftest import BUNDLED_NAMES
from tests.http.conftest import expect_problem, in_process, numbers, registry, total
from tests.models.damage import VECTORS as VECTORS_FILE
from tests.models.damage import VOCABULARY, path
from tests.tiny import VECTORS, write_tiny

NAMES = ["five", "four", "one", "three", "two"]


@pytest.fixture
def start(models_dir):
    """Make clients of new applications with these models; None omits a setting."""

    def make(**settings):
        settings = {"models_dir": models_dir, "model": "one", **settings}
        return in_process(**{name: value for name, value in settings.items() if value is not None})

    yield make
    registry.cache_clear()  # The models of the user are others in later tests.


@pytest.fixture
def models_dir(tmp_path):
    """A folder of five models, whose vectors are multiples of each other's."""
    for factor, name in enumerate(NAMES, start=1):
        write_tiny(tmp_path / "models" / name, vectors=VECTORS * factor, source=name)
    return tmp_path / "models"


def first_number(client, name):
    body = {"input": [["apple"]], "include": ["static"], "model": name}
    answer = client.post("/v1/encode", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]["static"][0][0]


def statuses(client):
    return {one["id"]: one["status"] for one in client.get("/readyz").json()["models"]}


def test_every_model_of_a_folder_is_served_and_read_at_its_first_use(start) -> None:
    client = start()
    unread = {**dict.fromkeys([*NAMES, *BUNDLED_NAMES], "unloaded"), "one": "loaded"}
    assert statuses(client) == unread
    assert (first_number(client, "two"), first_number(client, None)) == (5, 3)
    assert statuses(client) == {**unread, "two": "loaded"}
    assert [first_number(client, name) for name in NAMES] == [1, 2, 3, 4, 5]
    preloaded = start(preload_models=True)
    assert statuses(preloaded) == dict.fromkeys([*NAMES, *BUNDLED_NAMES], "loaded")


def test_a_model_over_the_bundled_one_is_served_with_its_tables(start, models_over_bundled) -> None:
    client = start(models_dir=models_over_bundled, model="upper")
    facts, bundled = (client.get(f"/v1/models/{n}").json() for n in ("upper", "wiki-en"))
    tables = [*TABLES]
    files = read_manifest(bundled_models() / "wiki-en").files
    assert (facts["base"], bundled["base"]) == ("wiki-en", None)
    assert facts["bytes"] == bundled["bytes"] - sum(files[name].bytes for name in tables)
    for name in ("upper", "wiki-en"):
        assert client.post("/v1/encode", json={"input": "a", "model": name}).status_code == 200
    mapped = numbers(client)
    assert total(mapped, "models_loaded") == 2
    assert total(mapped, "mapped_bytes") == sum(files[name].bytes for name in tables)


def test_the_list_has_every_model_and_the_problem_of_a_broken_one(start, models_dir) -> None:
    path(models_dir / "five", VOCABULARY).unlink()
    (models_dir / "nothing").mkdir()
    client = start()
    listed = client.get("/v1/models").json()
    ModelsResponse.model_validate(listed)
    models = {one["id"]: one for one in listed["data"]}
    assert list(models) == sorted([*NAMES, *BUNDLED_NAMES])
    common = {"object": "model", "owned_by": "polyseme", "default": False, "created": 0}
    problem = models["five"]["problem"]
    assert re.fullmatch(r"vocabulary-[0-9a-f]{16}\.txt cannot be read\.", problem)
    assert models["five"] == {
        "id": "five",
        **common,
        "status": "broken",
        "problem": problem,
    }
    assert (models["two"]["status"], models["two"]["source"]) == ("ok", "two")
    assert models["two"]["created"] == int((models_dir / "two" / "manifest.json").stat().st_mtime)
    for name, model in models.items():
        assert client.get(f"/v1/models/{name}").json() == model
        ModelResponse.model_validate(model)
    expect_problem(
        client.post("/v1/encode", json={"input": "a", "model": "five"}), 503, "broken_model"
    )
    assert first_number(client, "two") == 5


def test_without_a_folder_the_models_of_the_user_are_served(start, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert set(statuses(start(models_dir=None, model=None))) == {*BUNDLED_NAMES}
    write_tiny(tmp_path / "data" / "polyseme" / "models" / "mine")
    registry.cache_clear()
    client = start(models_dir=None, model=None)
    assert set(statuses(client)) == {"mine", *BUNDLED_NAMES}
    assert first_number(client, "mine") == 1


def test_a_broken_model_is_reported_and_matters_only_as_the_default_model(start, models_dir):
    vectors = path(models_dir / "two", VECTORS_FILE)
    vectors.write_bytes(vectors.read_bytes()[:-4])
    answer = start().get("/readyz")
    assert answer.status_code == 200
    ReadyResponse.model_validate(answer.json())
    (two,) = (one for one in answer.json()["models"] if one["id"] == "two")
    assert two.pop("problem").endswith("the number of bytes differs from manifest.json.")
    assert two == {"id": "two", "default": False, "status": "broken"}
    client = start(model="two")
    assert client.get("/livez").json() == {"status": "alive"}
    answer = client.get("/readyz")
    document = expect_problem(answer, 503, "not_ready")
    NotReadyResponse.model_validate(document)
    assert document["detail"].startswith("The default model cannot be used: vectors-")
    assert int(answer.headers["retry-after"]) > 0
    assert "Repair the model" in document["hint"] and "Wait" not in document["hint"]
    states = {one["id"]: (one["default"], one["status"]) for one in document["models"]}
    unread = dict.fromkeys([*NAMES, *BUNDLED_NAMES], (False, "unloaded"))
    assert states == {**unread, "two": (True, "broken")}
    assert first_number(client, "one") == 3
    # A trace of given numbers needs no model.
    body = {"tokens": ["a"], "embeddings": [[1]]}
    assert client.post("/v1/trace", json=body).status_code == 200
