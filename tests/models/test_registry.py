"""`Registry` looks models up by name, never uses a name as a path, and reads a model once."""

import os
import re
import threading
from pathlib import Path

import pytest

from polyseme.errors import ModelFolderError, UnknownModelError
from polyseme.models import registry as registry_module
from polyseme.models.reader import bundled_models
from polyseme.models.registry import Registry, find_models
from tests.models.damage import MANIFEST, VECTORS, path
from tests.models.versions import version_of, write_broken
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


def registry_of(models_dir, default="one", **options):
    return Registry([models_dir], default, **options)


def test_without_a_name_the_default_model_is_returned(models_dir):
    registry = registry_of(models_dir)
    assert registry.default == "one"
    assert registry.model().manifest.name == "one"
    assert registry.model() is registry.model("one")
    assert version_of(registry.model("two")) == 1


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


def test_a_hostile_name_is_unknown(models_dir):
    registry = registry_of(models_dir)
    names = r"(; did you mean `(one|two)`\?|\.) Available: one, two\."
    for get in (registry.model, registry.manifest, registry.folder):
        for name in HOSTILE:
            with pytest.raises(UnknownModelError) as caught:
                get(name)
            assert re.fullmatch(f"There is no model of this name{names}", caught.value.detail)
            message = f"No model is named {re.escape(repr(name))}{names}"
            assert re.match(message, str(caught.value))


def test_the_models_of_a_folder_are_listed_with_the_bundled_ones(models_dir):
    bundled = set(find_models([bundled_models()]))
    assert set(Registry.of(models_dir, "one").names) == bundled | {"one", "two"}
    assert set(Registry.of(None, "one").names) == bundled


def test_a_missing_folder_has_no_models(tmp_path):
    assert find_models([tmp_path / "nowhere"]) == {}
    (tmp_path / "file").write_text("x")
    assert find_models([tmp_path / "file"]) == {}


def test_only_folders_with_a_valid_name_are_models(models_dir):
    (models_dir / "file").write_text("x")
    write_tiny(models_dir / "fine").rename(models_dir / ".hidden")
    write_tiny(models_dir / "fine").rename(models_dir / "with space")
    assert set(find_models([models_dir])) == {"one", "two"}


def test_a_folder_without_a_manifest_is_not_a_model(models_dir):
    (models_dir / "empty").mkdir()
    assert set(find_models([models_dir])) == {"one", "two"}


def test_an_unreadable_folder_is_reported(models_dir, monkeypatch):
    def forbidden(_path):
        raise PermissionError

    registry = registry_of(models_dir)
    registry.model("two")
    monkeypatch.setattr(Path, "iterdir", forbidden)
    for read in (registry.states, registry.model):
        with pytest.raises(ModelFolderError) as caught:
            read()
        assert caught.value.detail == "The folder of models cannot be read by this user."
    assert registry.model("two")


def test_a_model_is_loaded_on_first_use_and_kept(models_dir, reads):
    registry = registry_of(models_dir)
    assert reads == []
    first = registry.model()
    assert registry.model() is first
    assert reads == ["one"]


def test_load_reads_the_default_model_or_all_with_preload(models_dir, reads):
    registry_of(models_dir).load()
    assert reads == ["one"]
    write_broken(models_dir / "one")
    registry_of(models_dir, preload=True).load()
    assert reads == ["one", "one", "two"]


def test_a_broken_model_is_tried_again(models_dir, caplog):
    write_broken(models_dir / "one")
    registry = registry_of(models_dir)
    messages = set()
    for _ in range(3):
        with pytest.raises(ModelFolderError) as caught:
            registry.model()
        messages.add(caught.value.detail)
    (message,) = messages
    assert message.endswith(": the number of bytes differs from manifest.json.")
    assert not registry.ready()
    assert registry.model("two")
    assert caplog.messages == [f"polyseme: one: {message}"]
    assert registry.state("one") == ("broken", message, None, 0)
    write_tiny(models_dir / "one", source="repaired")
    assert registry.ready()
    assert registry.state("one").manifest.source == "repaired"


def test_the_state_of_a_model_is_known_without_loading_it(models_dir, reads):
    registry = registry_of(models_dir)
    registry.model()
    assert {n: (s.status, s.problem) for n, s in registry.states().items()} == {
        "one": ("loaded", None),
        "two": ("unloaded", None),
    }
    assert registry.state("two").manifest == registry.manifest("two")
    assert registry.state("two").created == int((models_dir / "two" / MANIFEST).stat().st_mtime)
    assert reads == ["one"]


DAMAGES = {
    "manifest.json, name: is required.": lambda f: (f / MANIFEST).write_text("{}"),
    "vectors.npy cannot be read.": lambda f: path(f, VECTORS).unlink(),
    "vectors.npy: the number of bytes differs from manifest.json.": write_broken,
}


@pytest.mark.parametrize("problem", DAMAGES)
def test_problems_outside_the_arrays_are_found_without_reading_them(models_dir, reads, problem):
    DAMAGES[problem](models_dir / "two")
    state = registry_of(models_dir).state("two")
    found = re.sub("-[0-9a-f]{16}", "", state.problem)
    assert (state.status, found, state.manifest) == ("broken", problem, None)
    assert reads == []
    with pytest.raises(ModelFolderError) as caught:
        registry_of(models_dir).model("two")
    assert caught.value.detail == state.problem


def test_a_pipe_is_not_a_manifest(models_dir):
    (models_dir / "two" / MANIFEST).unlink()
    os.mkfifo(models_dir / "two" / MANIFEST)
    assert registry_of(models_dir).names == ["one"]


def test_a_manifest_is_parsed_again_only_after_a_change(models_dir, monkeypatch):
    parsed = []
    read_manifest = registry_module.read_manifest
    monkeypatch.setattr(
        registry_module,
        "read_manifest",
        lambda folder: parsed.append(folder) or read_manifest(folder),
    )
    registry = registry_of(models_dir)
    assert registry.state("two").manifest.source == "version 1"
    parsed.clear()
    for _ in range(3):
        assert registry.state("two").manifest.source == "version 1"
    assert not parsed
    write_tiny(models_dir / "two", source="new")
    assert registry.state("two").manifest.source == "new"


def test_concurrent_first_uses_read_a_model_once(models_dir, reads):
    registry = registry_of(models_dir)
    start = threading.Barrier(8)
    found = []

    def use_model():
        start.wait()
        found.append(registry.model())

    threads = [threading.Thread(target=use_model) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(model) for model in found}) == 1
    assert len(found) == 8
    assert reads == ["one"]
