"""A model that uses the tables of a bundled model, its base."""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from polyseme.client.local import LocalModel
from polyseme.engine.quantization import QuantizedRows, stored
from polyseme.errors import ModelFolderError
from polyseme.importing.importer import tune
from polyseme.importing.texts import TextSample
from polyseme.models import reader as reader_module
from polyseme.models.manifest import TABLES
from polyseme.models.reader import read_manifest, read_model
from polyseme.models.registry import Registry
from polyseme.models.writer import rename_model, rewrite_model
from polyseme.operations.serialize import manifest_document
from tests.models.conftest import KNOWN_NGRAMS
from tests.models.damage import (
    ATTENTION,
    INDEX,
    MANIFEST,
    NGRAMS,
    SUBWORDS,
    VECTORS,
    VOCABULARY,
    change_manifest,
    manifest_of,
    path,
    read_error,
    snapshot,
    with_and_without_verify,
)
from tests.tiny import PLAIN, QUANTIZED, WORDS, full_layer, write_tiny
from tests.tiny import SUBWORDS as TRIGRAMS

GROUND = {"vectors": QUANTIZED, "subwords": KNOWN_NGRAMS, "word_bias": np.arange(11.0)}
OTHER = QuantizedRows(-QUANTIZED.integers, QUANTIZED.scales)
INSTALL = "install the version of Polyseme that wrote the model, or train it again."


@pytest.fixture
def bundled(tmp_path, monkeypatch):
    """The folder of the bundled models, with the model `ground`, which has every table."""
    monkeypatch.setattr(reader_module, "_PACKAGE", tmp_path)
    return write_tiny(tmp_path / "bundled" / "ground", **GROUND).parent


@pytest.fixture
def upper(bundled):
    """The folder of a model with two layers over `ground`."""
    return write_upper(bundled.parent / "models" / "upper")


def write_upper(folder, **changes):
    layers = [full_layer(1), full_layer(2)]
    return write_tiny(folder, **{**GROUND, "layers": layers, "base": "ground", **changes})


def names_in(folder):
    """The names of the files in a folder, without checksums."""
    return {re.sub("-[0-9a-f]{16}", "", file.name) for file in folder.iterdir()}


def test_the_tables_of_the_base_are_mapped_and_not_written_again(bundled, upper):
    assert names_in(upper) == {MANIFEST, ATTENTION}
    document, ground = manifest_of(upper), manifest_of(bundled / "ground")
    assert document["base"] == "ground"
    assert set(TABLES) < set(document["files"])
    assert {name: document["files"][name] for name in TABLES} == {
        name: ground["files"][name] for name in TABLES
    }
    for verify in (True, False):
        model = read_model(upper, verify=verify)
        for rows, kept in ((model.rows, QUANTIZED), (model.subwords.table, KNOWN_NGRAMS.table)):
            for mapped, array in zip(stored(rows), stored(kept), strict=True):
                assert np.array_equal(mapped, array)
                assert Path(mapped.base.filename).parent == bundled / "ground"
        assert [model.vocabulary.word(row) for row in range(11)] == list(WORDS)
        assert model.vocabulary.row("river") == 4
        assert len(model.layers) == 2


def test_both_models_compute_the_same_as_two_complete_folders(upper, tmp_path):
    complete = write_upper(tmp_path / "other" / "upper", base=None)
    assert manifest_of(complete)["files"] == manifest_of(upper)["files"]
    assert read_manifest(complete).checksum == read_manifest(upper).checksum
    texts = ["apple bank river", "gnu money did n't end"]
    for one, other in zip(
        *(LocalModel(read_model(folder)).encode(texts) for folder in (complete, upper)),
        strict=True,
    ):
        assert np.array_equal(one.contextual, other.contextual)


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        ({"vectors": OTHER}, True),
        ({"words": (*WORDS[:-1], "END")}, True),
        ({"subwords": TRIGRAMS}, True),
        ({"base": "nothing"}, True),
        ({"base": "upper"}, True),  # it has a base itself
        ({"subwords": None}, False),  # a base may have more than a model uses
    ],
)
def test_a_model_with_tables_of_its_own_is_complete(bundled, upper, tmp_path, changes, own):
    shutil.copytree(upper, bundled / "upper")
    folder = write_upper(tmp_path / "models" / "new", **changes)
    assert (names_in(folder) > {VECTORS, VOCABULARY, INDEX}) == own
    assert read_model(folder).manifest.base == (None if own else "ground")


def test_a_renamed_copied_or_bundled_folder_keeps_its_base(bundled, upper):
    shutil.copytree(upper, bundled / "deep")
    rename_model(upper, "renamed")
    registry = Registry.of(upper.parent, "ground")
    assert registry.names == ["deep", "ground", "renamed"]
    for name in ("deep", "renamed"):
        assert registry.model(name).manifest.base == "ground"


def test_a_tuned_model_keeps_its_base(upper):
    sample = TextSample.of(["bank river money"] * 30, files=["texts.txt"])
    tune(upper, sample, read_model(upper))
    assert names_in(upper) == {MANIFEST, ATTENTION, "senses.safetensors"}
    assert read_model(upper).manifest.base == "ground"


def test_a_saved_model_has_the_tables_of_its_base(bundled, upper, tmp_path):
    model = LocalModel(read_model(upper))
    before = manifest_of(upper)["files"]
    folder = model.save("complete", models_dir=tmp_path / "elsewhere")
    shutil.rmtree(bundled)
    assert names_in(folder) == {MANIFEST, *before}
    assert manifest_of(folder)["files"] == before
    assert read_model(folder).manifest.base is None


def test_weights_of_16_bits_are_rounded_and_kept(upper, tmp_path):
    before = read_model(upper)
    rewrite_model(upper, before, weights_dtype="float16")
    document = manifest_of(upper)
    assert document["weights_dtype"] == "float16"
    for name, tensor in load_file(path(upper, ATTENTION)).items():
        assert tensor.dtype == np.float16
        assert list(tensor.shape) == document["tensors"][name]
    model = read_model(upper)
    for layer, wide in zip(model.layers, before.layers, strict=True):
        names = ("query", "key", "value", "output", "final")
        matrices = [(getattr(layer, n).weight, getattr(wide, n).weight) for n in names]
        for read, weight in [*matrices, (layer.skip, wide.skip)]:
            assert read.dtype == np.float32
            assert np.array_equal(read, weight.astype(np.float16).astype(np.float32))
    complete = LocalModel(model).save("complete", models_dir=tmp_path / "elsewhere")
    assert manifest_of(complete)["files"] == document["files"]
    assert "base" not in manifest_of(complete)
    assert read_manifest(complete).checksum == read_manifest(upper).checksum


def test_a_weight_that_16_bits_cannot_represent_is_rejected(upper):
    before = snapshot(upper)
    with pytest.raises(ModelFolderError, match="word_bias: a value is not finite"):
        rewrite_model(upper, read_model(upper), word_bias=np.full(11, 7e4), weights_dtype="float16")
    assert snapshot(upper) == before


def test_the_size_of_a_model_is_that_of_its_own_files(bundled, upper):
    document = manifest_document(read_manifest(upper))
    assert document["base"] == "ground"
    assert document["bytes"] == path(upper, ATTENTION).stat().st_size
    document = manifest_document(read_manifest(bundled / "ground"))
    files = sum(file.stat().st_size for file in (bundled / "ground").iterdir())
    assert document["bytes"] == files - (bundled / "ground" / MANIFEST).stat().st_size
    assert document["base"] is None


def rename_base(folder, name):
    change_manifest(folder, lambda m: m.update(base=name))


def change_base(bundled, change):
    change_manifest(bundled / "ground", change)


def nest(bundled, _upper):
    """Give the base the base `lowest`."""
    shutil.copytree(bundled / "ground", bundled / "lowest")
    change_base(bundled, lambda m: m.update(base="lowest"))


def replace_base(bundled, _upper):
    """Replace the base by another edition, with files of the same sizes."""
    write_tiny(bundled / "ground", **{**GROUND, "vectors": OTHER})


def drop_subwords(bundled, _upper):
    write_tiny(bundled / "ground", **{**GROUND, "subwords": None})


def damage(name, change):
    """A function that changes the bytes of a file of the base."""

    def apply(bundled, _upper):
        file = path(bundled / "ground", name)
        file.write_bytes(change(file.read_bytes()))

    return apply


def put_pipe(file):
    file.unlink()
    os.mkfifo(file)


NO_NAME = "manifest.json, base: "
NOT_BUNDLED = "its base {} is no bundled model; " + INSTALL
BROKEN = {
    "a parent folder": (lambda _, u: rename_base(u, "../bundled/ground"), NO_NAME),
    "a folder in a folder": (lambda _, u: rename_base(u, "ground/."), NO_NAME),
    "an absolute path": (lambda b, u: rename_base(u, str(b / "ground")), NO_NAME),
    "dots": (lambda _, u: rename_base(u, ".."), NO_NAME),
    "a line feed": (lambda _, u: rename_base(u, "ground\n"), NO_NAME),
    "an empty name": (lambda _, u: rename_base(u, ""), NO_NAME),
    "a number": (lambda _, u: rename_base(u, 3), NO_NAME),
    "a list": (lambda _, u: rename_base(u, ["ground"]), NO_NAME),
    "an unknown model": (lambda _, u: rename_base(u, "nothing"), NOT_BUNDLED.format("nothing")),
    "itself": (lambda _, u: rename_base(u, "upper"), NOT_BUNDLED.format("upper")),
    "a model of the models folder": (
        lambda _, u: (write_tiny(u.parent / "mine", **GROUND), rename_base(u, "mine")),
        NOT_BUNDLED.format("mine"),
    ),
    "a bundled folder without a manifest": (
        lambda b, _: (b / "ground" / MANIFEST).unlink(),
        NOT_BUNDLED.format("ground"),
    ),
    "a base with a base": (nest, "its base ground has a base itself, which no base may have."),
    "a damaged manifest of the base": (
        damage(MANIFEST, lambda _: b"{}"),
        "its base ground: manifest.json, name: is required.",
    ),
    "another edition": (
        replace_base,
        f"its base ground is another edition, with another {VECTORS}; {INSTALL}",
    ),
    "a base without a file": (
        drop_subwords,
        f"its base ground is another edition, without {NGRAMS}; {INSTALL}",
    ),
    "another checksum": (
        lambda _, u: change_manifest(u, lambda m: m["files"][NGRAMS].update(sha256="0" * 64)),
        f"its base ground is another edition, with another {NGRAMS}; {INSTALL}",
    ),
    "another size": (
        lambda _, u: change_manifest(u, lambda m: m["files"][INDEX].update(bytes=4)),
        f"its base ground is another edition, with another {INDEX}; {INSTALL}",
    ),
    "another dimension": (
        lambda _, u: change_manifest(u, lambda m: m.update(dimension=7)),
        f"its base ground: {VECTORS}: the shape differs from manifest.json.",
    ),
    "another dtype": (
        lambda _, u: change_manifest(
            u, lambda m: m.update(dtype="float32") or [m["files"].pop(s) for s in SCALE_FILES][:0]
        ),
        f"its base ground: {VECTORS} does not have the dtype float32.",
    ),
    "more words": (
        lambda _, u: change_manifest(u, lambda m: m.update(vocabulary_size=13)),
        f"its base ground: {INDEX}: the length does not fit the number of words.",
    ),
    "attention that is only in the base": (
        lambda b, u: shutil.move(path(u, ATTENTION), b / "ground"),
        f"{ATTENTION} cannot be read.",
    ),
    "a missing file of the base": (
        lambda b, _: path(b / "ground", VOCABULARY).unlink(),
        f"its base ground: {VOCABULARY} cannot be read.",
    ),
    "a pipe in the base": (
        lambda b, _: put_pipe(path(b / "ground", INDEX)),
        f"its base ground: {INDEX} cannot be read.",
    ),
    "a truncated file of the base": (
        damage(SUBWORDS, lambda content: content[:-1]),
        f"its base ground: {SUBWORDS}: the number of bytes differs from manifest.json.",
    ),
    "no base": (
        lambda _, u: change_manifest(u, lambda m: m.pop("base") and None),
        f"{VOCABULARY} cannot be read.",
    ),
}
SCALE_FILES = ("scales.npy", "subword_scales.npy")


@with_and_without_verify
@pytest.mark.parametrize("case", BROKEN)
def test_a_base_that_cannot_be_used_is_reported(bundled, upper, case, verify):
    break_it, expected = BROKEN[case]
    break_it(bundled, upper)
    message = read_error(upper, verify=verify)
    if case == "more words" and verify:
        expected = f"its base ground: {VOCABULARY}: the number of words differs from manifest.json."
    assert message.startswith(expected)
    status = Registry.of(upper.parent, "upper").state("upper")
    compared = "shape" in message or "dtype" in message or "number of words" in message
    assert status.status == ("unloaded" if compared else "broken")


def test_a_model_without_its_base_is_reported_when_it_is_loaded(bundled, upper):
    registry = Registry.of(upper.parent, "ground")
    before = registry.model("upper")
    replace_base(bundled, upper)
    assert registry.model("upper") is before
    with pytest.raises(ModelFolderError, match="its base ground is another edition"):
        Registry.of(upper.parent, "ground").model("upper")


def test_parameter_free_layers_leave_only_the_manifest(bundled):
    folder = write_upper(bundled.parent / "plain", layers=[PLAIN], word_bias=None)
    assert names_in(folder) == {MANIFEST}
    assert read_model(folder).manifest.base == "ground"
