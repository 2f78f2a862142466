"""Staging directories: file systems without exchange, links, other commands at the same time."""

import ctypes
import errno
import fcntl
import shutil
import subprocess
import sys

import pytest

from polyseme.errors import ModelFolderError
from polyseme.models import registry as registry_module
from polyseme.models import staging
from polyseme.models.reader import read_model
from polyseme.models.registry import Registry
from polyseme.models.writer import remove_model, rename_model
from tests.conftest import ROOT
from tests.models.versions import version_of, write
from tests.tiny import write_tiny


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=["exchange", "two renames"])
def way(request, monkeypatch):
    """How a folder is replaced. The second way is that of file systems without `renameat2`."""
    if request.param == "two renames":
        monkeypatch.setattr(staging, "_RENAMEAT2", None)
    elif staging._RENAMEAT2 is None:
        pytest.skip("the C library has no renameat2")
    return request.param


@pytest.fixture
def abandoned(models_dir):
    """A model that a killed writer has moved away, with the files that it leaves."""
    path = models_dir / ".writing-killed"
    write(models_dir / "half", 2)
    for part in ("new", "old-000001"):
        (path / part).mkdir(parents=True)
    (path / "lock").touch()
    (models_dir / "half").rename(path / "new" / "two")
    (models_dir / "two").rename(path / "old-000001" / "two")
    return path


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EINVAL, errno.EPERM])
def test_a_file_system_without_exchange_gets_two_renames(models_dir, monkeypatch, number):
    def unsupported(*_):
        ctypes.set_errno(number)
        return -1

    monkeypatch.setattr(staging, "_RENAMEAT2", unsupported)
    write(models_dir / "two", 2)
    rename_model(models_dir / "one", "three")
    assert version_of(read_model(models_dir / "two")) == 2
    assert names(models_dir) == ["three", "two"]


def test_another_error_of_an_exchange_is_raised(models_dir, monkeypatch):
    def failing(*_):
        ctypes.set_errno(errno.EIO)
        return -1

    monkeypatch.setattr(staging, "_RENAMEAT2", failing)
    with pytest.raises(OSError, match="Input/output"):
        write(models_dir / "two", 2)
    assert version_of(read_model(models_dir / "two")) == 1
    assert names(models_dir) == ["one", "two"]


@pytest.mark.usefixtures("way")
def test_a_replaced_link_is_removed_and_its_target_stays(models_dir):
    (models_dir / "link").symlink_to(models_dir / "two")
    write(models_dir / "link", 2)
    assert not (models_dir / "link").is_symlink()
    assert version_of(read_model(models_dir / "link")) == 2
    assert version_of(read_model(models_dir / "two", verify=True)) == 1
    assert names(models_dir) == ["link", "one", "two"]


@pytest.mark.usefixtures("way")
def test_the_folder_of_models_may_be_a_link(models_dir, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(models_dir)
    write(link / "two", 2)
    remove_model(link / "one")
    rename_model(link / "two", "three")
    assert link.is_symlink()
    assert names(models_dir) == ["three"]
    assert version_of(Registry([link], "three").model()) == 2


@pytest.mark.usefixtures("way")
def test_a_model_that_another_command_has_removed_is_an_error(models_dir):
    for change in (remove_model, lambda folder: rename_model(folder, "new")):
        with pytest.raises(ModelFolderError) as caught:
            change(models_dir / "three")
        assert caught.value.detail == "another command has removed or renamed the model."
    assert names(models_dir) == ["one", "two"]


@pytest.mark.usefixtures("way")
def test_a_rename_replaces_no_other_model(models_dir, monkeypatch):
    monkeypatch.setattr("polyseme.models.writer.require_free", lambda *_, **__: None)
    with pytest.raises(ModelFolderError) as caught:
        rename_model(models_dir / "one", "two")
    assert caught.value.detail == "a model of this name already exists."
    assert names(models_dir) == ["one", "two"]


def test_a_started_registry_restores_a_model_and_the_next_writer_cleans(models_dir, abandoned):
    assert version_of(Registry([models_dir], "one").model("two")) == 1
    assert abandoned.exists()
    write_tiny(models_dir / "three")
    assert names(models_dir) == ["one", "three", "two"]


def test_a_registry_waits_for_a_running_writer_between_two_renames(
    models_dir, abandoned, monkeypatch
):
    with (abandoned / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        new = abandoned / "new" / "two"
        monkeypatch.setattr(registry_module.time, "sleep", lambda _: new.rename(models_dir / "two"))
        assert version_of(Registry([models_dir], "one").model("two")) == 2


def test_no_half_of_a_replaced_model_is_restored(models_dir, abandoned, monkeypatch):
    write_tiny(models_dir.parent / "two").rename(models_dir / "two")  # the name is used again
    remove_all = shutil.rmtree

    def interrupted(path, **options):
        if path == abandoned:
            (path / "old-000001" / "two" / "vectors.npy").unlink()
            raise KeyboardInterrupt
        remove_all(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(staging.shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            staging.recover(models_dir, clean=True)
    (models_dir / "two").rename(models_dir / "three")
    write_tiny(models_dir / "four")
    assert names(models_dir) == ["four", "one", "three"]


READ_ONLY = """
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 99
shift
exec "$@"
"""


def test_a_read_only_folder_is_read_and_each_change_is_one_sentence(models_dir, abandoned):
    unshare = ("unshare", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, "sh", models_dir)
    python = (sys.executable, "-m", "polyseme", "models")
    more = "--models-dir", models_dir
    done = []
    for arguments in (("list",), ("remove", "one", "--yes"), ("rename", "one", "new")):
        command = [*unshare, *python, *arguments, *more]
        try:
            done.append(subprocess.run(command, cwd=ROOT, capture_output=True, check=False))
        except FileNotFoundError:
            pytest.skip("needs unshare")
    if done[0].returncode == 99 or b"unshare" in done[0].stderr:
        pytest.skip("needs mounts of its own")
    assert (done[0].returncode, b"one" in done[0].stdout) == (0, True)
    for one in done[1:]:
        assert (one.returncode, one.stdout) == (1, b"")
        (line,) = one.stderr.decode().splitlines()
        assert line.startswith("polyseme: Read-only file system (")
    assert abandoned.exists()
