"""Exported vectors, read back to the same bits."""

import numpy as np
import pytest
from gensim.models import KeyedVectors

from polyseme.models.writer import export_word2vec
from tests.tiny import VECTORS, WORDS, tiny_model

SPACED = ("two words", "a\tb", "a\u00a0b", "line\u2028end", "next\x85line", "\x1cfile", "\u3000")


def extremes(dtype, count=997, d=7):
    """Numbers of every magnitude of a dtype, with signed zeros and its limits."""
    bits = {np.float16: np.uint16, np.float32: np.uint32}[dtype]
    rng = np.random.default_rng(2)
    drawn = rng.integers(0, np.iinfo(bits).max, (count, d), bits, endpoint=True).view(dtype)
    table = np.where(np.isfinite(drawn), drawn, dtype(0.1))
    info = np.finfo(dtype)
    table[0] = [0, -0.0, info.max, info.min, info.smallest_subnormal, info.tiny, 1 / 3]
    return table


def word2vec(path):
    return KeyedVectors.load_word2vec_format(path)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_gensim_reads_the_same_bits(tmp_path, dtype):
    vectors = extremes(dtype)
    words = [f"word{row}" for row in range(len(vectors))]
    out = tmp_path / "out.txt"
    model = tiny_model(tmp_path, words=words, vectors=vectors)
    assert export_word2vec(model, out) == 0
    read = word2vec(out)
    assert read.index_to_key == words
    assert read.vectors.tobytes() == vectors.astype(np.float32).tobytes()
    assert {path.name for path in tmp_path.iterdir()} == {"out.txt", "tiny"}


def test_the_file_follows_the_format(tmp_path):
    words, vectors = ("one", *SPACED, "two"), np.zeros((9, 2), np.float32)
    vectors[[0, -1]] = [[1, -0.5], [1e-10, 3e38]]
    out = tmp_path / "out.txt"
    model = tiny_model(tmp_path, words=words, vectors=vectors)
    assert export_word2vec(model, out) == len(SPACED)
    assert out.read_bytes() == b"2 2\none 1.0 -0.5\ntwo 1e-10 3e+38\n"


def test_a_limit_exports_the_first_words(tmp_path):
    words = ["a b", *WORDS[1:]]
    model = tiny_model(tmp_path, words=words)
    assert export_word2vec(model, tmp_path / "out.txt", 3) == 1
    read = word2vec(tmp_path / "out.txt")
    assert read.index_to_key == list(WORDS[1:3])
    assert np.array_equal(read.vectors, VECTORS[1:3])
    assert export_word2vec(model, tmp_path / "out.txt", 1000) == 1
    assert len(word2vec(tmp_path / "out.txt")) == len(WORDS) - 1
