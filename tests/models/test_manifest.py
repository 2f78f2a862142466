"""Attacks on the manifest, and on its entries for other files."""

import json
import os
from pathlib import Path

import pytest

from polyseme.models.reader import NO_MANIFEST, read_manifest, read_model
from tests.models.damage import (
    ATTENTION,
    INDEX,
    MANIFEST,
    SUBWORDS,
    VECTORS,
    VOCABULARY,
    change_manifest,
    manifest_of,
    said_of,
    sign,
)

BOTH = pytest.mark.parametrize("verify", [True, False])
FILES = (VECTORS, VOCABULARY, ATTENTION, INDEX, SUBWORDS)
CANNOT_BE_READ = {MANIFEST: NO_MANIFEST} | {name: f"{name} cannot be read." for name in FILES}


@BOTH
def test_a_whole_model_is_read(whole, verify):
    assert len(read_model(whole, verify=verify).vocabulary) == 11


@BOTH
@pytest.mark.parametrize("name", [MANIFEST, *FILES])
def test_a_missing_file_is_named(whole, name, verify):
    (whole / name).unlink()
    assert said_of(whole, verify=verify) == CANNOT_BE_READ[name]


@BOTH
@pytest.mark.parametrize("name", [MANIFEST, *FILES])
def test_a_folder_in_the_place_of_a_file_is_rejected(whole, name, verify):
    (whole / name).unlink()
    (whole / name).mkdir()
    if name != MANIFEST:
        size = (whole / name).stat().st_size
        change_manifest(whole, lambda m: m["files"][name].update(bytes=size))
    assert said_of(whole, verify=verify).startswith(name)


@BOTH
@pytest.mark.parametrize("name", [MANIFEST, *FILES])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(whole, name, verify):
    (whole / name).unlink()
    os.mkfifo(whole / name)
    assert said_of(whole, verify=verify) == CANNOT_BE_READ[name]


@BOTH
@pytest.mark.parametrize("change", [lambda x: x[:-1], lambda x: x + b"\n", lambda _: b""])
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_length_is_named(whole, name, change, verify):
    content = (whole / name).read_bytes()
    (whole / name).write_bytes(change(content))
    expected = f"{name}: the number of bytes differs from manifest.json."
    assert said_of(whole, verify=verify) == expected


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_other_bytes_is_named(whole, name):
    content = bytearray((whole / name).read_bytes())
    content[-2] ^= 1
    (whole / name).write_bytes(content)
    assert said_of(whole) == f"{name}: the checksum differs from manifest.json."


@pytest.mark.parametrize("name", FILES)
def test_without_verifying_the_checksum_is_not_read(whole, name):
    change_manifest(whole, lambda m: m["files"][name].update(sha256="0" * 64))
    assert said_of(whole) == f"{name}: the checksum differs from manifest.json."
    assert len(read_model(whole, verify=False).vocabulary) == 11


@BOTH
def test_a_renamed_folder_is_a_model_of_its_new_name(whole, verify):
    moved = whole.rename(whole.parent / "other")
    assert manifest_of(moved)["name"] == "tiny"
    assert read_manifest(moved).name == "other"
    assert read_model(moved, verify=verify).manifest.name == "other"


def test_a_relative_folder_has_the_name_of_the_directory(whole, monkeypatch):
    monkeypatch.chdir(whole)
    assert read_manifest(Path()).name == "tiny"


@pytest.mark.parametrize("name", ["with space", ".hidden", "tiny\n", "x" * 65, "é"])
def test_a_folder_with_an_invalid_model_name_is_rejected(whole, name):
    moved = whole.rename(whole.parent / name)
    assert said_of(moved).startswith("the folder's name is not a valid model name: ")


NOT_JSON = {
    "empty": b"",
    "half": b'{"format": "polyseme-model"',
    "not UTF-8": b'{"format": "\xff"}',
    "a pickle": b"\x80\x04\x95\x00",
    "zeros": b"\x00" * 100,
    "deep": b"[" * 100_000,
    "deep objects": b'{"training":' + b'{"a":' * 100_000,
    "two documents": b"{} {}",
}


@pytest.mark.parametrize("case", NOT_JSON)
def test_a_manifest_that_is_not_json_is_rejected(whole, case):
    (whole / MANIFEST).write_bytes(NOT_JSON[case])
    assert said_of(whole).startswith("manifest.json: is not well-formed JSON at line ")


@pytest.mark.parametrize("document", [[], 3, "tiny", None, True])
def test_a_manifest_must_be_an_object(whole, document):
    change_manifest(whole, lambda _: None)
    (whole / MANIFEST).write_text(json.dumps(document))
    assert said_of(whole) == "manifest.json: must be an object."


def test_a_manifest_of_more_than_a_mebibyte_is_not_read(whole):
    content = (whole / MANIFEST).read_bytes()
    (whole / MANIFEST).write_bytes(content + b" " * ((1 << 20) - len(content)))
    assert read_model(whole)
    (whole / MANIFEST).write_bytes(content + b" " * ((1 << 20) - len(content) + 1))
    assert said_of(whole) == "manifest.json is larger than 1 MiB."


ENTRY = {"sha256": "0" * 64, "bytes": 1}
WRONG_FIELDS = {
    "an unknown field": (("colour",), "red", "colour: is not a known field."),
    "an unknown field of a layer": (
        ("layers", 0, "colour"),
        "red",
        "layers.0.colour: is not a known field.",
    ),
    "another format": (("format",), "model2vec", 'format: must be "polyseme-model".'),
    "another version": (("format_version",), 2, "format_version: must be 1."),
    "no dimension": (("dimension",), 0, "dimension: must be at least 1."),
    "a huge dimension": (("dimension",), 1 << 40, "dimension: "),
    "a huge vocabulary": (("vocabulary_size",), 10**18, "vocabulary_size: "),
    "a number too long for an integer": (("vocabulary_size",), 10**400, "vocabulary_size: "),
    "another dtype": (
        ("dtype",),
        "object",
        'dtype: must be "float16", "float32" or "int8".',
    ),
    "no heads": (("heads",), 0, "heads: "),
    "no layers": (("layers",), [], "layers: "),
    "too many layers": (("layers",), [{}] * 65, "layers: "),
    "a NaN share": (("layers", 0, "residual", "share"), float("nan"), "layers.0.residual.share: "),
    "an infinite share": (
        ("layers", 0, "residual", "position_share"),
        float("inf"),
        "layers.0.residual.position_share: ",
    ),
    "a negative share": (("layers", 0, "residual", "share"), -1, "layers.0.residual.share: "),
    "a NaN epsilon": (("layers", 1, "norm_epsilon"), float("nan"), "layers.1.norm_epsilon: "),
    "no epsilon": (("layers", 1, "norm_epsilon"), 0, "layers.1.norm_epsilon: "),
    "a NaN quality": (("quality",), {"wic": float("nan")}, "quality"),
    "a NaN deep in the training": (("training",), {"a": [{"b": float("-inf")}]}, "training"),
    "a name that climbs": (("name",), "../tiny", "name: "),
    "an absolute name": (("name",), "/tmp/tiny", "name: "),
    "an empty name": (("name",), "", "name: "),
    "a name with a line feed": (("name",), "tiny\n", "name: "),
    "a checksum that is none": (("files", VECTORS, "sha256"), "x" * 64, f"files.{VECTORS}.sha256"),
    "a negative size": (("files", VECTORS, "bytes"), -1, f"files.{VECTORS}.bytes: "),
    "a file that climbs": (("files", "../evil.npy"), ENTRY, "files."),
    "an absolute file": (("files", "/etc/passwd"), ENTRY, "files./etc/passwd"),
    "a further file": (("files", "evil.pkl"), ENTRY, "files.evil.pkl"),
    "n-grams of nothing": (("subwords", "min_n"), 0, "subwords.min_n: "),
    "n-grams too long": (("subwords", "max_n"), 65, "subwords.max_n: "),
    "n-grams from long to short": (
        ("subwords",),
        {"min_n": 4, "max_n": 3},
        "subwords: min_n must not exceed max_n.",
    ),
    "half of the n-grams": (("subwords",), {"min_n": 3}, "subwords.max_n: is required."),
    "tensors that are no shapes": (("tensors",), {"word_bias": "11"}, "tensors.word_bias: "),
}


@BOTH
@pytest.mark.parametrize("case", WRONG_FIELDS)
def test_an_invalid_field_is_named(whole, case, verify):
    path, value, expected = WRONG_FIELDS[case]

    def change(document):
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    change_manifest(whole, change)
    assert said_of(whole, verify=verify).startswith(f"manifest.json, {expected}")


@pytest.mark.parametrize(
    "name", ["name", "dimension", "vocabulary_size", "dtype", "cased", "files"]
)
def test_a_missing_field_is_named(whole, name):
    change_manifest(whole, lambda m: {k: v for k, v in m.items() if k != name})
    assert said_of(whole) == f"manifest.json, {name}: is required."


@pytest.mark.parametrize("name", [VECTORS, VOCABULARY])
def test_vectors_and_vocabulary_have_to_be_named(whole, name):
    change_manifest(whole, lambda m: m["files"].pop(name) and None)
    expected = "the manifest must list vectors.npy and vocabulary.txt"
    assert said_of(whole) == f"manifest.json: {expected}."


def test_tensors_without_their_file_are_rejected(whole):
    change_manifest(whole, lambda m: m["files"].pop(ATTENTION) and None)
    expected = "the manifest lists tensors but not attention.safetensors"
    assert said_of(whole) == f"manifest.json: {expected}."


BOTH_OR_NEITHER = (
    "manifest.json: the manifest must have both subwords and subwords.npy, or neither."
)


@pytest.mark.parametrize(
    "change", [lambda m: m["files"].pop(SUBWORDS), lambda m: m.pop("subwords")]
)
def test_subwords_need_their_table_and_the_reverse(whole, change):
    change_manifest(whole, lambda m: change(m) and None)
    assert said_of(whole) == BOTH_OR_NEITHER


def test_without_weights_the_heads_have_to_divide_the_dimension(whole):
    def change(document):
        del document["files"][ATTENTION]
        document.update(tensors={}, heads=2)

    change_manifest(whole, change)
    expected = "without weights, the number of heads must divide the dimension"
    assert said_of(whole) == f"manifest.json: {expected}."


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("dimension", 7, "vectors.npy: the shape differs from manifest.json."),
        (
            "vocabulary_size",
            13,
            "vocabulary.txt: the number of words differs from manifest.json.",
        ),
        ("dtype", "float16", "vectors.npy does not have the dtype float16."),
        (
            "tensors",
            {"word_bias": [11]},
            "attention.safetensors: the set of tensors differs from manifest.json.",
        ),
    ],
)
def test_the_manifest_is_compared_with_the_files(whole, field, value, expected):
    change_manifest(whole, lambda m: m.update({field: value}))
    assert said_of(whole) == expected


def test_a_manifest_is_read_without_the_other_files(whole):
    for name in FILES:
        (whole / name).unlink()
    assert read_manifest(whole).name == "tiny"


def test_signing_makes_a_changed_file_pass_its_checksum(whole):
    content = bytearray((whole / VECTORS).read_bytes())
    content[-1] ^= 0x80
    (whole / VECTORS).write_bytes(content)
    sign(whole)
    assert manifest_of(whole)["files"][VECTORS]["bytes"] == len(content)
    assert read_model(whole)
