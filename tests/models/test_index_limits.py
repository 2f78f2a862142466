"""The maximum size of a bucket, and the private memory of a vocabulary."""

import random
import subprocess
import sys
from itertools import count, islice
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from polyseme.errors import ModelFolderError
from polyseme.models.vocabulary import MAX_BUCKET_SIZE, Vocabulary
from tests.models.damage import (
    INDEX,
    VOCABULARY,
    index_of,
    manifest_of,
    read_error,
    replace,
    saved,
    with_and_without_verify,
)
from tests.tiny import write_tiny

BUCKETS = "index.npy has buckets that are not contiguous or exceed 64 rows."


def crowded_text(number):
    """A vocabulary of 201 words, of which `number` share a bucket and are named `word…`."""

    def crowded(word):
        return crc32(word.encode()) % 201 == 7

    words = list(islice(filter(crowded, (f"word{n}" for n in count())), number))
    words += islice((other for n in count() if not crowded(other := f"other{n}")), 201 - number)
    random.Random(1).shuffle(words)
    return "".join(f"{word}\n" for word in words).encode()


def test_a_bucket_holds_at_most_64_words():
    assert MAX_BUCKET_SIZE == 64
    text = crowded_text(64)
    vocabulary = Vocabulary.of(text)
    for row, word in enumerate(text.decode().split("\n")[:-1]):
        assert vocabulary.row(word) == row
    with pytest.raises(ModelFolderError) as caught:
        Vocabulary.of(crowded_text(65))
    lines = crowded_text(65).split(b"\n")
    line = max(n for n, word in enumerate(lines, 1) if word.startswith(b"word"))
    expected = (
        f"vocabulary.txt has more than 64 words with the same hash, among them that in line {line}."
    )
    assert caught.value.detail == expected


@with_and_without_verify
def test_a_crowded_bucket_of_a_file_is_rejected(tmp_path, verify):
    words = crowded_text(64).decode().split("\n")[:-1]
    folder = write_tiny(tmp_path / "tiny", words=words, vectors=np.ones((201, 1), np.float32))
    text = crowded_text(65)
    (folder / VOCABULARY).write_bytes(text)
    replace(folder, INDEX, saved(index_of(text)))
    assert read_error(folder, verify=verify) == BUCKETS


def test_a_vocabulary_of_one_repeated_word_is_rejected():
    with pytest.raises(ModelFolderError) as caught:
        Vocabulary.of(b"a\n" * 100_000)
    assert caught.value.detail == "vocabulary.txt has a word twice, in line 2."


MEMORY = """
import ctypes
import sys
from pathlib import Path
from polyseme.models.reader import read_model

def private():
    # Return freed memory to the system: the allocator may keep a buffer of a megabyte.
    getattr(ctypes.CDLL(None), "malloc_trim", int)(0)
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))

models, verify = Path(sys.argv[1]), sys.argv[2] == "True"
read_model(models / "few", verify=verify)
before = private()
model = read_model(models / "many", verify=verify)
print(private() - before)
assert model.vocabulary.row("word399999") == 399_999
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A folder of models: one with 400,000 words and one with a few."""
    models = tmp_path_factory.mktemp("models")
    words = [f"word{number}" for number in range(400_000)]
    write_tiny(models / "many", words=words, vectors=np.ones((400_000, 1), np.float16))
    write_tiny(models / "few")
    return models


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc/self/smaps_rollup"
)
@with_and_without_verify
def test_400_000_words_need_less_than_a_mebibyte_of_private_memory(many, verify):
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, many, str(verify)],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    on_disk = sum(entry["bytes"] for entry in manifest_of(many / "many")["files"].values())
    assert on_disk > 9_000_000
    assert int(done.stdout) < 1024
