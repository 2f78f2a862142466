"""Files and archives, plain or compressed, whole or damaged; the sets that archives contain."""

import bz2
import gzip
import lzma
import os
import sys
import tarfile

import pytest

from polyseme.errors import CommandError
from polyseme_lab.evaluation.datasets import fingerprint, read_data_set
from polyseme_lab.files import read_archive, read_lines, sha256
from tests.lab.evaluation.sets import COARSE, archived, unpacked

TEXT = "one line\nanother, with ü, 😀 and \x00\n"


def zstd(data):
    return pytest.importorskip("zstandard").ZstdCompressor(write_checksum=True).compress(data)


PACKERS = {
    "plain": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd,
    "frames": lambda data: zstd(data[:7]) + zstd(data[7:]),
}


@pytest.mark.parametrize("packer", PACKERS.values(), ids=PACKERS)
def test_text_is_same_from_any_compression(tmp_path, packer):
    path, text = tmp_path / "text", TEXT * 5000
    path.write_bytes(packer(text.encode() + b"a\xffb"))
    read = []
    lines = list(read_lines(path, read.append))
    assert "".join(lines) == text + "a\ufffdb"
    assert len(lines) == 10_001
    assert sum(read) == path.stat().st_size


@pytest.mark.parametrize("name", ["", "none", "pipe"])
def test_path_that_is_not_a_regular_file_is_reported(tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CommandError, match="does not exist or cannot be read"):
        sha256(tmp_path / name)


def test_missing_pyarrow_is_reported_with_the_extra(tmp_path, monkeypatch):
    (tmp_path / "text.zst").write_bytes(zstd(b"text"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(CommandError, match=r"needs pyarrow: .*install 'polyseme\[train\]'"):
        list(read_lines(tmp_path / "text.zst"))


@pytest.mark.parametrize("kind", ["xz", "gz", "bz2", ""])
def test_archive_and_folders_have_the_same_set(tmp_path, kind):
    unpacked(tmp_path, COARSE)
    short = {name.removeprefix("coarsewsd/"): lines for name, lines in COARSE.items()}
    assert read_data_set(tmp_path, "coarsewsd") == short
    assert read_data_set(tmp_path / "coarsewsd", "coarsewsd") == short
    assert fingerprint(short) == fingerprint(COARSE)
    # The archive is preferred. Files that no set has are not read.
    more = {**COARSE, "coarsewsd/LICENSE": b"\xff\xff", "coarsewsd/bank/README.txt": b"\xff"}
    archived(tmp_path / f"coarsewsd.tar{'.' * bool(kind)}{kind}", more, kind)
    assert read_data_set(tmp_path, "coarsewsd") == COARSE


def test_fingerprint_depends_on_lines_and_names():
    changed = {**COARSE, "coarsewsd/bank/test.gold.txt": ["0", "1", "0", "0"]}
    renamed = {name.replace("bank", "bonk"): lines for name, lines in COARSE.items()}
    assert len({fingerprint(one) for one in (COARSE, changed, renamed)}) == 3


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"\xef\xbb\xbf0\r\n1\r\n", ["0", "1"]),
        ("0\ta\u2028b\x85c\x0cd\n\n".encode(), ["0\ta\u2028b\x85c\x0cd", ""]),
    ],
)
def test_only_line_feeds_end_lines_and_byte_order_marks_go(tmp_path, data, lines):
    archived(tmp_path / "wic.tar", {"a/test.data.txt": data}, "")
    assert read_data_set(tmp_path, "wic") == {"a/test.data.txt": lines}


def test_absent_set_and_other_bytes_than_text_are_rejected(tmp_path):
    with pytest.raises(CommandError, match=r"neither coarsewsd\.tar\.xz \(or another \.tar\) nor"):
        read_data_set(tmp_path, "coarsewsd")
    archived(tmp_path / "coarsewsd.tar.xz", {"coarsewsd/bank/test.data.txt": b"0\tna\xefve\n"})
    with pytest.raises(CommandError, match=r"^coarsewsd/bank/test\.data\.txt is not UTF-8 text\.$"):
        read_data_set(tmp_path, "coarsewsd")


def test_archive_is_not_extracted_and_links_are_not_followed(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "link.txt").symlink_to(tmp_path / "secret.txt")
    archive = archived(tmp_path / "a.tar", {"/etc/a.txt": ["0"], "x/../../b.txt": ["1"]}, "")
    with tarfile.open(archive, "a") as tar:
        tar.add(tmp_path / "x" / "link.txt", "link.txt")
    found = list(read_archive(archive, (".txt",)))
    assert found == [("/etc/a.txt", b"0\n"), ("x/../../b.txt", b"1\n")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "secret.txt", "x"]


def outcome(archive):
    """The contents of an archive, or the error."""
    try:
        return list(read_archive(archive, (".txt",)))
    except CommandError as error:
        return str(error)


def test_a_file_that_is_no_archive_or_has_a_large_file_is_rejected(tmp_path, monkeypatch):
    archive = archived(tmp_path / "a.tar", {"a.txt": ["0" * (1 << 20)]}, "")
    monkeypatch.setattr("polyseme_lab.files._MAX_MEMBER_BYTES", 1 << 20)
    assert outcome(archive) == "a.tar has a file of more than 1 MiB, unlike any data set."
    for data in (b"", b"no archive at all" * 100):
        archive.write_bytes(data)
        assert outcome(archive) == "a.tar: the file is damaged or truncated."


@pytest.mark.parametrize("packer", [gzip.compress, bz2.compress, lzma.compress, zstd])
def test_truncated_or_damaged_archive_is_rejected_or_complete(tmp_path, packer):
    archive = archived(tmp_path / "a.tar", COARSE, "")
    expected, whole = outcome(archive), packer(archive.read_bytes())
    places, damaged = range(1, len(whole), 17), "a.tar: the file is damaged or truncated."
    versions = [whole[:n] for n in places]
    versions += [whole[:n] + bytes([whole[n] ^ 0xFF]) + whole[n + 1 :] for n in places]
    rejected = 0
    for version in versions:
        archive.write_bytes(version)
        found = outcome(archive)
        assert found in (expected, damaged)
        rejected += found != expected
    assert rejected > 0.8 * len(versions)
    if packer is gzip.compress:  # a wrong checksum at the end
        archive.write_bytes(whole[:-8] + bytes([whole[-8] ^ 0xFF]) + whole[-7:])
        assert outcome(archive) == damaged
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CommandError, match=damaged):
        list(read_lines(archive))
