"""An import announces its memory within a fifth, and its size on disk."""

import re
import sys

import numpy as np
import pytest

from polyseme.importing.importer import Cost
from polyseme.importing.options import ImportOptions
from polyseme.importing.readers.base import Scan
from tests.cli.conftest import run_process
from tests.importing.files import fasttext, many

PEAK = (
    "import atexit\n"
    "atexit.register(lambda: print(open('/proc/self/status').read()))\n"
    "from polyseme.__main__ import main\n"
    "main()"
)
"""Runs the command, and prints its status, with the peak of its memory."""


def ngrams(words, buckets, width):
    """A fastText file of numbered words with n-grams."""
    rng = np.random.default_rng(2)
    names = [f"gnu{number}" for number in range(words)]
    tables = (rng.standard_normal((rows, width)).astype(np.float32) for rows in (words, buckets))
    return fasttext(names, *tables)


CASES = {
    "text": (lambda: many("glove", 40_000, 50), []),
    "binary": (lambda: many("word2vec-binary", 100_000, 200), []),
    "without subwords": (lambda: many("word2vec-binary", 200_000, 100), ["--no-subwords"]),
    "int8": (lambda: many("word2vec-binary", 100_000, 200), ["--dtype", "int8"]),
    "fastText": (lambda: ngrams(30_000, 200_000, 100), []),
    "fastText as int8": (lambda: ngrams(30_000, 200_000, 100), ["--dtype", "int8"]),
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")
@pytest.mark.parametrize("case", CASES)
def test_the_announced_memory_is_right_within_a_fifth(tmp_path, case):
    build, options = CASES[case]
    (tmp_path / "file").write_bytes(build())
    command = ("models", "import", tmp_path / "file", *options)
    done = run_process(*command, models_dir=tmp_path / "models", python=("-c", PEAK))
    assert done.returncode == 0, done.stderr
    announced = re.search(rb"about ([\d,]+) MB of memory", done.stderr)[1]
    peak = int(re.search(rb"VmHWM:\s+(\d+) kB", done.stdout)[1]) * 1.024e-3
    assert 0.8 <= peak / int(announced.replace(b",", b"")) <= 1.2


def test_the_announced_size_is_that_of_the_tables():
    words = [f"gnu{number}" for number in range(400_000)]
    for dtype, size in (("float32", 400), ("float16", 200), ("int8", 104)):
        options = ImportOptions(dtype=dtype, subwords=False)
        assert Cost.of(Scan(100, words), options).disk == 400_000 * size
        # The subwords of 200,000 words are fitted.
        fitted = Cost.of(Scan(100, words), ImportOptions(dtype=dtype)).disk
        assert fitted == 400_000 * size + 200_000 * 104
        assert Cost.of(Scan(100, words, buckets=50_000), options).disk == 450_000 * size
    assert Cost.of(Scan(100, words[:999]), ImportOptions()).disk == 999 * 400
