"""`polyseme keys new`: a line for the file, and a key for its owner."""

import subprocess
import sys
from pathlib import Path

import pytest

from polyseme.api_keys import find_key, read_key_file
from tests.cli.conftest import run


def test_a_new_keys_line_goes_into_the_file_and_the_key_to_the_person(tmp_path):
    file = tmp_path / "keys"
    keys = {}
    for name in ("alice", "bob"):
        done = run("keys", "new", name)
        assert done.returncode == 0
        with file.open("ab") as out:
            out.write(done.stdout)
        said, key = done.stderr.decode().splitlines()
        assert said == "The key, which is stored nowhere and shown only once:"
        assert key not in done.stdout.decode()
        keys[name] = key
    read = read_key_file(file)
    assert list(read) == ["alice", "bob"]
    assert {name: find_key(read, key) for name, key in keys.items()} == {n: n for n in keys}


@pytest.mark.parametrize("name", ["", "two words", "a/b", "key-1", "x" * 65, "naïve"])
def test_a_name_that_the_file_would_not_take_is_a_usage_error(name):
    done = run("keys", "new", name)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().splitlines()[-1].startswith("Error: A name has 1 to 64 ")


def test_a_key_whose_line_cannot_be_written_is_not_shown():
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "polyseme", "keys", "new", "alice"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert b"polyseme_" not in done.stderr


FILES = {
    "malformed": "alice s3cretqx\n",
    "twice": "".join(f"a sha256:{'0' * 64}\n" for _ in range(2)),
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_serving_ends_with_one_sentence_where_the_file_is_bad(tmp_path, content):
    file = tmp_path / "keys-s3cretqx"
    file.write_text(content)
    done = run("serve", POLYSEME_API_KEYS_FILE=str(file))
    assert (done.returncode, done.stdout) == (2, b"")
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("Error: POLYSEME_API_KEYS_FILE: Line ")
    assert b"s3cretqx" not in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("API_KEYS_FILE", "/no/such/file", "Path does not point to a file"),
        ("API_KEYS", " , ,", "there is nothing between the commas"),
        ("API_KEYS", "sha256:s3cretqx", "a hash is `sha256:` and 64 hexadecimal digits"),
        ("RATE_LIMIT_STORAGE", "mongodb://s3cretqx", "it begins with redis://"),
        ("RATE_LIMIT_STORAGE", "redis://x:s3cretqx/0", "it is not an address of Redis"),
    ],
)
def test_a_setting_of_keys_or_rates_that_is_wrong_is_named_and_not_shown(name, value, sentence):
    done = run("serve", **{f"POLYSEME_{name}": value})
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"Error: POLYSEME_{name}: {sentence}" in done.stderr.decode()
    assert b"s3cretqx" not in done.stderr


def test_redis_without_its_package_ends_with_a_sentence_that_names_the_extra():
    code = "import sys\nsys.modules['redis'] = None\nfrom polyseme.__main__ import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", code, "serve"],
        env={"POLYSEME_RATE_LIMIT_STORAGE": "redis://127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "polyseme[redis]" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
