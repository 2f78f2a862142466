"""Files in .gz, .bz2, .xz and .zip: contents are read, and harmful archives rejected."""

import bz2
import gzip
import io
import lzma
import os

import numpy as np
import pytest

from tests.importing.files import PACKINGS, VECTORS, WORDS, archive, fasttext, packed, rows
from tests.importing.test_damaged_files import A_TABLE, ARRAY

pytestmark = pytest.mark.slow

DAMAGED = "The file is damaged or truncated: it cannot be decompressed."
BAD_ZIP = "The .zip is damaged, encrypted or compressed with an unsupported method."
ZIP = archive({"vectors": rows()})
LINES = b"".join(b"w%d" % number + b" 0" * 20_000 + b"\n" for number in range(1800))
"""72 MB of repetitive rows, which compress to less than a hundredth."""
BLANK = (b" " * (1 << 20) + b"\n") * 80
"""80 MB of empty lines, which any file may have at its end."""


def test_several_streams_in_one_file_are_read_one_after_the_other(importer):
    first, second = rows(WORDS[:2], VECTORS[:2]), rows(WORDS[2:], VECTORS[2:])
    for compress in (gzip.compress, bz2.compress, lzma.compress):
        assert importer.read(compress(first) + compress(second))[0] == list(WORDS)


TWO = archive({"readme": b"Nothing", "folder/": b"", "folder/glove.7B.txt": rows()})
OF_MACOS = {"__MACOSX/": b"", "__MACOSX/._glove.txt": b"mac", "._x": b"mac", ".DS_Store": b"mac"}
NAMES = "folder/glove.7B.txt, readme"
NOT_ONE = [
    (TWO, [], f"The .zip has 2 files ({NAMES}); --member selects one."),
    (TWO, ["--member", "gnu"], f"The .zip has no member of this name; it has {NAMES}."),
    (gzip.compress(rows()), ["--member", "a"], "The file is not a .zip, so it has no members."),
    *((archive(none), [], "The .zip has no files.") for none in ({}, {"folder/": b""}, OF_MACOS)),
    (
        archive({"a\nb\x1b[31m": rows(), "c" * 100: rows()}),
        [],
        f"The .zip has 2 files (a?b?[31m, {'c' * 60}); --member selects one.",
    ),
]


@pytest.mark.parametrize(("content", "options", "sentence"), NOT_ONE, ids=range(len(NOT_ONE)))
def test_a_zip_without_the_one_member_is_rejected(importer, content, options, sentence):
    assert importer.refusal(content, *options) == sentence


def test_a_member_of_a_zip_is_chosen_by_its_name_or_the_only_one(importer):
    assert importer.run(TWO, "--member", "folder/glove.7B.txt").code == 0
    assert [path.name for path in importer.models.iterdir()] == ["glove.7B"]
    content = archive({"a/.DS_Store": b"mac", "a/glove.txt": rows(), **OF_MACOS})
    assert importer.run(content, "--name", "other").code == 0


def test_paths_in_a_zip_are_not_written_to(importer):
    for name in ("../../outside", "/outside"):
        content = archive({name: rows()})
        assert importer.run(content, "--name", "good", "--replace").code == 0
        assert importer.run(content, "--member", name, "--replace").code == 0
    assert {path.name for path in importer.models.iterdir()} == {"good", "outside"}
    assert {path.name for path in importer.place.iterdir()} == {"file", "the-models"}


def flagged(content, bit):
    """A .zip with a flag set in the local header and in the central directory."""
    changed = bytearray(content)
    changed[6] |= bit
    changed[changed.index(b"PK\x01\x02") + 8] |= bit
    return bytes(changed)


GZ = gzip.compress(rows(), mtime=0)
UNREADABLE = {
    "encrypted": (flagged(ZIP, 1), BAD_ZIP),
    "a name not in UTF-8": (archive({"ö": rows()}).replace("ö".encode(), b"\xff\xb6"), BAD_ZIP),
    "unsupported method": (ZIP.replace(b"\x08\0", b"\x63\0"), BAD_ZIP),
    "cut zip": (ZIP[:-1], BAD_ZIP),
    "no end of a zip": (ZIP[:40], BAD_ZIP),
    "no members": (b"PK\x03\x04" + bytes(100), BAD_ZIP),
    "changed zip": (ZIP[:40] + bytes([ZIP[40] ^ 0xFF]) + ZIP[41:], DAMAGED),
    "cut gz": (GZ[:-12], DAMAGED),
    "wrong checksum": (GZ[:-8] + b"\1\2\3\4" + GZ[-4:], DAMAGED),
    "wrong length": (GZ[:-4] + b"\1\2\3\4", DAMAGED),
    "more": (GZ + b"more", DAMAGED),
    "cut bz2": (bz2.compress(rows())[:-5], DAMAGED),
    "cut xz": (lzma.compress(rows())[:-20], DAMAGED),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_damaged_compression_is_rejected(importer, case):
    content, message = UNREADABLE[case]
    assert importer.refusal(content) == message


@pytest.mark.parametrize("inner", PACKINGS[1:])
def test_doubly_compressed_files_are_rejected(importer, inner):
    content = packed(packed(rows(), inner), "gz")
    assert importer.refusal(content) == "The file is compressed twice; decompress it once."


def test_a_zip_of_another_program_is_no_archive_of_vectors(importer):
    for arrays in ({"vectors": VECTORS}, {"words": WORDS, "vectors": VECTORS}):
        out = io.BytesIO()
        np.savez(out, **arrays)
        assert importer.refusal(out.getvalue()) == f"The file is {ARRAY}"
    for name in ("[Content_Types].xml", "mimetype", "archive/data.pkl"):
        assert importer.refusal(archive({name: b"", "data/0": b""})) == A_TABLE


ENDLESS = fasttext(output_quantized_shape=(2**40, 3)) + bytes(100_000_000)


@pytest.mark.parametrize(
    ("packing", "content", "within"),
    [("zip", rows() + BLANK, 1 << 20), ("gz", LINES, 1 << 20), ("gz", ENDLESS, 40 << 20)],
    ids=["zip of blank lines", "gz of rows", "gz of a table"],
)
def test_decompression_bombs_are_rejected_before_memory_is_full(importer, packing, content, within):
    message = importer.refusal(packed(content, packing))
    place = int(message.split("at byte ")[1].split(",")[0])
    assert message == (
        "The file expands to more than 100 times its size at byte"
        f" {place}, unlike vectors; decompress it yourself if you trust it."
    )
    assert 0 < place - (64 << 20) <= within + 1  # the end of the line that exceeds the limit


def test_a_pipe_is_rejected_before_it_is_opened(importer):
    pipe = importer.place / "pipe"
    os.mkfifo(pipe)
    sentence = "This is not a regular file; write its content into a file first."
    assert importer.refusal(pipe) == sentence
