"""Words and vectors of every format are read, whether it is detected or declared."""

import numpy as np
import pytest

from polyseme.models.writer import export_word2vec
from tests.importing.conftest import assert_quantized, assert_same, words_of
from tests.importing.files import (
    BUILDERS,
    FORMATS,
    ROW_FORMATS,
    VECTORS,
    WORDS,
    binary,
    build,
    fasttext,
    rows,
    text,
)
from tests.importing.test_damaged_files import UNKNOWN
from tests.operations.calls import ask_one, same_bits

INT8 = ("--dtype", "int8")

NO_HEADER = "Line 1 is not a word2vec header. Expected two integers: vocabulary size and dimension."
GLOVE, TEXT, BINARY, FASTTEXT = (
    f"The file looks like the format {kind}; --format names the format." for kind in FORMATS
)


@pytest.mark.parametrize("kind", FORMATS)
def test_words_and_vectors_are_those_of_the_file(importer, kind):
    for options in ((), ("--format", kind)):
        model = importer.model(build(kind), *options)
        assert_same(model, WORDS, VECTORS)
        assert model.manifest.training["file"]["format"] == kind
        assert (model.manifest.source, model.manifest.cased) == ("file", True)


@pytest.mark.parametrize("kind", FORMATS)
def test_numbers_are_rounded_to_float16_or_int8(importer, kind):
    vectors = np.array([[0.1, 65519.9], [-65519.9, 1e-7], [2049, 1 / 3]], np.float32)
    half = vectors.astype(np.float16)
    assert half[0, 1] == 65504
    importer.check(build(kind, WORDS[:3], vectors), WORDS[:3], half, "--dtype", "float16")
    vectors = np.array([[3.4e38, -3.4e38, 1], [1e-45, 0, -1e-44], [0, 0, 0], [7e4, 1, 2]], "f4")
    model = importer.model(build(kind, WORDS, vectors), *INT8)
    assert_quantized(model.rows, vectors)
    assert model.manifest.dtype == "int8"
    assert np.isfinite(ask_one(model, "zebra okapi").arrays["contextual"]).all()


def test_the_closed_form_is_that_of_the_rounded_vectors(importer):
    """A float32 import of the exported model has the same weights and results."""
    words = [f"gnu{number}" for number in range(500)]
    vectors = np.random.default_rng(5).standard_normal((500, 11)).astype(np.float32)
    small = importer.model(rows(words, vectors), *INT8, "--sorted")
    out = importer.place / "exported.txt"
    export_word2vec(small, out)
    wide = importer.model(out, "--sorted")
    files = [model.manifest.files["attention.safetensors"] for model in (small, wide)]
    assert files[0] == files[1]
    assert wide.manifest.dtype == "float32"
    assert same_bits(ask_one(small, words[:9]), ask_one(wide, words[:9]))


def test_an_old_fasttext_file_is_not_mistaken_for_a_pickle(importer):
    # The file begins with the dimension, whose first two bytes are those of a pickle.
    vectors = np.arange(4 * 640, dtype=np.float32).reshape(4, 640)
    content = fasttext(WORDS, vectors, (), new=False)
    assert content[:2] == b"\x80\x02"
    importer.check(content, WORDS, vectors)


@pytest.mark.parametrize("word", ["(i", "(dp", "cgensim", "BZh9", "]q", "PK", "ustar"])
def test_a_first_word_like_a_signature_is_not_mistaken_for_another_format(importer, word):
    words = [word, *WORDS[1:]]
    assert importer.read(rows(words))[0] == words


OTHERS = [
    ("glove", text(), f"Line 1 has 1 value, but most lines have 3. {TEXT}"),
    ("glove", binary(), BINARY),
    ("glove", fasttext(), FASTTEXT),
    ("word2vec-text", rows(), f"{NO_HEADER} {GLOVE}"),
    ("word2vec-text", binary(), BINARY),
    ("word2vec-binary", rows(), f"{NO_HEADER} {GLOVE}"),
    ("word2vec-binary", text(), TEXT),
    ("fasttext", rows(), GLOVE),
    ("fasttext", binary(), BINARY),
    # The format is right, or cannot be detected.
    ("word2vec-text", text(header=b"5 3"), "Line 1 declares 5 words, but the file ends after 4."),
    ("glove", b"gnu\n", UNKNOWN),
]


@pytest.mark.parametrize(("declared", "content", "message"), OTHERS)
def test_a_file_of_another_format_than_declared_is_rejected(importer, declared, content, message):
    assert importer.refusal(content, "--format", declared).endswith(message)


NAMES = {
    "glove.6B.50d.txt": "glove.6B.50d",
    "vectors.W2V.XZ": "vectors",
    "plain": "plain",
    "x" * 64 + ".txt.bz2": "x" * 64,
}


@pytest.mark.parametrize("file", NAMES)
def test_the_name_of_a_model_is_that_of_its_file_without_the_endings(importer, file):
    done = importer.run(importer.file(rows(), file))
    assert (done.code, done.out.split("  ")[0]) == (0, NAMES[file])
    assert [path.name for path in importer.models.iterdir()] == [NAMES[file]]


@pytest.mark.parametrize("kind", ROW_FORMATS)
def test_words_are_decoded_with_the_given_encoding(importer, kind):
    words = ["größer", "naïve", "¿qué"]
    content = BUILDERS[kind]([word.encode("latin-1") for word in words], VECTORS[:3])
    assert "has a word that is not UTF-8" in importer.refusal(content)
    assert importer.read(content, "--encoding", "latin-1")[0] == words


def test_a_file_name_may_be_undecodable_bytes(importer):
    path = importer.place / b"gnu\xff.txt".decode("utf-8", "surrogateescape")
    path.write_bytes(rows())
    model = importer.model(path)
    assert words_of(model) == list(WORDS)
    assert model.manifest.source == "gnu?.txt"


@pytest.mark.parametrize("kind", ["glove", "word2vec-binary"])
def test_the_widest_vectors_are_read(importer, kind):
    """A line is longer than the part of the file that the detection reads."""
    vectors = np.linspace(-1, 1, 2 * 65_536, dtype=np.float32).reshape(2, 65_536)
    assert len(rows(WORDS[:2], vectors)) > 1 << 20
    importer.check(build(kind, WORDS[:2], vectors), WORDS[:2], vectors)
