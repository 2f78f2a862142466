"""API keys: generating keys, reading a file of their hashes, and checking a key.

A generated key has 256 random bits and cannot be guessed, so one round of SHA-256 is enough. The
file contains only names and digests, which cannot be used as keys.
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
"""Maximum number of keys in a file; the key of every request is compared with all of them."""
_MAX_BYTES = 1 << 18
_NAME = re.compile(NAME_PATTERN)
_UNNAMED = re.compile(r"key-[0-9]+")
"""The generated names of the keys in the setting `api_keys`."""
_HASH = re.compile(r"sha256:([0-9A-Fa-f]{64})")


class KeyFileError(ValueError):
    """A key file cannot be used; the message shows neither its path nor its content."""


def generate_key() -> str:
    """Return a key of 256 random bits, with a prefix that secret scanners can search for."""
    return f"polyseme_{secrets.token_urlsafe(32)}"


def key_file_line(name: str, key: str) -> str:
    """Return the line of a key in a key file."""
    return f"{name} sha256:{_digest(key.encode()).hex()}"


def is_valid_name(name: str) -> bool:
    """Return whether a key in a file may have this name."""
    return bool(_NAME.fullmatch(name)) and not _UNNAMED.fullmatch(name)


def digests_of_keys(keys: Iterable[str]) -> dict[str, bytes]:
    """Return the digests of keys by generated names; each key is plain text or `sha256:HEX`.

    Raises ValueError for a malformed hash.
    """
    digests = {}
    for i, key in enumerate(keys, 1):
        match = _HASH.fullmatch(key)
        if key.startswith("sha256:") and not match:
            raise ValueError("a hash is `sha256:` and 64 hexadecimal digits")
        digests[f"key-{i}"] = bytes.fromhex(match[1]) if match else _digest(key.encode())
    return digests


def read_key_file(path: Path) -> dict[str, bytes]:
    """Read the digests of a key file by name; raise KeyFileError if the file is invalid."""
    try:
        # Without O_NONBLOCK, opening a pipe blocks until the other end is opened.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise KeyFileError("The key file is not a regular file")
            content = file.read(_MAX_BYTES + 1)
    except OSError:
        raise KeyFileError("The key file cannot be read") from None
    if len(content) > _MAX_BYTES:
        raise KeyFileError(f"The key file has more than {_MAX_BYTES} bytes")
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError:
        raise KeyFileError("The key file is not UTF-8") from None
    keys: dict[str, bytes] = {}
    for row, line in enumerate(lines, 1):
        entry = line.strip(" \t\r")
        if not entry or entry.startswith("#"):
            continue
        name, _, rest = entry.partition(" ")
        match = _HASH.fullmatch(rest.strip(" \t"))
        if not match or not is_valid_name(name):
            raise KeyFileError(
                f"Line {row} of the key file is not a name and a hash as printed by"
                " `polyseme keys new`"
            )
        digest = bytes.fromhex(match[1])
        if name in keys:
            raise KeyFileError(f"Line {row} of the key file repeats the name of an earlier line")
        if digest in keys.values():
            raise KeyFileError(f"Line {row} of the key file repeats the key of an earlier line")
        if len(keys) == MAX_KEYS:
            raise KeyFileError(f"The key file has more than {MAX_KEYS} keys")
        keys[name] = digest
    return keys


def permission_problem(path: Path) -> str | None:
    """Return a sentence if another user than root and this one may write the key file."""
    try:
        state = path.stat()
    except OSError:
        return None
    mode = f"its mode is {stat.S_IMODE(state.st_mode):04o}"
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"Other users may write the key file, because {mode}; `chmod go-w` prevents it"
    if state.st_uid not in {0, os.geteuid()}:
        return f"The key file belongs to neither root nor the user of the service; {mode}"
    return None


def find_key(keys: Mapping[str, bytes], sent: str) -> str | None:
    """Return the name of the key sent in a header, or None if the key is not valid.

    The key is compared with every digest in constant time, so the duration reveals nothing.
    """
    digest = _digest(sent.encode("latin-1"))  # WSGI decodes header bytes as Latin-1
    matches = [name for name, known in keys.items() if hmac.compare_digest(digest, known)]
    return matches[0] if matches else None


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
