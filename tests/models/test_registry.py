"""`Registry` finds models by name, reads each once, and notices what changes in their folders."""

import gc
import os
import re
import shutil
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from polyseme.errors import ModelFolderError, UnknownModelError
from polyseme.models import reader as reader_module
from polyseme.models import registry as registry_module
from polyseme.models.reader import bundled_models
from polyseme.models.registry import Registry, find_models
from tests.models.damage import MANIFEST, path, version_of, write, write_broken
from tests.tiny import write_tiny

WAIT = 30
"""Seconds after which a thread has failed."""


@pytest.fixture
def reads(monkeypatch):
    """The names of the models that were read, in order."""
    names, read = [], registry_module.read_model
    monkeypatch.setattr(registry_module, "read_model", lambda f: names.append(f.name) or read(f))
    return names


def call_after_reading(monkeypatch, function):
    """Call a function with each folder that has been read, before the registry has the model."""
    read_model = registry_module.read_model

    def read(folder):
        model = read_model(folder)
        function(folder)
        return model

    monkeypatch.setattr(registry_module, "read_model", read)


def test_a_model_is_loaded_on_first_use_and_kept(models_dir, registry, reads):
    assert (registry.default, reads) == ("one", [])
    first = registry.model()
    assert first.manifest.name == "one"
    assert registry.model() is registry.model("one") is first
    assert reads == ["one"]
    assert version_of(registry.model("two")) == 1
    write_broken(models_dir / "one")
    reads.clear()
    Registry([models_dir], "two").load()
    assert reads == ["two"]
    Registry([models_dir], "two", preload=True).load()
    assert reads == ["two", "one", "two"]


def test_concurrent_first_uses_read_a_model_once(registry, reads):
    start = threading.Barrier(8)
    with ThreadPoolExecutor(8) as threads:
        models = [*threads.map(lambda _: (start.wait(), registry.model())[1], range(8))]
    assert len({*map(id, models)}) == 1
    assert reads == ["one"]


@pytest.mark.parametrize(
    "name", ["../one", "one/../two", "", "..", "/etc", "one\0", "one\n", "ONE"]
)
def test_a_hostile_name_is_unknown(registry, name):
    names = r"(; did you mean `(one|two)`\?|\.) Available: one, two\."
    for get in (registry.model, registry.manifest, registry.folder):
        with pytest.raises(UnknownModelError) as caught:
            get(name)
        assert re.fullmatch(f"There is no model of this name{names}", caught.value.detail)
        assert re.match(f"No model is named {re.escape(repr(name))}{names}", str(caught.value))


def test_models_are_folders_with_a_valid_name_and_a_manifest(models_dir, tmp_path):
    (models_dir / "file").write_text("x")
    write_tiny(models_dir / "fine").rename(models_dir / ".hidden")
    write_tiny(models_dir / "fine").rename(models_dir / "with space")
    (models_dir / "empty").mkdir()
    (models_dir / "pipe").mkdir()
    os.mkfifo(models_dir / "pipe" / MANIFEST)
    assert find_models([models_dir]) == {name: models_dir / name for name in ("one", "two")}
    assert find_models([tmp_path / "nowhere", models_dir / "file"]) == {}
    bundled = set(find_models([bundled_models()]))
    assert set(Registry.of(models_dir, "one").names) == bundled | {"one", "two"}
    assert set(Registry.of(None, "one").names) == bundled


def test_an_unreadable_folder_is_reported(registry, monkeypatch):
    registry.model("two")
    monkeypatch.setattr(Path, "iterdir", Mock(side_effect=PermissionError))
    for read in (registry.states, registry.model):
        with pytest.raises(ModelFolderError, match="The folder of models cannot be read by this"):
            read()
    assert registry.model("two")


def test_a_broken_model_is_tried_again(models_dir, registry, caplog):
    write_broken(models_dir / "one")
    for _ in range(3):
        with pytest.raises(ModelFolderError, match="the number of bytes differs from") as caught:
            registry.model()
    assert not registry.ready()
    assert registry.model("two")
    assert caplog.messages == [f"polyseme: one: {caught.value.detail}"]
    assert registry.state("one") == ("broken", caught.value.detail, None, 0)
    write_tiny(models_dir / "one", source="repaired")
    assert registry.ready()
    assert registry.state("one").manifest.source == "repaired"


def test_the_state_of_a_model_is_known_without_loading_it(models_dir, registry, reads, monkeypatch):
    registry.model()
    assert {n: (s.status, s.problem) for n, s in registry.states().items()} == {
        "one": ("loaded", None),
        "two": ("unloaded", None),
    }
    state = registry.state("two")
    assert state.manifest == registry.manifest("two")
    assert state.created == int((models_dir / "two" / MANIFEST).stat().st_mtime)
    assert registry.state("one").created == int((models_dir / "one" / MANIFEST).stat().st_mtime)
    # The manifest is parsed again only after a change.
    parsed = Mock(side_effect=registry_module.read_manifest)
    monkeypatch.setattr(registry_module, "read_manifest", parsed)
    assert registry.state("two").manifest.source == "version 1"
    assert not parsed.called
    write(models_dir / "two", 2)
    assert registry.state("two").manifest.source == "version 2"
    assert reads == ["one"]


DAMAGES = {
    "manifest.json, name: is required.": lambda f: (f / MANIFEST).write_text("{}"),
    "vectors.npy cannot be read.": lambda f: path(f, "vectors.npy").unlink(),
    "vectors.npy: the number of bytes differs from manifest.json.": write_broken,
}


@pytest.mark.parametrize("problem", DAMAGES)
def test_problems_outside_the_arrays_are_found_without_reading_them(
    models_dir, registry, reads, problem
):
    DAMAGES[problem](models_dir / "two")
    state = registry.state("two")
    message = re.sub("-[0-9a-f]{16}", "", state.problem)
    assert (state.status, message, state.manifest, reads) == ("broken", problem, None, [])
    for get in (registry.model, registry.manifest):
        with pytest.raises(ModelFolderError, match=re.escape(state.problem)):
            get("two")


def test_a_new_model_is_found_and_a_removed_one_is_unknown(models_dir, registry):
    table = weakref.ref(registry.model("two").vectors)
    with pytest.raises(UnknownModelError):
        registry.model("three")
    write(models_dir / "three", 3)
    (models_dir / "two").rename(models_dir / ".two")
    assert registry.names == ["one", "three"]
    assert list(registry.states()) == ["one", "three"]
    assert table() is None
    assert version_of(registry.model("three")) == 3
    before = registry.model("one")
    (models_dir / "one").rename(models_dir / ".one")
    with pytest.raises(UnknownModelError):
        registry.model("one")
    assert not registry.ready()
    (models_dir / ".one").rename(models_dir / "one")
    assert registry.ready()
    assert registry.model("one") is not before


def test_a_changed_model_is_reloaded_and_an_unchanged_one_kept(models_dir, registry, caplog):
    caplog.set_level("INFO", "polyseme")
    one, two = registry.model("one"), registry.model("two")
    write(models_dir / "two", 2)
    assert registry.model("one") is one
    assert version_of(registry.model("two")) == 2
    assert version_of(two) == 1
    assert caplog.messages == ["polyseme: changed model: two"]


@pytest.mark.parametrize(
    "replace", [os.mkfifo, lambda file: file.symlink_to("/dev/zero"), lambda _: None]
)
def test_a_damaged_folder_keeps_the_loaded_model(models_dir, registry, caplog, replace):
    before = registry.model("two")
    file = path(models_dir / "two", "vocabulary.txt")
    file.unlink()
    replace(file)
    assert registry.model("two") is before
    state = registry.state("two")
    assert (state.status, state.manifest.source) == ("loaded", "version 1")
    assert state.problem
    shutil.rmtree(models_dir / "two")
    write_broken(models_dir / "two")
    for _ in range(2):
        assert registry.model("two") is before
    problem = registry.state("two").problem
    assert problem.endswith(": the number of bytes differs from manifest.json.")
    assert caplog.messages[-1] == f"polyseme: two: {problem}"
    shutil.rmtree(models_dir / "two")
    write(models_dir / "two", 2)
    assert version_of(registry.model("two")) == 2
    assert registry.state("two").problem is None


def test_a_model_in_a_later_directory_takes_precedence_while_it_exists(models_dir, tmp_path):
    later = tmp_path / "later"
    registry = Registry([models_dir, later], "one")
    assert version_of(registry.model()) == 1
    write(later / "one", 2)
    assert version_of(registry.model()) == 2
    assert (registry.names, registry.folder("one")) == (["one", "two"], later / "one")
    assert version_of(Registry([later, models_dir], "one").model()) == 1
    later.rename(tmp_path / "away")
    assert version_of(registry.model()) == 1


def test_a_model_replaced_after_its_manifest_is_read_is_read_again(models_dir, monkeypatch):
    """The files that the manifest names have been removed."""
    versions = [3, 2]
    read_manifest = reader_module.read_manifest

    def replace_after_reading(folder):
        manifest = read_manifest(folder)
        if versions:
            write(folder, versions.pop())
        return manifest

    monkeypatch.setattr(reader_module, "read_manifest", replace_after_reading)
    assert version_of(Registry([models_dir], "one").model()) == 3


def test_a_model_replaced_after_it_is_read_is_found_by_the_next_request(registry, monkeypatch):
    versions = [2]
    call_after_reading(monkeypatch, lambda folder: versions and write(folder, versions.pop()))
    assert version_of(registry.model()) == 1
    assert version_of(registry.model()) == 2


def test_a_model_that_does_not_fit_into_memory_is_broken(registry, monkeypatch):
    monkeypatch.setattr(registry_module, "read_model", Mock(side_effect=MemoryError))
    with pytest.raises(ModelFolderError, match="cannot be read or do not fit into memory"):
        registry.model()


def test_loading_a_model_does_not_block_loaded_ones(registry, monkeypatch):
    reading, go_on = threading.Event(), threading.Event()

    def pause(_folder):
        reading.set()
        assert go_on.wait(WAIT)

    registry.model("one")
    call_after_reading(monkeypatch, pause)
    loading = threading.Thread(target=registry.model, args=("two",))
    loading.start()
    assert reading.wait(WAIT)
    assert version_of(registry.model("one")) == 1
    assert registry.state("two").status == "unloaded"
    go_on.set()
    loading.join(WAIT)
    assert registry.state("two").status == "loaded"


def test_an_old_model_is_released_after_its_last_use(models_dir, registry):
    used = registry.model("two")
    tables = weakref.ref(used.vectors), weakref.ref(registry.model("one").vectors)
    write(models_dir / "two", 2)
    write(models_dir / "one", 2)
    gc.disable()
    try:
        registry.model("one")
        registry.model("two")
        assert [table() is None for table in tables] == [False, True]
        del used
        assert [table() is None for table in tables] == [True, True]
    finally:
        gc.enable()
