"""Refreshing a registry: new, changed, damaged, repaired and removed models are noticed."""

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
from tests.models.versions import interrupted, spoil, version_of, write


def test_a_new_model_is_found_and_a_deleted_one_is_unknown(place, registry):
    registry.model("two")
    write(place / "three", 3)
    (place / "two").rename(place / ".two")
    assert registry.names == ["one", "two"]
    registry.refresh()
    assert registry.names == ["one", "three"]
    assert version_of(registry.model("three")) == 3
    with pytest.raises(UnknownModelError):
        registry.model("two")


def test_a_changed_model_is_reloaded_and_an_unchanged_one_kept(place, registry):
    one, two = registry.model("one"), registry.model("two")
    write(place / "two", 2)
    assert registry.model("two") is two
    registry.refresh()
    assert registry.model("one") is one
    assert version_of(registry.model("two")) == 2
    assert version_of(two) == 1


def test_an_unused_model_is_not_loaded(place, registry):
    registry.refresh()
    write(place / "two", 2)
    registry.refresh()
    assert registry.state("two").status == "unloaded"
    assert version_of(registry.model("two")) == 2


def test_a_new_model_is_loaded_at_once_with_preloading(place):
    registry = Registry([place], "one", preload=True)
    write(place / "three", 3)
    registry.refresh()
    assert registry.state("three").status == "loaded"


def test_a_broken_new_folder_keeps_the_previous_model(place, registry):
    before = registry.model("two")
    spoil(place / "two")
    registry.refresh()
    assert registry.model("two") is before
    state = registry.state("two")
    assert (state.status, state.manifest.source) == ("loaded", "version 1")
    assert state.problem == (
        "the folder has changed, and the previous model is in use:"
        " vectors.npy: the number of bytes differs from manifest.json."
    )
    write(place / "two", 3)
    registry.refresh()
    assert version_of(registry.model("two")) == 3
    assert registry.state("two").problem is None


def test_a_folder_that_is_restored_unchanged_is_not_read_again(place, registry, monkeypatch):
    before = registry.model("two")
    (place / "two" / MANIFEST).rename(place / "two" / "away")
    registry.refresh()
    assert NO_MANIFEST in registry.state("two").problem
    (place / "two" / "away").rename(place / "two" / MANIFEST)
    interrupted(monkeypatch, place / "two", pytest.fail)
    registry.refresh()
    assert registry.model("two") is before
    assert registry.state("two").problem is None


def test_a_broken_model_is_tried_again(place, registry):
    content = (place / "one" / VECTORS).read_bytes()
    (place / "one" / VECTORS).write_bytes(content[:-4])
    assert not registry.ready()
    (place / "one" / VECTORS).write_bytes(content)
    assert registry.state("one").status == "broken"
    registry.refresh()
    assert registry.state("one").status == "loaded"
    assert registry.ready()


def test_the_default_model_is_read_when_it_appears(place, registry):
    (place / "one").rename(place / ".one")
    registry.refresh()
    assert not registry.ready()
    (place / ".one").rename(place / "one")
    registry.refresh()
    assert registry.state("one").status == "loaded"


def test_a_model_in_a_later_folder_takes_over_and_returns(place, registry, tmp_path):
    registry = Registry([place, tmp_path / "later"], "one")
    assert version_of(registry.model()) == 1
    write(tmp_path / "later" / "one", 2)
    registry.refresh()
    assert version_of(registry.model()) == 2
    assert registry.folder("one") == tmp_path / "later" / "one"
    (tmp_path / "later").rename(tmp_path / "away")
    registry.refresh()
    assert version_of(registry.model()) == 1


def test_a_folder_absent_between_two_renames_is_not_removed(place, registry, monkeypatch):
    before = registry.model("two")
    (place / "two").rename(place / ".old")
    moments = iter([lambda: None, lambda: write(place / "two", 2)])
    monkeypatch.setattr(registry_module.time, "sleep", lambda _: next(moments)())
    registry.refresh()
    assert registry.model("two") is not before
    assert version_of(registry.model("two")) == 2


def test_a_folder_between_two_renames_does_not_give_way_to_one_of_an_earlier_place(
    place, tmp_path, monkeypatch
):
    write(tmp_path / "later" / "one", 2)
    registry = Registry([place, tmp_path / "later"], "one")
    before = registry.model()
    (tmp_path / "later" / "one").rename(tmp_path / "later" / ".one")
    back = (tmp_path / "later" / ".one").rename
    monkeypatch.setattr(registry_module.time, "sleep", lambda _: back(tmp_path / "later" / "one"))
    registry.refresh()
    assert registry.model() is before


def test_a_first_use_waits_for_a_folder_between_two_renames(place, registry, monkeypatch):
    (place / "two").rename(place / ".old")
    monkeypatch.setattr(registry_module.time, "sleep", lambda _: write(place / "two", 2))
    assert version_of(registry.model("two")) == 2


@pytest.mark.parametrize("verify", [True, False])
def test_a_folder_replaced_while_it_is_read_is_read_again(place, monkeypatch, verify):
    registry = Registry([place], "one", verify=verify)
    changes = iter([2, 3])
    interrupted(
        monkeypatch,
        place / "one",
        lambda: write(place / "one", version) if (version := next(changes, None)) else None,
    )
    assert version_of(registry.model()) == 3
    registry.refresh()
    assert version_of(registry.model()) == 3


def test_a_folder_that_never_stops_changing_is_broken_until_it_does(place, registry, monkeypatch):
    registry.model("two")
    with monkeypatch.context() as patch:
        interrupted(patch, place / "one", lambda: write(place / "one", 2))
        with pytest.raises(ModelFolderError) as caught:
            registry.model()
        assert caught.value.detail == "the folder kept changing while it was read."
    registry.refresh()
    assert version_of(registry.model()) == 2


def test_files_that_cannot_be_mapped_make_a_model_broken(registry, monkeypatch):
    def full(_folder, **_options):
        raise MemoryError

    monkeypatch.setattr(registry_module, "read_model", full)
    with pytest.raises(ModelFolderError) as caught:
        registry.model()
    assert caught.value.detail == "the model's files cannot be read or do not fit into memory."


def test_the_reported_state_is_that_of_the_loaded_model(place, registry):
    registry.model("two")
    document = json.loads((place / "two" / MANIFEST).read_text())
    (place / "two" / MANIFEST).write_text(json.dumps({**document, "source": "unsigned"}))
    assert registry.manifest("two").source == "version 1"
    registry.refresh()
    assert registry.manifest("two").source == "unsigned"


WAIT = 30


def test_the_old_model_is_used_while_the_new_one_is_read(place, registry, monkeypatch):
    before = registry.model("two")
    write(place / "two", 2)
    reading, go_on = threading.Event(), threading.Event()

    def pause():
        reading.set()
        assert go_on.wait(WAIT)

    interrupted(monkeypatch, place / "two", pause)
    refreshing = threading.Thread(target=registry.refresh)
    refreshing.start()
    assert reading.wait(WAIT)
    assert registry.model("two") is before
    assert version_of(registry.model("one")) == 1
    assert registry.state("two").status == "loaded"
    go_on.set()
    refreshing.join(WAIT)
    assert version_of(registry.model("two")) == 2


def test_loading_a_model_does_not_block_others(place, registry, monkeypatch):
    reading, go_on = threading.Event(), threading.Event()

    def pause():
        reading.set()
        assert go_on.wait(WAIT)

    interrupted(monkeypatch, place / "two", pause)
    asking = threading.Thread(target=registry.model, args=("two",))
    asking.start()
    assert reading.wait(WAIT)
    assert version_of(registry.model("one")) == 1
    assert registry.state("two").status == "unloaded"
    go_on.set()
    asking.join(WAIT)
    assert registry.state("two").status == "loaded"


def test_an_old_model_is_released_after_its_last_use(place, registry):
    used = registry.model("two")
    tables = weakref.ref(used.vectors), weakref.ref(registry.model("one").vectors)
    write(place / "two", 2)
    write(place / "one", 2)
    gc.disable()
    try:
        registry.refresh()
        assert [table() is None for table in tables] == [False, True]
        del used
        assert [table() is None for table in tables] == [True, True]
    finally:
        gc.enable()


def test_threads_that_refresh_and_ask_at_once_see_whole_models(place, registry):
    """The version of a model never goes back, and manifest and vectors are of one version."""
    stop, wrong = threading.Event(), []

    def ask():
        last = 0
        while not stop.is_set():
            try:
                version = version_of(registry.model("two"))
                assert version >= last
                last = version
            except Exception as error:  # noqa: BLE001 - it has to reach the test
                wrong.append(error)
                return
            time.sleep(0.001)  # or the writer below has to wait for these threads

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for version in range(2, 8):
        write(place / "two", version)
        both = [threading.Thread(target=registry.refresh) for _ in range(2)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join(WAIT)
        assert version_of(registry.model("two")) == version
    stop.set()
    for thread in threads:
        thread.join(WAIT)
    assert wrong == []


@pytest.fixture
def clock(monkeypatch):
    """The seconds that the registry's clock is ahead."""
    ahead = [0]
    real = time.monotonic
    monkeypatch.setattr(registry_module.time, "monotonic", lambda: real() + ahead[0])
    return ahead


@pytest.fixture
def following(clock, place):  # noqa: ARG001 - the registry reads the clock when it is made
    """A registry that follows its directory."""
    return Registry([place], "one", follow=True)


def wait_for_checks():
    for thread in threading.enumerate():
        if thread.name == "polyseme-models":
            thread.join(WAIT)


def test_an_unknown_name_makes_the_registry_check_its_folders(place, following, caplog):
    caplog.set_level("INFO", "polyseme")
    old = following.model("two")
    with pytest.raises(UnknownModelError):
        following.model("three")
    assert caplog.messages == []
    write(place / "three", 3)
    (place / "two").rename(place / "four")
    assert version_of(following.model("three")) == 3
    assert version_of(following.model("four")) == 1
    assert version_of(old) == 1
    assert following.names == ["four", "one", "three"]
    with pytest.raises(UnknownModelError):
        following.model("two")
    assert caplog.messages == ["polyseme: changed models: four, three, two"]


def test_a_known_name_reads_only_the_clock_until_some_seconds_have_passed(
    place, following, clock, monkeypatch
):
    one, two = following.model("one"), following.model("two")
    write(place / "two", 2)
    shutil.rmtree(place / "one")
    with monkeypatch.context() as patch:
        patch.setattr(registry_module, "find_models", pytest.fail)
        assert (following.model("one"), following.model("two")) == (one, two)
    clock[0] = 3
    following.model("two")  # starts a check, and does not wait for it
    wait_for_checks()
    assert version_of(following.model("two")) == 2
    assert following.names == ["two"]
    assert not following.ready()


def test_one_check_is_under_way_at_a_time(place, following, clock, monkeypatch):
    following.model("two")
    write(place / "two", 2)
    reading, go_on = threading.Event(), threading.Event()

    def pause():
        reading.set()
        assert go_on.wait(WAIT)

    interrupted(monkeypatch, place / "two", pause)
    for seconds in (3, 6, 9):
        clock[0] = seconds
        assert version_of(following.model("two")) == 1
        assert reading.wait(WAIT)
    checks = [one for one in threading.enumerate() if one.name == "polyseme-models"]
    assert len(checks) == 1
    go_on.set()
    wait_for_checks()
    assert version_of(following.model("two")) == 2


def test_an_unchanged_folder_is_not_read_again(place, following, clock, monkeypatch):
    spoil(place / "two")
    following.refresh_if_changed()
    with pytest.raises(ModelFolderError):
        following.model("two")
    monkeypatch.setattr(registry_module, "read_model", pytest.fail)
    for seconds in (3, 6):
        clock[0] = seconds
        following.model("one")
        wait_for_checks()
    with pytest.raises(ModelFolderError):
        following.model("two")


def test_a_check_reports_the_problem_of_a_changed_folder(place, following, caplog):
    before = following.model("two")
    spoil(place / "two")
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
