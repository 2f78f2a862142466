"""Writers that are killed, race or replace a model: a folder is complete or absent."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polyseme.errors import ModelFolderError
from polyseme.models.reader import NO_MANIFEST, read_manifest, read_model
from tests.models.damage import snapshot
from tests.tiny import VECTORS, WORDS, write_tiny

EXISTS = "a model of this name already exists."
ROOT = Path(__file__).parents[2]

PAUSED_WRITER = """
import sys
from pathlib import Path
from tests.tiny import WORDS, write_tiny

class Words(tuple):
    def __iter__(self):
        yield from self[:7]
        print("writing", flush=True)
        sys.stdin.readline()
        yield from self[7:]

write_tiny(Path(sys.argv[1]), words=Words(WORDS), source="the paused one")
"""

KILLED_AT_A_RENAME = """
import os, signal, sys
from pathlib import Path
from polyseme.models import staging
from tests.tiny import write_tiny

staging._RENAMEAT2 = None  # as on a system without it

folder = Path(sys.argv[1])

def stop(event, arguments):
    if event == "os.rename" and str(arguments[int(sys.argv[2])]) == str(folder):
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(stop)
write_tiny(folder, source="the new one")
"""

REPEATED_WRITER = """
import sys
from pathlib import Path
from tests.tiny import write_tiny

for number in range(20):
    write_tiny(Path(sys.argv[1]), source=sys.argv[2])
"""

WRITER_OF_NEW_NAMES = """
import sys
from pathlib import Path
from polyseme.errors import ModelFolderError
from tests.tiny import write_tiny

won = 0
for number in range(20):
    try:
        write_tiny(Path(sys.argv[1]) / f"model{number}", source=sys.argv[2], replace=False)
        won += 1
    except ModelFolderError as error:
        assert error.detail == "a model of this name already exists."
print(won)
"""

WRITER_WITH_A_RIVAL = """
import sys
from pathlib import Path
from polyseme.errors import ModelFolderError
from tests.tiny import write_tiny

folder, replace, appeared = Path(sys.argv[1]), sys.argv[2] == "True", []

def write_rival(event, arguments):
    # The first rename from or to the folder. Without `replace`, the folder is never renamed away.
    paths = arguments[1:2] if replace else arguments[:2]
    if event == "os.rename" and str(folder) in map(str, paths) and not appeared:
        appeared.append(True)
        write_tiny(folder, source="the rival")

sys.addaudithook(write_rival)
try:
    write_tiny(folder, source="the slower one", replace=replace)
except ModelFolderError as error:
    print(error.detail, end="")
assert appeared
"""

KILLED_DURING_CLEANUP = """
import os, signal, sys
from pathlib import Path
from polyseme.models import staging
from tests.tiny import write_tiny

if sys.argv[2] == "two renames":
    staging._RENAMEAT2 = None  # as on a system without it

def stop(event, arguments):
    if event == "shutil.rmtree":
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(stop)
write_tiny(Path(sys.argv[1]), source="the new one")
"""


def python(code, *arguments):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, text=True, **pipes)


def names(folder):
    """The names in a folder, sorted."""
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def writing(tmp_path):
    """A process in the middle of writing the model `slow`."""
    process = python(PAUSED_WRITER, tmp_path / "slow")
    assert process.stdout.readline() == "writing\n"
    yield process
    process.kill()
    process.communicate()


def staging_directories(folder):
    return list(folder.glob(".writing-*"))


def test_files_of_a_killed_writer_are_removed_by_the_next(tmp_path, writing):
    assert len(staging_directories(tmp_path)) == 1
    assert list(tmp_path.glob(".writing-*/new/slow/vocabulary.txt"))
    writing.kill()
    writing.wait()
    assert len(staging_directories(tmp_path)) == 1
    write_tiny(tmp_path / "tiny")
    assert names(tmp_path) == ["tiny"]


def test_files_of_a_running_writer_are_kept(tmp_path, writing):
    before = snapshot(staging_directories(tmp_path)[0])
    for _ in range(3):
        write_tiny(tmp_path / "tiny")
    assert snapshot(staging_directories(tmp_path)[0]) == before
    writing.communicate("continue\n")
    assert writing.returncode == 0
    assert names(tmp_path) == ["slow", "tiny"]
    assert read_model(tmp_path / "slow").vocabulary.row("end") == 10


@pytest.mark.parametrize("stage", ["empty", "locked", "started"])
def test_a_writer_that_died_early_leaves_nothing(tmp_path, stage):
    staging = tmp_path / ".writing-early"
    staging.mkdir()
    if stage != "empty":
        (staging / "lock").touch()
    if stage == "started":
        (staging / "new").mkdir()
    write_tiny(tmp_path / "tiny")
    assert names(tmp_path) == ["tiny"]


def test_unrelated_files_are_kept(tmp_path):
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


def kill_writer_at_a_rename(folder, argument):
    """Kill a writer before it renames the folder away (0) or a new folder to its path (1)."""
    process = python(KILLED_AT_A_RENAME, folder, argument)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("argument", [0, 1], ids=["old folder", "new folder"])
def test_a_writer_killed_during_a_replacement_loses_no_model(tmp_path, argument):
    write_tiny(tmp_path / "tiny", source="the older one")
    before = snapshot(tmp_path)
    kill_writer_at_a_rename(tmp_path / "tiny", argument)
    assert (tmp_path / "tiny").exists() == (argument == 0)
    write_tiny(tmp_path / "other")
    assert names(tmp_path) == ["other", "tiny"]
    assert {f"tiny/{name}": content for name, content in snapshot(tmp_path / "tiny").items()} == (
        before
    )


def test_a_model_that_was_moved_aside_does_not_replace_another(tmp_path):
    write_tiny(tmp_path / "tiny", source="the older one")
    kill_writer_at_a_rename(tmp_path / "tiny", 1)
    another = write_tiny(tmp_path / "elsewhere" / "tiny", source="another")
    another.rename(tmp_path / "tiny")
    write_tiny(tmp_path / "other")
    assert read_manifest(tmp_path / "tiny").source == "another"
    assert names(tmp_path) == ["elsewhere", "other", "tiny"]


@pytest.mark.parametrize(
    ("way", "replaced"), [("exchange", "new/tiny"), ("two renames", "old-*/tiny")]
)
def test_a_replaced_model_is_not_restored(tmp_path, way, replaced):
    folder = write_tiny(tmp_path / "tiny", source="the older one")
    process = python(KILLED_DURING_CLEANUP, folder, way)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert read_manifest(folder).source == "the new one"
    assert list(tmp_path.glob(f".writing-*/{replaced}"))
    folder.rename(tmp_path / "elsewhere")
    write_tiny(tmp_path / "other")
    assert names(tmp_path) == ["elsewhere", "other"]


def test_a_model_that_was_moved_aside_counts_as_existing(tmp_path):
    write_tiny(tmp_path / "tiny", source="the older one")
    kill_writer_at_a_rename(tmp_path / "tiny", 1)
    with pytest.raises(ModelFolderError) as caught:
        write_tiny(tmp_path / "tiny", replace=False)
    assert caught.value.detail == EXISTS
    assert read_manifest(tmp_path / "tiny").source == "the older one"


@pytest.mark.parametrize("name", ["lock", "new", "old-000001", "replaced"])
def test_a_model_may_have_a_name_like_a_staging_directory(tmp_path, name):
    for source in ("one", "two"):
        write_tiny(tmp_path / name, source=source)
    assert read_manifest(tmp_path / name).source == "two"
    assert names(tmp_path) == [name]


@pytest.mark.slow
def test_two_concurrent_writers_write_complete_models(tmp_path):
    processes = [python(REPEATED_WRITER, tmp_path / "tiny", source) for source in ("one", "two")]
    sources, errors = set(), set()
    while any(process.poll() is None for process in processes):
        try:
            sources.add(read_manifest(tmp_path / "tiny").source)
        except ModelFolderError as error:  # before the first model, or between two renames
            errors.add(error.detail)
        time.sleep(0.001)
    assert [process.returncode for process in processes] == [0, 0]
    assert sources
    assert sources <= {"one", "two"}
    assert errors <= {NO_MANIFEST}
    assert names(tmp_path) == ["tiny"]
    assert len(read_model(tmp_path / "tiny").vocabulary) == 11
    for process in processes:
        process.communicate()


@pytest.mark.slow
def test_one_of_two_writers_of_a_new_name_wins(tmp_path):
    processes = [python(WRITER_OF_NEW_NAMES, tmp_path, source) for source in ("one", "two")]
    won = [int(process.communicate()[0]) for process in processes]
    assert sum(won) == 20
    sources = [read_model(path).manifest.source for path in tmp_path.iterdir()]
    assert [sources.count(source) for source in ("one", "two")] == won


def test_an_existing_model_is_not_replaced_without_the_option(tmp_path):
    write_tiny(tmp_path / "tiny", source="the older one")
    before = snapshot(tmp_path)
    with pytest.raises(ModelFolderError) as caught:
        write_tiny(tmp_path / "tiny", replace=False)
    assert caught.value.detail == EXISTS
    assert snapshot(tmp_path) == before
    assert names(tmp_path) == ["tiny"]


def test_a_model_that_appears_before_the_rename_is_not_replaced_without_the_option(tmp_path):
    class Words(tuple):
        __slots__ = ()

        def __iter__(self):
            write_tiny(tmp_path / "tiny", source="the quicker one")
            return super().__iter__()

    with pytest.raises(ModelFolderError) as caught:
        write_tiny(tmp_path / "tiny", words=Words(WORDS), replace=False)
    assert caught.value.detail == EXISTS
    assert read_manifest(tmp_path / "tiny").source == "the quicker one"
    assert names(tmp_path) == ["tiny"]


@pytest.mark.parametrize("replace", [True, False])
def test_a_model_that_appears_at_the_rename_is_replaced_only_on_request(tmp_path, replace):
    process = python(WRITER_WITH_A_RIVAL, tmp_path / "tiny", replace)
    assert process.communicate()[0] == ("" if replace else EXISTS)
    assert process.returncode == 0
    source = read_model(tmp_path / "tiny").manifest.source
    assert source == ("the slower one" if replace else "the rival")
    assert names(tmp_path) == ["tiny"]


def test_a_new_name_is_written_without_the_option(tmp_path):
    folder = write_tiny(tmp_path / "tiny", vectors=-VECTORS, replace=False)
    assert read_model(folder).vectors[4].tolist() == [0, -1, 0, -2, 0]


def test_a_folder_that_another_writer_moves_is_not_taken_for_a_file(tmp_path, monkeypatch):
    folder, stat = write_tiny(tmp_path / "tiny", source="the older one"), Path.stat

    def stat_then_move(path, **options):
        found = stat(path, **options)
        if path == folder:
            monkeypatch.undo()
            folder.rename(tmp_path / "aside")
        return found

    monkeypatch.setattr(Path, "stat", stat_then_move)
    write_tiny(folder, source="the newer one")
    assert read_manifest(folder).source == "the newer one"
