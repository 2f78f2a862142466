"""A written model reads back unchanged; a failed, killed or racing writer leaves nothing behind."""

import hashlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from polyseme.errors import ModelFolderError
from polyseme.models.reader import NO_MANIFEST, read_manifest, read_model
from polyseme.models.writer import write_model
from tests.conftest import ROOT
from tests.models.damage import snapshot
from tests.tiny import VECTORS, WORDS, full_layer, tiny_model, write_tiny


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_words_and_vectors_round_trip_in_their_dtype(tmp_path, dtype):
    vectors = np.random.default_rng(0).standard_normal((11, 5)).astype(dtype)
    model = tiny_model(tmp_path, vectors=vectors)
    assert model.vectors.dtype == dtype
    assert np.array_equal(model.vectors, vectors)
    assert [model.vocabulary.word(row) for row in range(11)] == list(WORDS)
    assert model.manifest.dtype == np.dtype(dtype).name
    assert (model.manifest.vocabulary_size, model.manifest.dimension) == (11, 5)


def test_the_vectors_are_mapped_and_not_copied(tmp_path):
    model = tiny_model(tmp_path)
    assert isinstance(model.vectors.base, np.memmap)
    assert model.vectors.base.mode == "r"
    assert not model.vectors.flags.writeable
    assert not model.vectors.flags.owndata


@pytest.mark.parametrize(
    "view",
    [
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: np.repeat(x, 3, axis=1)[:, ::3],
        lambda x: x[::-1].copy()[::-1],
        lambda x: x.T.copy().T,
    ],
)
def test_vectors_of_any_memory_order_round_trip(tmp_path, view):
    vectors = view(VECTORS)
    assert np.array_equal(tiny_model(tmp_path, vectors=vectors).vectors, VECTORS)


def test_the_details_of_the_manifest_round_trip(tmp_path):
    details = {
        "cased": False,
        "languages": ["en", "de"],
        "licence": "CC0-1.0 — ½",
        "source": "by hand",
        "training": {"seconds": 1.5, "steps": [1, 2]},
        "quality": {"wic": {"dev": 0.5}},
    }
    folder = write_tiny(tmp_path / "tiny", **details)
    manifest = read_manifest(folder)
    assert {name: getattr(manifest, name) for name in details} == details
    assert read_model(folder).manifest == manifest


def test_the_returned_manifest_is_the_one_on_disk(tmp_path):
    manifest = write_model(tmp_path / "tiny", WORDS, VECTORS, cased=True)
    assert manifest == read_manifest(tmp_path / "tiny")


def test_without_weights_there_is_no_attention_file(tmp_path):
    folder = write_tiny(tmp_path / "tiny")
    names = {path.name for path in folder.iterdir()}
    assert names == {"manifest.json", "vectors.npy", "vocabulary.txt", "index.npy"}


def test_the_same_model_is_written_as_the_same_bytes(tmp_path):
    for parent in ("one", "two"):
        write_tiny(tmp_path / parent / "tiny", layers=[full_layer()], word_bias=np.arange(11.0))
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")


def test_missing_parent_folders_are_created(tmp_path):
    assert write_tiny(tmp_path / "a" / "b" / "tiny").is_dir()


def changed(row, column, value):
    vectors = VECTORS.copy()
    vectors[row, column] = value
    return vectors


UNREPRESENTABLE = {
    "NaN": ({"vectors": changed(3, 2, np.nan)}, "vectors.npy is not finite in row 3."),
    "infinity": ({"vectors": changed(10, 4, -np.inf)}, "vectors.npy is not finite in row 10."),
    "a word twice": (
        {"words": [*WORDS[:-1], "bank"]},
        "vocabulary.txt has a word twice, in line 11.",
    ),
    "a line feed": (
        {"words": [*WORDS[:-1], "e\nnd"]},
        "vocabulary.txt: the number of words differs from manifest.json.",
    ),
    "a line feed for a word": (
        {"words": [*WORDS[:-1], "end\n"]},
        "vocabulary.txt has no word in line 12.",
    ),
    "an empty word": ({"words": ["", *WORDS[1:]]}, "vocabulary.txt has no word in line 1."),
    "too few words": (
        {"words": WORDS[:-1]},
        "vocabulary.txt: the number of words differs from manifest.json.",
    ),
    "no words": ({"words": [], "vectors": VECTORS}, "vocabulary.txt is empty."),
    "a word bias of another length": (
        {"word_bias": np.zeros(7)},
        "attention.safetensors: the shape of word_bias differs from manifest.json.",
    ),
    "big-endian": (
        {"vectors": VECTORS.astype(">f4")},
        "vectors.npy does not have the dtype float32.",
    ),
    # None: only the type of the error is promised, not its message.
    "a lone surrogate": ({"words": [*WORDS[:-1], "\ud800"]}, None),
    "float64": ({"vectors": VECTORS.astype(np.float64)}, None),
    "integers": ({"vectors": VECTORS.astype(np.int32)}, None),
    "one axis": ({"vectors": VECTORS[:, 0]}, None),
    "three axes": ({"vectors": VECTORS[:, :, None]}, None),
    "no vectors": ({"vectors": VECTORS[:0], "words": []}, None),
    "a weight of another width": ({"layers": [full_layer(d=3)]}, None),
    "no layers": ({"layers": []}, "there are no layers."),
    **{
        f"{case} in the details": (
            {"quality": {"score": value}},
            "manifest.json, quality: must be JSON with finite numbers and valid Unicode.",
        )
        for case, value in (
            ("NaN", float("nan")),
            ("an object", object()),
            ("a surrogate", "\ud800"),
        )
    },
    "an unknown detail": ({"colour": "red"}, "manifest.json, colour: is not a known field."),
}


@pytest.mark.parametrize("older", [True, False], ids=["older folder", "no folder"])
@pytest.mark.parametrize("case", UNREPRESENTABLE)
def test_a_failed_write_leaves_nothing_behind(tmp_path, case, older):
    changes, expected = UNREPRESENTABLE[case]
    if older:
        write_tiny(tmp_path / "tiny", source="the older one")
    before = snapshot(tmp_path)
    with pytest.raises(ModelFolderError) as caught:
        write_tiny(tmp_path / "tiny", **changes)
    assert expected in {None, caught.value.detail}
    assert snapshot(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} == ({"tiny"} if older else set())


@pytest.mark.parametrize("name", ["a b", ".hidden", "-flag", "é", "x" * 65])
def test_an_invalid_model_name_is_rejected(tmp_path, name):
    with pytest.raises(ModelFolderError):
        write_tiny(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_an_existing_folder_is_replaced_with_all_its_files(tmp_path):
    folder = write_tiny(tmp_path / "tiny", layers=[full_layer()], word_bias=np.arange(11.0))
    (folder / "stray").write_text("x")
    write_tiny(folder, words=WORDS[:7], vectors=VECTORS[:7])
    names = {path.name for path in folder.iterdir()}
    assert names == {"manifest.json", "vectors.npy", "vocabulary.txt", "index.npy"}
    assert len(read_model(folder).vocabulary) == 7
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


FAILING_RENAME = """
import sys
from pathlib import Path
from tests.tiny import WORDS, write_tiny

folder, failed = Path(sys.argv[1]), []

def fail_once(event, arguments):
    if event == "os.rename" and str(arguments[1]) == str(folder) and not failed:
        failed.append(True)
        raise OSError("no space left")

sys.addaudithook(fail_once)
try:
    write_tiny(folder, words=WORDS[::-1])
except OSError:
    sys.exit(7)
"""


def test_the_previous_folder_is_restored_if_the_new_one_cannot_replace_it(tmp_path):
    folder = write_tiny(tmp_path / "tiny", source="the older one")
    before = snapshot(tmp_path)
    done = subprocess.run([sys.executable, "-c", FAILING_RENAME, folder], check=False, cwd=ROOT)
    assert done.returncode == 7
    assert snapshot(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def test_a_loaded_model_survives_the_replacement_of_its_folder(tmp_path):
    model = tiny_model(tmp_path)
    write_tiny(tmp_path / "tiny", words=WORDS[::-1], vectors=-VECTORS)
    assert np.array_equal(model.vectors, VECTORS)
    assert model.vocabulary.word(0) == "apple"
    assert model.vocabulary.row("end") == 10


def test_the_manifest_has_the_size_and_checksum_of_each_file(tmp_path):
    folder = write_tiny(tmp_path / "tiny", layers=[full_layer()], word_bias=np.arange(11.0))
    document = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert document["format"] == "polyseme-model"
    assert document["format_version"] == 1
    assert set(document["files"]) == {path.name for path in folder.iterdir()} - {"manifest.json"}
    assert "attention.safetensors" in document["files"]
    assert "subwords" not in document
    for name, entry in document["files"].items():
        content = (folder / name).read_bytes()
        assert entry == {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    assert document["tensors"]["layers.0.value"] == [5, 21]
    assert document["tensors"]["word_bias"] == [11]


EXISTS = "a model of this name already exists."

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

KILLED_BETWEEN_TWO_RENAMES = """
import os, signal, sys
from pathlib import Path
from polyseme.models import staging
from tests.tiny import write_tiny

staging._RENAMEAT2 = None  # as on a system without it

folder = Path(sys.argv[1])

def stop(event, arguments):
    if event == "os.rename" and str(arguments[1]) == str(folder):
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


def kill_writer_between_two_renames(folder):
    """Kill a writer after it renames the folder away, before it renames the new one to its path."""
    process = python(KILLED_BETWEEN_TWO_RENAMES, folder)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_a_model_that_was_moved_aside_does_not_replace_another(tmp_path):
    write_tiny(tmp_path / "tiny", source="the older one")
    kill_writer_between_two_renames(tmp_path / "tiny")
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
    kill_writer_between_two_renames(tmp_path / "tiny")
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
