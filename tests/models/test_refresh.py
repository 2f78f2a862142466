"""`Registry.refresh` finds new, changed, damaged, repaired and removed models."""

import gc
import json
import shutil
import threading
import time
import weakref

import pytest

from polyseme.errors import ModelFolderError, UnknownModelError
from polyseme.models import registry as registry_module
from polyseme.models.reader import NO_MANIFEST
from polyseme.models.registry import Registry
from tests.models.damage import MANIFEST, VECTORS
from tests.models.versions import call_after_reading, version_of, write, write_broken


def test_a_new_model_is_found_and_a_deleted_one_is_unknown(models_dir, registry):
    registry.model("two")
    write(models_dir / "three", 3)
    (models_dir / "two").rename(models_dir / ".two")
    assert registry.names == ["one", "two"]
    registry.refresh()
    assert registry.names == ["one", "three"]
    assert version_of(registry.model("three")) == 3
    with pytest.raises(UnknownModelError):
        registry.model("two")


def test_a_changed_model_is_reloaded_and_an_unchanged_one_kept(models_dir, registry):
    one, two = registry.model("one"), registry.model("two")
    write(models_dir / "two", 2)
    assert registry.model("two") is two
    registry.refresh()
    assert registry.model("one") is one
    assert version_of(registry.model("two")) == 2
    assert version_of(two) == 1


def test_an_unused_model_is_not_loaded(models_dir, registry):
    registry.refresh()
    write(models_dir / "two", 2)
    registry.refresh()
    assert registry.state("two").status == "unloaded"
    assert version_of(registry.model("two")) == 2


def test_a_new_model_is_loaded_at_once_with_preloading(models_dir):
    registry = Registry([models_dir], "one", preload=True)
    write(models_dir / "three", 3)
    registry.refresh()
    assert registry.state("three").status == "loaded"


def test_a_broken_new_folder_keeps_the_previous_model(models_dir, registry):
    before = registry.model("two")
    write_broken(models_dir / "two")
    registry.refresh()
    assert registry.model("two") is before
    state = registry.state("two")
    assert (state.status, state.manifest.source) == ("loaded", "version 1")
    assert state.problem == (
        "the folder has changed, and the previous model is in use:"
        " vectors.npy: the number of bytes differs from manifest.json."
    )
    write(models_dir / "two", 3)
    registry.refresh()
    assert version_of(registry.model("two")) == 3
    assert registry.state("two").problem is None


def test_a_folder_that_is_restored_unchanged_is_not_read_again(models_dir, registry, monkeypatch):
    before = registry.model("two")
    (models_dir / "two" / MANIFEST).rename(models_dir / "two" / "away")
    registry.refresh()
    assert NO_MANIFEST in registry.state("two").problem
    (models_dir / "two" / "away").rename(models_dir / "two" / MANIFEST)
    call_after_reading(monkeypatch, models_dir / "two", pytest.fail)
    registry.refresh()
    assert registry.model("two") is before
    assert registry.state("two").problem is None


def test_a_broken_model_is_tried_again(models_dir, registry):
    content = (models_dir / "one" / VECTORS).read_bytes()
    (models_dir / "one" / VECTORS).write_bytes(content[:-4])
    assert not registry.ready()
    (models_dir / "one" / VECTORS).write_bytes(content)
    assert registry.state("one").status == "broken"
    registry.refresh()
    assert registry.state("one").status == "loaded"
    assert registry.ready()


def test_the_default_model_is_read_when_it_appears(models_dir, registry):
    (models_dir / "one").rename(models_dir / ".one")
    registry.refresh()
    assert not registry.ready()
    (models_dir / ".one").rename(models_dir / "one")
    registry.refresh()
    assert registry.state("one").status == "loaded"


def test_a_model_in_a_later_directory_takes_precedence_while_it_exists(
    models_dir, registry, tmp_path
):
    registry = Registry([models_dir, tmp_path / "later"], "one")
    assert version_of(registry.model()) == 1
    write(tmp_path / "later" / "one", 2)
    registry.refresh()
    assert version_of(registry.model()) == 2
    assert registry.folder("one") == tmp_path / "later" / "one"
    (tmp_path / "later").rename(tmp_path / "away")
    registry.refresh()
    assert version_of(registry.model()) == 1


def test_a_folder_absent_between_two_renames_is_not_removed(models_dir, registry, monkeypatch):
    before = registry.model("two")
    (models_dir / "two").rename(models_dir / ".old")
    pauses = iter([lambda: None, lambda: write(models_dir / "two", 2)])
    monkeypatch.setattr(registry_module.time, "sleep", lambda _: next(pauses)())
    registry.refresh()
    assert registry.model("two") is not before
    assert version_of(registry.model("two")) == 2


def test_a_folder_between_two_renames_is_not_replaced_by_one_of_an_earlier_directory(
    models_dir, tmp_path, monkeypatch
):
    write(tmp_path / "later" / "one", 2)
    registry = Registry([models_dir, tmp_path / "later"], "one")
    before = registry.model()
    (tmp_path / "later" / "one").rename(tmp_path / "later" / ".one")
    back = (tmp_path / "later" / ".one").rename
    monkeypatch.setattr(registry_module.time, "sleep", lambda _: back(tmp_path / "later" / "one"))
    registry.refresh()
    assert registry.model() is before


def test_a_first_use_waits_for_a_folder_between_two_renames(models_dir, registry, monkeypatch):
    (models_dir / "two").rename(models_dir / ".old")
    monkeypatch.setattr(registry_module.time, "sleep", lambda _: write(models_dir / "two", 2))
    assert version_of(registry.model("two")) == 2


@pytest.mark.parametrize("verify", [True, False])
def test_a_folder_replaced_while_it_is_read_is_read_again(models_dir, monkeypatch, verify):
    registry = Registry([models_dir], "one", verify=verify)
    changes = iter([2, 3])
    call_after_reading(
        monkeypatch,
        models_dir / "one",
        lambda: write(models_dir / "one", version) if (version := next(changes, None)) else None,
    )
    assert version_of(registry.model()) == 3
    registry.refresh()
    assert version_of(registry.model()) == 3


def test_a_folder_that_keeps_changing_is_broken_until_it_stops(models_dir, registry, monkeypatch):
    registry.model("two")
    with monkeypatch.context() as patch:
        call_after_reading(patch, models_dir / "one", lambda: write(models_dir / "one", 2))
        with pytest.raises(ModelFolderError) as caught:
            registry.model()
        assert caught.value.detail == "the folder kept changing while it was read."
    registry.refresh()
    assert version_of(registry.model()) == 2


def test_a_model_that_does_not_fit_into_memory_is_broken(registry, monkeypatch):
    def out_of_memory(_folder, **_options):
        raise MemoryError

    monkeypatch.setattr(registry_module, "read_model", out_of_memory)
    with pytest.raises(ModelFolderError) as caught:
        registry.model()
    assert caught.value.detail == "the model's files cannot be read or do not fit into memory."


def test_the_reported_state_is_that_of_the_loaded_model(models_dir, registry):
    registry.model("two")
    document = json.loads((models_dir / "two" / MANIFEST).read_text())
    (models_dir / "two" / MANIFEST).write_text(json.dumps({**document, "source": "unsigned"}))
    assert registry.manifest("two").source == "version 1"
    registry.refresh()
    assert registry.manifest("two").source == "unsigned"


WAIT = 30
"""Seconds after which a thread has failed."""


@pytest.fixture
def paused(models_dir, monkeypatch):
    """Events: the model `two` has been read, and its reader may go on."""
    reading, go_on = threading.Event(), threading.Event()

    def pause():
        reading.set()
        assert go_on.wait(WAIT)

    call_after_reading(monkeypatch, models_dir / "two", pause)
    return reading, go_on


def test_the_old_model_is_used_while_the_new_one_is_read(models_dir, registry, paused):
    reading, go_on = paused
    go_on.set()
    before = registry.model("two")
    write(models_dir / "two", 2)
    for event in paused:
        event.clear()
    refreshing = threading.Thread(target=registry.refresh)
    refreshing.start()
    assert reading.wait(WAIT)
    assert registry.model("two") is before
    assert version_of(registry.model("one")) == 1
    assert registry.state("two").status == "loaded"
    go_on.set()
    refreshing.join(WAIT)
    assert version_of(registry.model("two")) == 2


def test_loading_a_model_does_not_block_others(registry, paused):
    reading, go_on = paused
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
        registry.refresh()
        assert [table() is None for table in tables] == [False, True]
        del used
        assert [table() is None for table in tables] == [True, True]
    finally:
        gc.enable()


def test_concurrent_refreshes_and_requests_see_consistent_models(models_dir, registry):
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
        for version in range(2, 8):
            write(models_dir / "two", version)
            refreshes = [threading.Thread(target=registry.refresh) for _ in range(2)]
            for thread in refreshes:
                thread.start()
            for thread in refreshes:
                thread.join(WAIT)
            assert version_of(registry.model("two")) == version
    finally:
        stop.set()
        for thread in threads:
            thread.join(WAIT)
    assert errors == []


@pytest.fixture
def clock(monkeypatch):
    """A list with the seconds by which the registry's clock is ahead."""
    ahead = [0]
    real = time.monotonic
    monkeypatch.setattr(registry_module.time, "monotonic", lambda: real() + ahead[0])
    return ahead


@pytest.fixture
def following(clock, models_dir):  # noqa: ARG001 - the registry reads the clock when it is made
    """A registry with `follow`, which checks its directory for changes itself."""
    return Registry([models_dir], "one", follow=True)


def wait_for_checks():
    for thread in threading.enumerate():
        if thread.name == "polyseme-models":
            thread.join(WAIT)


def test_an_unknown_name_makes_the_registry_check_its_directory(models_dir, following, caplog):
    caplog.set_level("INFO", "polyseme")
    old = following.model("two")
    with pytest.raises(UnknownModelError):
        following.model("three")
    assert caplog.messages == []
    write(models_dir / "three", 3)
    (models_dir / "two").rename(models_dir / "four")
    assert version_of(following.model("three")) == 3
    assert version_of(following.model("four")) == 1
    assert version_of(old) == 1
    assert following.names == ["four", "one", "three"]
    with pytest.raises(UnknownModelError):
        following.model("two")
    assert caplog.messages == ["polyseme: changed models: four, three, two"]


def test_a_known_name_checks_no_directory_until_some_seconds_have_passed(
    models_dir, following, clock, monkeypatch
):
    one, two = following.model("one"), following.model("two")
    write(models_dir / "two", 2)
    shutil.rmtree(models_dir / "one")
    with monkeypatch.context() as patch:
        patch.setattr(registry_module, "find_models", pytest.fail)
        assert (following.model("one"), following.model("two")) == (one, two)
    clock[0] = 3
    following.model("two")  # starts a check without waiting for it
    wait_for_checks()
    assert version_of(following.model("two")) == 2
    assert following.names == ["two"]
    assert not following.ready()


def test_only_one_check_runs_at_a_time(models_dir, following, clock, paused):
    reading, go_on = paused
    go_on.set()
    following.model("two")
    write(models_dir / "two", 2)
    for event in paused:
        event.clear()
    for seconds in (3, 6, 9):
        clock[0] = seconds
        assert version_of(following.model("two")) == 1
        assert reading.wait(WAIT)
    checks = [one for one in threading.enumerate() if one.name == "polyseme-models"]
    assert len(checks) == 1
    go_on.set()
    wait_for_checks()
    assert version_of(following.model("two")) == 2


def test_an_unchanged_folder_is_not_read_again(models_dir, following, clock, monkeypatch):
    write_broken(models_dir / "two")
    following.refresh_if_changed()
    with pytest.raises(ModelFolderError):
        following.model("two")
    reads = []
    monkeypatch.setattr(registry_module, "read_model", lambda folder, **_: reads.append(folder))
    for seconds in (3, 6):
        clock[0] = seconds
        following.model("one")
        wait_for_checks()
    with pytest.raises(ModelFolderError):
        following.model("two")
    assert reads == []


def test_a_check_reports_the_problem_of_a_changed_folder(models_dir, following, caplog):
    caplog.set_level("WARNING", "polyseme")
    before = following.model("two")
    write_broken(models_dir / "two")
    following.refresh_if_changed()
    assert following.model("two") is before
    (message,) = caplog.messages
    assert message.startswith("polyseme: two: the folder has changed, and the previous model is")


def test_a_directory_that_cannot_be_read_changes_nothing(following, monkeypatch):
    one = following.model()

    def unreadable(_):
        raise ModelFolderError

    monkeypatch.setattr(registry_module, "find_models", unreadable)
    with pytest.raises(UnknownModelError):
        following.model("three")
    assert following.model() is one
