"""Files of gensim's tests and published rows are read as gensim reads them."""

import hashlib

import pytest

from polyseme.models.reader import read_model
from tests.importing.comparison import GENSIM_DATA as DATA
from tests.importing.comparison import GENUINE, assert_same, imported, word2vec

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="this gensim is without its test data")

TEXT = [
    "lee_fasttext.vec",
    "IT.1-10.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt",
    "word2vec_pre_kv_c",
    "high_precision.kv.txt",
]
ROWS_ALONE = ("--no-weights", "--no-subwords")
"""The options of an import that computes nothing from the vectors."""
BINARY = ["euclidean_vectors.bin", "poincare_vectors.bin", "high_precision.kv.bin"]
READ_ROWS = [
    *((name, "word2vec-text", {}) for name in TEXT),
    ("test_glove.txt", "glove", {"no_header": True}),
    *((name, "word2vec-binary", {"binary": True}) for name in BINARY),
]


@pytest.mark.parametrize(("name", "kind", "options"), READ_ROWS)
def test_rows_are_read_as_gensim_reads_them(importer, name, kind, options):
    right = word2vec(DATA / name, **options)
    model = imported(importer, DATA / name, *ROWS_ALONE)
    assert_same(model, right.index_to_key, right.vectors)
    assert model.manifest.training["file"]["format"] == kind


PUBLISHED = {
    "glove.6B.50d.9k.txt.gz": ("glove", "--subwords", {"no_header": True}),
    "glove.twitter.27B.25d.12k.txt.gz": ("glove", "--no-subwords", {"no_header": True}),
    "GoogleNews.8k.300d.bin.gz": ("word2vec-binary", "--no-subwords", {"binary": True}),
}


@pytest.mark.slow
@pytest.mark.parametrize("file", PUBLISHED)
@pytest.mark.skipif(not GENUINE.exists(), reason="needs published rows (POLYSEME_TEST_DATA)")
def test_published_rows_are_read_as_gensim_reads_them(importer, file):
    kind, subwords, options = PUBLISHED[file]
    right = word2vec(GENUINE / file, **options)
    done = importer.run(GENUINE / file, "--name", "made", "--licence", "PDDL", subwords)
    assert done.out.startswith("made  ")
    assert "Warning" not in done.err  # the words are found to be sorted
    model = read_model(importer.models / "made")
    assert_same(model, right.index_to_key, right.vectors)
    manifest = model.manifest
    assert manifest.cased is ("Google" in file)
    assert (manifest.vocabulary_size, manifest.dimension) == right.vectors.shape
    assert (manifest.dtype, manifest.licence, manifest.source) == ("float32", "PDDL", file)
    assert (manifest.heads, len(manifest.layers)) == (1, 1)
    if subwords == "--subwords":
        entry = manifest.subwords
        assert (entry.min_n, entry.max_n, entry.dtype, entry.own_rows) == (2, 4, "int8", True)
    digest = hashlib.sha256((GENUINE / file).read_bytes()).hexdigest()
    assert manifest.training == {
        "attention": "closed form",
        "informativeness": "rank in the file",
        "file": {"format": kind, "sha256": digest, "left_out": 0},
    }
