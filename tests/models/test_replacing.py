"""Who may take the place of what: models that are there, and writers at the same time."""

import time
from pathlib import Path

import pytest

from polyseme.errors import ModelFolderError
from polyseme.models.reader import read_manifest, read_model
from tests.models.damage import snapshot
from tests.models.writers import MANY_TIMES, NEW_ONES, RIVAL_AT_THE_LAST_MOMENT, names, python
from tests.tiny import VECTORS, WORDS, write_tiny

THERE = "a model of this name is there already."


def test_of_two_writers_at_once_each_writes_whole_models(tmp_path):
    processes = [python(MANY_TIMES, tmp_path / "tiny", source) for source in ("one", "two")]
    sources, refusals = set(), set()
    while any(process.poll() is None for process in processes):
        try:
            sources.add(read_manifest(tmp_path / "tiny").source)
        except ModelFolderError as error:  # before the first, or between two renames
            refusals.add(error.sentence)
        time.sleep(0.001)
    assert [process.returncode for process in processes] == [0, 0]
    assert sources
    assert sources <= {"one", "two"}
    assert refusals <= {"manifest.json cannot be read."}
    assert names(tmp_path) == ["tiny"]
    assert len(read_model(tmp_path / "tiny").vocabulary) == 11
    for process in processes:
        process.communicate()


def test_of_two_writers_of_one_new_name_one_wins(tmp_path):
    processes = [python(NEW_ONES, tmp_path, source) for source in ("one", "two")]
    won = [int(process.communicate()[0]) for process in processes]
    assert sum(won) == 20
    sources = [read_model(path).manifest.source for path in tmp_path.iterdir()]
    assert [sources.count(source) for source in ("one", "two")] == won


def test_a_model_that_is_there_is_not_replaced_where_that_is_not_wanted(tmp_path):
    write_tiny(tmp_path / "tiny", source="the older one")
    before = snapshot(tmp_path)
    with pytest.raises(ModelFolderError) as caught:
        write_tiny(tmp_path / "tiny", replace=False)
    assert caught.value.sentence == THERE
    assert snapshot(tmp_path) == before
    assert names(tmp_path) == ["tiny"]


def test_a_model_that_came_while_another_was_written_is_not_replaced(tmp_path):
    class Words(tuple):
        __slots__ = ()

        def __iter__(self):
            write_tiny(tmp_path / "tiny", source="the quicker one")
            return super().__iter__()

    with pytest.raises(ModelFolderError) as caught:
        write_tiny(tmp_path / "tiny", words=Words(WORDS), replace=False)
    assert caught.value.sentence == THERE
    assert read_manifest(tmp_path / "tiny").source == "the quicker one"
    assert names(tmp_path) == ["tiny"]


@pytest.mark.parametrize("replace", [True, False])
def test_a_model_that_comes_at_the_last_moment_is_replaced_only_where_that_is_wanted(
    tmp_path, replace
):
    process = python(RIVAL_AT_THE_LAST_MOMENT, tmp_path / "tiny", replace)
    assert process.communicate()[0] == ("" if replace else THERE)
    assert process.returncode == 0
    source = read_model(tmp_path / "tiny").manifest.source
    assert source == ("the slower one" if replace else "the rival")
    assert names(tmp_path) == ["tiny"]


def test_a_new_name_is_written_where_nothing_is_to_be_replaced(tmp_path):
    folder = write_tiny(tmp_path / "tiny", vectors=-VECTORS, replace=False)
    assert read_model(folder).vectors[4].tolist() == [0, -1, 0, -2, 0]


def test_a_model_that_another_writer_moves_away_meanwhile_is_no_file(tmp_path, monkeypatch):
    folder, look = write_tiny(tmp_path / "tiny", source="the older one"), Path.stat

    def look_and_lose(path, **options):
        found = look(path, **options)
        if path == folder:
            monkeypatch.undo()
            folder.rename(tmp_path / "aside")
        return found

    monkeypatch.setattr(Path, "stat", look_and_lose)
    write_tiny(folder, source="the newer one")
    assert read_manifest(folder).source == "the newer one"
