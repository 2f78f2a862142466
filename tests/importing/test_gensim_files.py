"""gensim's own test files: every row is read as gensim reads it, or the file is rejected."""

from fnmatch import fnmatch

import pytest

from tests.importing.comparison import GENSIM_DATA as DATA
from tests.importing.comparison import assert_same, facebook, imported, word2vec
from tests.importing.test_damaged_files import A_PICKLE, ARRAY, NOT_UTF8, SKIP, UNKNOWN
from tests.importing.test_dialects import COLUMN

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="this gensim is without its test data")

TEXT = {
    "test_glove.txt": {"no_header": True},
    "crime-and-punishment.vec": {},
    "lee_fasttext.vec": {},
    "toy-model.vec": {},
    "EN.1-10.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt": {},
    "IT.1-10.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt": {},
    "word2vec_pre_kv_c": {},
    "high_precision.kv.txt": {},
}
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


@pytest.mark.parametrize("name", TEXT)
def test_text_is_read_as_gensim_reads_it(importer, name):
    right = word2vec(DATA / name, **TEXT[name])
    model = imported(importer, DATA / name, *ROWS_ALONE)
    assert_same(model, right.index_to_key, right.vectors)
    kind = "glove" if name == "test_glove.txt" else "word2vec-text"
    assert model.manifest.training["file"]["format"] == kind


@pytest.mark.parametrize("name", BINARY)
def test_binary_files_are_read_as_gensim_reads_them(importer, name):
    right = word2vec(DATA / name, binary=True)
    model = imported(importer, DATA / name, *ROWS_ALONE)
    assert_same(model, right.index_to_key, right.vectors)
    assert model.manifest.training["file"]["format"] == "word2vec-binary"


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


def test_a_pretrained_model_is_read_without_its_empty_word(importer):
    name = "toy-model-pretrained.bin"
    right = facebook(DATA / name)
    kept = [row for row, word in enumerate(right.index_to_key) if word]
    assert len(kept) == len(right.index_to_key) - 1
    assert importer.refusal(DATA / name).startswith("Byte 399 has no word; ")
    model = imported(importer, DATA / name, "--skip-bad-rows")
    assert_same(model, [right.index_to_key[row] for row in kept], right.vectors[kept])
    assert model.manifest.training["file"]["left_out"] == 1


def test_words_that_are_not_utf8_are_skipped_on_request(importer):
    file = DATA / "pang_lee_polarity_fasttext.vec"
    right = word2vec(file, unicode_errors="surrogateescape")
    good = [row for row, word in enumerate(right.index_to_key) if word.isprintable()]
    bad = len(right.index_to_key) - len(good)
    assert bad
    model = imported(importer, file, "--skip-bad-rows", *ROWS_ALONE)
    assert_same(model, [right.index_to_key[row] for row in good], right.vectors[good])
    assert model.manifest.training["file"]["left_out"] == bad


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
READ = {*TEXT, *BINARY, *FASTTEXT} - {"cp852_fasttext.bin"}
NAMES = sorted(str(path.relative_to(DATA)) for path in DATA.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", sorted(set(NAMES) - READ))
def test_a_file_without_vectors_is_rejected_in_one_sentence(importer, name):
    pattern = next(one for one in [name, *REJECTED] if one in REJECTED and fnmatch(name, one))
    assert importer.refusal(DATA / name).startswith(REJECTED[pattern])
