"""A written model reads back unchanged; a failed write leaves nothing behind."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from polyseme.errors import ModelFolderError
from polyseme.models.reader import read_manifest, read_model
from polyseme.models.writer import write_model
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
    "no words": (
        {"words": [], "vectors": VECTORS},
        "vocabulary.txt is empty.",
    ),
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
    done = subprocess.run(
        [sys.executable, "-c", FAILING_RENAME, folder],
        check=False,
        cwd=Path(__file__).parent.parent.parent,
    )
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
