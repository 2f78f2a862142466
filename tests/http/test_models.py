"""Many models in one service: what is listed, and when they are read."""

from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from polyseme.http.replies import ModelReply, ModelsReply

from tests.conftest import start
from tests.http.problem import expect_problem
from tests.tiny import VECTORS, write_tiny

NAMES = ["five", "four", "one", "three", "two"]


@pytest.fixture
def place(tmp_path):
    """Five models, whose vectors are multiples of each other's."""
    for factor, name in enumerate(NAMES, start=1):
        write_tiny(tmp_path / "models" / name, vectors=VECTORS * factor, source=name)
    return tmp_path / "models"


@pytest.fixture
def started(tmp_path, place):
    """Start a service of one worker with these models; they are stopped after the test."""
    with ExitStack() as stack:

        def get(**settings):
            given = {"models_dir": place, "model": "one", "workers": 1, **settings}
            given = {name: value for name, value in given.items() if value is not None}
            process, address = start(tmp_path / "log", **given)
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
            return stack.enter_context(httpx.Client(base_url=address, timeout=60))

        yield get


def first_number(client, name):
    body = {"input": [["apple"]], "include": ["static"], "model": name}
    answer = client.post("/v1/encode", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]["static"][0][0]


def statuses(client):
    return {one["id"]: one["status"] for one in client.get("/readyz").json()["models"]}


def test_every_model_of_a_folder_answers_by_its_name(started) -> None:
    client = started()
    assert [first_number(client, name) for name in NAMES] == [1, 2, 3, 4, 5]
    assert first_number(client, None) == 3
    expect_problem(
        client.post("/v1/encode", json={"input": "a", "model": "six"}), 404, "unknown_model"
    )


def test_the_default_model_is_read_at_the_start_and_another_at_its_first_use(started) -> None:
    client = started()
    before = {**dict.fromkeys([*NAMES, "wiki-en"], "unloaded"), "one": "loaded"}
    assert statuses(client) == before
    first_number(client, "two")
    assert statuses(client) == {**before, "two": "loaded"}


def test_all_models_are_read_at_the_start_where_that_is_asked_for(started) -> None:
    client = started(preload_models=True)
    assert statuses(client) == dict.fromkeys([*NAMES, "wiki-en"], "loaded")


def test_the_list_has_every_model_and_says_what_is_wrong_with_one(started, place) -> None:
    (place / "five" / "vocabulary.txt").unlink()
    (place / "nothing").mkdir()
    client = started()
    listed = client.get("/v1/models").json()
    ModelsReply.model_validate(listed)
    models = {one["id"]: one for one in listed["data"]}
    assert list(models) == sorted([*NAMES, "nothing", "wiki-en"])
    broken = {"object": "model", "owned_by": "polyseme", "default": False, "created": 0}
    assert models["five"] == {
        "id": "five",
        **broken,
        "status": "broken",
        "problem": "vocabulary.txt cannot be read.",
    }
    assert models["nothing"]["problem"] == "manifest.json cannot be read."
    assert (models["two"]["status"], models["two"]["source"]) == ("ok", "two")
    assert models["two"]["created"] == int((place / "two" / "manifest.json").stat().st_mtime)
    for name, model in models.items():
        assert client.get(f"/v1/models/{name}").json() == model
        ModelReply.model_validate(model)
    expect_problem(
        client.post("/v1/encode", json={"input": "a", "model": "five"}), 503, "broken_model"
    )
    assert first_number(client, "two") == 5


def test_a_model_found_broken_when_it_is_read_is_listed_so(started, place) -> None:
    vectors = place / "two" / "vectors.npy"
    vectors.write_bytes(vectors.read_bytes()[:-4] + b"\x01\x02\x03\x04")
    client = started()
    assert client.get("/v1/models/two").json()["status"] == "ok"
    expect_problem(
        client.post("/v1/encode", json={"input": "a", "model": "two"}), 503, "broken_model"
    )
    model = client.get("/v1/models/two").json()
    assert model["status"] == "broken"
    assert model["problem"] == "vectors.npy has another checksum than manifest.json says."


def test_without_a_folder_the_models_of_the_user_are_served(started, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert set(statuses(started(models_dir=None, model=None))) == {"wiki-en"}
    write_tiny(tmp_path / "data" / "polyseme" / "models" / "mine")
    client = started(models_dir=None, model=None)
    assert set(statuses(client)) == {"mine", "wiki-en"}
    assert first_number(client, "mine") == 1


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_the_table_of_a_model_read_at_the_start_is_mapped_by_master_and_worker(
    tmp_path, place
) -> None:
    process, address = start(tmp_path / "log", models_dir=place, model="one", workers=1)
    try:
        httpx.get(f"{address}/readyz").raise_for_status()
        (worker,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        table = str(place / "one" / "vectors.npy")
        for pid in (process.pid, worker):
            assert table in Path(f"/proc/{pid}/maps").read_text()
    finally:
        process.terminate()
        process.wait(30)
