"""Files of gensim's tests and published rows: they are read as gensim reads them, or rejected."""

import hashlib
from fnmatch import fnmatch

import pytest

from polyseme.models.reader import read_model
from tests.importing.comparison import GENSIM_DATA as DATA
from tests.importing.comparison import GENUINE, assert_same, facebook, imported, word2vec
from tests.importing.test_damaged_files import A_PICKLE, ARRAY, NOT_UTF8, SKIP, UNKNOWN
from tests.importing.test_dialects import COLUMN

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="this gensim is without its test data")

TEXT = [
    "crime-and-punishment.vec",
    "lee_fasttext.vec",
    "toy-model.vec",
    "EN.1-10.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt",
    "IT.1-10.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt",
    "word2vec_pre_kv_c",
    "high_precision.kv.txt",
]
ROWS_ALONE = ("--no-weights", "--no-subwords")
"""The options of an import that computes nothing from the vectors."""
BINARY = ["euclidean_vectors.bin", "poincare_vectors.bin", "high_precision.kv.bin"]
FASTTEXT = {
    "crime-and-punishment.bin": "utf-8",
    "lee_fasttext.bin": "utf-8",
    "lee_fasttext_new.bin": "utf-8",
    "toy-model.bin": "utf-8",
    "non_ascii_fasttext.bin": "utf-8",
    "cp852_fasttext.bin": "cp852",
}


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


@pytest.mark.parametrize("name", FASTTEXT)
def test_fasttext_files_are_read_as_gensim_reads_them(importer, name):
    encoding = FASTTEXT[name]
    right = facebook(DATA / name, encoding)
    model = imported(importer, DATA / name, "--encoding", encoding)
    assert_same(model, right.index_to_key, right.vectors)
    assert model.manifest.training["file"]["format"] == "fasttext"
    table = model.subwords.table
    assert (model.subwords.min_n, model.subwords.max_n) == (right.min_n, right.max_n)
    assert (table.shape, table.tobytes()) == (
        right.vectors_ngrams.shape,
        right.vectors_ngrams.tobytes(),
    )


REJECTED = {
    "pretrained.vec": "Line 1 declares 3 words, but the file ends after 1.",
    "pang_lee_polarity_fasttext.vec": f"Line 150 {NOT_UTF8}",
    "w2v_keyedvectors_load_test.vocab": "The lines have one whole number each, ",
    "ldavowpalwabbit.dict.txt": COLUMN.format("before the word"),
    "cp852_fasttext.bin": f"Byte 88 {NOT_UTF8}",
    "pang_lee_polarity_fasttext.bin": "At byte 92 the fastText file is a classifier, ",
    "wordsim353.tsv": f"Line 1 has 0 values, but most lines have 1{SKIP}",
    "testcorpus.blei": "The values are index:value pairs, ",
    "similarities0-1.txt": "The lines have numbers only; ",
    "*.index": A_PICKLE,
    "*.mm*": "The file is a database, tensors or a table; ",
    "*.xml": "The file is a web page or XML, ",
    "bgwiki-latest-pages-articles-shortened.xml.bz2": UNKNOWN,
    "*.npy": f"The file is {ARRAY}",
    "*.cor": UNKNOWN,
    "*": "",
}
"""How the sentence begins that rejects a file, by the first pattern that its name matches."""
READ = {"test_glove.txt", *TEXT, *BINARY, *FASTTEXT} - {"cp852_fasttext.bin"}
NAMES = sorted(str(path.relative_to(DATA)) for path in DATA.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", sorted(set(NAMES) - READ))
def test_a_file_without_vectors_is_rejected_in_one_sentence(importer, name):
    pattern = next(one for one in [name, *REJECTED] if one in REJECTED and fnmatch(name, one))
    assert importer.refusal(DATA / name).startswith(REJECTED[pattern])
