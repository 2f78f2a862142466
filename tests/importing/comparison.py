"""Reads a file of vectors by an import and by gensim, and compares the results."""

import os
import warnings
from pathlib import Path

import gensim
import numpy as np
from gensim.models import KeyedVectors
from gensim.models.fasttext import load_facebook_vectors

from polyseme.models.reader import read_model
from tests.conftest import ROOT

GENSIM_DATA = Path(gensim.__file__).parent / "test" / "test_data"
"""The files that gensim tests its readers with."""
GENUINE = Path(os.environ.get("POLYSEME_TEST_DATA", ROOT.parent / "shared" / "data")) / "vectors"
"""Rows of GloVe's and Word2Vec's published vectors."""


def imported(importer, file, *options):
    """The model that an import makes of a file."""
    done = importer.run(file, "--name", "made", "--replace", *options)
    assert done.code == 0, done.err
    return read_model(importer.models / "made")


def table_of(model):
    """The words and vectors of a model."""
    return [model.vocabulary.word(row) for row in range(len(model.vocabulary))], model.vectors


def word2vec(path, **options):
    """The vectors that gensim reads from a GloVe or word2vec file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # without a header it opens a file twice
        return KeyedVectors.load_word2vec_format(path, **options)


def facebook(path, encoding="utf-8"):
    """The vectors that gensim reads from a fastText .bin."""
    return load_facebook_vectors(path, encoding=encoding)


def assert_same(model, words, vectors):
    """Check that a model has the words in this order and the vectors to the last bit."""
    found, table = table_of(model)
    assert found == list(words)
    assert (table.dtype, table.shape) == (vectors.dtype, vectors.shape)
    assert table.tobytes() == np.ascontiguousarray(vectors).tobytes()
