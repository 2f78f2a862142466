"""Published rows of GloVe and GoogleNews are stored and served as gensim reads them."""

import hashlib

import pytest

from polyseme.models.reader import read_model
from tests.importing.comparison import GENUINE, assert_same, word2vec
from tests.importing.conftest import run

FILES = {
    "glove": ("glove.6B.50d.9k.txt.gz", "glove", {"no_header": True}),
    "twitter": ("glove.twitter.27B.25d.12k.txt.gz", "glove", {"no_header": True}),
    "google": ("GoogleNews.8k.300d.bin.gz", "word2vec-binary", {"binary": True}),
}
TEXTS = ["He sat on the bank of the river.", "She took the money to the bank.", "bank bank"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all((GENUINE / file).exists() for file, _, _ in FILES.values()),
        reason="needs rows of published vectors (POLYSEME_TEST_DATA)",
    ),
]


SUBWORDS = {"glove": "--subwords", "twitter": "--no-subwords", "google": "--no-subwords"}


def import_all(folder, names=tuple(FILES)):
    """Import the files into one folder of models; their formats are detected."""
    for name in names:
        file, _, _ = FILES[name]
        options = ["--name", name, "--models-dir", str(folder), "--licence", "PDDL"]
        options.append(SUBWORDS[name])
        done = run("models", "import", str(GENUINE / file), *options)
        assert done.code == 0, done.err
        assert "Warning" not in done.err  # the words are found to be sorted
        assert done.out.startswith(f"{name}  ")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return import_all(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module", params=FILES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def model(folder, name):
    return read_model(folder / name)


@pytest.fixture(scope="module")
def right(name):
    file, _, options = FILES[name]
    return word2vec(GENUINE / file, **options)


def test_every_row_is_what_gensim_reads(model, right):
    assert_same(model, right.index_to_key, right.vectors)


def test_the_manifest_describes_the_model(model, name, right):
    file, kind, _ = FILES[name]
    manifest = model.manifest
    digest = hashlib.sha256((GENUINE / file).read_bytes()).hexdigest()
    assert manifest.cased is (name == "google")
    assert (manifest.vocabulary_size, manifest.dimension) == right.vectors.shape
    assert (manifest.dtype, manifest.licence, manifest.source) == ("float32", "PDDL", file)
    assert (manifest.heads, len(manifest.layers)) == (1, 1)
    if name == "glove":
        entry = manifest.subwords
        assert (entry.min_n, entry.max_n, entry.dtype, entry.own_rows) == (2, 4, "int8", True)
    assert manifest.training == {
        "attention": "closed form",
        "informativeness": "rank in the file",
        "file": {"format": kind, "sha256": digest, "left_out": 0},
    }
