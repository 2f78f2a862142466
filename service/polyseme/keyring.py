"""The keys that open the service: what is kept of one, the file of them, and how they are compared.

A key is 256 random bits, so one round of SHA-256 is all it needs: nobody can try that many. What is
kept, in memory and in the file, is the digest, which opens nothing.
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
MOST_KEYS = 1000
"""How many keys a file may have: each request is compared with all of them."""
_MOST_BYTES = 1 << 18
_NAME = re.compile(NAME_PATTERN)
_GIVEN = re.compile(r"key-[0-9]+")
"""The names of keys that come without a name."""
_HASH = re.compile(r"sha256:([0-9A-Fa-f]{64})")


class KeyFileError(ValueError):
    """A file of keys cannot be used; the sentence shows neither its path nor what is in it."""


def new_key() -> str:
    """A key of 256 random bits, which a search for secrets knows by its beginning."""
    return f"polyseme_{secrets.token_urlsafe(32)}"


def line_of(name: str, key: str) -> str:
    """The line of a key in the file."""
    return f"{name} sha256:{_digest(key.encode()).hex()}"


def is_name(text: str) -> bool:
    """Whether a key of the file may have this name."""
    return bool(_NAME.fullmatch(text)) and not _GIVEN.fullmatch(text)


def given_keys(values: Iterable[str]) -> dict[str, bytes]:
    """The digests of keys that come without names, each as it is or as `sha256:HEX`.

    Raises ValueError where one begins as a hash and is none.
    """
    return {f"key-{number}": _given(value) for number, value in enumerate(values, 1)}


def read_keys(file: Path) -> dict[str, bytes]:
    """The digests of a file of keys by their names; raise KeyFileError where it is not one."""
    keys: dict[str, bytes] = {}
    for number, line in enumerate(_text(file).split("\n"), 1):
        said = line.strip(" \t\r")
        if not said or said.startswith("#"):
            continue
        name, digest = _entry(said, number)
        if name in keys:
            raise KeyFileError(f"Line {number} of the file of keys has the name of an earlier line")
        if digest in keys.values():
            raise KeyFileError(f"Line {number} of the file of keys has the key of an earlier line")
        if len(keys) == MOST_KEYS:
            raise KeyFileError(f"The file of keys has more than {MOST_KEYS} of them")
        keys[name] = digest
    return keys


def name_of(keys: Mapping[str, bytes], sent: str) -> str | None:
    """The name of a key that was sent in a header, or None where it is none of the keys.

    It is compared with all of them, each in constant time, so that time tells nothing.
    """
    digest = _digest(sent.encode("latin-1"))  # as WSGI gives the bytes of a header
    right = [name for name, one in keys.items() if hmac.compare_digest(digest, one)]
    return right[0] if right else None


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _given(value: str) -> bytes:
    if not value.startswith("sha256:"):
        return _digest(value.encode())
    found = _HASH.fullmatch(value)
    if not found:
        raise ValueError("a hash is `sha256:` and 64 hexadecimal digits")
    return bytes.fromhex(found[1])


def _entry(line: str, number: int) -> tuple[str, bytes]:
    """The name and the digest of a line."""
    name, _, rest = line.partition(" ")
    found = _HASH.fullmatch(rest.strip(" \t"))
    if not found or not is_name(name):
        raise KeyFileError(
            f"Line {number} of the file of keys is not a name and a hash, as `polyseme keys new`"
            " prints them"
        )
    return name, bytes.fromhex(found[1])


def _text(file: Path) -> str:
    """What is in a file that may be anything: a pipe, a device, a disk full of zeros."""
    try:
        # Without O_NONBLOCK, opening a pipe waits for whoever writes into it.
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise KeyFileError("The file of keys is not a regular file")
            content = opened.read(_MOST_BYTES + 1)
    except OSError:
        raise KeyFileError("The file of keys cannot be read") from None
    if len(content) > _MOST_BYTES:
        raise KeyFileError(f"The file of keys has more than {_MOST_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise KeyFileError("The file of keys is not UTF-8") from None
