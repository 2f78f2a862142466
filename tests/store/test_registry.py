"""Models by name: looked up, never made into a path, read once."""

import threading

import numpy as np
import pytest

from service.errors import ModelFolderError, UnknownModelError
from service.store.registry import Registry, bundled_models, find_models
from tests.store.damage import MANIFEST, VECTORS, snapshot
from tests.tiny import VECTORS as TABLE
from tests.tiny import write_tiny


class CountingRegistry(Registry):
    """A registry that counts the folders it reads."""

    reads = 0

    def _read(self, folder):
        self.reads += 1
        return super()._read(folder)


def registry_of(place, default="one", **options):
    return CountingRegistry(find_models([place]), default, **options)


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


def test_a_default_that_is_not_there_is_unknown(place):
    registry = registry_of(place, "zero")
    assert not registry.ready()
    with pytest.raises(UnknownModelError):
        registry.model()


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


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("ask", ["model", "manifest", "folder"])
def test_a_name_that_is_not_there_is_unknown_whatever_it_holds(place, name, ask):
    with pytest.raises(UnknownModelError) as caught:
        getattr(registry_of(place), ask)(name)
    assert caught.value.sentence == "No model of this name is here."


def test_a_later_place_wins(place, tmp_path):
    later = tmp_path / "later"
    write_tiny(later / "one", source="later")
    registry = Registry(find_models([place, later]), "one")
    assert registry.names == ["one", "two"]
    assert registry.model().manifest.source == "later"
    assert Registry(find_models([later, place]), "one").model().manifest.source == "one"


def test_the_models_of_a_folder_stand_beside_the_bundled(place):
    bundled = set(find_models([bundled_models()]))
    assert set(Registry.of(place, "one").names) == bundled | {"one", "two"}
    assert set(Registry.of(None, "one").names) == bundled


def test_a_place_that_is_not_there_holds_no_models(tmp_path):
    assert find_models([tmp_path / "nowhere"]) == {}
    (tmp_path / "file").write_text("x")
    assert find_models([tmp_path / "file"]) == {}


def test_only_folders_with_a_manifest_and_a_sane_name_are_models(place):
    (place / "empty").mkdir()
    (place / "file").write_text("x")
    write_tiny(place / "fine").rename(place / ".hidden")
    write_tiny(place / "fine").rename(place / "with space")
    assert set(find_models([place])) == {"one", "two"}


def test_a_model_is_read_when_it_is_first_asked_for_and_kept(place):
    registry = registry_of(place)
    assert registry.reads == 0
    first = registry.model()
    assert registry.model() is first
    assert registry.reads == 1


def break_model(folder):
    content = (folder / VECTORS).read_bytes()
    (folder / VECTORS).write_bytes(content[:-4])


def test_a_broken_model_is_reported_again_without_being_read_again(place):
    break_model(place / "one")
    registry = registry_of(place)
    said = set()
    for _ in range(3):
        with pytest.raises(ModelFolderError) as caught:
            registry.model()
        said.add(caught.value.sentence)
    assert said == {"vectors.npy has another number of bytes than manifest.json says."}
    assert registry.reads == 1
    assert not registry.ready()
    assert registry.model("two")


def test_a_broken_manifest_is_reported(place):
    (place / "one" / MANIFEST).write_text("{}")
    with pytest.raises(ModelFolderError):
        registry_of(place).manifest("one")


def test_a_model_is_ready_when_the_default_one_can_answer(place):
    assert registry_of(place).ready()
    break_model(place / "two")
    assert registry_of(place).ready()


def test_verifying_can_be_left_out(place):
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


def test_eight_threads_that_ask_at_once_read_a_model_once(place):
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
    assert registry.reads == 1
