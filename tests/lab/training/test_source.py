"""Reading compressed and plain text; truncated and damaged files are reported."""

import bz2
import gzip
import lzma
import os
import sys

import numpy as np
import pytest

from polyseme.errors import CommandError
from polyseme_lab.training.corpus import MAX_LINE_BYTES, open_decompressed, read_lines, sha256

NOISE = np.random.default_rng(1).bytes(100_000)
"""Bytes that do not become shorter by compression."""
TEXT = "one line\nanother, with ü and 😀\n"


def zstd(data):
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)


def checked_zstd(data):
    return pytest.importorskip("zstandard").ZstdCompressor(write_checksum=True).compress(data)


def zstd_in_frames(data):
    return zstd(data[:7]) + zstd(data[7:])


PACKERS = {
    "plain": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd,
    "frames": zstd_in_frames,
}


@pytest.mark.parametrize("packer", PACKERS.values(), ids=PACKERS)
def test_a_text_is_the_same_from_any_compression(tmp_path, packer):
    path = tmp_path / "text"
    path.write_bytes(packer(TEXT.encode()))
    read = []
    assert "".join(read_lines(path, read.append)) == TEXT
    assert sum(read) == path.stat().st_size


@pytest.mark.parametrize("packer", [gzip.compress, bz2.compress, lzma.compress, zstd])
def test_a_truncated_file_is_reported(tmp_path, packer):
    path = tmp_path / "text.gz"
    data = packer(NOISE)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(CommandError, match=r"text\.gz: the file is damaged or truncated"):
        list(read_lines(path))


@pytest.mark.parametrize("packer", [gzip.compress, bz2.compress, lzma.compress, checked_zstd])
def test_a_damaged_file_is_reported(tmp_path, packer):
    path = tmp_path / "text"
    data = bytearray(packer(NOISE))
    data[5000:5100] = bytes(100)
    path.write_bytes(data)
    with pytest.raises(CommandError, match="damaged"):
        list(read_lines(path))


def test_a_long_text_is_read_completely_from_any_compression(tmp_path):
    text = "".join(f"line {n} {n * n}\n" for n in range(100_000))
    for packer in (gzip.compress, zstd, zstd_in_frames):
        (tmp_path / "text").write_bytes(packer(text.encode()))
        assert "".join(read_lines(tmp_path / "text")) == text


def test_an_invalid_byte_becomes_a_replacement_character(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a\xffb\n\x00c")
    assert list(read_lines(path)) == ["a�b\n", "\x00c"]


def test_a_too_long_line_is_read_as_several(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"a" * (2 * MAX_LINE_BYTES + 1)))
    assert [len(line) for line in read_lines(path)] == [MAX_LINE_BYTES, MAX_LINE_BYTES, 1]


def test_a_path_that_is_not_a_regular_file_is_reported(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "none", tmp_path / "pipe"):
        with (
            pytest.raises(CommandError, match="does not exist or cannot be read"),
            open_decompressed(path),
        ):
            pass
    with pytest.raises(CommandError, match="does not exist or cannot be read"):
        sha256(tmp_path / "none")


def test_an_empty_file_has_no_lines(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    assert list(read_lines(tmp_path / "empty")) == []


def test_missing_zstandard_is_reported_with_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "text.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(9))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(CommandError, match=r"needs zstandard: .*pip install 'polyseme\[train\]'"):
        list(read_lines(path))
