"""Evaluation sets are read from an archive or unpacked; invalid ones are rejected."""

import io
import tarfile

import pytest

from polyseme.errors import CommandError
from polyseme_lab.evaluation import datasets
from polyseme_lab.evaluation.datasets import fingerprint, read_archive, read_data_set
from tests.lab.evaluation.sets import COARSE, archived, unpacked


@pytest.mark.parametrize("kind", ["xz", "gz", "bz2", ""])
def test_an_archive_of_any_compression_has_the_lines_of_its_files(tmp_path, kind):
    archived(tmp_path / f"coarsewsd.tar{'.' * bool(kind)}{kind}", COARSE, kind)
    assert read_data_set(tmp_path, "coarsewsd") == COARSE


def test_an_unpacked_set_is_the_same_in_its_own_folder_or_one_above(tmp_path):
    unpacked(tmp_path, COARSE)
    short = {name.removeprefix("coarsewsd/"): lines for name, lines in COARSE.items()}
    assert read_data_set(tmp_path, "coarsewsd") == short
    assert read_data_set(tmp_path / "coarsewsd", "coarsewsd") == short
    assert fingerprint(short) == fingerprint(COARSE)


def test_an_archive_is_preferred_to_a_folder_of_the_same_name(tmp_path):
    unpacked(tmp_path, {name: ["other"] for name in COARSE})
    archived(tmp_path / "coarsewsd.tar.xz", COARSE)
    assert read_data_set(tmp_path, "coarsewsd") == COARSE


def test_a_fingerprint_depends_on_lines_and_names():
    changed = {**COARSE, "coarsewsd/bank/test.gold.txt": ["0", "1", "0", "0"]}
    renamed = {name.replace("bank", "bonk"): lines for name, lines in COARSE.items()}
    assert len({fingerprint(one) for one in (COARSE, changed, renamed)}) == 3


def test_files_that_no_set_has_are_not_read(tmp_path):
    more = {**COARSE, "coarsewsd/LICENSE": b"\xff\xff", "coarsewsd/bank/README.txt": b"\xff"}
    assert read_archive(archived(tmp_path / "coarsewsd.tar.xz", more)) == COARSE


def test_crlf_and_a_byte_order_mark_are_removed(tmp_path):
    archive = archived(tmp_path / "a.tar", {"a/test.gold.txt": b"\xef\xbb\xbf0\r\n1\r\n"}, "")
    assert read_archive(archive) == {"a/test.gold.txt": ["0", "1"]}


def test_a_separator_inside_a_sentence_does_not_end_a_line(tmp_path):
    archive = archived(tmp_path / "a.tar", {"a/test.data.txt": ["0\ta\u2028b\x85c\x0cd"]}, "")
    assert read_archive(archive) == {"a/test.data.txt": ["0\ta\u2028b\x85c\x0cd"]}


def refusal(folder, name="coarsewsd"):
    """The message that rejects a set."""
    with pytest.raises(CommandError) as caught:
        read_data_set(folder, name)
    assert caught.value.sentence.endswith(".")
    assert str(folder) not in caught.value.sentence
    return caught.value.sentence


def test_a_set_that_is_absent_huge_repeated_or_not_text_is_rejected(tmp_path, monkeypatch):
    assert "neither coarsewsd.tar.xz (or another .tar) nor" in refusal(tmp_path)
    archive = tmp_path / "coarsewsd.tar.xz"
    archived(archive, {"coarsewsd/bank/test.data.txt": b"0\tna\xefve\n"})
    assert refusal(tmp_path) == "coarsewsd/bank/test.data.txt is not UTF-8 text."
    with tarfile.open(archive, "w:xz") as tar:
        for _ in range(2):
            tar.addfile(tarfile.TarInfo("a/test.data.txt"), io.BytesIO())
    assert "twice" in refusal(tmp_path)
    archive.unlink()
    unpacked(tmp_path, COARSE)
    monkeypatch.setattr(datasets, "MAX_FILE_BYTES", 10)
    assert "unlike any evaluation set" in refusal(tmp_path)


@pytest.mark.parametrize(
    "name", ["/etc/test.data.txt", "../test.data.txt", "a/../../test.gold.txt"]
)
def test_a_member_outside_the_archive_is_rejected(tmp_path, name):
    archived(tmp_path / "coarsewsd.tar.xz", {**COARSE, name: ["0\ta"]})
    assert "an absolute path or `..`" in refusal(tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "coarsewsd.tar.xz"]


def test_a_member_that_is_a_link_is_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with tarfile.open(tmp_path / "coarsewsd.tar.xz", "w:xz") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            member = tarfile.TarInfo(f"a/{kind.decode()}/test.data.txt")
            member.type, member.linkname = kind, str(secret)
            tar.addfile(member)
    assert read_archive(tmp_path / "coarsewsd.tar.xz") == {}


def test_a_link_out_of_an_unpacked_set_is_not_followed(tmp_path):
    (tmp_path / "secret.data.txt").write_text("secret")
    folder = unpacked(tmp_path / "set", COARSE)
    (folder / "coarsewsd" / "bank" / "dev.data.txt").symlink_to(tmp_path / "secret.data.txt")
    assert "bank/dev.data.txt" not in read_data_set(folder, "coarsewsd")


def test_a_huge_member_is_rejected_before_it_is_read(tmp_path):
    with tarfile.open(tmp_path / "coarsewsd.tar", "w") as tar:
        member = tarfile.TarInfo("a/README")
        member.size = datasets.MAX_FILE_BYTES + 1
        tar.addfile(member, io.BytesIO(bytes(member.size)))
    assert "64 MiB in a file" in refusal(tmp_path)


@pytest.mark.parametrize(("limit", "value"), [("MAX_TOTAL_BYTES", 100), ("MAX_FILES", 3)])
def test_a_huge_archive_or_one_of_too_many_members_is_rejected(tmp_path, monkeypatch, limit, value):
    archived(tmp_path / "coarsewsd.tar.xz", COARSE)
    monkeypatch.setattr(datasets, limit, value)
    assert "larger than any evaluation set" in refusal(tmp_path)


@pytest.mark.parametrize("ending", [".tar.xz", ".tar.gz", ".tar.bz2", ".tar"])
@pytest.mark.parametrize("data", [b"", b"no archive at all" * 100])
def test_a_file_that_is_no_archive_is_rejected(tmp_path, ending, data):
    (tmp_path / f"coarsewsd{ending}").write_bytes(data)
    assert "cannot be read" in refusal(tmp_path)


def outcome(archive):
    """The files of an archive, or the error."""
    try:
        return read_archive(archive)
    except CommandError as error:
        return error.sentence


def truncations(whole):
    return [whole[:end] for end in range(1, len(whole), 17)]


def damages(whole):
    flipped = [bytes([byte ^ 0xFF]) for byte in whole]
    return [whole[:n] + flipped[n] + whole[n + 1 :] for n in range(0, len(whole), 3)]


@pytest.mark.parametrize("kind", ["xz", "gz", "bz2"])
@pytest.mark.parametrize(("changed", "share"), [(truncations, 0.5), (damages, 0.9)])
def test_a_truncated_or_damaged_archive_is_rejected_or_complete(tmp_path, kind, changed, share):
    archive = archived(tmp_path / f"coarsewsd.tar.{kind}", COARSE, kind)
    versions, rejected = changed(archive.read_bytes()), 0
    for version in versions:
        archive.write_bytes(version)
        found = outcome(archive)
        assert found == COARSE or "cannot be read" in found
        rejected += found != COARSE
    assert rejected > share * len(versions)


def test_a_wrong_checksum_of_an_archive_is_rejected(tmp_path):
    archive = archived(tmp_path / "coarsewsd.tar.gz", COARSE, "gz")
    whole = bytearray(archive.read_bytes())
    whole[-8] ^= 0xFF
    archive.write_bytes(whole)
    assert "cannot be read" in refusal(tmp_path)


def test_an_archive_with_much_padding_is_rejected(tmp_path, monkeypatch):
    archive = archived(tmp_path / "coarsewsd.tar", COARSE, "")
    with archive.open("ab") as file:
        file.write(bytes(1 << 20))
    assert read_archive(archive) == COARSE
    monkeypatch.setattr(datasets, "MAX_TOTAL_BYTES", 1 << 20)
    assert "larger than any evaluation set" in refusal(tmp_path)
