"""Models of known versions, damage to their files, and a slow, simple index."""

import hashlib
import io
import json
import re
from zlib import crc32

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from polyseme.errors import ModelFolderError
from polyseme.models.reader import read_model
from tests.tiny import VECTORS, write_tiny

MANIFEST = "manifest.json"
FILES = (
    *("vectors.npy", "scales.npy", "vocabulary.txt", "index.npy"),
    *("subwords.npy", "subword_scales.npy", "ngrams.npy", "attention.safetensors"),
)
"""The files of `quantized_folder` without its manifest."""

with_and_without_verify = pytest.mark.parametrize("verify", [True, False])


def read_error(folder, *, verify=True):
    """Read a folder that must be rejected; return the message without checksums of file names."""
    with pytest.raises(ModelFolderError) as caught:
        read_model(folder, verify=verify)
    message = caught.value.detail
    assert message.endswith(".")
    assert "\n" not in message
    assert str(folder.parent) not in message
    return re.sub(r"-[0-9a-f]{16}\b", "", message)


def scales_error(scales, table):
    """The error for missing scales, or for scales without an int8 table."""
    return f"manifest.json: the manifest must list {scales} if {table} is int8, and only then."


def manifest_of(folder):
    return json.loads((folder / MANIFEST).read_text("utf-8"))


def change_manifest(folder, change):
    """Write the manifest that `change` modifies in place, or another one that it returns."""
    document = manifest_of(folder)
    document = change(document) or document
    (folder / MANIFEST).write_text(json.dumps(document), "utf-8")


def path(folder, name):
    """The path of a file, whose name contains the checksum in the manifest."""
    if name == MANIFEST:
        return folder / MANIFEST
    stem, _, suffix = name.partition(".")
    return folder / f"{stem}-{manifest_of(folder)['files'][name]['sha256'][:16]}.{suffix}"


def paths(folder):
    """The path of each file in the manifest, by name."""
    return {name: path(folder, name) for name in manifest_of(folder)["files"]}


def replace(folder, name, content):
    """Replace a file, its checksum in its name and in the manifest, and its size."""
    if name in manifest_of(folder)["files"]:
        path(folder, name).unlink()
    entry = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    change_manifest(folder, lambda document: document["files"].update({name: entry}))
    path(folder, name).write_bytes(content)


def drop(folder, name):
    """Remove a file and its entry in the manifest."""
    path(folder, name).unlink()
    change_manifest(folder, lambda document: document["files"].pop(name) and None)


def change_tensors(folder, change):
    """Modify the tensors with `change`, and update the manifest."""
    tensors = {k: v.copy() for k, v in load_file(path(folder, "attention.safetensors")).items()}
    change(tensors)
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    change_manifest(folder, lambda document: document.update(tensors=shapes))
    replace(folder, "attention.safetensors", save(tensors))


def npy(header, data=b"", version=1, padding=0):
    """An .npy file with a given header."""
    text = header.encode("latin1")
    text += b" " * (-(len(text) + 11) % 64 + padding) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2, "little") + text + data


def safetensors(entries, data=b"", length=None):
    """A safetensors file with a given header."""
    header = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    length = len(header) if length is None else length
    return length.to_bytes(8, "little") + header + data


def saved(array, **options):
    """An array as NumPy saves it."""
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def write(folder, version):
    """Write a version of a model; an existing one is replaced."""
    return write_tiny(folder, vectors=VECTORS * version, source=f"version {version}")


def write_broken(folder):
    """Replace a model by one whose vectors are truncated."""
    path(write(folder, 9), "vectors.npy").write_bytes(b"x")


def version_of(model):
    """The version of a model, which its manifest and its vectors must agree on."""
    version = int(model.vectors[0, 0])
    assert model.manifest.source == f"version {version}"
    return version


def snapshot(folder):
    """Every file below a folder with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def zeros(count, dtype="<f4"):
    return np.zeros(count, dtype).tobytes()


def index_of(text):
    """The contents of `index.npy` without keys: starts, firsts and rows."""
    words = text.split(b"\n")[:-1]
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word) + 1)
    buckets = [[] for _ in range(len(words) + 1 - len(words) % 2)]
    for row, word in enumerate(words):
        buckets[crc32(word) % len(buckets)].append(row)
    firsts = [0]
    for bucket in buckets:
        firsts.append(firsts[-1] + len(bucket))
    return np.array([*starts, *firsts, *(row for bucket in buckets for row in bucket)], "<u4")
