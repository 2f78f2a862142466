"""A written model reads back unchanged; a failed, killed or racing writer leaves nothing behind."""

import hashlib
import re
import shutil
import threading

import numpy as np
import pytest

from polyseme.engine.layers import FeatureProjection, Layer, LayerNorm, Projection, Residual
from polyseme.engine.quantization import QuantizedRows
from polyseme.engine.subwords import Subwords
from polyseme.errors import ModelFolderError
from polyseme.models.reader import read_manifest, read_model
from polyseme.models.registry import Registry
from polyseme.models.weights import ContextProjection
from polyseme.models.writer import remove_model, rename_model, rewrite_model
from tests.models.damage import MANIFEST, manifest_of, path, paths, scales_error, snapshot
from tests.tiny import QUANTIZED, SUBWORDS, VECTORS, WORDS, full_layer, write_tiny


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


def test_the_same_model_is_written_as_the_same_bytes(tmp_path):
    for parent in ("one", "two"):
        write_tiny(tmp_path / parent / "tiny", layers=[full_layer()], word_bias=np.arange(11.0))
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")


def with_features(columns, neighbors, residual="unit"):
    features = FeatureProjection(np.ones((5, columns), np.float32), neighbors)
    return [Layer(residual=Residual(residual), features=features)]


ONE_COLUMN = Projection(np.ones((5, 1), np.float32))
LAYERS = [
    [],
    [full_layer(1), full_layer(2, heads=1, k=6, v=21)],
    [Layer(heads=1), Layer(heads=5)],
    [full_layer(1, feed_forward_norm=LayerNorm(*[np.ones(5)] * 2, 0.5))],  # other epsilons
    with_features(3, ONE_COLUMN, "none"),
    with_features(2, ONE_COLUMN),
    with_features(5, Projection()),
    [Layer(residual=Residual("unit", float("nan")))],
]
"""Layers that do not fit each other, the vectors or the format."""
COUNT = "vocabulary.txt: the number of words differs from manifest.json."
JSON = "manifest.json, quality: must be JSON with finite numbers and valid Unicode."
BIAS = "attention.safetensors: the shape of word_bias differs from manifest.json."
UNREPRESENTABLE = [
    ({"vectors": np.where(VECTORS == 2, np.nan, VECTORS)}, "vectors.npy is not finite in row 4."),
    ({"words": [*WORDS[:-1], "bank"]}, "vocabulary.txt has a word twice, in line 11."),
    ({"words": [*WORDS[:-1], "e\nnd"]}, COUNT),
    ({"words": [*WORDS[:-1], "end\n"]}, "vocabulary.txt has no word in line 12."),
    ({"words": WORDS[:-1]}, COUNT),
    ({"words": [*WORDS[:-1], "\ud800"]}, "a word is not valid Unicode."),
    ({"word_bias": np.zeros(7)}, BIAS),
    ({"vectors": VECTORS.astype(">f4")}, "vectors.npy does not have the dtype float32."),
    ({"vectors": QUANTIZED.integers}, scales_error("scales.npy", "vectors.npy")),
    *(({"quality": {"score": value}}, JSON) for value in (float("nan"), object(), "\ud800")),
    ({"colour": "red"}, "manifest.json, colour: is not a known field."),
    # Only the type of these errors is promised, not the message.
    *(({"vectors": VECTORS.astype(dtype)}, None) for dtype in (np.float64, np.int32)),
    *(({"vectors": vectors}, None) for vectors in (VECTORS[:, 0], VECTORS[:, :, None])),
    ({"vectors": VECTORS[:0], "words": []}, None),
    *(
        ({"vectors": QuantizedRows(integers, QUANTIZED.scales[: len(integers)])}, None)
        for integers in (np.ones((11, 5), "u1"), np.ones(11, "i1"), np.ones((0, 5), "i1"))
    ),
    *(({"layers": layers, "word_bias": np.arange(11.0)}, None) for layers in LAYERS),
    *(
        ({"subwords": Subwords(SUBWORDS.table, *lengths)}, None)
        for lengths in ((0, 6), (3, 65), (6, 3))
    ),
]


@pytest.mark.parametrize(("changes", "expected"), UNREPRESENTABLE)
def test_a_failed_write_leaves_nothing_behind(original, tmp_path, changes, expected):
    folder = tmp_path / "tiny"
    for before in ({}, snapshot(original)):
        if before:
            shutil.copytree(original, folder)
        with pytest.raises(ModelFolderError) as caught:
            write_tiny(folder, **changes)
        assert expected in {None, re.sub("-[0-9a-f]{16}", "", caught.value.detail)}
        assert folder.exists() == bool(before)
        assert snapshot(folder) == before


def test_the_files_of_a_replaced_model_are_removed(tmp_path):
    folder = write_tiny(tmp_path / "tiny", layers=[full_layer()], word_bias=np.arange(11.0))
    for other in ("LICENSE", "notes.npy", "vectors.npy", "vectors-0123.npy"):
        (folder / other).write_text("x")
    for left in (".writing-0123456789abcdef", "index-0123456789abcdef.npy"):
        (folder / left).write_text("of a killed writer")
    write_tiny(folder, words=WORDS[:7], vectors=VECTORS[:7])
    kept = {"LICENSE", "notes.npy", "vectors.npy", "vectors-0123.npy", MANIFEST}
    assert set(names(folder)) == kept | {file.name for file in paths(folder).values()}
    assert set(manifest_of(folder)["files"]) == {"vectors.npy", "vocabulary.txt", "index.npy"}
    assert len(read_model(folder).vocabulary) == 7


def test_a_rewritten_model_keeps_what_is_not_given(tmp_path):
    folder = write_tiny(
        tmp_path / "tiny",
        layers=[full_layer(1)],
        word_bias=VECTORS[:, 0],
        whitening=Projection(np.eye(5, dtype=np.float32) * 2, np.ones(5, np.float32)),
        source="here",
        languages=["en"],
    )
    before = read_model(folder)
    senses = ContextProjection(np.arange(5.0), np.ones((5, 2)), np.ones(3))
    manifest = rewrite_model(folder, before, senses=lambda _: senses, word_bias=VECTORS[:, 1])
    after = read_model(folder)
    assert np.array_equal(after.senses.mean, senses.mean)
    assert np.array_equal(after.word_bias, VECTORS[:, 1])
    assert np.array_equal(after.vectors, before.vectors)
    assert after.whitening.weight[0, 0] == 2 and np.array_equal(after.whitening.bias, np.ones(5))
    assert np.array_equal(after.layers[0].query.weight, before.layers[0].query.weight)
    assert (manifest.source, manifest.languages) == ("here", ["en"])


def test_a_model_replaces_a_damaged_one(tmp_path):
    folder = write_tiny(tmp_path / "tiny", source="the older one")
    (folder / MANIFEST).write_text("{}")
    before = snapshot(folder)
    with pytest.raises(ModelFolderError):
        write_tiny(folder, words=WORDS[:-1])
    assert before.items() <= snapshot(folder).items()
    write_tiny(folder, source="the newer one", words=WORDS[::-1])
    assert read_model(folder, verify=True).manifest.source == "the newer one"
    assert len(names(folder)) == 4


def test_the_manifest_has_the_size_and_checksum_of_each_file(tmp_path):
    folder = write_tiny(tmp_path / "tiny", layers=[full_layer()], word_bias=np.arange(11.0))
    document = manifest_of(folder)
    assert (document["format"], document["format_version"]) == ("polyseme-model", 1)
    assert "subwords" not in document
    assert document["tensors"]["layers.0.value"] == [5, 21]
    assert {*paths(folder).values()} == {*folder.iterdir()} - {folder / MANIFEST}
    for name, entry in document["files"].items():
        content = path(folder, name).read_bytes()
        assert entry == {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


EXISTS = "a model of this name already exists."


def names(folder):
    """The names in a folder, sorted."""
    return sorted(file.name for file in folder.iterdir())


def test_a_model_that_is_written_is_not_there_and_not_touched(tmp_path):
    writing, go_on = threading.Event(), threading.Event()

    def words():
        writing.set()
        assert go_on.wait(30)
        yield from WORDS

    folder = tmp_path / "slow"
    writer = threading.Thread(target=write_tiny, args=[folder], kwargs={"words": words()})
    writer.start()
    assert writing.wait(30)
    assert Registry([tmp_path], "slow").names == []
    for change in (write_tiny, remove_model, lambda path: rename_model(path, "new")):
        with pytest.raises(ModelFolderError, match="another command is writing the model"):
            change(folder)
    write_tiny(tmp_path / "tiny")
    go_on.set()
    writer.join(30)
    assert names(tmp_path) == ["slow", "tiny"]
    assert read_model(folder, verify=True).vocabulary.row("end") == 10


def test_models_files_and_links_are_not_replaced(tmp_path):
    write_tiny(tmp_path / "tiny", source="the older one")
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "tiny")
    before = snapshot(tmp_path)
    for name, message in (
        ("tiny", EXISTS),
        ("file", "the path of the model's folder is a file."),
        ("link", "the model's folder is a symbolic link, which is not replaced."),
        *(
            (name, "the folder's name is not a valid model name: ")
            for name in (".x", "é", "x" * 65)
        ),
    ):
        with pytest.raises(ModelFolderError, match=message):
            write_tiny(tmp_path / name, replace=False)
        assert names(tmp_path) == ["file", "link", "tiny"]
        assert snapshot(tmp_path) == before
    target = snapshot(tmp_path / "tiny")
    rename_model(tmp_path / "link", "other")
    remove_model(tmp_path / "other")
    assert names(tmp_path) == ["file", "tiny"]
    assert snapshot(tmp_path / "tiny") == target


def test_the_folder_of_models_may_be_a_link(tmp_path):
    write_tiny(tmp_path / "models" / "one")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "models")
    remove_model(link / "one")
    rename_model(write_tiny(link / "two"), "three")
    assert link.is_symlink()
    assert names(tmp_path / "models") == ["three"]


def test_a_model_that_another_command_has_removed_is_an_error(tmp_path):
    write_tiny(tmp_path / "tiny")
    for change in (remove_model, lambda folder: rename_model(folder, "new")):
        with pytest.raises(ModelFolderError, match="command has removed or renamed the model"):
            change(tmp_path / "other")
    assert names(tmp_path) == ["tiny"]


@pytest.mark.parametrize("checked", [True, False])
def test_a_rename_replaces_nothing(tmp_path, monkeypatch, checked):
    """Without the first check, as if the name were taken after it."""
    write_tiny(tmp_path / "one")
    write_tiny(tmp_path / "two")
    (tmp_path / "three").write_text("x")
    before = snapshot(tmp_path)
    if not checked:
        monkeypatch.setattr("polyseme.models.writer.os.path.lexists", lambda _: False)
    for name in ("two", "three"):
        with pytest.raises(ModelFolderError, match=EXISTS):
            rename_model(tmp_path / "one", name)
    assert snapshot(tmp_path) == before
