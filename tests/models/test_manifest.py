"""Attacks on the manifest, and on its entries for other files."""

import os

import pytest

from polyseme.models.reader import NO_MANIFEST, read_manifest, read_model
from tests.models.damage import (
    FILES,
    MANIFEST,
    change_manifest,
    manifest_of,
    path,
    paths,
    read_error,
)


@pytest.mark.parametrize("name", [MANIFEST, *FILES])
def test_a_missing_file_and_what_is_no_file_are_named(quantized_folder, name):
    expected = NO_MANIFEST if name == MANIFEST else f"{name} cannot be read."
    file = path(quantized_folder, name)
    file.unlink()
    assert read_error(quantized_folder, verify=False) == expected
    os.mkfifo(file)  # reading it does not block
    assert read_error(quantized_folder, verify=False) == expected
    file.unlink()
    file.mkdir()
    if name != MANIFEST:
        size = file.stat().st_size
        change_manifest(quantized_folder, lambda m: m["files"][name].update(bytes=size))
    assert read_error(quantized_folder, verify=False).startswith(name)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_length_is_named(quantized_folder, name):
    file = path(quantized_folder, name)
    content = file.read_bytes()
    for changed in (content[:-1], content + b"\n", b""):
        file.write_bytes(changed)
        expected = f"{name}: the number of bytes differs from manifest.json."
        assert read_error(quantized_folder, verify=False) == expected


@pytest.mark.parametrize("name", FILES)
def test_the_checksum_of_a_file_is_compared_with_verify_only(quantized_folder, name):
    file = path(quantized_folder, name)
    change_manifest(quantized_folder, lambda m: m["files"][name].update(sha256="0" * 64))
    file.rename(path(quantized_folder, name))
    assert read_error(quantized_folder) == f"{name}: the checksum differs from manifest.json."
    assert len(read_model(quantized_folder).vocabulary) == 11


def test_a_renamed_folder_is_a_model_of_its_new_name(model_folder):
    moved = model_folder.rename(model_folder.parent / "other")
    assert manifest_of(moved)["name"] == "tiny"
    assert read_model(moved).manifest == read_manifest(moved)
    assert read_manifest(moved).name == "other"


@pytest.mark.parametrize("name", ["with space", ".hidden", "tiny\n", "x" * 65, "é"])
def test_a_folder_with_an_invalid_model_name_is_rejected(model_folder, name):
    moved = model_folder.rename(model_folder.parent / name)
    assert read_error(moved).startswith("the folder's name is not a valid model name: ")


@pytest.mark.parametrize(
    "content",
    [b"", b'{"format": "\xff"}', b"\x80\x04\x95\x00", b"[" * 100_000, b"{} {}"],
    ids=["empty", "not UTF-8", "a pickle", "deep", "two documents"],
)
def test_a_manifest_that_is_not_a_json_object_is_rejected(model_folder, content):
    (model_folder / MANIFEST).write_bytes(content)
    assert read_error(model_folder).startswith("manifest.json: is not well-formed JSON at line ")
    (model_folder / MANIFEST).write_bytes(b"[]")
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
    (("format",), "model2vec", ': must be "polyseme-model".'),
    (("format_version",), 2, ": must be 1."),
    (("dimension",), 0, ": must be at least 1."),
    (("dimension",), 1 << 40, ": "),
    (("vocabulary_size",), 10**18, ": "),
    (("dtype",), "object", ': must be "float16", "float32" or "int8".'),
    (("weights_dtype",), "int8", ': must be "float16" or "float32".'),
    (("heads",), 0, ": "),
    (("layers",), [], ": "),
    (("layers",), [{}] * 65, ": "),
    (("layers", 0, "residual", "share"), -1, ": "),
    (("layers", 0, "residual", "position_share"), INF, ": "),
    (("layers", 1, "norm_epsilon"), NAN, ": "),
    (("layers", 1, "norm_epsilon"), 0, ": "),
    (("quality",), {"wic": NAN}, ""),
    *((("name",), name, ": ") for name in ("../tiny", "/tmp/tiny", "", "tiny\n")),
    (("files", "vectors.npy", "sha256"), "x" * 64, ""),
    (("files", "vectors.npy", "bytes"), -1, ": "),
    *((("files", name), ENTRY, "") for name in ("../evil.npy", "/etc/passwd", "evil.pkl")),
    (("subwords", "min_n"), 0, ": "),
    (("subwords", "max_n"), 65, ": "),
    (("subwords",), {"min_n": 4, "max_n": 3}, ": min_n must not exceed max_n."),
    (("tensors",), {"word_bias": "11"}, ".word_bias: "),
]


@pytest.mark.parametrize(("steps", "value", "problem"), WRONG_FIELDS, ids=lambda one: str(one)[:40])
def test_an_invalid_field_is_named(model_folder, steps, value, problem):
    def change(document):
        for step in steps[:-1]:
            document = document[step]
        document[steps[-1]] = value

    change_manifest(model_folder, change)
    expected = f"manifest.json, {'.'.join(map(str, steps))}{problem}"
    assert read_error(model_folder, verify=False).startswith(expected)


LISTED = "manifest.json: the manifest must list vectors.npy, vocabulary.txt and index.npy."
BOTH = "manifest.json: the manifest must have both subwords and subwords.npy, or neither."


def drop_file(name, **changes):
    return lambda m: m["files"].pop(name) and m.update(changes)


CONTRADICTIONS = [
    *(
        (lambda m, n=name: m.pop(n) and None, f"manifest.json, {name}: is required.")
        for name in ("name", "dimension", "vocabulary_size", "dtype", "cased", "files")
    ),
    *((drop_file(name), LISTED) for name in ("vectors.npy", "vocabulary.txt", "index.npy")),
    (drop_file("subwords.npy"), BOTH),
    (lambda m: m.pop("subwords") and None, BOTH),
    (
        drop_file("attention.safetensors", tensors={}, heads=2),
        "manifest.json: without weights, the number of heads must divide the dimension.",
    ),
    (
        drop_file("attention.safetensors"),
        "manifest.json: the manifest lists tensors but not attention.safetensors.",
    ),
]


@pytest.mark.parametrize(("change", "expected"), CONTRADICTIONS)
def test_a_manifest_that_contradicts_itself_or_the_files_is_rejected(
    model_folder, change, expected
):
    change_manifest(model_folder, change)
    assert read_error(model_folder) == expected


def test_a_folder_of_an_earlier_version_says_so(model_folder):
    for name, file in paths(model_folder).items():
        file.rename(model_folder / name)
    assert read_error(model_folder) == (
        "vocabulary.txt has no checksum in its name: an earlier version of Polyseme wrote the"
        " model; import or train it again."
    )
