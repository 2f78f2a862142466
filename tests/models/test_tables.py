"""Tables of vectors and n-grams of every dtype round-trip as mapped files, and are exported."""

from dataclasses import replace

import numpy as np
import pytest
from gensim.models import KeyedVectors

from polyseme.engine.quantization import stored
from polyseme.engine.subwords import Subwords
from polyseme.models.reader import read_model
from polyseme.models.writer import export_word2vec
from polyseme.operations.compare import Occurrence
from tests.models.conftest import KNOWN_NGRAMS
from tests.models.damage import change_manifest, manifest_of, read_error, with_and_without_verify
from tests.operations.calls import EVERY, ask_one, compare_occurrences, same_bits
from tests.tiny import (
    QUANTIZED,
    QUANTIZED_SUBWORDS,
    SUBWORDS,
    VECTORS,
    WORDS,
    deep_model,
    tiny_model,
    write_tiny,
)

TEXT = "bank zebra river didn't apple Apple gnu"
KNOWN = replace(KNOWN_NGRAMS, table=SUBWORDS.table)
HALVES = np.asfortranarray(VECTORS, np.float16)
TABLES = {
    "floats": (VECTORS, SUBWORDS, {}),
    "int8": (QUANTIZED, QUANTIZED_SUBWORDS, {}),
    "int8 n-grams": (VECTORS, QUANTIZED_SUBWORDS, {"dtype": "int8"}),
    "own rows": (VECTORS, KNOWN, {"coverage": 0.5, "own_rows": True}),
    "no own rows": (VECTORS, replace(KNOWN, own_rows=False), {"coverage": 0.5, "own_rows": False}),
    "Fortran order": (HALVES, Subwords(np.asfortranarray(HALVES[:1]), 1, 64), {}),
    "many rows": (HALVES[::-1], Subwords(np.resize(HALVES, (5000, 5))[::-1], 1, 64), {}),
}


@with_and_without_verify
@pytest.mark.parametrize("case", TABLES)
def test_tables_round_trip_as_mapped_files(tmp_path, case, verify):
    vectors, subwords, entry = TABLES[case]
    folder = write_tiny(tmp_path / "tiny", vectors=vectors, subwords=subwords)
    model = read_model(folder, verify=verify)
    read = model.subwords
    pairs = [*zip(stored(model.rows), stored(vectors), strict=True)]
    pairs += zip(stored(read.table), stored(subwords.table), strict=True)
    pairs.append((read.ngrams, subwords.ngrams))
    for mapped, written in pairs:
        np.testing.assert_array_equal(mapped, written, strict=True)
        assert written is None or isinstance(mapped.base, np.memmap)
        assert written is None or not mapped.flags.writeable
    lengths = {"min_n": subwords.min_n, "max_n": subwords.max_n}
    assert (read.min_n, read.max_n) == (*lengths.values(),)
    assert (read.coverage, read.own_rows) == (subwords.coverage, subwords.own_rows)
    document = manifest_of(folder)
    assert document["subwords"] == {**lengths, **entry}
    assert document["dtype"] == vectors.dtype.name
    assert (document["vocabulary_size"], document["dimension"]) == (11, 5)


@pytest.mark.parametrize("field", ["coverage", "own_rows"])
def test_the_manifest_describes_the_known_ngrams(tmp_path, field):
    folder = write_tiny(tmp_path / "tiny", subwords=KNOWN)
    change_manifest(folder, lambda m: m["subwords"].pop(field) and None)
    assert "coverage and own_rows" in read_error(folder)


def test_int8_rows_give_the_bits_of_floats_and_are_never_converted_whole(tmp_path):
    small = deep_model(tmp_path / "small", vectors=QUANTIZED, subwords=QUANTIZED_SUBWORDS)
    subwords = Subwords(QUANTIZED_SUBWORDS.table[:], 3, 3)
    wide = deep_model(tmp_path / "wide", vectors=QUANTIZED[:], subwords=subwords)
    assert ask_one(small, TEXT).tokens[-1].composed == "gnu"
    assert same_bits(ask_one(small, TEXT, include=EVERY), ask_one(wide, TEXT, include=EVERY))
    occurrences = [Occurrence("river bank", "bank"), Occurrence("bank gnu", "bank")]
    compare_occurrences(small, occurrences)
    export_word2vec(small, tmp_path / "vectors.txt")
    assert "vectors" not in vars(small)
    assert np.array_equal(small.vectors, QUANTIZED[:])
    assert small.vectors is small.vectors
    assert type(small.vectors) is np.ndarray


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


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_gensim_reads_the_same_bits(tmp_path, dtype):
    vectors = extremes(dtype)
    words = [f"word{row}" for row in range(len(vectors))]
    out = tmp_path / "out.txt"
    model = tiny_model(tmp_path, words=words, vectors=vectors)
    assert export_word2vec(model, out) == 0
    read = KeyedVectors.load_word2vec_format(out)
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
    model, out = tiny_model(tmp_path, words=["a b", *WORDS[1:]]), tmp_path / "out.txt"
    for limit, words in ((3, WORDS[1:3]), (1000, WORDS[1:])):
        assert export_word2vec(model, out, limit) == 1
        assert KeyedVectors.load_word2vec_format(out).index_to_key == list(words)
