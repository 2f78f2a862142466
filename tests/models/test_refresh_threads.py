"""A registry that several threads use while it is refreshed."""

import gc
import threading
import weakref

from tests.models.versions import interrupted, version_of, write

WAIT = 30


def test_the_old_model_answers_while_the_new_one_is_read(place, registry, monkeypatch):
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


def test_a_model_that_is_read_holds_up_no_other(place, registry, monkeypatch):
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


def test_the_old_model_goes_when_nobody_uses_it(place, registry):
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
