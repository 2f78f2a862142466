"""Atomic files: interrupted writes, a full disk, links and permissions."""

import errno
import os

import pytest

from polyseme.atomic_files import TEMPORARY_PREFIX, atomic_files, atomic_write


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def fail_while_writing(error, *places):
    with atomic_files(*places) as (file, *_):
        file.write(b"half")
        raise error


def test_files_are_replaced_only_when_all_are_written(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"before")
    with atomic_files(one, two) as (first, second):
        first.write(b"after")
        second.write(b"new")
        assert (one.read_bytes(), two.exists()) == (b"before", False)
        assert all(name.startswith(TEMPORARY_PREFIX) for name in names(tmp_path) if name != "one")
    assert (one.read_bytes(), two.read_bytes()) == (b"after", b"new")
    assert names(tmp_path) == ["one", "two"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_interrupted_write_leaves_nothing(tmp_path, error):
    place = tmp_path / "file"
    place.write_bytes(b"before")
    with pytest.raises(error):
        fail_while_writing(error, place, tmp_path / "other")
    assert (names(tmp_path), place.read_bytes()) == (["file"], b"before")


def test_a_full_disk_keeps_the_previous_file(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(errno.ENOSPC, "The disk is full")

    place = tmp_path / "file"
    place.write_bytes(b"before")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="The disk is full"):
        atomic_write(place, b"after")
    assert (names(tmp_path), place.read_bytes()) == (["file"], b"before")


def test_a_link_is_kept_and_its_target_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "target", tmp_path / "link"
    target.write_bytes(b"before")
    link.symlink_to(target)
    atomic_write(link, b"after")
    assert link.is_symlink()
    assert target.read_bytes() == b"after"
    assert names(tmp_path / "far") == ["target"]


def test_a_replaced_file_keeps_its_permissions(tmp_path):
    place = tmp_path / "file"
    before = os.umask(0o027)
    try:
        atomic_write(place, b"new")
    finally:
        os.umask(before)
    assert place.stat().st_mode & 0o777 == 0o640
    for mode in (0o600, 0o646):
        place.chmod(mode)
        atomic_write(place, b"after")
        assert place.stat().st_mode & 0o777 == mode


def test_a_path_that_cannot_be_replaced_is_rejected_and_kept(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    for place, error in (
        (tmp_path, FileExistsError),
        (tmp_path / "pipe", FileExistsError),
        (tmp_path / "none" / "file", FileNotFoundError),
        (tmp_path / "one", OSError),
    ):
        with pytest.raises(error):
            atomic_write(place, b"new")
    assert names(tmp_path) == ["one", "pipe", "two"]
    atomic_write(tmp_path / ("n" * 255), b"new")  # a name of maximum length
