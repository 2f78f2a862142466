"""API keys: how they are made, stored as hashes in a file, and checked.

A key is 256 random bits, which nobody can guess, so one round of SHA-256 is enough. Memory and the
file hold only the digests, which cannot be used as keys.
"""

import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

NAME_PATTERN = r"[A-Za-z0-9._-]{1,64}"
MAX_KEYS = 1000
"""Keys in a file at most: every request is compared with all of them."""
_MAX_BYTES = 1 << 18
_NAME = re.compile(NAME_PATTERN)
_UNNAMED = re.compile(r"key-[0-9]+")
"""The names of keys that are given without a name."""
_HASH = re.compile(r"sha256:([0-9A-Fa-f]{64})")


class KeyFileError(ValueError):
    """A key file cannot be used; the message shows neither its path nor its content."""


def generate_key() -> str:
    """A key of 256 random bits, with a prefix that secret scanners recognize."""
    return f"polyseme_{secrets.token_urlsafe(32)}"


def key_file_line(name: str, key: str) -> str:
    """The line of a key in a key file."""
    return f"{name} sha256:{_digest(key.encode()).hex()}"


def is_valid_name(name: str) -> bool:
    """Whether a key in a file may have this name."""
    return bool(_NAME.fullmatch(name)) and not _UNNAMED.fullmatch(name)


def digests_of_keys(keys: Iterable[str]) -> dict[str, bytes]:
    """The digests of keys without names, each in plain text or as `sha256:HEX`.

    Raises ValueError for a malformed hash.
    """
    digests = {}
    for number, key in enumerate(keys, 1):
        found = _HASH.fullmatch(key)
        if key.startswith("sha256:") and not found:
            raise ValueError("a hash is `sha256:` and 64 hexadecimal digits")
        digests[f"key-{number}"] = bytes.fromhex(found[1]) if found else _digest(key.encode())
    return digests


def read_key_file(path: Path) -> dict[str, bytes]:
    """Read the digests of a key file by their names. Raises KeyFileError for an invalid file."""
    keys: dict[str, bytes] = {}
    for number, line in enumerate(_read_text(path).split("\n"), 1):
        entry = line.strip(" \t\r")
        if not entry or entry.startswith("#"):
            continue
        name, _, rest = entry.partition(" ")
        found = _HASH.fullmatch(rest.strip(" \t"))
        if not found or not is_valid_name(name):
            raise KeyFileError(
                f"Line {number} of the key file is not a name and a hash, as `polyseme keys new`"
                " prints them"
            )
        digest = bytes.fromhex(found[1])
        if name in keys:
            raise KeyFileError(f"Line {number} of the key file has the name of an earlier line")
        if digest in keys.values():
            raise KeyFileError(f"Line {number} of the key file has the key of an earlier line")
        if len(keys) == MAX_KEYS:
            raise KeyFileError(f"The key file has more than {MAX_KEYS} keys")
        keys[name] = digest
    return keys


def find_key(keys: Mapping[str, bytes], sent: str) -> str | None:
    """The name of the key that was sent in a header, or None if it is not valid.

    The key is compared with every digest in constant time, so the duration reveals nothing.
    """
    digest = _digest(sent.encode("latin-1"))  # WSGI decodes header bytes as Latin-1
    matches = [name for name, one in keys.items() if hmac.compare_digest(digest, one)]
    return matches[0] if matches else None


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _read_text(path: Path) -> str:
    """Read a file that may be anything: a pipe, a device, a very large file."""
    try:
        # Without O_NONBLOCK, opening a pipe blocks until somebody writes to it.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise KeyFileError("The key file is not a regular file")
            content = file.read(_MAX_BYTES + 1)
    except OSError:
        raise KeyFileError("The key file cannot be read") from None
    if len(content) > _MAX_BYTES:
        raise KeyFileError(f"The key file has more than {_MAX_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise KeyFileError("The key file is not UTF-8") from None
