"""Decompressed text in bounded memory; a truncated file is reported."""

import bz2
import gzip
import lzma
import os
import sys

import pytest

from polyseme.command_error import CommandError
from polyseme.training.corpus import MAX_LINE_BYTES, open_decompressed, read_lines, sha256

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
def test_a_text_is_the_same_out_of_any_compression(tmp_path, packer):
    path = tmp_path / "text"
    path.write_bytes(packer(TEXT.encode()))
    told = []
    assert "".join(read_lines(path, told.append)) == TEXT
    assert sum(told) == path.stat().st_size


@pytest.mark.parametrize("packer", [gzip.compress, bz2.compress, lzma.compress, zstd])
def test_a_truncated_file_is_reported(tmp_path, packer):
    path = tmp_path / "text.gz"
    data = packer(os.urandom(100_000))
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(CommandError, match=r"text\.gz: the file is damaged or truncated"):
        list(read_lines(path))


@pytest.mark.parametrize("packer", [gzip.compress, bz2.compress, lzma.compress, checked_zstd])
def test_a_damaged_file_is_reported(tmp_path, packer):
    path = tmp_path / "text"
    data = bytearray(packer(os.urandom(100_000)))
    data[5000:5100] = bytes(100)
    path.write_bytes(data)
    with pytest.raises(CommandError, match="damaged"):
        list(read_lines(path))


def test_a_long_text_is_read_completely_from_any_compression(tmp_path):
    text = "".join(f"line {n} {n * n}\n" for n in range(100_000))
    for packer in (gzip.compress, zstd, zstd_in_frames):
        (tmp_path / "text").write_bytes(packer(text.encode()))
        assert "".join(read_lines(tmp_path / "text")) == text


def test_undecodable_bytes_become_one_replacement_character(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a\xffb\n\x00c")
    assert list(read_lines(path)) == ["a�b\n", "\x00c"]


def test_a_line_without_an_end_is_taken_in_parts(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"a" * (2 * MAX_LINE_BYTES + 1)))
    assert [len(line) for line in read_lines(path)] == [MAX_LINE_BYTES, MAX_LINE_BYTES, 1]


def test_a_path_that_is_no_file_is_reported(tmp_path):
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
