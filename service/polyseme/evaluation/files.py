"""The text files of an evaluation set, from an archive or as they lie unpacked in a folder.

An archive is read member by member and never unpacked: no name in it becomes a path.
"""

import hashlib
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from polyseme.evaluation.refusal import EvaluationError

Files: TypeAlias = dict[str, list[str]]
"""The lines of each text file by its name in the set, such as `coarsewsd/bank/test.data.txt`."""
ENDINGS = (".data.txt", ".gold.txt", "classes_map.txt")
"""The files that are read; a set has others, such as its licence."""
ARCHIVES = (".tar.xz", ".tar.gz", ".tar.bz2", ".tar")
LARGEST, LARGEST_TOGETHER, MOST = 64 << 20, 512 << 20, 10_000
"""Bytes of one file, bytes of all, and how many members; CoarseWSD-20 and WiC have a tenth."""
DEEPEST = 3
"""How many folders down an unpacked set is looked for."""
_BROKEN = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError, ValueError)


def evaluation_files(directory: Path, name: str) -> Files:
    """The files of a set: of `NAME.tar.xz` in the folder, else of the folder NAME, or its own.

    Raises EvaluationError where there are none, or they cannot be read.
    """
    for ending in ARCHIVES:
        archive = directory / f"{name}{ending}"
        if archive.is_file():
            return lines_of(archive)
    inside = directory / name
    files = _lines_in(inside if inside.is_dir() else directory)
    if not files:
        raise EvaluationError(
            f"The folder has neither {name}.tar.xz nor the unpacked files of that set;"
            " docs/evaluation.md says where to get them."
        )
    return files


def lines_of(archive: Path) -> Files:
    """The text files of an archive by name, as lines; raise EvaluationError where it is broken."""
    found: Files = {}
    try:
        with tarfile.open(archive) as tar:
            for member in _members(tar, archive.name):
                file = tar.extractfile(member)
                if file is not None:
                    found[_once(member.name, found)] = _lines(file.read(), member.name)
    except _BROKEN:
        raise EvaluationError(
            f"{archive.name} cannot be read: it is no tar archive, or it is cut off or damaged;"
            " get it again."
        ) from None
    return found


def _members(tar: tarfile.TarFile, archive: str) -> Iterator[tarfile.TarInfo]:
    """The members that are read; an archive that is more than a set is refused on the way."""
    together = 0
    for number, member in enumerate(tar):
        together += member.size
        if member.size > LARGEST or together > LARGEST_TOGETHER or number >= MOST:
            raise EvaluationError(
                f"{archive} has more than {MOST:,} files, one of more than {LARGEST >> 20} MB or"
                f" more than {LARGEST_TOGETHER >> 20} MB together; no evaluation set has."
            )
        parts = PurePosixPath(member.name)
        if parts.is_absolute() or ".." in parts.parts:
            raise EvaluationError(
                f"{archive} has a member whose name leads out of it; get it from its authors."
            )
        if member.isfile() and member.name.endswith(ENDINGS):
            yield member


def _once(name: str, found: Files) -> str:
    if name in found:
        raise EvaluationError(f"The archive has {name} twice; get it again.")
    return name


def _lines_in(folder: Path) -> Files:
    """The text files of an unpacked set; a link that leads out of the folder is not followed."""
    found: Files = {}
    root = folder.resolve()
    for path in sorted(_paths(folder)):
        if path.is_file() and path.resolve().is_relative_to(root):
            name = path.relative_to(folder).as_posix()
            if path.stat().st_size > LARGEST:
                raise EvaluationError(
                    f"{name} has more than {LARGEST >> 20} MB; no evaluation set has."
                )
            found[name] = _lines(path.read_bytes(), name)
    return found


def _paths(folder: Path) -> Iterator[Path]:
    for depth in range(DEEPEST + 1):
        for ending in ENDINGS:
            yield from folder.glob("*/" * depth + f"*{ending}")


def _lines(data: bytes, name: str) -> list[str]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise EvaluationError(f"{name} is not UTF-8 text.") from None
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def fingerprint(files: Files) -> str:
    """The sha256 of a set's files, the same from an archive and unpacked."""
    digest = hashlib.sha256()
    for name in sorted(files, key=_last_parts):
        digest.update("\n".join([_last_parts(name), *files[name], ""]).encode())
    return digest.hexdigest()


def _last_parts(name: str) -> str:
    return "/".join(PurePosixPath(name).parts[-2:])
