"""Key files: accepted ones, and errors that show nothing of the content."""

import os
import re

import pytest

from polyseme.api_keys import (
    MAX_KEYS,
    KeyFileError,
    digests_of_keys,
    find_key,
    generate_key,
    is_valid_name,
    key_file_line,
    permission_problem,
    read_key_file,
)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_key_file_of_another_user_is_a_problem(tmp_path, monkeypatch):
    file = key_file(tmp_path, "")
    file.chmod(0o640)
    assert permission_problem(file) is None
    os.chown(file, 12345, 0)
    problem = "The key file belongs to neither root nor the user of the service; its mode is 0640"
    assert permission_problem(file) == problem
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert permission_problem(file) is None
    assert permission_problem(tmp_path / "none") is None


HASH = "sha256:" + "a1" * 32
SECRET = "s3cretqx"


def key_file(folder, content):
    file = folder / f"keys-{SECRET}"
    file.write_bytes(content.encode())
    return file


def test_a_file_has_keys_comments_and_blank_lines(tmp_path):
    one, other = generate_key(), generate_key()
    lines = [key_file_line("one", one), f"  {key_file_line('Other.2_x-y', other)} \r"]
    keys = read_key_file(key_file(tmp_path, "\n".join(["# keys", "", "  \t", *lines])))
    assert list(keys) == ["one", "Other.2_x-y"]
    assert find_key(keys, one) == "one"
    assert find_key(keys, other) == "Other.2_x-y"
    # The hash of a key is not a valid key.
    digest = keys["one"].hex()
    for wrong in (one[:-1], "", "\xff", digest, f"sha256:{digest}"):
        assert find_key(keys, wrong) is None
    assert one not in lines[0]
    assert read_key_file(key_file(tmp_path, "#\n\n")) == {}


def test_keys_are_random_and_of_256_bits():
    keys = {generate_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(re.fullmatch(r"polyseme_[A-Za-z0-9_-]{43}", key) for key in keys)


INVALID = (SECRET, f"one {SECRET}", f"one {HASH[:-1]}", f"one {HASH}0", f"one {HASH} more")
INVALID += (f"one {HASH.replace('sha256', 'md5')}", f"key-1 {HASH}", f"one {HASH}\0")
INVALID += (f"one {HASH}\N{LINE SEPARATOR}two {HASH}", f"one {HASH} # mine", f"../one {HASH}")


@pytest.mark.parametrize("line", INVALID)
def test_the_error_of_an_invalid_line_has_its_number_and_not_its_text(tmp_path, line):
    file = key_file(tmp_path, f"# first\nfine sha256:{'b2' * 32}\n{line}\n")
    with pytest.raises(KeyFileError, match=r"^Line 3 of the key file is not a name and") as caught:
        read_key_file(file)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "what"),
    [(f"one sha256:{'b2' * 32}", "name"), (f"two {HASH.replace('a1', 'A1')}", "key")],
)
def test_a_repeated_name_or_key_is_rejected(tmp_path, line, what):
    with pytest.raises(KeyFileError, match=f"Line 2 .* repeats the {what} of"):
        read_key_file(key_file(tmp_path, f"one {HASH}\n{line}"))


def lines(count):
    return "".join(f"n{i} sha256:{i:064x}\n" for i in range(count))


UNUSABLE = {
    "pipe": (os.mkfifo, "is not a regular file"),
    "device": (lambda file: file.symlink_to("/dev/zero"), "is not a regular file"),
    "missing": (lambda _: None, "cannot be read"),
    "large": (lambda file: file.write_bytes(b"#" * (1 + (1 << 18))), "has more than 262144 bytes"),
    "latin": (lambda file: file.write_bytes(b"# \xe9\n"), "is not UTF-8"),
    "many": (lambda file: file.write_text(lines(MAX_KEYS + 1)), "has more than 1000 keys"),
}


@pytest.mark.parametrize(("make", "sentence"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_unreadable_or_too_large_file_is_rejected(tmp_path, make, sentence):
    file = tmp_path / f"keys-{SECRET}"
    make(file)
    with pytest.raises(KeyFileError) as caught:
        read_key_file(file)
    assert str(caught.value) == f"The key file {sentence}"


def test_keys_without_names_are_numbered_and_may_be_hashes():
    key = generate_key()
    keys = digests_of_keys(["plain", key_file_line("x", key).split()[1]])
    assert list(keys) == ["key-1", "key-2"]
    assert find_key(keys, "plain") == "key-1"
    assert find_key(keys, key) == "key-2"
    # A key is compared by the bytes that were sent.
    assert find_key(digests_of_keys(["clé"]), "clé".encode().decode("latin-1")) == "key-1"
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        digests_of_keys(["plain", f"sha256:{SECRET}"])


def test_a_valid_name_has_letters_digits_dots_and_hyphens():
    assert all(map(is_valid_name, ("x" * 64, "Other.2_x-y", "key-1a")))
    invalid = ("", "a b", "a/b", "x" * 65, "key-1", "key-007", "a\n", "naïve")
    assert not any(map(is_valid_name, invalid))
