"""Models by name: looked up, never made into a path, read once."""

import os
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import polyseme
from polyseme.api.app import create_app
from polyseme.cli.models import models
from polyseme.errors import ModelFolderError, UnknownModelError
from polyseme.models import registry as registry_module
from polyseme.models.reader import NO_MANIFEST
from polyseme.models.registry import Registry, bundled_models, find_models
from polyseme.settings import Settings
from tests.models.damage import MANIFEST, VECTORS, snapshot
from tests.tiny import VECTORS as TABLE
from tests.tiny import write_tiny


@pytest.fixture
def reads(monkeypatch):
    """The names of the models that were read, in order."""
    names = []
    read_model = registry_module.read_model

    def counted(folder, **options):
        names.append(folder.name)
        return read_model(folder, **options)

    monkeypatch.setattr(registry_module, "read_model", counted)
    return names


def registry_of(place, default="one", **options):
    return Registry([place], default, **options)


@pytest.fixture
def place(tmp_path):
    for number, name in enumerate(["two", "one"]):
        write_tiny(tmp_path / "models" / name, vectors=TABLE * (number + 1), source=name)
    return tmp_path / "models"


def test_the_names_are_sorted(place):
    assert registry_of(place).names == ["one", "two"]


def test_without_a_name_the_default_model_is_meant(place):
    registry = registry_of(place)
    assert registry.default == "one"
    assert registry.model().manifest.name == "one"
    assert registry.model() is registry.model("one")
    assert registry.model("two").manifest.source == "two"


def test_a_missing_default_model_is_unknown(place):
    registry = registry_of(place, "zero")
    assert not registry.ready()
    with pytest.raises(UnknownModelError):
        registry.model()


def break_model(folder):
    content = (folder / VECTORS).read_bytes()
    (folder / VECTORS).write_bytes(content[:-4])


HOSTILE = [
    "../one",
    "one/../two",
    "a/b",
    "",
    ".",
    "..",
    "/etc",
    "one\0",
    "one\n",
    "ONE",
    " one",
    "*",
]


def test_a_hostile_name_is_unknown(place):
    registry = registry_of(place)
    for ask in (registry.model, registry.manifest, registry.folder):
        for name in HOSTILE:
            with pytest.raises(UnknownModelError) as caught:
                ask(name)
            told = r"(; did you mean `(one|two)`\?|\.) Available: one, two\."
            assert re.fullmatch(f"There is no model of this name{told}", caught.value.detail)
            named = f"No model is named {re.escape(repr(name))}{told}"
            assert re.match(named, str(caught.value))


def test_a_later_place_wins(place, tmp_path):
    later = tmp_path / "later"
    write_tiny(later / "one", source="later")
    registry = Registry([place, later], "one")
    assert registry.names == ["one", "two"]
    assert registry.model().manifest.source == "later"
    assert Registry([later, place], "one").model().manifest.source == "one"


def test_the_models_of_a_folder_are_listed_with_the_bundled_ones(place):
    bundled = set(find_models([bundled_models()]))
    assert set(Registry.of(place, "one").names) == bundled | {"one", "two"}
    assert set(Registry.of(None, "one").names) == bundled


def test_a_missing_folder_has_no_models(tmp_path):
    assert find_models([tmp_path / "nowhere"]) == {}
    (tmp_path / "file").write_text("x")
    assert find_models([tmp_path / "file"]) == {}


def test_only_folders_with_a_sane_name_are_models(place):
    (place / "file").write_text("x")
    write_tiny(place / "fine").rename(place / ".hidden")
    write_tiny(place / "fine").rename(place / "with space")
    assert set(find_models([place])) == {"one", "two"}


def test_a_folder_without_a_manifest_is_a_broken_model(place):
    (place / "empty").mkdir()
    assert set(find_models([place])) == {"empty", "one", "two"}
    assert registry_of(place).state("empty") == ("broken", NO_MANIFEST, None, 0)


def test_in_the_bundled_folder_only_folders_with_a_manifest_are_models(place, monkeypatch):
    (place / "scripts").mkdir()
    monkeypatch.setattr(registry_module, "bundled_models", lambda: place)
    assert set(Registry.of(None, "one").names) == {"one", "two"}


def test_an_unreadable_folder_is_reported(place, monkeypatch):
    def forbidden(_path):
        raise PermissionError

    registry = registry_of(place)
    monkeypatch.setattr(Path, "iterdir", forbidden)
    for ask in (registry.refresh, lambda: registry_of(place)):
        with pytest.raises(ModelFolderError) as caught:
            ask()
        assert caught.value.detail == "The folder of models cannot be read by this user."
    assert registry.names == ["one", "two"]


def test_a_model_is_loaded_on_first_use_and_kept(place, reads):
    registry = registry_of(place)
    assert reads == []
    first = registry.model()
    assert registry.model() is first
    assert reads == ["one"]


def test_at_the_start_the_default_model_is_read_or_all_are(place, reads):
    registry_of(place).load()
    assert reads == ["one"]
    break_model(place / "one")
    registry_of(place, preload=True).load()
    assert reads == ["one", "one", "two"]


def test_a_broken_model_is_reported_again_without_being_read_again(place, reads):
    break_model(place / "one")
    registry = registry_of(place)
    said = set()
    for _ in range(3):
        with pytest.raises(ModelFolderError) as caught:
            registry.model()
        said.add(caught.value.detail)
    assert said == {"vectors.npy: the number of bytes differs from manifest.json."}
    assert reads == ["one"]
    assert not registry.ready()
    assert registry.model("two")


def test_a_broken_manifest_is_reported(place):
    (place / "one" / MANIFEST).write_text("{}")
    with pytest.raises(ModelFolderError):
        registry_of(place).manifest("one")


def test_the_state_of_a_model_is_known_without_loading_it(place, reads):
    registry = registry_of(place)
    registry.model()
    assert {n: (s.status, s.problem) for n, s in registry.states().items()} == {
        "one": ("loaded", None),
        "two": ("unloaded", None),
    }
    assert registry.state("two").manifest == registry.manifest("two")
    assert registry.state("two").created == int((place / "two" / MANIFEST).stat().st_mtime)
    assert reads == ["one"]


def make_a_pipe(folder):
    (folder / MANIFEST).unlink()
    os.mkfifo(folder / MANIFEST)


DAMAGES = {
    NO_MANIFEST: make_a_pipe,
    "manifest.json, name: is required.": lambda f: (f / MANIFEST).write_text("{}"),
    "vectors.npy cannot be read.": lambda f: (f / VECTORS).unlink(),
    "vectors.npy: the number of bytes differs from manifest.json.": break_model,
}


@pytest.mark.parametrize("sentence", DAMAGES)
def test_problems_outside_the_arrays_are_found_without_reading_them(place, reads, sentence):
    DAMAGES[sentence](place / "two")
    state = registry_of(place).state("two")
    assert (state.status, state.problem, state.manifest) == ("broken", sentence, None)
    assert reads == []
    with pytest.raises(ModelFolderError) as caught:
        registry_of(place).model("two")
    assert caught.value.detail == sentence


def test_a_manifest_is_parsed_again_only_after_a_change(place, monkeypatch):
    parsed = []
    read_manifest = registry_module.read_manifest
    monkeypatch.setattr(
        registry_module,
        "read_manifest",
        lambda folder: parsed.append(folder) or read_manifest(folder),
    )
    registry = registry_of(place)
    for _ in range(3):
        assert registry.state("two").manifest.source == "two"
    assert len(parsed) == 1
    write_tiny(place / "two", source="new")
    assert registry.state("two").manifest.source == "new"


def test_a_renamed_folder_is_a_model_of_its_new_name(place):
    registry = registry_of(place)
    registry.model("two")
    (place / "two").rename(place / "three")
    registry.refresh()
    assert registry.names == ["one", "three"]
    state = registry.state("three")
    assert (state.status, state.problem, state.manifest.name) == ("unloaded", None, "three")
    assert registry.manifest("three").name == "three"
    assert registry.model("three").manifest.name == "three"
    assert registry.model("three").manifest.source == "two"


def test_a_renamed_folder_is_listed_verified_and_encodes_under_its_new_name(place):
    (place / "two").rename(place / "three")
    variables = {"POLYSEME_MODELS_DIR": str(place), "POLYSEME_MODEL": "one"}
    listed = CliRunner().invoke(models, ["list"], env=variables).output
    assert "  three  11 words" in listed
    assert "  two  " not in listed
    verified = CliRunner().invoke(models, ["verify", "three"], env=variables)
    assert (verified.exit_code, verified.output) == (0, "three: ok\n")
    model = polyseme.load("three", place)
    assert model.name == "three"
    assert model.encode(["apple bank"])[0].contextual.shape == (2, 5)
    client = create_app(Settings(models_dir=place, model="three")).test_client()
    stands = {one["id"]: one["status"] for one in client.get("/v1/models").json["data"]}
    assert stands.items() >= {"one": "ok", "three": "ok"}.items()
    assert "two" not in stands
    answer = client.post("/v1/encode", json={"input": "apple", "model": "three"})
    assert (answer.status_code, answer.json["model"]) == (200, "three")


def test_the_service_is_ready_if_the_default_model_can_be_used(place):
    assert registry_of(place).ready()
    break_model(place / "two")
    assert registry_of(place).ready()


def test_verification_can_be_disabled(place):
    table = TABLE.copy()
    table[0, 0] = 7
    with (place / "one" / VECTORS).open("r+b") as file:
        file.seek(-table.nbytes, 2)
        file.write(table.tobytes())
    assert not registry_of(place).ready()
    registry = registry_of(place, verify=False)
    assert np.array_equal(registry.model().vectors, table)


def test_reading_models_writes_nothing(place):
    before = snapshot(place)
    registry = registry_of(place)
    registry.model()
    registry.manifest("two")
    assert snapshot(place) == before


def test_eight_threads_that_ask_at_once_read_a_model_once(place, reads):
    registry = registry_of(place)
    start = threading.Barrier(8)
    found = []

    def ask():
        start.wait()
        found.append(registry.model())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(model) for model in found}) == 1
    assert len(found) == 8
    assert reads == ["one"]
