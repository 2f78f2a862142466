"""A model that is being written: whole or not at all, whatever becomes of its writer."""

import signal

import pytest

from polyseme.errors import ModelFolderError
from polyseme.models.reader import read_manifest, read_model
from tests.models.damage import snapshot
from tests.models.writers import (
    STOPPED_AT_A_RENAME,
    STOPPED_WHILE_IT_TIDIES,
    WAITING,
    names,
    python,
)
from tests.tiny import write_tiny

THERE = "a model of this name is there already."


@pytest.fixture
def writing(tmp_path):
    """A process in the middle of writing the model `slow`."""
    process = python(WAITING, tmp_path / "slow")
    assert process.stdout.readline() == "writing\n"
    yield process
    process.kill()
    process.communicate()


def drafts(folder):
    return list(folder.glob(".writing-*"))


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path, writing):
    assert len(drafts(tmp_path)) == 1
    assert list(tmp_path.glob(".writing-*/new/slow/vocabulary.txt"))
    writing.kill()
    writing.wait()
    assert len(drafts(tmp_path)) == 1
    write_tiny(tmp_path / "tiny")
    assert names(tmp_path) == ["tiny"]


def test_what_a_living_writer_has_written_is_left_to_it(tmp_path, writing):
    before = snapshot(drafts(tmp_path)[0])
    for _ in range(3):
        write_tiny(tmp_path / "tiny")
    assert snapshot(drafts(tmp_path)[0]) == before
    writing.communicate("go on\n")
    assert writing.returncode == 0
    assert names(tmp_path) == ["slow", "tiny"]
    assert read_model(tmp_path / "slow").vocabulary.row("end") == 10


@pytest.mark.parametrize("stage", ["empty", "locked", "begun"])
def test_a_writer_that_died_early_leaves_nothing_either(tmp_path, stage):
    left = tmp_path / ".writing-early"
    left.mkdir()
    if stage != "empty":
        (left / "lock").touch()
    if stage == "begun":
        (left / "new").mkdir()
    write_tiny(tmp_path / "tiny")
    assert names(tmp_path) == ["tiny"]


def test_what_no_writer_has_left_is_not_touched(tmp_path):
    (tmp_path / ".writing-notes").mkdir()
    (tmp_path / ".writing-notes" / "chapter").write_text("one")
    (tmp_path / ".writing-file").write_text("x")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".writing-link").symlink_to(tmp_path / "elsewhere")
    before = names(tmp_path)
    write_tiny(tmp_path / "tiny")
    assert names(tmp_path) == sorted([*before, "tiny"])
    assert names(tmp_path / ".writing-notes") == ["chapter"]
    assert not names(tmp_path / "elsewhere")


def killed_at_a_rename(folder, argument):
    process = python(STOPPED_AT_A_RENAME, folder, argument)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("place", [0, 1], ids=["before the old one goes", "before the new one"])
def test_a_writer_killed_while_it_replaces_a_model_loses_none(tmp_path, place):
    write_tiny(tmp_path / "tiny", source="the older one")
    before = snapshot(tmp_path)
    killed_at_a_rename(tmp_path / "tiny", place)
    assert (tmp_path / "tiny").exists() == (place == 0)
    write_tiny(tmp_path / "other")
    assert names(tmp_path) == ["other", "tiny"]
    assert {f"tiny/{name}": content for name, content in snapshot(tmp_path / "tiny").items()} == (
        before
    )


def test_a_model_that_was_moved_aside_does_not_come_back_over_another(tmp_path):
    write_tiny(tmp_path / "tiny", source="the older one")
    killed_at_a_rename(tmp_path / "tiny", 1)
    another = write_tiny(tmp_path / "elsewhere" / "tiny", source="another")
    another.rename(tmp_path / "tiny")
    write_tiny(tmp_path / "other")
    assert read_manifest(tmp_path / "tiny").source == "another"
    assert names(tmp_path) == ["elsewhere", "other", "tiny"]


def test_a_model_that_was_replaced_does_not_come_back(tmp_path):
    folder = write_tiny(tmp_path / "tiny", source="the older one")
    process = python(STOPPED_WHILE_IT_TIDIES, folder)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert read_manifest(folder).source == "the new one"
    assert list(tmp_path.glob(".writing-*/old-*/tiny"))
    folder.rename(tmp_path / "elsewhere")
    write_tiny(tmp_path / "other")
    assert names(tmp_path) == ["elsewhere", "other"]


def test_a_model_that_was_moved_aside_counts_as_there(tmp_path):
    write_tiny(tmp_path / "tiny", source="the older one")
    killed_at_a_rename(tmp_path / "tiny", 1)
    with pytest.raises(ModelFolderError) as caught:
        write_tiny(tmp_path / "tiny", replace=False)
    assert caught.value.sentence == THERE
    assert read_manifest(tmp_path / "tiny").source == "the older one"


@pytest.mark.parametrize("name", ["lock", "new", "old-000001", "replaced"])
def test_a_model_may_have_the_name_of_a_part_of_a_draft(tmp_path, name):
    for source in ("one", "two"):
        write_tiny(tmp_path / name, source=source)
    assert read_manifest(tmp_path / name).source == "two"
    assert names(tmp_path) == [name]
