"""`Registry` finds new, changed, damaged, repaired and removed models when they are requested."""

import gc
import os
import shutil
import threading
import time
import weakref

import pytest

from polyseme.errors import ModelFolderError, UnknownModelError
from polyseme.models import reader as reader_module
from polyseme.models import registry as registry_module
from polyseme.models.registry import Registry
from tests.models.damage import MANIFEST, VECTORS, VOCABULARY, path
from tests.models.versions import call_after_reading, version_of, write, write_broken


def test_a_new_model_is_found_and_a_removed_one_is_unknown(models_dir, registry):
    registry.model("two")
    with pytest.raises(UnknownModelError):
        registry.model("three")
    write(models_dir / "three", 3)
    (models_dir / "two").rename(models_dir / ".two")
    assert registry.names == ["one", "three"]
    assert version_of(registry.model("three")) == 3
    with pytest.raises(UnknownModelError):
        registry.model("two")
    assert list(registry.states()) == ["one", "three"]


def test_a_changed_model_is_reloaded_and_an_unchanged_one_kept(models_dir, registry, caplog):
    caplog.set_level("INFO", "polyseme")
    one, two = registry.model("one"), registry.model("two")
    write(models_dir / "two", 2)
    assert registry.model("one") is one
    assert version_of(registry.model("two")) == 2
    assert version_of(two) == 1
    assert caplog.messages == ["polyseme: changed model: two"]


def test_a_broken_new_folder_keeps_the_previous_model(models_dir, registry, caplog):
    before = registry.model("two")
    write_broken(models_dir / "two")
    for _ in range(2):
        assert registry.model("two") is before
    state = registry.state("two")
    assert (state.status, state.manifest.source) == ("loaded", "version 1")
    assert state.problem.endswith(": the number of bytes differs from manifest.json.")
    assert caplog.messages == [f"polyseme: two: {state.problem}"]
    write(models_dir / "two", 3)
    assert version_of(registry.model("two")) == 3
    assert registry.state("two").problem is None


REPLACEMENTS = {
    "nothing": lambda _: None,
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a link to itself": lambda file: file.symlink_to(file.name),
    "a link to zeros": lambda file: file.symlink_to("/dev/zero"),
    "another file": lambda file: file.write_bytes(b"x"),
}


@pytest.mark.parametrize("replace", REPLACEMENTS.values(), ids=REPLACEMENTS)
@pytest.mark.parametrize("name", [VECTORS, VOCABULARY])
def test_a_replaced_file_keeps_the_loaded_model(models_dir, registry, name, replace):
    before = registry.model("two")
    file = path(models_dir / "two", name)
    file.unlink()
    replace(file)
    assert registry.model("two") is before
    assert version_of(before) == 1
    assert registry.state("two").problem
    shutil.rmtree(models_dir / "two")
    write(models_dir / "two", 2)
    assert version_of(registry.model("two")) == 2


def test_a_manifest_that_returns_is_that_of_the_loaded_model(models_dir, registry):
    before = registry.model("two")
    manifest = models_dir / "two" / MANIFEST
    manifest.rename(models_dir / "away")
    with pytest.raises(UnknownModelError):
        registry.model("two")
    (models_dir / "away").rename(manifest)
    assert registry.model("two") is not before
    assert version_of(registry.model("two")) == 1


def test_a_model_in_a_later_directory_takes_precedence_while_it_exists(models_dir, tmp_path):
    later = tmp_path / "later"
    registry = Registry([models_dir, later], "one")
    assert version_of(registry.model()) == 1
    write(later / "one", 2)
    assert version_of(registry.model()) == 2
    assert (registry.names, registry.folder("one")) == (["one", "two"], later / "one")
    assert version_of(Registry([later, models_dir], "one").model()) == 1
    (tmp_path / "later").rename(tmp_path / "away")
    assert version_of(registry.model()) == 1


def test_a_model_replaced_after_its_manifest_is_read_is_read_again(models_dir, monkeypatch):
    """The files that the manifest names have been removed."""
    versions = iter([2, 3])
    read_manifest = reader_module.read_manifest

    def replace_after_reading(folder):
        manifest = read_manifest(folder)
        if version := next(versions, None):
            monkeypatch.setattr(reader_module, "read_manifest", read_manifest)
            write(models_dir / "one", version)
            monkeypatch.setattr(reader_module, "read_manifest", replace_after_reading)
        return manifest

    monkeypatch.setattr(reader_module, "read_manifest", replace_after_reading)
    assert version_of(Registry([models_dir], "one").model()) == 3


def test_a_model_replaced_after_it_is_read_is_found_by_the_next_request(models_dir, monkeypatch):
    registry = Registry([models_dir], "one")
    versions = iter([2])
    call_after_reading(
        monkeypatch,
        models_dir / "one",
        lambda: write(models_dir / "one", version) if (version := next(versions, None)) else None,
    )
    assert version_of(registry.model()) == 1
    assert version_of(registry.model()) == 2


def test_a_model_that_does_not_fit_into_memory_is_broken(registry, monkeypatch):
    def out_of_memory(_folder):
        raise MemoryError

    monkeypatch.setattr(registry_module, "read_model", out_of_memory)
    with pytest.raises(ModelFolderError) as caught:
        registry.model()
    assert caught.value.detail == "the model's files cannot be read or do not fit into memory."


WAIT = 30
"""Seconds after which a thread has failed."""


def test_loading_a_model_does_not_block_loaded_ones(models_dir, registry, monkeypatch):
    reading, go_on = threading.Event(), threading.Event()

    def pause():
        reading.set()
        assert go_on.wait(WAIT)

    registry.model("one")
    call_after_reading(monkeypatch, models_dir / "two", pause)
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


def test_a_removed_model_is_released_when_models_are_listed(models_dir, registry):
    table = weakref.ref(registry.model("two").vectors)
    (models_dir / "two" / MANIFEST).unlink()
    registry.states()
    assert table() is None


def test_requests_during_replacements_see_consistent_models(models_dir, registry):
    """The version of a model never goes back, and manifest and vectors are of one version."""
    stop, errors = threading.Event(), []

    def use_model():
        last = 0
        while not stop.is_set():
            try:
                version = version_of(registry.model("two"))
                assert version >= last
                last = version
            except Exception as error:  # noqa: BLE001 - the main thread reports it
                errors.append(error)
                return
            time.sleep(0.001)  # leave the interpreter to the writer below

    threads = [threading.Thread(target=use_model) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for version in range(2, 12):
            write(models_dir / "two", version)
            assert version_of(registry.model("two")) == version
    finally:
        stop.set()
        for thread in threads:
            thread.join(WAIT)
    assert errors == []


def test_the_default_model_is_read_when_it_appears(models_dir, registry):
    (models_dir / "one").rename(models_dir / ".one")
    assert not registry.ready()
    (models_dir / ".one").rename(models_dir / "one")
    assert registry.ready()
