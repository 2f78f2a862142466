"""A model that uses the tables of a bundled model, its base."""

import re
import shutil
from functools import partial
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
from tests.engine.cases import arrays_of
from tests.models.conftest import KNOWN_NGRAMS
from tests.models.damage import (
    MANIFEST,
    change_manifest,
    manifest_of,
    path,
    paths,
    read_error,
    snapshot,
    with_and_without_verify,
)
from tests.tiny import PLAIN, QUANTIZED, SUBWORDS, WORDS, full_layer, write_tiny

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
    assert names_in(upper) == {MANIFEST, "attention.safetensors"}
    document, ground = manifest_of(upper), manifest_of(bundled / "ground")
    assert document["base"] == "ground"
    for name in TABLES:
        assert document["files"][name] == ground["files"][name]
    for verify in (True, False):
        model = read_model(upper, verify=verify)
        for rows, kept in ((model.rows, QUANTIZED), (model.subwords.table, KNOWN_NGRAMS.table)):
            for mapped, array in zip(stored(rows), stored(kept), strict=True):
                assert np.array_equal(mapped, array)
                assert Path(mapped.base.filename).parent == bundled / "ground"
        assert [model.vocabulary.word(row) for row in range(11)] == list(WORDS)
        assert model.vocabulary.row("river") == 4
        assert len(model.layers) == 2


def test_a_model_with_tables_of_its_own_is_complete(bundled, upper):
    shutil.copytree(upper, bundled / "upper")
    for changes, own in (
        ({"vectors": OTHER}, True),
        ({"words": (*WORDS[:-1], "END")}, True),
        ({"subwords": SUBWORDS}, True),
        ({"base": "nothing"}, True),
        ({"base": "upper"}, True),  # it has a base itself
        ({"subwords": None}, False),  # a base may have more than a model uses
        ({"layers": [PLAIN], "word_bias": None}, False),  # it has only a manifest
    ):
        write_upper(upper, **changes)
        assert (names_in(upper) > {"vectors.npy", "vocabulary.txt", "index.npy"}) == own
        assert read_model(upper).manifest.base == (None if own else "ground")


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
    assert names_in(upper) == {MANIFEST, "attention.safetensors", "senses.safetensors"}
    assert read_model(upper).manifest.base == "ground"


def test_a_saved_model_is_complete_and_has_the_same_files_and_results(bundled, upper, tmp_path):
    model = LocalModel(read_model(upper))
    before, checksum = manifest_of(upper)["files"], read_manifest(upper).checksum
    folder = model.save("complete", models_dir=tmp_path / "elsewhere")
    shutil.rmtree(bundled)
    assert names_in(folder) == {MANIFEST, *before}
    assert (manifest_of(folder)["files"], read_manifest(folder).checksum) == (before, checksum)
    complete = read_model(folder)
    assert complete.manifest.base is None
    texts = ["apple bank river", "gnu money did n't end"]
    for one, other in zip(model.encode(texts), LocalModel(complete).encode(texts), strict=True):
        assert np.array_equal(one.contextual, other.contextual)


def test_weights_of_16_bits_are_rounded_and_kept(upper, tmp_path):
    before = read_model(upper)
    rewrite_model(upper, before, weights_dtype="float16")
    document = manifest_of(upper)
    assert document["weights_dtype"] == "float16"
    for name, tensor in load_file(path(upper, "attention.safetensors")).items():
        assert tensor.dtype == np.float16
        assert list(tensor.shape) == document["tensors"][name]
    model = read_model(upper)
    for read, wide in zip(arrays_of(model.layers), arrays_of(before.layers), strict=True):
        rounded = wide.astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(read, rounded, strict=True)
    complete = LocalModel(model).save("complete", models_dir=tmp_path / "elsewhere")
    assert manifest_of(complete)["files"] == document["files"]


def test_a_weight_that_16_bits_cannot_represent_is_rejected(upper):
    before = snapshot(upper)
    with pytest.raises(ModelFolderError, match="word_bias: a value is not finite"):
        rewrite_model(upper, read_model(upper), word_bias=np.full(11, 7e4), weights_dtype="float16")
    assert snapshot(upper) == before


def test_the_size_of_a_model_is_that_of_its_own_files(bundled, upper):
    document = manifest_document(read_manifest(upper))
    assert document["base"] == "ground"
    assert document["bytes"] == path(upper, "attention.safetensors").stat().st_size
    document = manifest_document(read_manifest(bundled / "ground"))
    files = sum(file.stat().st_size for file in paths(bundled / "ground").values())
    assert (document["bytes"], document["base"]) == (files, None)


def nest(bundled, _upper):
    """Give the base the base `lowest`."""
    shutil.copytree(bundled / "ground", bundled / "lowest")
    change_manifest(bundled / "ground", lambda m: m.update(base="lowest"))


def replace_base(bundled, _upper, **changes):
    """Replace the base by another edition, with files of the same sizes."""
    write_tiny(bundled / "ground", **{**GROUND, **(changes or {"vectors": OTHER})})


def damage(name, change):
    """A function that changes the bytes of a file of the base."""

    def apply(bundled, _upper):
        file = path(bundled / "ground", name)
        file.write_bytes(change(file.read_bytes()))

    return apply


def manifest(change):
    """A function that changes the manifest of the upper model."""
    return lambda _, upper: change_manifest(upper, lambda m: change(m) and None)


def base(name):
    """A function that sets the base of the upper model."""
    return manifest(lambda m: m.update(base=name))


def without_scales(document):
    for name in ("scales.npy", "subword_scales.npy"):
        del document["files"][name]
    document["dtype"] = "float32"


NO_BASE = "its base {} is no bundled model; " + INSTALL
EDITION = "its base ground is another edition, {}; " + INSTALL
BROKEN = [
    *(
        (base(name), "manifest.json, base: ")
        for name in ("../bundled/ground", "ground/.", "ground\n", "", ["ground"])
    ),
    *((base(name), NO_BASE.format(name)) for name in ("nothing", "upper", "mine")),
    (lambda b, _: (b / "ground" / MANIFEST).unlink(), NO_BASE.format("ground")),
    (nest, "its base ground has a base itself, which no base may have."),
    (damage(MANIFEST, lambda _: b"{}"), "its base ground: manifest.json, name: is required."),
    (replace_base, EDITION.format("with another vectors.npy")),
    (partial(replace_base, subwords=None), EDITION.format("without ngrams.npy")),
    (
        manifest(lambda m: m["files"]["index.npy"].update(bytes=4)),
        EDITION.format("with another index.npy"),
    ),
    (
        lambda b, u: shutil.move(path(u, "attention.safetensors"), b / "ground"),
        "attention.safetensors cannot be read.",
    ),
    (
        lambda b, _: path(b / "ground", "vocabulary.txt").unlink(),
        "its base ground: vocabulary.txt cannot be read.",
    ),
    (
        damage("subwords.npy", lambda content: content[:-1]),
        "its base ground: subwords.npy: the number of bytes differs from manifest.json.",
    ),
    (manifest(lambda m: m.pop("base")), "vocabulary.txt cannot be read."),
]
UNFIT = [
    (
        manifest(lambda m: m.update(dimension=7)),
        ["vectors.npy: the shape differs from manifest.json."] * 2,
    ),
    (manifest(without_scales), ["vectors.npy does not have the dtype float32."] * 2),
    (
        manifest(lambda m: m.update(vocabulary_size=13)),
        [
            "index.npy: the length does not fit the number of words.",
            "vocabulary.txt: the number of words differs from manifest.json.",
        ],
    ),
]
"""Manifests that fit the sizes of files only, and the problems without and with checks."""


@pytest.mark.parametrize(("change", "expected"), BROKEN)
def test_a_base_that_cannot_be_used_is_reported(bundled, upper, change, expected):
    write_tiny(upper.parent / "mine", **GROUND)  # a model that is not bundled is no base
    change(bundled, upper)
    assert read_error(upper, verify=False).startswith(expected)
    assert Registry.of(upper.parent, "upper").state("upper").status == "broken"


@with_and_without_verify
@pytest.mark.parametrize(("change", "problems"), UNFIT)
def test_a_base_of_other_shapes_is_reported(bundled, upper, change, problems, verify):
    change(bundled, upper)
    assert read_error(upper, verify=verify) == f"its base ground: {problems[verify]}"
    assert Registry.of(upper.parent, "upper").state("upper").status == "unloaded"


def test_a_model_without_its_base_is_reported_when_it_is_loaded(bundled, upper):
    registry = Registry.of(upper.parent, "ground")
    before = registry.model("upper")
    replace_base(bundled, upper)
    assert registry.model("upper") is before
    with pytest.raises(ModelFolderError, match="its base ground is another edition"):
        Registry.of(upper.parent, "ground").model("upper")
