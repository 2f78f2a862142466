"""Attacks on the manifest, and on its entries for other files."""

import json
import os

import pytest

from polyseme.models.reader import NO_MANIFEST, read_manifest, read_model
from tests.models.damage import (
    ATTENTION,
    FILES,
    INDEX,
    MANIFEST,
    SUBWORDS,
    VECTORS,
    VOCABULARY,
    change_manifest,
    manifest_of,
    path,
    paths,
    read_error,
    with_and_without_verify,
)

CANNOT_BE_READ = {MANIFEST: NO_MANIFEST} | {name: f"{name} cannot be read." for name in FILES}


@with_and_without_verify
@pytest.mark.parametrize("name", [MANIFEST, *FILES])
def test_a_missing_file_and_a_named_pipe_in_its_place_are_named(quantized_folder, name, verify):
    file = path(quantized_folder, name)
    file.unlink()
    assert read_error(quantized_folder, verify=verify) == CANNOT_BE_READ[name]
    os.mkfifo(file)  # reading it does not block
    assert read_error(quantized_folder, verify=verify) == CANNOT_BE_READ[name]


@with_and_without_verify
@pytest.mark.parametrize("name", [MANIFEST, *FILES])
def test_a_folder_in_place_of_a_file_is_rejected(quantized_folder, name, verify):
    file = path(quantized_folder, name)
    file.unlink()
    file.mkdir()
    if name != MANIFEST:
        size = file.stat().st_size
        change_manifest(quantized_folder, lambda m: m["files"][name].update(bytes=size))
    assert read_error(quantized_folder, verify=verify).startswith(name)


@with_and_without_verify
@pytest.mark.parametrize("change", [lambda x: x[:-1], lambda x: x + b"\n", lambda _: b""])
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_length_is_named(quantized_folder, name, change, verify):
    file = path(quantized_folder, name)
    file.write_bytes(change(file.read_bytes()))
    expected = f"{name}: the number of bytes differs from manifest.json."
    assert read_error(quantized_folder, verify=verify) == expected


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_other_bytes_is_named(quantized_folder, name):
    file = path(quantized_folder, name)
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)
    assert read_error(quantized_folder) == f"{name}: the checksum differs from manifest.json."


@pytest.mark.parametrize("name", FILES)
def test_without_verify_the_checksum_is_not_compared(quantized_folder, name):
    file = path(quantized_folder, name)
    change_manifest(quantized_folder, lambda m: m["files"][name].update(sha256="0" * 64))
    file.rename(path(quantized_folder, name))
    assert read_error(quantized_folder) == f"{name}: the checksum differs from manifest.json."
    assert len(read_model(quantized_folder).vocabulary) == 11


@with_and_without_verify
def test_a_renamed_folder_is_a_model_of_its_new_name(model_folder, verify):
    moved = model_folder.rename(model_folder.parent / "other")
    assert manifest_of(moved)["name"] == "tiny"
    assert read_manifest(moved).name == "other"
    assert read_model(moved, verify=verify).manifest.name == "other"


@pytest.mark.parametrize("name", ["with space", ".hidden", "tiny\n", "x" * 65, "é"])
def test_a_folder_with_an_invalid_model_name_is_rejected(model_folder, name):
    moved = model_folder.rename(model_folder.parent / name)
    assert read_error(moved).startswith("the folder's name is not a valid model name: ")


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
def test_a_manifest_that_is_not_json_is_rejected(model_folder, case):
    (model_folder / MANIFEST).write_bytes(NOT_JSON[case])
    assert read_error(model_folder).startswith("manifest.json: is not well-formed JSON at line ")


@pytest.mark.parametrize("document", [[], 3, "tiny", None, True])
def test_a_manifest_must_be_an_object(model_folder, document):
    (model_folder / MANIFEST).write_text(json.dumps(document))
    assert read_error(model_folder) == "manifest.json: must be an object."


def test_a_manifest_of_more_than_a_mebibyte_is_not_read(model_folder):
    content = (model_folder / MANIFEST).read_bytes()
    (model_folder / MANIFEST).write_bytes(content + b" " * ((1 << 20) - len(content)))
    assert read_model(model_folder)
    (model_folder / MANIFEST).write_bytes(content + b" " * ((1 << 20) - len(content) + 1))
    assert read_error(model_folder) == "manifest.json is larger than 1 MiB."


ENTRY = {"sha256": "0" * 64, "bytes": 1}
INF, NAN = float("inf"), float("nan")
WRONG_FIELDS = [
    (("colour",), "red", ": is not a known field."),
    (("layers", 0, "colour"), "red", ": is not a known field."),
    (("format",), "model2vec", ': must be "polyseme-model".'),
    (("format_version",), 2, ": must be 1."),
    (("dimension",), 0, ": must be at least 1."),
    (("dimension",), 1 << 40, ": "),
    (("vocabulary_size",), 10**18, ": "),
    (("vocabulary_size",), 10**400, ": "),
    (("dtype",), "object", ': must be "float16", "float32" or "int8".'),
    (("weights_dtype",), "int8", ': must be "float16" or "float32".'),
    (("heads",), 0, ": "),
    (("layers",), [], ": "),
    (("layers",), [{}] * 65, ": "),
    (("layers", 0, "residual", "share"), NAN, ": "),
    (("layers", 0, "residual", "share"), -1, ": "),
    (("layers", 0, "residual", "position_share"), INF, ": "),
    (("layers", 1, "norm_epsilon"), NAN, ": "),
    (("layers", 1, "norm_epsilon"), 0, ": "),
    (("quality",), {"wic": NAN}, ""),
    (("training",), {"a": [{"b": -INF}]}, ""),
    *((("name",), name, ": ") for name in ("../tiny", "/tmp/tiny", "", "tiny\n")),
    (("files", VECTORS, "sha256"), "x" * 64, ""),
    (("files", VECTORS, "bytes"), -1, ": "),
    *((("files", name), ENTRY, "") for name in ("../evil.npy", "/etc/passwd", "evil.pkl")),
    (("subwords", "min_n"), 0, ": "),
    (("subwords", "max_n"), 65, ": "),
    (("subwords",), {"min_n": 4, "max_n": 3}, ": min_n must not exceed max_n."),
    (("tensors",), {"word_bias": "11"}, ".word_bias: "),
]


@with_and_without_verify
@pytest.mark.parametrize(("steps", "value", "problem"), WRONG_FIELDS, ids=lambda one: str(one)[:40])
def test_an_invalid_field_is_named(model_folder, steps, value, problem, verify):
    def change(document):
        for step in steps[:-1]:
            document = document[step]
        document[steps[-1]] = value

    change_manifest(model_folder, change)
    expected = f"manifest.json, {'.'.join(map(str, steps))}{problem}"
    assert read_error(model_folder, verify=verify).startswith(expected)


@pytest.mark.parametrize(
    "name", ["name", "dimension", "vocabulary_size", "dtype", "cased", "files"]
)
def test_a_missing_field_is_named(model_folder, name):
    change_manifest(model_folder, lambda m: {k: v for k, v in m.items() if k != name})
    assert read_error(model_folder) == f"manifest.json, {name}: is required."


@pytest.mark.parametrize("name", [VECTORS, VOCABULARY, INDEX])
def test_vectors_vocabulary_and_index_must_be_listed(model_folder, name):
    change_manifest(model_folder, lambda m: m["files"].pop(name) and None)
    expected = "the manifest must list vectors.npy, vocabulary.txt and index.npy"
    assert read_error(model_folder) == f"manifest.json: {expected}."


BOTH_OR_NEITHER = (
    "manifest.json: the manifest must have both subwords and subwords.npy, or neither."
)


@pytest.mark.parametrize(
    "change", [lambda m: m["files"].pop(SUBWORDS), lambda m: m.pop("subwords")]
)
def test_subwords_and_their_table_need_each_other(model_folder, change):
    change_manifest(model_folder, lambda m: change(m) and None)
    assert read_error(model_folder) == BOTH_OR_NEITHER


def test_without_weights_the_heads_must_divide_the_dimension(model_folder):
    def change(document):
        del document["files"][ATTENTION]
        document.update(tensors={}, heads=2)

    change_manifest(model_folder, change)
    expected = "without weights, the number of heads must divide the dimension"
    assert read_error(model_folder) == f"manifest.json: {expected}."


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("dimension", 7, "vectors.npy: the shape differs from manifest.json."),
        ("vocabulary_size", 13, "vocabulary.txt: the number of words differs from manifest.json."),
        ("dtype", "float16", "vectors.npy does not have the dtype float16."),
        (
            "tensors",
            {"word_bias": [11]},
            "attention.safetensors: the set of tensors differs from manifest.json.",
        ),
    ],
)
def test_the_manifest_is_compared_with_the_files(model_folder, field, value, expected):
    change_manifest(model_folder, lambda m: m.update({field: value}))
    assert read_error(model_folder) == expected


@with_and_without_verify
def test_a_folder_of_an_earlier_version_says_so(model_folder, verify):
    for name, file in paths(model_folder).items():
        file.rename(model_folder / name)
    assert read_error(model_folder, verify=verify) == (
        "vocabulary.txt has no checksum in its name: an earlier version of Polyseme wrote the"
        " model; import or train it again."
    )


def test_tensors_without_their_file_are_rejected(model_folder):
    change_manifest(model_folder, lambda m: m["files"].pop(ATTENTION) and None)
    expected = "the manifest lists tensors but not attention.safetensors"
    assert read_error(model_folder) == f"manifest.json: {expected}."
