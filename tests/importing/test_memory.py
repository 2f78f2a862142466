"""Models of vectors in memory, which have the bits of imported files."""

import json

import numpy as np
import pytest
from gensim.models import KeyedVectors
from gensim.models.fasttext import FastText, load_facebook_vectors, save_facebook_model

import polyseme
import polyseme.errors
from polyseme.importing.importer import ImportOptions, import_vectors
from polyseme.importing.texts import TextSample
from tests.importing.test_fitted_subwords import STEMS

WORDS = [stem + ending for ending in ("", "s") for stem in STEMS]
TEXTS = [f"{a} {b} {c}" for a, b, c in zip(WORDS, WORDS[3:], WORDS[50:], strict=False)]


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(5).standard_normal((len(WORDS), 12)).astype(np.float32)


@pytest.fixture(scope="module")
def file(vectors, tmp_path_factory):
    """A word2vec file that gensim has written."""
    path = tmp_path_factory.mktemp("file") / "vectors.bin"
    keyed = KeyedVectors(12)
    keyed.add_vectors(WORDS, vectors)
    keyed.save_word2vec_format(str(path), binary=True)
    return path


def content(folder):
    """The bytes of each file of a model, and its manifest without the file that it came from."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    manifest = json.loads(files.pop("manifest.json"))
    del manifest["source"]
    manifest["training"].pop("file", None)
    return files, manifest


def assert_same_model(vectors, file, folder, arguments, options):
    """Check that vectors in memory give the files that an import of their file gives."""
    saved = polyseme.from_vectors(vectors, **arguments).save("own", models_dir=folder / "saved")
    import_vectors(file, folder / "own", ImportOptions(**options))
    assert content(saved) == content(folder / "own")


SAME = {
    "default": ({}, {}),
    "int8": ({"dtype": "int8"}, {"dtype": "int8"}),
    "plain": (
        {"weights": False, "subwords": False, "dtype": "float16", "by_frequency": True},
        {"attention": False, "subwords": False, "dtype": "float16", "sorted": True},
    ),
    "texts": ({"texts": TEXTS, "limit": 1100}, {"texts": TextSample.of(TEXTS), "limit": 1100}),
}
"""Arguments of `from_vectors`, and the options of an import."""


@pytest.mark.parametrize("case", SAME)
def test_a_saved_model_has_the_bits_of_the_imported_file(file, tmp_path, case):
    keyed = KeyedVectors.load_word2vec_format(file, binary=True)
    assert_same_model(keyed, file, tmp_path, *SAME[case])


def test_fasttext_vectors_in_memory_are_those_of_their_file(tmp_path):
    corpus = [["the", "cat", "sat"], ["by", "the", "zebra"]] * 20
    settings = {"vector_size": 6, "min_count": 1, "bucket": 50, "epochs": 1, "seed": 3}
    trained = FastText(corpus, **settings, min_n=2, max_n=4, workers=1)
    save_facebook_model(trained, str(tmp_path / "words.bin"))
    keyed = load_facebook_vectors(str(tmp_path / "words.bin"))
    assert_same_model(keyed, tmp_path / "words.bin", tmp_path, {}, {})


def test_vectors_without_counts_give_the_same_model_in_any_form(file, vectors, tmp_path):
    keyed = KeyedVectors.load_word2vec_format(file, binary=True)
    made_up = [keyed.get_vecattr(word, "count") for word in WORDS]
    assert made_up == list(range(len(WORDS), 0, -1))  # as gensim has them
    mapping = dict(zip(WORDS, vectors.tolist(), strict=True))
    forms = {"keyed": (keyed,), "mapping": (mapping,), "matrix": (vectors, iter(WORDS))}
    folders = [
        polyseme.from_vectors(*form).save("own", models_dir=tmp_path / name)
        for name, form in forms.items()
    ]
    assert content(folders[0]) == content(folders[1]) == content(folders[2])
    for i, word in enumerate(WORDS):
        keyed.set_vecattr(word, "count", 1 + i)
    counted = polyseme.from_vectors(keyed).model.word_bias
    assert np.argmin(counted) == len(WORDS) - 1  # the most frequent word


INVALID = [
    ({"a": [1, 2], "b": [1]}, None, ValueError, "different lengths"),
    ({"a": [1, 2], 5: [1, 2]}, None, TypeError, "Word 1 is not a string"),
    ({}, None, ValueError, "no words"),
    ({"a": [1, 1e300]}, None, ValueError, "not finite"),
    ({"a\n": [1]}, None, ValueError, "Word 0 is empty, too long or has a line feed"),
    ({" ": [1]}, None, ValueError, "Word 0 is empty"),
    ({"\ud800": [1]}, None, ValueError, "not valid Unicode"),
    ({"a" * 4097: [1]}, None, ValueError, "Word 0 is empty, too long"),
    ([1, 2], ["a", "b"], ValueError, "two-dimensional"),
    ([[1, 2]], ["a", "b"], ValueError, "1 vectors need as many words, not 2"),
    ([[1, 2], [3, 4]], ["a", "a"], ValueError, "Word 1 repeats word 0"),
    ([["x"]], ["a"], ValueError, "two-dimensional array of numbers"),
    (np.ones((2, 3)), None, TypeError, "together with words"),
]


@pytest.mark.parametrize(("vectors", "words", "error", "sentence"), INVALID)
def test_words_and_vectors_that_no_model_has_are_rejected(vectors, words, error, sentence):
    with pytest.raises(error, match=sentence):
        polyseme.from_vectors(vectors, words)


UNFIT = {
    "A model's name has at most 64 letters": {"name": "../up"},
    "at least 1,000 words": {"subwords": True},
    "The texts have no word": {"texts": ["nothing of it"]},
    "safetensors": {"weights": __file__},
}


@pytest.mark.parametrize("sentence", UNFIT)
def test_options_that_cannot_be_used_are_rejected(sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        polyseme.from_vectors({"a": [1, 2], "b": [3, 4]}, **UNFIT[sentence])
    assert "--" not in str(caught.value)


def test_an_existing_model_is_replaced_only_on_request(tmp_path):
    model = polyseme.from_vectors({"a": [1, 2], "b": [3, 4]})
    model.save("own", models_dir=tmp_path)
    with pytest.raises(polyseme.errors.ModelFolderError, match="exists"):
        model.save("own", models_dir=tmp_path)
    other = polyseme.from_vectors({"a": [1, 2, 3]})
    other.save("own", models_dir=tmp_path, replace=True)
    assert polyseme.load("own", models_dir=tmp_path).dimension == 3
    with pytest.raises(polyseme.errors.ModelFolderError, match="bundled"):
        model.save("wiki-en", models_dir=tmp_path)
    for name in ("../own", "", "a/b"):
        with pytest.raises(polyseme.errors.ModelFolderError):
            model.save(name, models_dir=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["own"]
